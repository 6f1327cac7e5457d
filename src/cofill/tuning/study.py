"""An Optuna study with a record of its data and search space: goals, ranges, samplers, pruner and database."""

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import optuna
from optuna import Study
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution, distribution_to_json
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.pruners import PercentilePruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cofill.cluster.session import LOCAL
from cofill.config import CFNSettings, ListSettings
from cofill.errors import CofillError, SettingsError
from cofill.tuning.genetic import GeneticSampler, Space
from cofill.tuning.search_data import LIST_LENGTH, SearchData, ValidationBy

GoalName = Literal["rmse", "ndcg"]
Ranges = Literal["cofill", "paper"]
Sampler = Literal["genetic", "tpe", "random"]
"""Who chooses the settings of the next trial: the genetic algorithm, Optuna's TPE, or chance."""

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
_ABOUT = "cofill"
_UNSEEN_BY_A_SCORE = ("threads", "checkpoint_seconds", "refit")
_SECONDS_BETWEEN_HEARTBEATS, _SECONDS_OF_SILENCE = 30, 120  # of a worker; then its trial is done again
_SECONDS_FOR_THE_LOCK = 60
_ATTEMPTS = 5

# What a trial is scored by


@dataclass(frozen=True)
class Goal:
    """The score of a trial: its name for people, in JSON and on a chart, and its direction."""

    name: GoalName
    label: str
    key: str
    axis: str
    direction: Literal["minimize", "maximize"]

    @property
    def sign(self) -> float:
        """Times this, a lower score is better."""
        return 1.0 if self.direction == "minimize" else -1.0

    def best(self, values: Iterable[float]) -> float | None:
        """The best of some scores; None if there are none."""
        return min(values, key=lambda value: self.sign * value, default=None)


GOALS: dict[GoalName, Goal] = {
    "rmse": Goal("rmse", "validation RMSE", "validation_rmse", "validation RMSE (in ratings)", "minimize"),
    "ndcg": Goal(
        "ndcg",
        f"validation NDCG@{LIST_LENGTH}",
        f"validation_ndcg@{LIST_LENGTH}",
        f"validation NDCG@{LIST_LENGTH} (higher is better)",
        "maximize",
    ),
}


# What is searched


Ranged = FloatDistribution | IntDistribution


RANGES: dict[Ranges, dict[str, Ranged]] = {
    # The table of the paper's appendix. A step size of 0 would never learn: it begins at a millionth.
    "paper": {
        "alpha": FloatDistribution(0.8, 1.2),
        "beta": FloatDistribution(0.0, 1.0),
        "noise_ratio": FloatDistribution(0.0, 1.0),
        "hidden": IntDistribution(500, 700),
        "learning_rate": FloatDistribution(1e-6, 0.5),
        "learning_rate_decay": FloatDistribution(0.0, 0.5),
        "weight_decay": FloatDistribution(0.0, 0.5),
    },
    # Around the defaults of either orientation, and as far as sparse data may need: little weight decay, much presence.
    # No alpha: alpha, beta and weight_decay times c with learning_rate / c is the same training. Nothing of the
    # decoder: its amplitudes are learned, and the number of neighbours is a matter of time and memory.
    "cofill": {
        "beta": FloatDistribution(0.2, 1.0),
        "noise_ratio": FloatDistribution(0.05, 0.5),
        "cold_ratio": FloatDistribution(0.0, 0.3),
        "hidden": IntDistribution(100, 600, log=True),
        "learning_rate": FloatDistribution(0.03, 0.3, log=True),
        "weight_decay": FloatDistribution(1e-4, 0.15, log=True),
        "batch": IntDistribution(12, 120, log=True),
        "length_power": FloatDistribution(0.2, 1.0),
        "presence": FloatDistribution(0.0, 3.0),
    },
}

# Settings of the list scorer, for the goal ndcg. `list_rank` is a matter of time and memory, not of taste.
LIST_RANGES: dict[str, Ranged] = {
    "list_penalty": FloatDistribution(0.5, 20.0, log=True),
    "popularity_discount": FloatDistribution(0.0, 0.5),
    "list_grade_power": FloatDistribution(0.5, 3.0),
    "confidence": FloatDistribution(0.0, 2.0),
    "half_life": FloatDistribution(7.0, 10_000.0, log=True),
}
# From here on the setting is 0, which turns it off: a range on a log scale has no 0 of its own.
OFF_FROM = {"half_life": 3650.0}


def space_of(goal: GoalName, ranges: Ranges, settings: CFNSettings, data: SearchData) -> dict[str, BaseDistribution]:
    """The ranges that have an effect on this data, without settings that the user fixed."""
    if ranges not in RANGES:
        raise SettingsError(f"there are no ranges {ranges!r}; use one of {', '.join(get_args(Ranges))}")
    effective = {
        "cold_ratio": data.has_row_features(settings),
        "list_grade_power": data.ratings.rated,
        "confidence": data.weights_differ,
        "half_life": data.times_differ,
    }
    candidates = LIST_RANGES if goal == "ndcg" else RANGES[ranges]
    left_out = settings.model_fields_set | {name for name, effect in effective.items() if not effect}
    space: dict[str, BaseDistribution] = {name: one for name, one in candidates.items() if name not in left_out}
    if not space:
        raise SettingsError("every setting that could be searched is given; leave one of them out")
    return space


# The study


@dataclass(frozen=True)
class Plan:
    """The search space, the method and the data of a search; different plans cannot share a study."""

    goal_name: GoalName
    settings: CFNSettings
    space: dict[str, BaseDistribution]
    data: str
    """The fingerprint of the data."""
    sampler: Sampler = "genetic"
    ranges: Ranges = "cofill"
    validation_by: ValidationBy = "random"
    """How the validation part of the goal ndcg is held out; the network has its own, at random."""

    @classmethod
    def of(
        cls,
        goal: GoalName,
        data: SearchData,
        settings: CFNSettings,
        sampler: Sampler = "genetic",
        ranges: Ranges = "cofill",
        validation_by: ValidationBy = "random",
    ) -> "Plan":
        """A search of the network's settings, for the goal rmse, or of the list scorer's, for the goal ndcg."""
        if sampler not in get_args(Sampler):
            raise SettingsError(f"there is no sampler {sampler!r}; use one of {', '.join(get_args(Sampler))}")
        space = space_of(goal, ranges, settings, data)
        return cls(goal, settings, space, data.fingerprint(), sampler, ranges, validation_by)

    @property
    def goal(self) -> Goal:
        return GOALS[self.goal_name]

    def values(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that the parameters of a trial stand for."""
        return {name: 0.0 if value >= OFF_FROM.get(name, np.inf) else value for name, value in drawn.items()}

    def first(self) -> dict[str, float] | None:
        """The parameters of the first trial: for lists, the defaults, so that the best is never worse than they are."""
        if self.goal_name == "rmse":
            return None
        defaults = {name: getattr(self.settings, name) for name in self.space}
        return {n: LIST_RANGES[n].high if n in OFF_FROM and value == 0 else value for n, value in defaults.items()}

    def given(self) -> dict[str, Any]:
        """The settings that the user fixed, as JSON."""
        return self.settings.model_dump(mode="json", include=self.settings.model_fields_set)

    def list_settings(self, drawn: Mapping[str, Any]) -> ListSettings:
        """The settings of the list scorer in a trial."""
        given = {name: value for name, value in self.given().items() if name in ListSettings.model_fields}
        return ListSettings.of(given | {"seed": self.settings.seed} | self.values(drawn))

    def about(self) -> dict[str, Any]:
        """What a study records about its plan, as JSON."""
        lists = self.goal_name == "ndcg"
        unseen = {*_UNSEEN_BY_A_SCORE, "seed", "orientation"}
        if lists:
            unseen = {*CFNSettings.model_fields} - {*ListSettings.model_fields, "validation"} | {"seed"}
        method = {"validation_by": self.validation_by} if lists else {"orientation": self.settings.orientation}
        return {
            "goal": self.goal_name,
            "data": self.data,
            **method,
            "sampler": self.sampler,
            "ranges": self.ranges,
            "seed": self.settings.seed,
            "settings": {name: value for name, value in sorted(self.given().items()) if name not in unseen},
            "space": {name: json.loads(distribution_to_json(one)) for name, one in self.space.items()},
        }


def open_study(url: str, name: str, plan: Plan) -> Study:
    """Open or create the study of that name; refuse one with a different plan."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with storage_explained(url):
        return _open(open_storage(url), url, name, plan)


def _open(storage: RDBStorage, url: str, name: str, plan: Plan) -> Study:
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        direction=plan.goal.direction,
        load_if_exists=True,
        sampler=make_sampler(plan.sampler, plan.space, plan.settings.seed),
        pruner=make_pruner(),
    )
    if _ABOUT not in study.user_attrs:
        if study.get_trials(deepcopy=False):
            raise SettingsError(
                f"the study {name!r} in {shown_url(url)} was not made by cofill tune",
                "give another study=...",
            )
        if first := plan.first():
            study.enqueue_trial(first, skip_if_exists=True)
        study.set_user_attr(_ABOUT, plan.about())
    remembered, wanted = study.user_attrs[_ABOUT], plan.about()
    for what in wanted:
        if remembered.get(what) != wanted[what]:
            found = _difference(what, remembered.get(what), wanted[what])
            raise SettingsError(
                f"the study {name!r} in {shown_url(url)} is about {found}",
                "go on with what it is about, or begin another with study=... or out=...",
            )
    return study


def goal_of(study: Study) -> Goal:
    """What a study is about, as it remembers."""
    return GOALS[study.user_attrs[_ABOUT]["goal"]]


def make_sampler(name: Sampler, space: Space, seed: int) -> BaseSampler:
    """The sampler of that name for these ranges."""
    if name == "genetic":
        return GeneticSampler(space, seed=seed)
    return _SeededByTrial(lambda start: TPESampler(seed=start) if name == "tpe" else RandomSampler(seed=start), seed)


class _SeededByTrial(BaseSampler):
    """An Optuna sampler that is seeded anew for every trial, by its number.

    Otherwise every worker, and every search that is resumed, would draw the same from the beginning.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._sampler = make(seed)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        start = np.random.SeedSequence([self._seed, trial.number]).generate_state(1)[0]
        self._sampler = self._make(int(start))
        self._sampler.before_trial(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._sampler.sample_independent(study, trial, param_name, param_distribution)


def make_pruner() -> PercentilePruner:
    """A pruner that stops a trial in epoch 10, 15, ... if its best score so far is in the worst quarter of trials.

    No more than that, since settings with a small learning rate are behind at first and may win. The first 20 trials,
    which are the first generation, all run to their end.
    """
    return PercentilePruner(75.0, n_startup_trials=20, n_warmup_steps=10, interval_steps=5, n_min_trials=5)


def retry_stale() -> RetryHeartbeatStaleTrialCallback:
    """What gives the settings of a trial that was not ended to another."""
    with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):
        return RetryHeartbeatStaleTrialCallback()


def _difference(what: str, remembered: object, wanted: object) -> str:
    if what == "data":
        return "other ratings or side information"
    if what in ("space", "settings"):
        return f"other {what.replace('space', 'ranges')} ({json.dumps(remembered)} instead of {json.dumps(wanted)})"
    return f"{what} {remembered}, not {wanted}"


# Its database


def storage_url(out: Path) -> str:
    """The default database of a study: a file that survives a kill at any moment."""
    return URL.create("sqlite", database=str(out / "study.db")).render_as_string(hide_password=False)


def absolute_url(url: str) -> str:
    """The same database for processes that work in another folder."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return url
    return parsed.set(database=str(Path(str(parsed.database)).absolute())).render_as_string(hide_password=False)


def check_within_reach(url: str, ray: str) -> None:
    """Refuse a database in a file for workers on several machines, which must not share one."""
    if ray != LOCAL and url.startswith("sqlite"):
        raise SettingsError(
            f"the workers of a search on the cluster {ray} are on several machines, and {shown_url(url)} is a file of "
            f"one",
            "give storage='postgresql://...', which all of them can reach",
        )


def shown_url(url: str) -> str:
    """The URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


@contextmanager
def storage_explained(url: str) -> Iterator[None]:
    """Turn database errors into a CofillError with the database's own message and what to do."""
    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        raise CofillError(
            f"{shown_url(url)}: the study there cannot be read or written ({_database_says(error)})",
            "see that the database is whole, within reach and has space, then go on with the same search, or begin "
            "another with out=... or storage=...",
        ) from error


def open_storage(url: str) -> RDBStorage:
    """The database there, with the tables of a study."""
    waiting = {"connect_args": {"timeout": _SECONDS_FOR_THE_LOCK}} if url.startswith("sqlite") else {}
    heartbeats: dict[str, Any] = {
        "heartbeat_interval": _SECONDS_BETWEEN_HEARTBEATS,
        "grace_period": _SECONDS_OF_SILENCE,
        "heartbeat_stale_trial_callback": retry_stale(),
    }
    if url.endswith(":memory:"):  # which a second thread cannot see
        heartbeats = {}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with warnings.catch_warnings(action="ignore", category=ExperimentalWarning):  # of heartbeats
                return RDBStorage(_with_driver(url), engine_kwargs=waiting, **heartbeats)
        except (DBAPIError, StorageInternalError):
            if attempt == _ATTEMPTS:
                raise
            time.sleep(0.2)  # another search may be making the tables at this moment
        except (SQLAlchemyError, ImportError, ValueError, RuntimeError) as error:
            raise CofillError(
                f"no study can be kept at that address ({_database_says(error)})",
                "check storage=...",
            ) from error
    raise AssertionError("not reached")


def _with_driver(url: str) -> str:
    """postgresql:// by the driver of `cofill[postgres]`, where it is installed and no other is named."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres") or find_spec("psycopg") is None:
        return url
    return f"postgresql+psycopg://{rest}"


def _database_says(error: BaseException) -> str:
    """The database's own message, without Optuna's guess at a cause and SQLAlchemy's statement."""
    while isinstance(error, StorageInternalError) and error.__cause__ is not None:
        error = error.__cause__
    words = getattr(error, "orig", None) or error
    return " ".join(str(words).split())[:300]

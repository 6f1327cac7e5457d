"""An Optuna study with a record of its data and search space: goals, ranges, samplers, pruner and database."""

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import optuna
from optuna import Study, Trial
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
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


@dataclass(frozen=True)
class Gene:
    """A setting and its range; `log`: sampled on a log scale."""

    setting: str
    low: float
    high: float
    log: bool = False
    whole: bool = False
    with_features: bool = False
    """Only searched where the rows have side features: without them it has no effect."""
    off_from: float | None = None
    """From here on the setting is 0, which turns it off: a range on a log scale has no 0 of its own."""

    def value(self, drawn: float) -> float:
        """The setting that a point of the range stands for."""
        return 0.0 if self.off_from is not None and drawn >= self.off_from else drawn

    def drawn(self, value: float) -> float:
        """A point of the range that stands for this setting."""
        return self.high if self.off_from is not None and value == 0 else value

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def distribution(self) -> BaseDistribution:
        """The range as an Optuna distribution."""
        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def suggest(self, trial: Trial) -> None:
        """Have the sampler choose a point of the range."""
        if self.whole:
            trial.suggest_int(self.setting, int(self.low), int(self.high), log=self.log)
        else:
            trial.suggest_float(self.setting, self.low, self.high, log=self.log)


RANGES: dict[Ranges, tuple[Gene, ...]] = {
    # The table of the paper's appendix. A step size of 0 would never learn: it begins at a millionth.
    "paper": (
        Gene("alpha", 0.8, 1.2),
        Gene("beta", 0.0, 1.0),
        Gene("noise_ratio", 0.0, 1.0),
        Gene("hidden", 500, 700, whole=True),
        Gene("learning_rate", 1e-6, 0.5),
        Gene("learning_rate_decay", 0.0, 0.5),
        Gene("weight_decay", 0.0, 0.5),
    ),
    # Around the defaults of either orientation, and as far as sparse data may need: little weight decay, much presence.
    # No alpha: alpha, beta and weight_decay times c with learning_rate / c is the same training. Nothing of the
    # decoder: its amplitudes are learned, and the number of neighbours is a matter of time and memory.
    "cofill": (
        Gene("beta", 0.2, 1.0),
        Gene("noise_ratio", 0.05, 0.5),
        Gene("cold_ratio", 0.0, 0.3, with_features=True),
        Gene("hidden", 100, 600, log=True, whole=True),
        Gene("learning_rate", 0.03, 0.3, log=True),
        Gene("weight_decay", 1e-4, 0.15, log=True),
        Gene("batch", 12, 120, log=True, whole=True),
        Gene("length_power", 0.2, 1.0),
        Gene("presence", 0.0, 3.0),
    ),
}

# Settings of the list scorer, for the goal ndcg. `list_rank` is a matter of time and memory, not of taste.
LIST_GENES = (
    Gene("list_penalty", 0.5, 20.0, log=True),
    Gene("popularity_discount", 0.0, 0.5),
    Gene("list_grade_power", 0.5, 3.0),
    Gene("confidence", 0.0, 2.0),
    Gene("half_life", 7.0, 10_000.0, log=True, off_from=3650.0),
)


def genes_to_search(ranges: Ranges, settings: CFNSettings, *, features: bool) -> tuple[Gene, ...]:
    """The genes of a search space, without settings that the user fixed."""
    if ranges not in RANGES:
        raise SettingsError(f"there are no ranges {ranges!r}; use one of {', '.join(get_args(Ranges))}")
    return _not_fixed([gene for gene in RANGES[ranges] if features or not gene.with_features], settings)


def list_genes_to_search(settings: CFNSettings, data: SearchData) -> tuple[Gene, ...]:
    """The genes of the list scorer that have an effect on this data, without settings that the user fixed."""
    needs = {
        "list_grade_power": data.ratings.rated,
        "confidence": data.weights_differ,
        "half_life": data.times_differ,
    }
    return _not_fixed([gene for gene in LIST_GENES if needs.get(gene.setting, True)], settings)


def _not_fixed(candidates: Sequence[Gene], settings: CFNSettings) -> tuple[Gene, ...]:
    genes = tuple(gene for gene in candidates if gene.setting not in settings.model_fields_set)
    if not genes:
        raise SettingsError("every setting that could be searched is given; leave one of them out")
    return genes


# The study


@dataclass(frozen=True)
class Plan:
    """The search space, the method and the data of a search; different plans cannot share a study."""

    goal_name: GoalName
    settings: CFNSettings
    genes: tuple[Gene, ...]
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
        if goal == "ndcg":
            genes = list_genes_to_search(settings, data)
        else:
            genes = genes_to_search(ranges, settings, features=data.has_row_features(settings))
        return cls(goal, settings, genes, data.fingerprint(), sampler, ranges, validation_by)

    @property
    def goal(self) -> Goal:
        return GOALS[self.goal_name]

    def space(self) -> dict[str, BaseDistribution]:
        return {gene.setting: gene.distribution() for gene in self.genes}

    def values(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        """The settings that the parameters of a trial stand for."""
        genes = {gene.setting: gene for gene in self.genes}
        return {name: genes[name].value(value) for name, value in drawn.items()}

    def first(self) -> dict[str, float] | None:
        """The parameters of the first trial: for lists, the defaults, so that the best is never worse than they are."""
        if self.goal_name == "rmse":
            return None
        return {gene.setting: gene.drawn(getattr(self.settings, gene.setting)) for gene in self.genes}

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
            "genes": [gene.as_json() for gene in self.genes],
        }


def open_study(url: str, name: str, plan: Plan) -> Study:
    """Open or create the study of that name; refuse one with a different plan."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = open_storage(url)
    with storage_explained(url):
        return _open(storage, url, name, plan)


def _open(storage: RDBStorage, url: str, name: str, plan: Plan) -> Study:
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        direction=plan.goal.direction,
        load_if_exists=True,
        sampler=make_sampler(plan.sampler, plan.space(), plan.settings.seed),
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return RetryHeartbeatStaleTrialCallback()


def _difference(what: str, remembered: object, wanted: object) -> str:
    if what == "data":
        return "other ratings or side information"
    if what in ("genes", "settings"):
        return f"other {what} ({json.dumps(remembered)} instead of {json.dumps(wanted)})"
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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ExperimentalWarning)  # of heartbeats
                return RDBStorage(_with_driver(url), engine_kwargs=waiting, **heartbeats)
        except (DBAPIError, StorageInternalError):
            if attempt == _ATTEMPTS:
                with storage_explained(url):
                    raise
            time.sleep(0.2)  # somebody may be making the tables at this moment
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

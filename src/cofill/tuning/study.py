"""An Optuna study with a record of its data and search space; its samplers, its pruner, and dead trials."""

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import optuna
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.pruners import PercentilePruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from cofill.config import CFNSettings
from cofill.errors import SettingsError
from cofill.tuning.genetic import GeneticSampler, Space
from cofill.tuning.space import Gene, Ranges, genes_to_search
from cofill.tuning.storage import open_storage, shown_url, storage_explained

Sampler = Literal["genetic", "tpe", "random"]
"""Who chooses the settings of the next trial: the genetic algorithm, Optuna's TPE, or chance."""

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
OWNER, SEEN, REASON = "worker", "seen", "reason"
_LONGEST_SILENCE = 300.0  # seconds; after them a worker counts as dead, wherever it is
_LONGEST_BIRTH = 20.0  # seconds in which a worker says that a new trial is its own
_ABOUT = "cofill"
_UNSEEN_BY_A_SCORE = ("threads", "checkpoint_seconds", "refit", "solve_columns", "trust_length", "trust_features")


@dataclass(frozen=True)
class Plan:
    """The search space, the method and the data of a search; different plans cannot share a study."""

    settings: CFNSettings
    ranges: Ranges
    sampler: Sampler
    genes: tuple[Gene, ...]
    data: str

    @classmethod
    def of(cls, settings: CFNSettings, ranges: Ranges, sampler: Sampler, data: str, *, features: bool) -> "Plan":
        if sampler not in get_args(Sampler):
            raise SettingsError(f"there is no sampler {sampler!r}; use one of {', '.join(get_args(Sampler))}")
        return cls(settings, ranges, sampler, genes_to_search(ranges, settings, features=features), data)

    def space(self) -> dict[str, BaseDistribution]:
        return {gene.setting: gene.distribution() for gene in self.genes}

    def given(self) -> dict[str, Any]:
        """The settings that the user fixed, as JSON."""
        return self.settings.model_dump(mode="json", include=self.settings.model_fields_set)

    def about(self) -> dict[str, Any]:
        """What a study records about its plan, as JSON."""
        elsewhere = {*_UNSEEN_BY_A_SCORE, "seed", "orientation"}
        return {
            "data": self.data,
            "orientation": self.settings.orientation,
            "sampler": self.sampler,
            "ranges": self.ranges,
            "seed": self.settings.seed,
            "settings": {name: value for name, value in sorted(self.given().items()) if name not in elsewhere},
            "genes": [asdict(gene) for gene in self.genes],
        }

    def to_json(self) -> str:
        genes = [asdict(gene) for gene in self.genes]
        plain = {"ranges": self.ranges, "sampler": self.sampler, "data": self.data}
        return json.dumps(plain | {"settings": self.given(), "genes": genes})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        document = json.loads(text)
        settings, genes = CFNSettings.of(document.pop("settings")), document.pop("genes")
        return cls(settings=settings, genes=tuple(Gene(**gene) for gene in genes), **document)


def open_study(url: str, name: str, plan: Plan) -> Study:
    """Open or create the study of that name; refuse one with a different plan."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = open_storage(url)
    with storage_explained(url):
        return _open(storage, url, name, plan)


def _open(storage: optuna.storages.RDBStorage, url: str, name: str, plan: Plan) -> Study:
    study = optuna.create_study(
        storage=storage,
        study_name=name,
        direction="minimize",
        load_if_exists=True,
        sampler=make_sampler(plan.sampler, plan.space(), plan.settings.seed),
        pruner=make_pruner(),
    )
    if _ABOUT not in study.user_attrs:
        if study.get_trials(deepcopy=False):
            raise SettingsError(
                f"the study {name!r} in {shown_url(url)} was not made by cofill tune; give another --study"
            )
        study.set_user_attr(_ABOUT, plan.about())
    remembered, wanted = study.user_attrs[_ABOUT], plan.about()
    for what in wanted:
        if remembered.get(what) != wanted[what]:
            found = _difference(what, remembered.get(what), wanted[what])
            raise SettingsError(
                f"the study {name!r} in {shown_url(url)} is about {found}; "
                f"go on with what it is about, or begin another with --study or --out"
            )
    return study


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


def fail_the_dead(study: Study) -> None:
    """Mark trials as failed whose worker is gone; others take their place."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if _is_dead(trial):
            with suppress(optuna.exceptions.UpdateFinishedTrialError):  # another worker has seen it too
                study._storage.set_trial_user_attr(trial._trial_id, REASON, "its worker died")
                study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def this_worker() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def _is_dead(trial: FrozenTrial) -> bool:
    host, _, process = trial.user_attrs.get(OWNER, "").rpartition(":")
    if host == socket.gethostname():
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # somebody else's, but alive
    began = trial.datetime_start.timestamp() if trial.datetime_start else 0.0
    silence = time.time() - float(trial.user_attrs.get(SEEN, began))
    return silence > (_LONGEST_SILENCE if host else _LONGEST_BIRTH)


def _difference(what: str, remembered: object, wanted: object) -> str:
    if what == "data":
        return "other ratings or side information"
    if what in ("genes", "settings"):
        return f"other {what} ({json.dumps(remembered)} instead of {json.dumps(wanted)})"
    return f"{what} {remembered}, not {wanted}"

"""An Optuna study with a record of its data and search space; its samplers, its pruner, and dead trials."""

import json
import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import optuna
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.pruners import PercentilePruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from cofill.config import CFNSettings, ListSettings
from cofill.errors import SettingsError
from cofill.tuning.genetic import OWNER, TURN, GeneticSampler, Space, claim, free_turn
from cofill.tuning.goals import GOALS, Goal, GoalName
from cofill.tuning.list_search_data import ListSearchData, ValidationBy
from cofill.tuning.space import Gene, Ranges, genes_to_search, list_genes_to_search
from cofill.tuning.storage import open_storage, shown_url, storage_explained

Sampler = Literal["genetic", "tpe", "random"]
"""Who chooses the settings of the next trial: the genetic algorithm, Optuna's TPE, or chance."""

FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
SEEN, REASON = "seen", "reason"
_LONGEST_SILENCE = 300.0  # seconds; after them a worker counts as dead, wherever it is
_LONGEST_BIRTH = 20.0  # seconds in which a worker says that a new trial is its own
_ABOUT = "cofill"
_BEFORE_GOALS: dict[str, Any] = {"goal": "rmse"}  # what studies were about that say nothing of it
_UNSEEN_BY_A_SCORE = ("threads", "checkpoint_seconds", "refit")


@dataclass(frozen=True)
class Plan:
    """The search space, the method and the data of a search; different plans cannot share a study."""

    settings: CFNSettings
    ranges: Ranges
    sampler: Sampler
    genes: tuple[Gene, ...]
    data: str
    goal_name: GoalName = "rmse"
    validation_by: ValidationBy = "random"
    """How the validation part of the goal ndcg is held out; the network has its own, at random."""

    @classmethod
    def of(cls, settings: CFNSettings, ranges: Ranges, sampler: Sampler, data: str, *, features: bool) -> "Plan":
        """A search of the network's settings, for the goal rmse."""
        _check_sampler(sampler)
        return cls(settings, ranges, sampler, genes_to_search(ranges, settings, features=features), data)

    @classmethod
    def for_lists(
        cls, settings: CFNSettings, sampler: Sampler, data: ListSearchData, validation_by: ValidationBy = "random"
    ) -> "Plan":
        """A search of the list scorer's settings, for the goal ndcg."""
        _check_sampler(sampler)
        genes = list_genes_to_search(settings, data.feedback)
        return cls(settings, "cofill", sampler, genes, data.fingerprint(), "ndcg", validation_by)

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

    def to_json(self) -> str:
        genes = [gene.as_json() for gene in self.genes]
        names = ("ranges", "sampler", "data", "goal_name", "validation_by")
        plain = {name: getattr(self, name) for name in names}
        return json.dumps(plain | {"settings": self.given(), "genes": genes})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        document = json.loads(text)
        settings, genes = CFNSettings.of(document.pop("settings")), document.pop("genes")
        return cls(settings=settings, genes=tuple(Gene(**gene) for gene in genes), **document)


def _check_sampler(sampler: str) -> None:
    if sampler not in get_args(Sampler):
        raise SettingsError(f"there is no sampler {sampler!r}; use one of {', '.join(get_args(Sampler))}")


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
        direction=plan.goal.direction,
        load_if_exists=True,
        sampler=make_sampler(plan.sampler, plan.space(), plan.settings.seed, plan.first()),
        pruner=make_pruner(),
    )
    if _ABOUT not in study.user_attrs:
        if study.get_trials(deepcopy=False):
            raise SettingsError(
                f"the study {name!r} in {shown_url(url)} was not made by cofill tune",
                "give another study=...",
            )
        study.set_user_attr(_ABOUT, plan.about())
    remembered, wanted = _BEFORE_GOALS | study.user_attrs[_ABOUT], plan.about()
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
    return GOALS[study.user_attrs.get(_ABOUT, {}).get("goal", "rmse")]


def make_sampler(name: Sampler, space: Space, seed: int, first: Mapping[str, float] | None = None) -> BaseSampler:
    """The sampler of that name for these ranges; `first` are the parameters of the first trial, if they are known."""
    if name == "genetic":
        return GeneticSampler(space, seed=seed, first=first)

    def make(start: int) -> BaseSampler:
        return TPESampler(seed=start) if name == "tpe" else RandomSampler(seed=start)

    return _SeededByTrial(make, seed, space, first)


class _SeededByTrial(BaseSampler):
    """An Optuna sampler that is seeded anew for every trial, by its number; the first trial may be given.

    Otherwise every worker, and every search that is resumed, would draw the same from the beginning.
    """

    def __init__(
        self, make: Callable[[int], BaseSampler], seed: int, space: Space, first: Mapping[str, float] | None
    ) -> None:
        self._make, self._seed, self._space, self._given = make, seed, space, first
        self._sampler = make(seed)
        self._first = False

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        claim(study, trial)
        start = np.random.SeedSequence([self._seed, trial.number]).generate_state(1)[0]
        self._sampler = self._make(int(start))
        self._sampler.before_trial(study, trial)
        if self._given is not None:  # if it fails, another takes its turn
            turn = free_turn(study.get_trials(deepcopy=False), trial)
            study._storage.set_trial_system_attr(trial._trial_id, TURN, turn)
            self._first = turn == 0

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return dict(self._space) if self._first else self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if self._first and self._given is not None:
            return dict(self._given)
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

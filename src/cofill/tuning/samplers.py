"""Who chooses the settings of the next trial: the genetic algorithm, Optuna's TPE, or chance."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial

from cofill.tuning.genetic import GeneticSampler
from cofill.tuning.unit_cube import Space

Sampler = Literal["genetic", "tpe", "random"]


def make_sampler(name: Sampler, space: Space, seed: int) -> BaseSampler:
    """The sampler of that name for these ranges."""
    if name == "genetic":
        return GeneticSampler(space, seed=seed)
    return _SeededByTrial(lambda start: TPESampler(seed=start) if name == "tpe" else RandomSampler(seed=start), seed)


class _SeededByTrial(BaseSampler):
    """A sampler of Optuna's that is seeded anew for every trial, by its number.

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

"""The genetic algorithm of the paper's appendix as an Optuna sampler, and the unit cube that its genes live in."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt
from optuna import Study
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from cofill.errors import SettingsError

Point = npt.NDArray[np.float64]
Space = Mapping[str, BaseDistribution]

_RETRIED = "failed_trial"  # what Optuna writes on a trial that repeats a failed one
_PAIR, _CHILD = 0, 1  # keeps the draw of a pair's partner apart from those of its children


@dataclass(frozen=True)
class Shares:
    """How many of n individuals are kept (S1), made by cross-over, mutated, and new; all whole numbers."""

    individuals: int = 20
    sigma: float = 0.08

    def __post_init__(self) -> None:
        if self.individuals < 10 or self.individuals % 10:
            raise SettingsError(
                f"the shares 1/10, 2/10, 3/10 and 4/10 need a multiple of 10 individuals. Got {self.individuals}"
            )

    @property
    def kept(self) -> int:
        return self.individuals // 10

    @property
    def crossed(self) -> int:
        return 2 * self.individuals // 10

    @property
    def mutated(self) -> int:
        return 3 * self.individuals // 10

    @property
    def born(self) -> int:
        """Individuals of a later generation that must be trained: all but the kept ones, whose score is known."""
        return self.individuals - self.kept

    def spread(self, genes: int) -> float:
        """Standard deviation of a mutation."""
        return self.sigma / float(genes ** (1 / self.individuals))


def cross(one: Point, other: Point) -> tuple[Point, Point]:
    """Cross-over: two parents give two children."""
    return 2 / 3 * one + 1 / 3 * other, 1 / 3 * one + 2 / 3 * other


def mutate(one: Point, spread: float, rng: np.random.Generator) -> Point:
    """Mutation: an isotropic Gaussian step, reflected at the ends of the ranges."""
    return reflected(one + rng.normal(0.0, spread, len(one)))


class GeneticSampler(BaseSampler):
    """n = 20 individuals; 1/10 copied, 2/10 crossed, 3/10 mutated, 4/10 new in every generation, as in the paper.

    - Genes are points of the unit cube, each range mapped to [0, 1]: an isotropic mutation needs one
      scale. Cross-over and mutation happen there; a mutation that leaves a range is reflected at its end.
    - The standard deviation of a mutation is misprinted in the paper, "sigma over [n] sqrt d, with n the number of
      individuals and d the dimension of the space"; it is read as sigma divided by the n-th root of d.
    - S1 are the n/10 best. Each of the n/10 that follow them is crossed with one of S1, picked at random, and the
      pair has two children: 2n/10 of them.
    - Copies are not trained again, as their score would be the same. The first generation is n trials, each later
      one 9n/10; the copies stay in the population.

    A population are the trials of one generation that have finished, and the best n/10 of all before. One that is
    still running when the next generation begins (there are several workers) is not waited for: it competes as soon as
    it has finished. A trial that was stopped early ranks behind all that were not. Where fewer than 2n/10 individuals
    have finished, all are new.

    Every draw comes from the seed, the generation and the place in it, which follow from the number of the trial. A
    retry of Optuna has the genes of the trial that failed, and takes no place. So with one worker the same seed gives
    the same search, also where it is stopped and resumed.
    """

    def __init__(self, space: Space, *, seed: int = 0, shares: Shares | None = None) -> None:
        check_space(space)
        self._space = dict(space)
        self._seed = seed
        self._shares = shares or Shares()
        self._others = RandomSampler(seed=seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._space

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        generation, place = self._place(study.get_trials(deepcopy=False), trial)
        ranked = self.population(study, generation - 1) if generation else []
        points = [to_unit(one.params, self._space) for one in ranked]
        return from_unit(self._individual(generation, place, points), self._space)

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a parameter that is not a gene at random."""
        return self._others.sample_independent(study, trial, param_name, param_distribution)

    def generation(self, trials: Sequence[FrozenTrial], trial: FrozenTrial) -> int:
        """The generation of one of these trials."""
        return self._place(trials, trial)[0]

    def _place(self, trials: Sequence[FrozenTrial], trial: FrozenTrial) -> tuple[int, int]:
        """The generation of a trial and its place there; generation 0 has places for all, others for all but copies."""
        shares = self._shares
        fresh = [one.number for one in trials if _RETRIED not in one.system_attrs]
        turn = bisect_left(fresh, trial.system_attrs.get(_RETRIED, trial.number))
        if turn < shares.individuals:
            return 0, turn
        generation, place = divmod(turn - shares.individuals, shares.born)
        return generation + 1, place

    def _individual(self, generation: int, place: int, ranked: list[Point]) -> Point:
        """The individual at a place of a generation, made from the population before it, which is sorted best first."""
        shares = self._shares
        best, following = ranked[: shares.kept], ranked[shares.kept : 2 * shares.kept]
        rng = np.random.default_rng([self._seed, generation, _CHILD, place])
        if len(following) == shares.kept and place < shares.crossed:
            pair, child = divmod(place, 2)
            partner = np.random.default_rng([self._seed, generation, _PAIR, pair]).integers(len(best))
            return cross(best[partner], following[pair])[child]
        if len(following) == shares.kept and place < shares.crossed + shares.mutated:
            return mutate(best[rng.integers(len(best))], shares.spread(len(self._space)), rng)
        return rng.random(len(self._space))

    def population(self, study: Study, generation: int) -> list[FrozenTrial]:
        """The trials that the generation after this one descends from, best first; none where they are too few."""
        trials = study.get_trials(deepcopy=False)
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        finished = [
            trial
            for trial in trials
            if trial.state in (TrialState.COMPLETE, TrialState.PRUNED) and trial.params.keys() == self._space.keys()
        ]
        finished.sort(key=lambda trial: _standing(trial, sign))
        born = {trial.number: self.generation(trials, trial) for trial in finished}
        copies = [trial for trial in finished if born[trial.number] < generation][: self._shares.kept]
        ranked = [trial for trial in finished if trial in copies or born[trial.number] == generation]
        return ranked if len(ranked) >= 2 * self._shares.kept else []


def _standing(trial: FrozenTrial, sign: float) -> tuple[bool, float, int]:
    """The sort key of trials; one that was stopped early ranks behind those that finished."""
    value = sign * trial.value if trial.value is not None else float("inf")
    return trial.state != TrialState.COMPLETE, value, trial.number


# The unit cube: every range is mapped to [0, 1], so that one step size fits them all.


def check_space(space: Space) -> None:
    """Raise unless every gene is a number without fixed steps."""
    for name, range_ in space.items():
        if not isinstance(range_, FloatDistribution | IntDistribution) or range_.step not in (None, 1):
            raise SettingsError(
                f"the genetic algorithm searches ranges of numbers without steps. Got {range_} for {name!r}; "
                f"use the sampler tpe"
            )


def to_unit(values: Mapping[str, float], space: Space) -> Point:
    """(genes,): where the values lie in their ranges, on a log scale where the range says so."""
    point = np.empty(len(space))
    for place, (name, range_) in enumerate(space.items()):
        low, high = _ends(range_)
        point[place] = (_scaled(values[name], range_) - low) / (high - low) if high > low else 0.5
    return point


def from_unit(point: Point, space: Space) -> dict[str, float]:
    """The values at a point of the cube; whole numbers are rounded, so that each has an equal share of the cube."""
    values: dict[str, float] = {}
    for place, (name, range_) in zip(point.tolist(), space.items(), strict=True):
        low, high = _ends(range_)
        value = low + place * (high - low)
        value = exp(value) if _is_log(range_) else value
        if isinstance(range_, IntDistribution):
            values[name] = min(max(round(value), range_.low), range_.high)
        elif isinstance(range_, FloatDistribution):
            values[name] = min(max(value, range_.low), range_.high)
    return values


def reflected(point: Point) -> Point:
    """Reflect a point that left the unit cube at its faces, so that points do not pile up on them."""
    folded = np.mod(point, 2.0)
    return np.where(folded > 1.0, 2.0 - folded, folded)


def _is_log(range_: BaseDistribution) -> bool:
    return isinstance(range_, FloatDistribution | IntDistribution) and range_.log


def _scaled(value: float, range_: BaseDistribution) -> float:
    return log(value) if _is_log(range_) else float(value)


def _ends(range_: BaseDistribution) -> tuple[float, float]:
    """The ends of a range; for whole numbers, including everything that rounds to them."""
    assert isinstance(range_, FloatDistribution | IntDistribution)
    half = 0.5 if isinstance(range_, IntDistribution) else 0.0
    return _scaled(range_.low - half, range_), _scaled(range_.high + half, range_)

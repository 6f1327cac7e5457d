"""The laws of the genetic algorithm: numbers, shares, ranges, spread, determinism."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from cofill.errors import SettingsError
from cofill.tuning.genetic import GeneticSampler, Shares, cross, from_unit, mutate, reflected, to_unit
from cofill.tuning.study import Sampler, make_sampler, retry_stale

SPACE: dict[str, BaseDistribution] = {
    "a": FloatDistribution(-1.0, 3.0),
    "b": FloatDistribution(0.001, 10.0, log=True),
    "c": IntDistribution(500, 700),
    "d": IntDistribution(1, 100, log=True),
}
CUBE: dict[str, BaseDistribution] = {f"x{place}": FloatDistribution(0.0, 1.0) for place in range(7)}
TARGET = np.array([0.31, 0.62, 0.45, 0.77, 0.5, 0.24, 0.58])

points = st.lists(st.floats(0, 1), min_size=4, max_size=4).map(np.array)


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def study_with(sampler: optuna.samplers.BaseSampler) -> optuna.Study:
    return optuna.create_study(sampler=sampler, direction="minimize")


def distance(values: dict[str, Any]) -> float:
    """A bowl whose lowest point is known."""
    return float(np.sum((to_unit(values, CUBE) - TARGET) ** 2))


def run(study: optuna.Study, trials: int, score: Callable[[dict[str, Any]], float] = distance) -> None:
    for _ in range(trials):
        trial = study.ask(CUBE)
        study.tell(trial, score(trial.params))


def individuals(study: optuna.Study) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    return [to_unit(trial.params, CUBE) for trial in study.get_trials(deepcopy=False)]


def test_cross_over() -> None:
    one, other = np.array([0.0, 3.0, 0.6]), np.array([3.0, 0.0, 0.6])
    first, second = cross(one, other)
    assert first == pytest.approx([1.0, 2.0, 0.6])
    assert second == pytest.approx([2.0, 1.0, 0.6])


@given(points, points)
def test_children_lie_between_their_parents(one: Any, other: Any) -> None:
    low, high = np.minimum(one, other), np.maximum(one, other)
    for child in cross(one, other):
        assert (child >= low - 1e-12).all()
        assert (child <= high + 1e-12).all()
    assert sum(cross(one, other)) == pytest.approx(one + other)


def test_shares_of_the_paper() -> None:
    shares = Shares()
    assert (shares.individuals, shares.sigma) == (20, 0.08)
    assert (shares.kept, shares.crossed, shares.mutated) == (2, 4, 6)
    assert shares.individuals - shares.kept - shares.crossed - shares.mutated == 8
    assert shares.spread(7) == pytest.approx(0.08 / 7 ** (1 / 20))
    with pytest.raises(SettingsError, match="need a multiple of 10 individuals"):
        Shares(individuals=15)


def test_spread_of_mutations() -> None:
    rng = np.random.default_rng(0)
    centre = np.full(7, 0.5)
    steps = np.array([mutate(centre, 0.07, rng) for _ in range(4000)]) - centre
    assert np.abs(steps.mean(axis=0)).max() < 0.005
    assert steps.std(axis=0) == pytest.approx(np.full(7, 0.07), rel=0.05)
    assert np.abs(np.corrcoef(steps.T) - np.eye(7)).max() < 0.06


@given(st.lists(st.floats(-3, 4), min_size=1, max_size=8).map(np.array))
def test_reflection_stays_in_the_cube_and_leaves_the_inside_alone(point: Any) -> None:
    folded = reflected(point)
    assert ((folded >= 0) & (folded <= 1)).all()
    inside = (point >= 0) & (point <= 1)
    assert folded[inside] == pytest.approx(point[inside])
    assert reflected(np.array([-0.1, 1.1])) == pytest.approx([0.1, 0.9])


@given(points)
def test_a_point_of_the_cube_is_a_value_in_its_range_and_back(point: Any) -> None:
    values = from_unit(point, SPACE)
    for name, range_ in SPACE.items():
        assert range_._contains(range_.to_internal_repr(values[name]))
        assert isinstance(values[name], int) == isinstance(range_, IntDistribution)
    again = from_unit(to_unit(values, SPACE), SPACE)
    assert again == pytest.approx(values)


def test_whole_numbers_have_equal_shares() -> None:
    space: dict[str, BaseDistribution] = {"n": IntDistribution(3, 6)}
    drawn = Counter(from_unit(np.array([place]), space)["n"] for place in np.linspace(0, 1, 4001)[:-1])
    assert set(drawn) == {3, 4, 5, 6}
    assert max(drawn.values()) - min(drawn.values()) <= 2


def test_every_generation_has_its_shares() -> None:
    """Copies are not trained again: 20 trials, then 18 in each generation, of the right descent."""
    sampler = GeneticSampler(CUBE, seed=3)
    study = study_with(sampler)
    run(study, 20 + 3 * 18)
    trials = study.get_trials(deepcopy=False)
    found = Counter(sampler.generation(trials, trial) for trial in trials)
    assert found == {0: 20, 1: 18, 2: 18, 3: 18}
    scored = [(distance(trial.params), to_unit(trial.params, CUBE)) for trial in trials]
    population, before = scored[:20], 20
    for generation in (1, 2, 3):
        population.sort(key=lambda pair: pair[0])
        best, following = [point for _, point in population[:2]], [point for _, point in population[2:4]]
        born = [point for _, point in scored[before : before + 18]]
        for pair, follower in enumerate(following):
            children = born[2 * pair : 2 * pair + 2]
            assert any(np.allclose(cross(one, follower), children) for one in best), generation
        for mutant in born[4:10]:
            nearest = min(np.abs(mutant - one).max() for one in best)
            assert 0 < nearest < 5 * Shares().spread(7)
        population = population[:2] + scored[before : before + 18]
        before += 18


def test_new_individuals_fill_the_cube() -> None:
    study = study_with(GeneticSampler(CUBE, seed=1))
    run(study, 20 + 6 * 18)
    born = individuals(study)[20:]
    new = np.array([point for place, point in enumerate(born) if place % 18 >= 10])
    assert new.shape == (48, 7)
    assert np.abs(new.mean(axis=0) - 0.5).max() < 0.2
    assert new.std() == pytest.approx(12**-0.5, rel=0.1)


def test_ranges_are_kept() -> None:
    study = study_with(GeneticSampler(SPACE, seed=0))
    for _ in range(120):
        trial = study.ask(SPACE)
        for name, range_ in SPACE.items():
            assert range_._contains(range_.to_internal_repr(trial.params[name]))
        study.tell(trial, float(to_unit(trial.params, SPACE).sum()))  # the best are at the ends, where steps leave
    assert study.best_value < 0.6


@pytest.mark.parametrize("name", ["genetic", "tpe", "random"])
def test_the_same_seed_gives_the_same_search(name: Sampler) -> None:
    searches = []
    for seed in (0, 0, 1):
        study = study_with(make_sampler(name, CUBE, seed))
        run(study, 15)
        study.sampler = make_sampler(name, CUBE, seed)  # as if it were resumed
        run(study, 30)
        searches.append(individuals(study))
    assert np.array_equal(searches[0], searches[1])
    assert not np.array_equal(searches[0], searches[2])
    assert len(np.unique(np.array(searches[0]), axis=0)) == 45  # nothing is drawn twice


def test_a_retry_takes_the_place_of_the_trial_that_failed() -> None:
    whole, broken = study_with(GeneticSampler(CUBE, seed=5)), study_with(GeneticSampler(CUBE, seed=5))
    run(whole, 60)
    for number in range(63):
        trial = broken.ask(CUBE)
        if number in (4, 25, 40):
            retry_stale()(broken, broken.tell(trial, state=TrialState.FAIL))
        else:
            broken.tell(trial, distance(trial.params))
    finished = broken.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    assert [trial.params for trial in finished] == [trial.params for trial in whole.get_trials()]


def test_several_workers_do_not_wait_and_forget_no_trial() -> None:
    """The best individual is slow: it competes once it has finished."""
    sampler = GeneticSampler(CUBE, seed=2)
    study = study_with(sampler)
    running = [study.ask(CUBE) for _ in range(20)]
    slow = min(running, key=lambda trial: distance(trial.params))
    for trial in running:
        if trial is not slow:
            study.tell(trial, distance(trial.params))
    before = [trial.number for trial in sampler.population(study, 0)]
    run(study, 18)
    assert slow.number not in before
    study.tell(slow, -1.0)
    ranked = [trial.number for trial in sampler.population(study, 1)]
    assert ranked[0] == slow.number
    assert set(ranked[1:]) == {before[0]} | set(range(20, 38))


def test_many_workers_at_once_get_different_places() -> None:
    sampler = GeneticSampler(CUBE, seed=2)
    study = study_with(sampler)
    running = [study.ask(CUBE) for _ in range(50)]
    assert len({tuple(trial.params.values()) for trial in running}) == 50
    assert not sampler.population(study, 0)  # there is none to descend from


def test_one_that_was_stopped_early_ranks_behind() -> None:
    sampler = GeneticSampler(CUBE, seed=2)
    study = study_with(sampler)
    for number in range(20):
        trial = study.ask(CUBE)
        if number < 10:
            trial.report(0.0, 1)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, float(number))
    assert [trial.number for trial in sampler.population(study, 0)][:10] == list(range(10, 20))


def test_categories_are_refused() -> None:
    with pytest.raises(SettingsError, match="searches ranges of numbers without steps"):
        GeneticSampler({"noise": CategoricalDistribution(("mask", "gaussian"))})
    with pytest.raises(SettingsError, match="for 'x'; use the sampler tpe"):
        GeneticSampler({"x": FloatDistribution(0, 1, step=0.1)})


def test_the_genetic_search_beats_chance() -> None:
    """On a bowl in seven dimensions, with as many trials, in the mean over five seeds; the best never fades."""
    ends: dict[str, list[float]] = {"genetic": [], "random": []}
    for name, values in ends.items():
        for seed in range(5):
            study = study_with(make_sampler(name, CUBE, seed))  # type: ignore[arg-type]
            run(study, 128)
            values.append(study.best_value)
            best = np.minimum.accumulate([trial.value or 0.0 for trial in study.get_trials(deepcopy=False)])
            assert all(later <= sooner for sooner, later in pairwise(best))
    assert np.mean(ends["genetic"]) < np.mean(ends["random"]) / 2


def test_the_example_of_the_docs_runs() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "tuning.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(source, "docs/how-to/tuning.md", "exec"), names)
    assert len(names["study"].trials) == 60
    assert names["study"].best_value < 1

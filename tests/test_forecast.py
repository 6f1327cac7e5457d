"""How long a task of several phases will still take, by a clock that the test winds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.config import CFNSettings
from cofill.data.datasets.world import make_world
from cofill.memory import data_size
from cofill.models.cfn.costs import LEARN, LISTS, SEARCH, SOLVE, TRAIN, phases_of
from cofill.models.cfn.model import CFN
from cofill.progress import Forecast, Phase, Step, duration


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def told(phases: list[Phase], steps: list[tuple[float, Step]]) -> list[Step]:
    """What becomes of steps that come so many seconds after each other."""
    clock, seen = Clock(), list[Step]()
    forecast = Forecast(seen.append, phases, clock)
    for seconds, step in steps:
        clock.now += seconds
        forecast(step)
    return seen


PHASES = [Phase("search", 1.0, 10, may_be_fewer=True), Phase("solve", 20.0), Phase("lists", 5.0)]


def epoch(done: int, total: int = 10, what: str = "search") -> Step:
    return Step(what, done, total, 0.0, "epoch")


def test_what_comes_after_the_epochs_is_counted() -> None:
    first, second, third = told(PHASES, [(50.0, epoch(1)), (2.0, epoch(2)), (2.0, epoch(3))])
    assert first.left is None  # it may have compiled kernels
    assert second.left == pytest.approx(2 * (8 + 20 + 5))
    assert third.left == pytest.approx(2 * (7 + 20 + 5))
    assert first.at_most
    assert third.at_most


def test_epochs_that_were_not_needed_are_not_waited_for() -> None:
    steps = [
        (1.0, epoch(1)),
        (2.0, epoch(2)),
        (0.0, Step("solve", 0.0, 1.0, 0.5)),
        (10.0, Step("solve", 0.5, 1.0, 0.7)),
    ]
    *_, begun, half = told(PHASES, steps)
    assert begun.left == pytest.approx(2 * (20 + 5))
    assert not begun.at_most
    # It went twice as fast as expected, which says more of itself than of what comes after.
    assert half.left == pytest.approx(10 + 5 * (2 + 10) / (1 + 10))


def test_a_phase_that_knows_its_length_is_believed() -> None:
    phases = [Phase("search", 1.0, 10, may_be_fewer=True), Phase("train", 1.0, 10, may_be_fewer=True)]
    steps = [(1.0, epoch(1)), (1.0, epoch(2)), (1.0, epoch(1, 4, "train")), (1.0, epoch(2, 4, "train"))]
    found = told(phases, steps)
    assert [step.at_most for step in found] == [True, True, False, False]
    assert found[1].left == pytest.approx(18)
    assert found[3].left == pytest.approx(2)


def test_a_run_that_goes_on_is_measured_from_there() -> None:
    _, found = told(PHASES, [(5.0, epoch(7)), (2.0, epoch(8))])
    assert found.left == pytest.approx(2 * (2 + 20 + 5))


def test_what_is_no_phase_passes_as_it_is() -> None:
    other = Step("workers", 0, 1, 0.0)
    lowered = Step("search", 0, 1, 0.0, note="begins anew")
    assert told(PHASES, [(1.0, other), (1.0, lowered)]) == [other, lowered]


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=20, max_size=20))
def test_a_forecast_is_never_negative_and_ends_at_nothing(seconds: list[float]) -> None:
    steps = [epoch(n) for n in range(1, 11)]
    steps += [Step("solve", n / 4, 1.0, 0.0) for n in range(5)] + [Step("lists", n / 4, 1.0, 0.0) for n in range(5)]
    found = told(PHASES, list(zip(seconds, steps, strict=True)))
    assert all(step.left is None or step.left >= 0 for step in found)
    assert found[-1].left == 0


def test_the_phases_of_a_network_follow_its_settings() -> None:
    counts = np.array([10, 200, 3000])

    def names(**changes: object) -> list[str]:
        return [phase.what for phase in phases_of(CFNSettings.of(changes), counts)]

    assert names() == [SEARCH, LEARN, TRAIN, SOLVE]
    assert names(refit=False) == [SEARCH, LEARN, SOLVE]
    assert names(validation=0) == [TRAIN, SOLVE]
    assert names(decoder="network") == [SEARCH, TRAIN]


@pytest.mark.parametrize("orientation", ["item", "both"])
def test_every_phase_of_a_training_is_foreseen(orientation: str) -> None:
    steps: list[Step] = []
    ratings = make_world(users=60, items=40, ratings=900, seed=2).ratings
    CFN(orientation=orientation, epochs=3, hidden=6, threads=1).fit(ratings, progress=steps.append)
    told = {step.what.partition(",")[0] for step in steps}
    assert told == {SEARCH, LEARN, TRAIN, SOLVE, LISTS}
    unforeseen = [step.what for step in steps[1:] if step.left is None and not step.note]
    assert unforeseen == []
    assert steps[-1].left == 0
    searching = [step for step in steps if step.what.startswith(SEARCH)]
    assert all(step.at_most for step in searching)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.02, "0 s"), (0.42, "0.4 s"), (0.97, "1 s"), (59.4, "59 s"), (80, "1 min 20 s"), (7800, "2 h 10 min")],
)
def test_durations_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (812, "812 bytes"),
        (4_200, "4.2 kB"),
        (340_000, "340 kB"),
        (1.24e9, "1.2 GB"),
        (999_700, "1.0 MB"),
        (2.5e10, "25 GB"),
    ],
)
def test_sizes_as_people_write_them(count: float, words: str) -> None:
    assert data_size(count) == words

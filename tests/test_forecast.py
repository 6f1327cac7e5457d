"""How long a task will still take, by a clock that the test winds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.datasets.world import make_world
from cofill.memory import data_size
from cofill.models.cfn.fit import LEARN, SEARCH, SOLVE, TRAIN
from cofill.models.cfn.model import CFN, LISTS
from cofill.progress import Forecast, Step, duration


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def told(steps: list[tuple[float, Step]]) -> list[Step]:
    """What becomes of steps that come so many seconds after each other."""
    clock, seen = Clock(), list[Step]()
    forecast = Forecast(seen.append, clock)
    for seconds, step in steps:
        clock.now += seconds
        forecast(step)
    return seen


def at(share: float) -> Step:
    return Step("train", share, 1.0, share)


def test_what_is_left_follows_from_what_is_done() -> None:
    first, second, third = told([(50.0, at(0.1)), (2.0, at(0.3)), (6.0, at(0.5))])
    assert first.left is None  # it may have compiled kernels
    assert second.left == pytest.approx(2 / 0.2 * 0.7)
    assert third.left == pytest.approx(8 / 0.4 * 0.5)


def test_a_run_that_goes_on_is_measured_from_there() -> None:
    _, found = told([(5.0, at(0.7)), (2.0, at(0.8))])
    assert found.left == pytest.approx(2 / 0.1 * 0.2)


def test_a_note_passes_as_it_is() -> None:
    lowered = Step("search", 0, 1, 0.0, note="begins anew")
    assert told([(1.0, at(0.5)), (1.0, lowered)])[1] == lowered


@settings(deadline=None)
@given(st.lists(st.floats(0.01, 100), min_size=11, max_size=11))
def test_a_forecast_is_never_negative_and_ends_at_nothing(seconds: list[float]) -> None:
    found = told(list(zip(seconds, [at(n / 10) for n in range(11)], strict=True)))
    assert all(step.left is None or step.left >= 0 for step in found)
    assert found[-1].left == 0


@pytest.mark.parametrize("orientation", ["item", "both"])
def test_every_part_of_a_training_is_foreseen(orientation: str) -> None:
    steps: list[Step] = []
    ratings = make_world(users=60, items=40, ratings=900, seed=2).ratings
    CFN(orientation=orientation, epochs=3, hidden=6, threads=1).fit(ratings, progress=steps.append)
    told = {step.what.partition(",")[0] for step in steps}
    assert told == {SEARCH, LEARN, TRAIN, SOLVE, LISTS}
    assert [step.what for step in steps[1:] if step.left is None and not step.note] == []
    assert steps[-1].left == 0


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

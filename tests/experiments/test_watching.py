"""The time left is judged by runs of the same kind."""

import pytest

from cofill.experiments.missing_runs import Event, Standing, duration
from cofill.experiments.runs import Part, Run


def run(label: str, seed: int) -> Run:
    return Run(label, "measure", "means", {"seed": seed}, Part("random", 0.9, seed), "aa", None)


def test_the_time_left() -> None:
    slow, quick = [run("slow", seed) for seed in (0, 1)], [run("quick", seed) for seed in (2, 3)]
    standing = Standing([*slow, *quick], {slow[0].digest: 100.0}, workers=2)
    assert standing.left() == pytest.approx((100 + 2 * 100) / 2)  # of the quick ones nothing is known yet
    standing.take(Event(quick[0], 1.0, {"seconds": 10.0}))
    assert standing.left() == pytest.approx((100 + 10) / 2)
    standing.take(Event(slow[1], 0.25))
    assert standing.left() == pytest.approx((75 + 10) / 2)
    assert standing.completed == 2.25
    assert standing.told() == "2 of 4 runs  now slow 25%  about 42 s left"
    standing.take(Event(slow[1], 1.0, {"seconds": 90.0}))
    standing.take(Event(quick[1], 1.0, {"seconds": 9.0}))
    assert standing.told() == "4 of 4 runs"


def test_nothing_is_known_before_the_first_run() -> None:
    assert Standing([run("slow", 0)], {}, workers=1).left() is None


def test_durations() -> None:
    assert [duration(seconds) for seconds in (4.4, 61, 3725)] == ["4 s", "1 min 01 s", "1 h 02 min"]

"""What a process has to do once is done before the clock starts."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cofill.experiments import measuring
from cofill.experiments.measuring import perform
from cofill.experiments.plan import LINEUP
from cofill.experiments.runs import ExperimentData
from cofill.memory import reset_peak

from .conftest import MakePlan


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that has just begun."""
    monkeypatch.setattr(measuring, "_warm", set())


def test_a_corner_of_the_data(data: ExperimentData) -> None:
    few = measuring.corner(data)
    assert len(few.ratings.users) == len(few.ratings.items) == 40
    assert 40 < len(few.ratings) < len(data.ratings)
    of = {(u, i): r for u, i, r in data.ratings.to_polars().select("user", "item", "rating").iter_rows()}
    assert all(of[u, i] == r for u, i, r in few.ratings.to_polars().select("user", "item", "rating").iter_rows())
    assert few.side.items is not None
    assert data.side.items is not None
    np.testing.assert_array_equal(few.side.items.values, data.side.items.aligned(few.ratings.items))


@pytest.mark.parametrize("label", list(LINEUP))
def test_every_algorithm_is_warmed_up_once(
    label: str, make_plan: MakePlan, data: ExperimentData, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []
    fit: Callable[..., None] = measuring._fit

    def counted(model: Any, train: Any, *rest: Any) -> None:
        fit(model, train, *rest)  # a warm-up that fails is suppressed, and would not be counted
        trained.append(len(train))

    monkeypatch.setattr(measuring, "_fit", counted)
    plan, corner = make_plan(), len(measuring.corner(data).ratings)
    for split in (0, 1):
        perform(plan.run(LINEUP[label], split), data, threads=1, report=lambda share: None)
    assert trained == [corner, 1350, 1350]


def test_the_clock_and_the_memory_do_not_see_it(
    make_plan: MakePlan, data: ExperimentData, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    late = [0.0]
    fit: Callable[..., None] = measuring._fit
    clock = time.perf_counter

    def slow_at_first(*given: Any) -> None:
        order.append("fit")
        if len(order) == 1:
            late.append(3600.0)
        fit(*given)

    def noted() -> int:
        order.append("reset")
        return reset_peak()

    monkeypatch.setattr(measuring, "_fit", slow_at_first)
    monkeypatch.setattr(measuring, "reset_peak", noted)
    monkeypatch.setattr("cofill.experiments.measuring.time.perf_counter", lambda: clock() + late[-1])
    run = make_plan().run(LINEUP["fitted means"], 0, task="cost")
    record = perform(run, data, threads=1, report=lambda share: None)
    assert order == ["fit", "reset", "fit"]
    assert record["result"]["training_seconds"] < 3600.0 <= record["seconds"]

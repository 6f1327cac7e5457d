"""What a process has to do once is done before the clock starts."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from cofill.experiments import runs
from cofill.experiments.plan import LINEUP
from cofill.experiments.runs import ExperimentData, perform
from cofill.memory import reset_peak

from .conftest import MakePlan


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a process that has just begun."""
    monkeypatch.setattr(runs, "_warm", set())


@pytest.mark.parametrize("label", list(LINEUP))
def test_every_algorithm_is_warmed_up_once(
    label: str, make_plan: MakePlan, data: ExperimentData, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []
    fit: Callable[..., None] = runs._fit

    def counted(model: Any, train: Any, *rest: Any) -> None:
        fit(model, train, *rest)  # a warm-up that fails is suppressed, and would not be counted
        trained.append(len(train))

    monkeypatch.setattr(runs, "_fit", counted)
    run = make_plan().run(LINEUP[label], 0)
    runs._warm_up(run, 1)
    assert len(trained) == 1
    runs._warm_up(run, 1)
    assert len(trained) == 1


def test_the_clock_and_the_memory_do_not_see_it(
    make_plan: MakePlan, data: ExperimentData, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    late = [0.0]
    fit: Callable[..., None] = runs._fit
    clock = time.perf_counter

    def slow_at_first(*given: Any) -> None:
        order.append("fit")
        if len(order) == 1:
            late.append(3600.0)
        fit(*given)

    def noted() -> int:
        order.append("reset")
        return reset_peak()

    monkeypatch.setattr(runs, "_fit", slow_at_first)
    monkeypatch.setattr(runs, "reset_peak", noted)
    monkeypatch.setattr("cofill.experiments.runs.time.perf_counter", lambda: clock() + late[-1])
    run = make_plan().run(LINEUP["fitted means"], 0, task="cost")
    record = perform(run, data, threads=1, report=lambda share: None)
    assert order == ["fit", "reset", "fit"]
    assert record["result"]["training_seconds"] < 3600.0 <= record["seconds"]

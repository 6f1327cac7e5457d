"""Runs in this process, in others, alone, interrupted: the same results, none of them twice; and the time left."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cofill.errors import CofillError
from cofill.experiments.plan import LINEUP
from cofill.experiments.runs import Event, ExperimentData, Part, Store, finish, perform
from cofill.workers import Work

from .conftest import MakePlan


def test_processes_find_what_this_one_finds(make_plan: MakePlan, data: ExperimentData, tmp_path: Path) -> None:
    plan = make_plan()
    runs = [plan.run(LINEUP[label], split) for split in (0, 1) for label in ("fitted means", "V-CFN++")]
    results, events = [], list[Event]()
    for workers in (1, 2):
        store = Store(tmp_path / str(workers))
        finish(runs, data, store, workers=workers, watch=events.append)
        records = [store.find(run) for run in runs]
        results.append([record["result"]["rmse"] for record in records if record is not None])
    assert results[0] == pytest.approx(results[1], rel=1e-5)
    assert len(results[0]) == 4
    assert results[0][0] != results[0][2]
    assert sum(event.record is not None for event in events) == 8
    assert any(0 < event.share < 1 for event in events)


def test_costs_are_those_of_a_process_of_its_own(make_plan: MakePlan, data: ExperimentData) -> None:
    plan = make_plan()
    run = plan.run(LINEUP["U-CFN"], 0, task="cost")
    ballast = bytearray(2**30)
    ballast[:: 2**12] = b"1" * (len(ballast) // 2**12)  # memory of this process, which is not that of the run
    finish([run], data, plan.store, workers=1, watch=lambda event: None)
    record = plan.record(run)
    assert record is not None
    found = record["result"]
    users, items, hidden = 70, 60, 40
    assert len(data.ratings.users) == users
    assert len(data.ratings.items) == items
    assert found["parameters"] == 2 * items * hidden + hidden + items
    assert 50 * 2**20 < found["bytes_before"] <= found["peak_bytes"] < 2**30
    assert found["training_seconds"] > 0


@pytest.mark.parametrize("workers", [1, 2])
def test_what_went_wrong_is_told_with_the_label(
    make_plan: MakePlan, data: ExperimentData, tmp_path: Path, workers: int
) -> None:
    good = make_plan().run(LINEUP["fitted means"], 0)
    bad = replace(good, part=Part("random", ratio=2.0, seed=0))
    store = Store(tmp_path)
    with pytest.raises(CofillError, match=r"^fitted means: ratio=2.0 is not a share.*the same command goes on$"):
        finish([good, bad], data, store, workers=workers, watch=lambda event: None)
    assert workers == 2 or store.find(good) is not None


def test_what_nobody_thought_of_is_told_with_its_type(
    make_plan: MakePlan, data: ExperimentData, tmp_path: Path
) -> None:
    run = replace(make_plan().run(LINEUP["fitted means"], 0), part=Part("published", fold=7))
    with pytest.raises(CofillError, match=r"^fitted means: IndexError: tuple index out of range; what is finished is"):
        finish([run], data, Store(tmp_path / "runs"), watch=lambda event: None)
    assert not (tmp_path / "runs").exists()


def test_a_process_that_dies_is_noticed(
    make_plan: MakePlan, data: ExperimentData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cofill.experiments.runs.__name__", __name__)
    runs = [make_plan().run(LINEUP["fitted means"], split) for split in (0, 1)]
    told = "its process was killed, perhaps for want of memory: use fewer workers;"
    with pytest.raises(CofillError, match=f"^fitted means: {told}"):
        finish(runs, data, Store(tmp_path), workers=2, watch=lambda event: None)


def begin_work(work: Work, content: bytes) -> Any:
    """In place of what does a run: dies."""
    return lambda task: os.kill(os.getpid(), signal.SIGKILL)


def test_a_training_that_runs_away_is_a_result(make_plan: MakePlan, data: ExperimentData) -> None:
    run = make_plan().run(LINEUP["V-CFN"], 0, learning_rate=1e6, weight_decay=0.0, output="identity")
    record = perform(run, data, threads=1, report=lambda share: None)
    assert "result" not in record
    assert record["problem"]
    plan = make_plan()
    plan.store.keep(run, record)
    plan.records(LINEUP["V-CFN"], learning_rate=1e6, weight_decay=0.0, output="identity")
    assert plan.missing() == (
        ("V-CFN", "1 of 2 runs not finished"),
        ("V-CFN", f"no result of 1 of 2 runs: {record['problem']}"),
    )


def test_a_search_touches_no_test_rating(make_plan: MakePlan, data: ExperimentData) -> None:
    run = make_plan().run(LINEUP["V-CFN"], 0, task="validate", refit=False)
    result = perform(run, data, threads=1, report=lambda share: None)["result"]
    assert "rmse" not in result
    assert len(result["validation_curve"]) == 2
    # The curve is that of the network's own output; the decoder, which is what predicts, does better.
    assert result["validation_rmse"] < min(result["validation_curve"])

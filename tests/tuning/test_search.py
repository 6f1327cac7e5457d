"""Trials of a study: how they are scored, counted, stopped, given up and refused."""

import json
import signal
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.exceptions import StorageInternalError
from optuna.trial import TrialState
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from cofill import CFN
from cofill.config import CFNSettings, read_settings_file
from cofill.data.datasets.world import make_world
from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.errors import CofillError, DataError, SettingsError
from cofill.tuning.results import best_settings, best_trial, describe, draw_search, write_best
from cofill.tuning.search import _finished, run_trials
from cofill.tuning.search_data import SearchData
from cofill.tuning.study import (
    Plan,
    Sampler,
    make_pruner,
    open_storage,
    open_study,
    storage_explained,
    storage_url,
)

MEMORY = "sqlite:///:memory:"


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return make_world(users=50, items=30, ratings=600, seed=1).ratings


@pytest.fixture(scope="module")
def data(ratings: Ratings) -> SearchData:
    return SearchData.of(ratings)


def plan_of(data: SearchData, sampler: Sampler = "genetic", **settings: Any) -> Plan:
    chosen = CFNSettings.of({"epochs": 2, "hidden": 5} | settings)
    return Plan.of("rmse", data, chosen, sampler)


def states(study: optuna.Study) -> list[TrialState]:
    return [trial.state for trial in study.get_trials()]


def test_the_score_is_the_validation_rmse_of_a_fit(ratings: Ratings, data: SearchData) -> None:
    plan = plan_of(data, seed=4, epochs=4)
    study = open_study(MEMORY, "s", plan)
    run_trials(study, plan, data, 2)
    for trial in study.get_trials():
        model = CFN(CFNSettings.of(best_settings(trial, plan)), threads=1).fit(ratings)
        assert trial.value == model.measures["validation_rmse"]
        assert trial.user_attrs["epochs"] == model.measures["epochs"]
        assert list(trial.intermediate_values) == [1, 2, 3, 4]


def test_side_features_take_part(ratings: Ratings) -> None:
    ids = list(range(1, 33))  # two of them have no ratings
    features = Features.read((ids, np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)))
    data = SearchData.of(ratings, items=features)
    plan = plan_of(data)
    assert "cold_ratio" in plan.space
    study = open_study(MEMORY, "s", plan)
    run_trials(study, plan, data, 1)
    (trial,) = study.get_trials()
    settings = CFNSettings.of(best_settings(trial, plan))
    model = CFN(settings, threads=1).fit(ratings, item_features=features)
    assert trial.value == model.measures["validation_rmse"]


def test_the_total_counts_and_not_the_call(data: SearchData, tmp_path: Path) -> None:
    plan = plan_of(data)
    for wanted, there in ((3, 3), (2, 3), (5, 5)):
        study = open_study(storage_url(tmp_path), "s", plan)
        run_trials(study, plan, data, wanted)
        assert states(study) == [TrialState.COMPLETE] * there


def test_an_interrupt_in_the_middle_of_a_query_leaves_no_lock(data: SearchData, tmp_path: Path) -> None:
    plan = plan_of(data)
    study = open_study(storage_url(tmp_path), "s", plan)
    run_trials(study, plan, data, 1)

    def press(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    engine = study._storage._backend.engine  # type: ignore[attr-defined]
    event.listen(engine, "after_cursor_execute", press)
    try:
        with pytest.raises(KeyboardInterrupt) as stopped, ThreadPoolExecutor(1) as database:
            _finished(study, database)
    finally:
        event.remove(engine, "after_cursor_execute", press)
    (file,) = tmp_path.glob("*.db")
    other = sqlite3.connect(file, timeout=0)
    other.execute("BEGIN EXCLUSIVE")
    other.close()
    assert stopped.value.__context__ is None


def test_a_worker_that_is_not_wanted_gives_back_what_it_has_begun(data: SearchData) -> None:
    plan = plan_of(data)
    study = open_study(MEMORY, "s", plan)
    answers = iter([True, True, False])  # it may begin, and go on after its first epoch
    run_trials(study, plan, data, 2, still_wanted=lambda: next(answers))
    begun, left = study.get_trials()
    assert (begun.state, len(begun.intermediate_values)) == (TrialState.FAIL, 1)
    assert (left.state, left.params) == (TrialState.WAITING, begun.params)
    assert "another trial has its settings" in describe(begun, plan)["reason"]


def test_what_diverges_is_stopped_with_a_reason(data: SearchData) -> None:
    plan = plan_of(data, learning_rate=1e6, weight_decay=0.0)
    study = open_study(MEMORY, "s", plan)
    run_trials(study, plan, data, 2)
    assert states(study) == [TrialState.PRUNED] * 2
    for trial in study.get_trials():
        assert describe(trial, plan)["reason"].startswith("training diverged in epoch ")
    with pytest.raises(CofillError, match="no trial has run to its end"):
        best_trial(study)


def test_settings_that_exclude_each_other_are_stopped_with_a_reason(data: SearchData) -> None:
    plan = plan_of(data, weight_decay=9.0)
    study = open_study(MEMORY, "s", plan)
    run_trials(study, plan, data, 6)
    for trial in study.get_trials():
        excluded = trial.params["learning_rate"] * 9 >= 1
        assert ("must be below 1" in trial.user_attrs.get("reason", "")) == excluded
    assert {TrialState.PRUNED, TrialState.COMPLETE} == set(states(study))


def test_stopped_early_only_if_far_behind() -> None:
    study = optuna.create_study(pruner=make_pruner())
    for number in range(20):
        trial = study.ask()
        for epoch in range(1, 31):
            trial.report(1.0 + 0.01 * number - 0.001 * epoch, epoch)
            assert not trial.should_prune()
        study.tell(trial, 1.0)

    def stopped(curve: float) -> int | None:
        trial = study.ask()
        for epoch in range(1, 31):
            trial.report(curve - 0.001 * epoch, epoch)
            if trial.should_prune():
                study.tell(trial, state=TrialState.PRUNED)
                return epoch
        study.tell(trial, curve)
        return None

    assert stopped(1.18) == 10
    assert stopped(1.12) is None  # behind the median
    slow = study.ask()
    for epoch in range(1, 31):
        slow.report(1.4 - 0.03 * min(epoch, 12), epoch)
        assert not slow.should_prune()  # it catches up before epoch 10


def test_a_study_is_about_one_thing(ratings: Ratings, data: SearchData, tmp_path: Path) -> None:
    url = storage_url(tmp_path)
    open_study(url, "s", plan_of(data))
    other = SearchData.of(ratings.select(np.arange(500)))
    for plan, about in (
        (plan_of(other), "other ratings or side information"),
        (plan_of(data, "tpe"), "sampler genetic, not tpe"),
        (plan_of(data, seed=1), "seed 0, not 1"),
        (plan_of(data, orientation="user"), "orientation item, not user"),
        (
            plan_of(data, epochs=3),
            'other settings ({"epochs": 2, "hidden": [5]} instead of {"epochs": 3, "hidden": [5]})',
        ),
    ):
        with pytest.raises(SettingsError) as refused:
            open_study(url, "s", plan)
        assert str(refused.value) == (
            f"the study 's' in {url} is about {about}; "
            f"go on with what it is about, or begin another with study=... or out=..."
        )
    open_study(url, "s", plan_of(data, threads=3, refit=False))  # no score depends on these
    open_study(url, "t", plan_of(other))
    optuna.create_study(storage=url, study_name="strange").ask()
    with pytest.raises(SettingsError, match=r"was not made by cofill tune; give another study=\.\.\."):
        open_study(url, "strange", plan_of(data))


@pytest.mark.parametrize("url", ["nonsense", "oracle9://x", "mysql://h:1/x"])
def test_a_storage_that_cannot_be_used(data: SearchData, url: str) -> None:
    with pytest.raises(CofillError, match=r"^no study can be kept at that address \(.+\); check storage=\.\.\.$"):
        open_study(url, "s", plan_of(data))


def test_a_server_out_of_reach(data: SearchData) -> None:
    with pytest.raises(CofillError, match=r"^postgresql://127.0.0.1:9/x: the study there cannot be read or written "):
        open_study("postgresql://127.0.0.1:9/x", "s", plan_of(data))


def unusable(url: str, says: str) -> str:
    return (
        f"{url}: the study there cannot be read or written ({says}); see that the database is whole, within reach and "
        f"has space, then go on with the same search, or begin another with out=... or storage=..."
    )


@pytest.mark.parametrize("out", ["q?x", "a#b", "50%20", "{x}", "one two"])
def test_a_study_is_in_its_folder_whatever_that_is_called(data: SearchData, tmp_path: Path, out: str) -> None:
    folder = tmp_path / out
    folder.mkdir()
    open_study(storage_url(folder), "s", plan_of(data))
    assert [path.name for path in folder.iterdir()] == ["study.db"]
    assert list(tmp_path.iterdir()) == [folder]


def test_searches_that_begin_at_the_same_moment_share_a_new_database(tmp_path: Path) -> None:
    together = Barrier(4)

    def begin(_: int) -> None:
        together.wait(60)
        open_storage(f"sqlite:///{tmp_path}/study.db").get_all_studies()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(begin, range(4)))


def test_a_database_that_is_none(data: SearchData, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("something else entirely " * 50)
    with pytest.raises(CofillError) as refused:
        open_study(storage_url(tmp_path), "s", plan_of(data))
    assert str(refused.value) == unusable(storage_url(tmp_path), "file is not a database")
    with pytest.raises(CofillError) as refused:
        open_study("sqlite:////no/such/folder/x.db", "s", plan_of(data))
    assert str(refused.value) == unusable("sqlite:////no/such/folder/x.db", "unable to open database file")


def test_a_database_that_is_full(data: SearchData, tmp_path: Path) -> None:
    plan, url = plan_of(data), storage_url(tmp_path)
    study = open_study(url, "s", plan)
    engine = study._storage._backend.engine  # type: ignore[attr-defined]

    @event.listens_for(engine, "connect")
    def let_it_not_grow(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # SQLite takes it for the pages that there are

    engine.dispose()
    with pytest.raises(CofillError) as failed, storage_explained(url):
        run_trials(study, plan, data, 200)
    assert str(failed.value) == unusable(url, "database or disk is full")
    engine.dispose()


def test_what_no_trial_can_run_with_is_told(data: SearchData) -> None:
    plan = plan_of(data, device="nowhere")
    with pytest.raises(SettingsError, match=r"^the setting 'device' must name a device that torch can use here"):
        run_trials(open_study(MEMORY, "s", plan), plan, data, 1)


def test_the_password_of_a_database_that_fails_is_not_told() -> None:
    with pytest.raises(CofillError) as failed, storage_explained("postgresql://me:secret@host/db"):
        raise StorageInternalError("a guess") from OperationalError("SELECT 1", {}, Exception("no route\nto host"))
    assert str(failed.value) == unusable("postgresql://me:***@host/db", "no route to host")


def test_nothing_to_score_with(ratings: Ratings, data: SearchData) -> None:
    with pytest.raises(SettingsError, match="set validation above 0"):
        data.check(CFNSettings(validation=0.0))
    few = SearchData.of(ratings.select(np.arange(4)))
    with pytest.raises(DataError, match="4 ratings are too few to hold out a share"):
        few.check(CFNSettings())


def test_what_is_left_behind(data: SearchData, tmp_path: Path) -> None:
    plan = plan_of(data, hidden=(6, 4, 6), noise="gaussian", refit=False, orientation="item")
    study = open_study(MEMORY, "s", plan)
    run_trials(study, plan, data, 2)
    best = best_trial(study)
    write_best(tmp_path / "best.toml", best, plan, ["two\nlines"])
    text = (tmp_path / "best.toml").read_text()
    assert text.startswith('# two lines\norientation = "item"\n')
    found = CFNSettings.of(read_settings_file(tmp_path / "best.toml"))
    expected = {"hidden": (6, 4, 6), "noise": "gaussian", "refit": False, "epochs": 2, **best.params}
    assert {name: getattr(found, name) for name in expected} == expected
    json.dumps([describe(trial, plan) for trial in study.get_trials()], allow_nan=False)
    draw_search(tmp_path / "search.svg", study, "a title")
    picture = (tmp_path / "search.svg").read_text()
    assert picture.count("<title>ran to its end: ") == 4  # each of two trials, against trials and against time
    assert ">best so far<" in picture

"""The goal ndcg: settings of the list scorer, scored by lists for a validation part."""

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from cofill import Interactions
from cofill.config import CFNSettings, ListSettings
from cofill.data.datasets.world import make_world
from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.data.splits import split
from cofill.errors import DataError, SettingsError
from cofill.evaluation.ranking import evaluate_ranking
from cofill.models.bias_models import ListModel
from cofill.progress import Step
from cofill.tuning.results import best_settings, best_trial, draw_search
from cofill.tuning.search import run_trials, search
from cofill.tuning.search_data import SearchData
from cofill.tuning.study import Plan, Sampler, make_sampler, open_study, storage_url

MEMORY = "sqlite:///:memory:"
DAY = 86_400


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return make_world(users=60, items=30, ratings=900, seed=1).ratings


@pytest.fixture(scope="module")
def data(ratings: Ratings) -> SearchData:
    return SearchData.of(ratings)


def interactions(*, counts: bool = True, times: bool = False, seed: int = 0) -> Interactions:
    """People with a taste for one of three groups of items, who also come across others, once each."""
    rng = np.random.default_rng(seed)
    lines = []
    for user in range(90):
        own = rng.choice(12, 7, replace=False) + 12 * (user % 3)
        strange = rng.choice(np.setdiff1d(np.arange(36), own), 7, replace=False)
        lines += [(user, item, 9, 5 * DAY) for item in own.tolist()]
        lines += [(user, item, 1, 3 * DAY) for item in strange.tolist()]
    users, items, weights, moments = (list(column) for column in zip(*lines, strict=True))
    columns = (users, items, weights if counts else [1] * len(users))
    return Interactions.read((*columns, moments) if times else columns)


def changed_tastes(seed: int = 0) -> Interactions:
    """People who liked one group of items years ago, any of three, and another one now."""
    rng = np.random.default_rng(seed)
    lines = []
    for user in range(90):
        for era, group in enumerate(((user // 3) % 3, user % 3)):
            for item in rng.choice(12, 9, replace=False).tolist():
                lines.append((user, item + 12 * group, 1, era * 2000 * DAY + int(rng.integers(30 * DAY))))
    return Interactions.read(tuple(list(column) for column in zip(*lines, strict=True)))


def plan_of(data: SearchData, sampler: Sampler = "genetic", by: Any = "random", **settings: Any) -> Plan:
    return Plan.of("ndcg", data, CFNSettings.of(settings), sampler, validation_by=by)


def genes_of(data: SearchData, **settings: Any) -> set[str]:
    return set(plan_of(data, **settings).space)


def searched(data: SearchData, plan: Plan, trials: int) -> optuna.Study:
    study = open_study(MEMORY, "s", plan)
    run_trials(study, plan, data, trials)
    return study


@pytest.mark.parametrize("kind", ["ratings", "interactions"])
def test_the_score_is_that_of_the_lists_of_a_model(ratings: Ratings, kind: str) -> None:
    """Fitted on the rest, in the caller's ids, and measured on the validation part by everybody's measure."""
    given = ratings if kind == "ratings" else interactions(times=True)
    data = SearchData.of(given)
    plan = plan_of(data, seed=3, validation=0.2)
    study = searched(data, plan, 3)
    train, validation = split(given, "random", 0.8, 3)
    for trial in study.get_trials():
        model = ListModel(ListSettings.of(best_settings(trial, plan))).fit(train)
        assert trial.value == pytest.approx(evaluate_ranking(model, validation, n=10).ndcg, abs=1e-9)


def test_the_latest_can_be_held_out(ratings: Ratings, data: SearchData) -> None:
    plan = plan_of(data, by="time")
    (trial,) = searched(data, plan, 1).get_trials()
    train, validation = split(ratings, "time", 0.9, 0)
    assert trial.value == pytest.approx(evaluate_ranking(ListModel().fit(train), validation).ndcg, abs=1e-9)


def test_side_information_takes_part(ratings: Ratings) -> None:
    ids = list(range(1, 33))  # two of them have no ratings
    features = Features.read((ids, np.random.default_rng(0).normal(size=(32, 3)).astype(np.float32)))
    data = SearchData.of(ratings, items=features)
    (trial,) = searched(data, plan_of(data), 1).get_trials()
    train, validation = split(ratings, "random", 0.9, 0)
    model = ListModel().fit(train, item_features=features)
    assert trial.value == pytest.approx(evaluate_ranking(model, validation).ndcg, abs=1e-9)
    assert data.fingerprint() != SearchData.of(ratings).fingerprint()


@pytest.mark.parametrize("sampler", ["genetic", "tpe", "random"])
def test_the_defaults_come_first(data: SearchData, sampler: Sampler) -> None:
    plan = plan_of(data, sampler)
    study = searched(data, plan, 3)
    defaults = ListSettings()
    first, *others = (plan.values(trial.params) for trial in study.get_trials())
    assert first == {name: getattr(defaults, name) for name in plan.space}
    assert first["half_life"] == 0.0
    assert first not in others
    value = study.get_trials()[0].value
    assert value is not None
    assert (best_trial(study).value or 0.0) >= value


@pytest.mark.parametrize("sampler", ["genetic", "tpe", "random"])
def test_the_defaults_are_tried_again_if_that_failed(data: SearchData, sampler: Sampler) -> None:
    plan = plan_of(data, sampler)
    study = open_study(MEMORY, "s", plan)
    run_trials(study, plan, data, 3, still_wanted=lambda: False)
    run_trials(study, plan, data, 3)
    failed, *others = study.get_trials()
    assert failed.state == TrialState.FAIL
    assert failed.params == plan.first()
    assert [trial.params for trial in others].count(failed.params) == 1


def test_what_is_searched(data: SearchData, ratings: Ratings) -> None:
    always = {"list_penalty", "popularity_discount"}
    assert genes_of(data) == always | {"list_grade_power", "half_life"}
    assert genes_of(SearchData.of(interactions())) == always | {"confidence"}
    assert genes_of(SearchData.of(interactions(counts=False))) == always
    assert genes_of(SearchData.of(interactions(times=True))) == always | {"confidence", "half_life"}
    at_once = Ratings.read([("a", "x", 3, 7), ("a", "y", 5, 7), ("b", "x", 4, 7)])
    assert genes_of(SearchData.of(at_once)) == always | {"list_grade_power"}
    assert genes_of(data, half_life=90, list_penalty=2) == {"popularity_discount", "list_grade_power"}
    with pytest.raises(SettingsError, match="every setting that could be searched is given"):
        genes_of(SearchData.of(interactions(counts=False)), list_penalty=1, popularity_discount=0)


def test_confidence_is_found_where_counts_tell_what_people_like() -> None:
    data = SearchData.of(interactions())
    study = searched(data, plan := plan_of(data), 15)
    best = best_trial(study)
    assert plan.values(best.params)["confidence"] > 0.3
    assert (best.value or 0) > 1.05 * (study.get_trials()[0].value or 1)


def test_a_half_life_is_found_where_tastes_have_changed() -> None:
    data = SearchData.of(changed_tastes())
    plan = plan_of(data, by="time", validation=0.15, list_goal="any")
    study = searched(data, plan, 15)
    best = best_trial(study)
    assert 0 < plan.values(best.params)["half_life"] < 1000
    assert (best.value or 0) > 1.1 * (study.get_trials()[0].value or 1)


def test_a_half_life_can_be_off_in_any_trial(data: SearchData) -> None:
    plan = plan_of(data)
    sampler = make_sampler("random", plan.space, 0)
    study = optuna.create_study(sampler=sampler)
    drawn = [plan.values(study.ask(plan.space).params)["half_life"] for _ in range(200)]
    assert 0.05 < np.mean(np.equal(drawn, 0)) < 0.25
    assert min(value for value in drawn if value) >= 7
    assert max(drawn) < 3650


def test_resumed_it_is_the_search_that_never_stopped(data: SearchData, tmp_path: Path) -> None:
    plan, url = plan_of(data), storage_url(tmp_path)
    for wanted in (2, 5):
        run_trials(open_study(url, "s", plan), plan, data, wanted)
    answers = iter([True, True, True, False])
    run_trials(open_study(url, "s", plan), plan, data, 8, still_wanted=lambda: next(answers))
    run_trials(open_study(url, "s", plan), plan, data, 8)
    resumed = [trial for trial in open_study(url, "s", plan).get_trials() if trial.state == TrialState.COMPLETE]
    whole = searched(data, plan, 8).get_trials()
    assert [(trial.params, trial.value) for trial in resumed] == [(trial.params, trial.value) for trial in whole]


def test_in_processes_of_their_own(data: SearchData, tmp_path: Path) -> None:
    plan = plan_of(data)
    seen: list[Step] = []
    url = storage_url(tmp_path)
    study = search(data, plan, url=url, name="s", trials=2, workers=1, progress=seen.append)
    here = searched(data, plan, 2)
    assert [trial.value for trial in study.get_trials()] == pytest.approx([trial.value for trial in here.get_trials()])
    assert seen[-1].text == f"2 of 2 trials  best validation NDCG@10 {study.best_value:.4f}"


def test_goals_do_not_mix(ratings: Ratings, data: SearchData, tmp_path: Path) -> None:
    url = storage_url(tmp_path)
    by_rmse = Plan.of("rmse", data, CFNSettings())
    open_study(url, "r", by_rmse)
    study = open_study(url, "s", plan_of(data, list_rank=20))
    assert study.direction == optuna.study.StudyDirection.MAXIMIZE
    for name, plan, about in (
        ("r", plan_of(data), "goal rmse, not ndcg"),
        ("s", by_rmse, "goal ndcg, not rmse"),
        ("s", plan_of(data, by="time", list_rank=20), "validation_by random, not time"),
        ("s", plan_of(data, list_rank=21), 'other settings ({"list_rank": 20} instead of {"list_rank": 21})'),
    ):
        with pytest.raises(SettingsError) as refused:
            open_study(url, name, plan)
        assert f" is about {about}; go on with what it is about" in str(refused.value)
    open_study(url, "s", plan_of(data, list_rank=20, epochs=7, orientation="user"))  # no list depends on these


def test_nothing_to_score_with(ratings: Ratings, data: SearchData) -> None:
    with pytest.raises(SettingsError, match="set validation above 0"):
        data.check(CFNSettings(validation=0.0), "random")
    with pytest.raises(DataError, match=r"4 ratings are too few to hold out a share of 0.1"):
        SearchData.of(ratings.select(np.arange(4))).check(CFNSettings(), "random")
    with pytest.raises(DataError, match=r"half_life needs to know when .* these interactions have no times"):
        SearchData.of(interactions()).check(CFNSettings(half_life=3), "random")
    bad = Ratings.read([(user, item, 1 + (user + item) % 2) for user in range(5) for item in range(5)], scale=(1, 5))
    with pytest.raises(DataError, match=r"none of the 3 validation ratings is at least 4, so there is nothing"):
        SearchData.of(bad).check(CFNSettings(), "random")
    with pytest.raises(DataError, match="have no times to split by"):
        SearchData.of(interactions()).check(CFNSettings(), "time")


def test_the_best_so_far_goes_up(data: SearchData, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    charts: list[Any] = []
    monkeypatch.setattr("cofill.tuning.results.write_picture", lambda path, *drawn: charts.extend(drawn))
    plan = plan_of(data)
    study = open_study(MEMORY, "s", plan)
    for value in (0.2, 0.1, 0.4, 0.3):
        study.tell(study.ask(plan.space), value)
    draw_search(tmp_path / "x.svg", study, "a title")
    (best,) = (line for line in charts[0].lines if line.label == "best so far")
    assert best.y == (0.2, 0.2, 0.4, 0.4, 0.4)
    low, high = charts[0].y_range
    assert low < 0.2 < 0.4 < high

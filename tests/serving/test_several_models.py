"""Two models at once, each for some of the people, and the way back to the model before."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.errors import SettingsError
from cofill.models.recommender import Recommender
from cofill.serving.live.kept import KeptModels
from cofill.serving.live.model import chosen
from cofill.serving.settings import ServingSettings
from tests.serving.conftest import ITEMS, USERS
from tests.serving.running_server import ServedTwice, problem
from tests.waiting import wait_until


def version(folder: Path) -> str:
    return str(json.loads((folder / "model.json").read_text())["sha256"])[:16]


# Who gets which


@given(st.text(min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_nobody_changes_models_without_need(who: str, before: float, after: float) -> None:
    old, new = chosen(who, [before, 1 - before]), chosen(who, [after, 1 - after])
    assert old == chosen(who, [before, 1 - before])
    if old != new:
        assert (new == 0) == (after > before)


def test_shares_are_kept_to() -> None:
    shares = (0.7, 0.2, 0.1)
    for people in (range(20_000), [None] * 20_000):
        found = [chosen(who, shares) for who in people]
        for at, share in enumerate(shares):
            assert abs(found.count(at) / 20_000 - share) < 0.02
    assert chosen(42, shares) == chosen("42", shares)
    assert chosen("anybody", [1.0, 0.0]) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "which model?"),
        ({"models": ["a"]}, "is no NAME=FOLDER"),
        ({"models": ["a b=c"]}, "is no NAME=FOLDER"),
        ({"models": ["a=b", "a=c"]}, "two models are called 'a'"),
        ({"models": ["a=b", "b=c"], "traffic_split": "90"}, "--traffic-split"),
        ({"models": ["a=b", "b=c"], "traffic_split": "90:5:5"}, "has 3 shares for 2 models"),
        ({"models": ["a=b", "b=c"], "traffic_split": "0:0"}, "not 0 to all"),
        ({"model": "a", "traffic_split": "90:10"}, "has 2 shares for 1 models"),
    ],
)
def test_wrong_settings(given: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        ServingSettings.of(given)


def test_settings_of_one_and_of_several() -> None:
    one = ServingSettings.of({"model": "there/model"})
    assert (one.models, one.shares) == ({"model": Path("there/model")}, {"model": 1.0})
    two = ServingSettings.of({"models": ["a=x", "b=y"], "traffic_split": "90:10"})
    assert (two.model, two.shares) == (Path("x"), {"a": 0.9, "b": 0.1})
    assert ServingSettings.model_validate_json(two.model_dump_json()) == two


# The model before


def test_the_one_before_can_be_put_back(model: Path, other: Path) -> None:
    kept = KeptModels(model)
    first, second = version(model), version(other)
    files = sorted(path.name for path in model.iterdir())
    kept.keep(first)
    assert kept.before(version(model)) is None
    Recommender.load(other).save(model)  # as a training does, which removes the files of the model before
    kept.keep(second)
    kept.keep(second)
    assert kept.before(version(model)) == first
    Recommender.load(kept.path(first))
    kept.put_back(first)
    assert version(model) == first
    Recommender.load(model)
    assert sorted(path.name for path in model.iterdir()) == files
    kept.keep(first)
    assert kept.before(version(model)) == second  # and forward again
    Recommender.load(kept.path(second))


def test_only_the_last_two_are_kept(model: Path, other: Path, tmp_path: Path) -> None:
    kept = KeptModels(model)
    kept.keep(version(model))
    Recommender.load(other).save(model)
    kept.keep(version(model))
    Recommender.load(model).add_ratings([(1, 1, 5.0)]).save(model)
    kept.keep(version(model))
    assert kept.before(version(model)) == version(other)
    found = [path.name for path in (tmp_path / "model.kept").iterdir() if path.is_dir()]
    assert sorted(found) == sorted([version(other), version(model)])
    kept.keep("0" * 16)  # not what is in the folder
    assert kept.before(version(model)) == version(other)


def test_where_nothing_can_be_kept_it_is_told(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    model.with_name("model.kept").write_text("in the way")
    kept = KeptModels(model)
    kept.keep(version(model))
    assert "the model cannot be kept for a rollback" in caplog.text
    assert kept.before(version(model)) is None


# Over HTTP


@pytest.fixture(scope="module")
def both(trained: Path, other: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTwice]:
    place = tmp_path_factory.mktemp("both")
    a, b = shutil.copytree(trained, place / "a"), shutil.copytree(other, place / "b")
    running = ServedTwice(a, models={"now": a, "new": b}, traffic_split="70:30")
    yield running
    running.stop()
    assert running.failures.traces == []


def asked(server: ServedTwice, user: object, **more: Any) -> dict[str, Any]:
    answer = next(server.clients).get("/v1/recommendations", params={"user": str(user), **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_people_keep_their_model_and_are_told_which(both: ServedTwice) -> None:
    models = {one["name"]: one for one in both.client.get("/v1/model").json()["models"]}
    assert [(name, one["share"]) for name, one in models.items()] == [("now", 0.7), ("new", 0.3)]
    for user in range(1, 9):
        name = ("now", "new")[chosen(user, [0.7, 0.3])]
        for _ in range(2):
            found = asked(both, user)
            assert (found["model"], found["model_version"]) == (name, models[name]["version"])
        pair = {"pairs": [{"user": user, "item": 3}]}
        assert both.client.post("/v1/predictions", json=pair).json()["model"] == name
        assert both.client.get("/v1/why", params={"user": user, "item": 3}).json()["model"] == name
    batch = {"requests": [{"user": user} for user in range(1, 21)]}
    answers = both.client.post("/v1/recommendations/batch", json=batch).json()["answers"]
    expected = [("now", "new")[chosen(user, [0.7, 0.3])] for user in range(1, 21)]
    assert [answer["model"] for answer in answers] == expected
    somebody = {"ratings": [{"item": 3, "rating": 5}]}
    wait_until(lambda: both.client.post("/v1/recommendations", json=somebody).json()["model"] == "new")
    wait_until(lambda: both.client.post("/v1/recommendations", json=somebody).json()["model"] == "now")


def test_one_can_be_asked_for(both: ServedTwice) -> None:
    for name in ("now", "new"):
        assert asked(both, 1, model=name)["model"] == name
        assert both.client.get("/v1/model", params={"model": name}).json()["name"] == name
        body = {"user": 1, "model": name}
        assert both.client.post("/v1/recommendations", json=body).json()["model"] == name
    assert [one["rating"] for one in asked(both, 1, model="now")["items"]] != [
        one["rating"] for one in asked(both, 1, model="new")["items"]
    ]
    wrong = both.client.get("/v1/recommendations", params={"user": 1, "model": "old"})
    assert "there is no model 'old' here; there is now, new" in problem(wrong, 422)


def test_both_follow_what_people_rate(both: ServedTwice) -> None:
    user = both.new_user()
    best = asked(both, user, model="new")["items"][0]["id"]
    both.rate(user, {best: 5.0})
    for name in ("now", "new"):
        found = asked(both, user, model=name, n=ITEMS)
        assert found["known"]
        assert best not in [one["id"] for one in found["items"]]


def test_they_are_measured_apart(both: ServedTwice) -> None:
    for name in ("now", "now", "new", "new"):  # each of both servers
        asked(both, 1, model=name)
    figures = both.client.get("/metrics").text
    for name, share in (("now", 0.7), ("new", 0.3)):
        assert f'cofill_model_seconds_count{{model="{name}"}}' in figures
        assert f'cofill_model_share{{model="{name}"}} {share}' in figures
        assert f'cofill_live_refused{{model="{name}"}} 0.0' in figures
        assert f'cofill_model_age_seconds{{model="{name}"}}' in figures


def test_a_rollback_reaches_all_workers_and_can_be_taken_back(both: ServedTwice, trained: Path) -> None:
    folder = Path(both.told["model"]).parent / "b"
    old = version(folder)
    assert "there is no model before this one" in problem(
        both.client.post("/v1/model/rollback", params={"model": "new"}), 409
    )
    assert "say which one" in problem(both.client.post("/v1/model/rollback"), 422)
    Recommender.load(trained).save(folder)
    new = version(folder)
    both.rate(USERS, {4: 5.0})
    assert both.client.post("/v1/model/reload", params={"model": "new"}).json()["version"] == new
    wait_until(lambda: all(asked(both, 1, model="new")["model_version"] == new for _ in range(10)))
    for expected in (old, new, old):
        answer = both.client.post("/v1/model/rollback", params={"model": "new"})
        assert (answer.status_code, answer.json()["version"], answer.json()["model"]) == (200, expected, "new")
        assert version(folder) == expected  # and after a restart, too
        wait_until(lambda expected=expected: all(  # type: ignore[misc]
            asked(both, 1, model="new")["model_version"] == expected for _ in range(10)
        ))  # fmt: skip
    assert asked(both, 1, model="now")["model_version"] != old
    assert both.ratings(USERS)[4] == 5.0
    models = both.client.get("/v1/model").json()["models"]
    assert [one["before"] for one in models] == [None, new]

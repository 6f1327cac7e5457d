"""Recommendations, predictions and reasons over HTTP, against the same model asked in this process."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from cofill.data.vocabulary import Id
from cofill.models.recommender import Recommender
from tests.serving.running_server import Server, problem


@pytest.fixture
def server(untouched: Server) -> Server:
    return untouched


@pytest.fixture(scope="module")
def here(trained: Path) -> Recommender:
    return Recommender.load(trained)


def post(server: Server, body: dict[str, Any]) -> httpx.Response:
    return server.client.post("/v1/recommendations", json=body)


def ids(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_a_known_user_gets_what_the_model_recommends(server: Server, here: Recommender) -> None:
    answer = server.client.get("/v1/recommendations", params={"user": 7, "n": 5})
    expected = here.recommend(7, 5)
    found = answer.json()
    assert [(item["id"], item["title"]) for item in found["items"]] == [(one.item, one.title) for one in expected]
    assert [item["rating"] for item in found["items"]] == pytest.approx([one.rating for one in expected], abs=1e-4)
    assert found["known"] is True
    assert found["model_version"] == server.told["version"]
    assert found["items"][0]["attributes"] == {
        name: value for name, value in here.item_attributes.of(expected[0].item).items() if value is not None
    }


def test_an_unknown_user_gets_what_the_means_recommend(server: Server, here: Recommender) -> None:
    found = server.client.get("/v1/recommendations", params={"user": "nobody", "n": 3}).json()
    assert found["known"] is False
    assert [item["id"] for item in found["items"]] == [one.item for one in here.recommend("nobody", 3)]


def test_somebody_described_by_ratings_and_features(server: Server, here: Recommender) -> None:
    ratings, features = {1: 5.0, 2: 0.5, 3: 4.0}, {"age": 30, "occupation": None}
    given = [{"item": item, "rating": rating} for item, rating in ratings.items()]
    answer = post(server, {"ratings": given, "features": {"age": 30}, "n": 4})
    assert ids(answer) == [one.item for one in here.recommend(ratings, 4, features=features)]
    assert answer.json()["known"] is None
    assert ids(post(server, {"ratings": given, "n": 4})) == [one.item for one in here.recommend(ratings, 4)]
    assert ids(post(server, {"features": {"age": 30}, "n": 4})) == [
        one.item for one in here.recommend({}, 4, features=features)
    ]


def test_what_is_known_is_left_out_or_not(server: Server, here: Recommender) -> None:
    rated = {here.items.id(int(item)) for item in here.known_items(here.users.index(7))}
    assert not rated & {item["id"] for item in server.recommended(7, 80)}
    assert rated <= {item["id"] for item in server.recommended(7, 80, exclude_known=False)}


def test_filters(server: Server, here: Recommender) -> None:
    def of(item: int) -> dict[str, Any]:
        return here.item_attributes.of(item)

    dramas = server.recommended(7, 80, where="genres:Drama")
    assert dramas
    assert all("Drama" in of(item["id"])["genres"] for item in dramas)
    either = server.recommended(7, 80, where=["genres:Drama", "genres:Comedy", "year:1970..1999"])
    assert {item["id"] for item in either} == {
        item["id"]
        for item in server.recommended(7, 80)
        if {"Drama", "Comedy"} & set(of(item["id"])["genres"]) and 1970 <= of(item["id"])["year"] <= 1999
    }
    assert ids(
        post(server, {"user": 7, "n": 80, "where": {"genres": ["Drama", "Comedy"], "year": {"min": 1970, "max": 1999}}})
    ) == [item["id"] for item in either]
    open_ended = {item["id"] for item in server.recommended(7, 80, where="year:1990..")}
    assert open_ended == {item["id"] for item in server.recommended(7, 80) if of(item["id"])["year"] >= 1990}


def test_among_and_exclude(server: Server) -> None:
    everything = [item["id"] for item in server.recommended(7, 80)]
    some = everything[3:9]
    assert [item["id"] for item in server.recommended(7, 80, among=[*some, "unknown"])] == some
    assert ids(post(server, {"user": 7, "n": 80, "among": some, "exclude": some[:2]})) == some[2:]


def test_a_batch_is_its_parts(server: Server) -> None:
    requests: list[dict[str, Any]] = [{"user": 7, "n": 2}, {"ratings": [{"item": 5, "rating": 1}], "n": 3}]
    answer = server.client.post("/v1/recommendations/batch", json={"requests": requests})
    assert answer.status_code == 200
    assert answer.json()["answers"] == [post(server, request).json() for request in requests]
    requests.append({"ratings": [{"item": "nothing", "rating": 1}]})
    answer = server.client.post("/v1/recommendations/batch", json={"requests": requests})
    assert problem(answer, 404).startswith("requests.2: item 'nothing' is not in the model")
    answer = server.client.post("/v1/recommendations/batch", json={"requests": [{"user": 7}] * 101})
    problem(answer, 422)


def test_predictions(server: Server, here: Recommender) -> None:
    pairs: list[tuple[Id, Id]] = [(1, 1), (7, 30), ("nobody", 3), (4, "nothing")]
    body = {"pairs": [{"user": user, "item": item} for user, item in pairs]}
    answer = server.client.post("/v1/predictions", json=body)
    expected = here.predict_indices(here.users.find([u for u, _ in pairs]), here.items.find([i for _, i in pairs]))
    assert answer.json()["ratings"] == pytest.approx(expected.tolist(), abs=1e-4)
    many = {"pairs": [{"user": 1, "item": 1}] * 10_001}
    problem(server.client.post("/v1/predictions", json=many), 422)


def test_reasons_add_up(server: Server) -> None:
    for answer in (
        server.client.get("/v1/why", params={"user": 7, "item": 11}),
        server.client.post("/v1/why", json={"ratings": [{"item": 1, "rating": 4.5}], "item": 11}),
        server.client.post("/v1/why", json={"features": {"age": 50}, "item": 11}),
    ):
        assert answer.status_code == 200, answer.text
        why = answer.json()
        amounts = sum(one["amount"] for one in why["contributions"])
        assert why["base"] + amounts + why["remainder"] == pytest.approx(why["unclipped"], abs=1e-3)
        assert all(("item" in one) != ("feature" in one) for one in why["contributions"])
    rated = server.recommended(7, 2, why=True)
    for item in rated:
        why = item["why"]
        assert why["rating"] == pytest.approx(item["rating"], abs=1e-3)
        amounts = sum(one["amount"] for one in why["contributions"])
        assert why["base"] + amounts + why["remainder"] == pytest.approx(why["unclipped"], abs=1e-3)


def test_refusals(server: Server) -> None:
    get = server.client.get
    problem(get("/v1/why", params={"user": "nobody", "item": 11}), 404)
    problem(get("/v1/why", params={"user": 7, "item": "nothing"}), 404)
    assert "there is no column 'colour'" in problem(
        get("/v1/recommendations", params={"user": 7, "where": "colour:red"}), 422
    )
    assert "COLUMN:VALUE" in problem(get("/v1/recommendations", params={"user": 7, "where": "red"}), 422)
    assert "two conditions" in problem(
        get("/v1/recommendations", params={"user": 7, "where": ["year:1990..", "year:..2000"]}), 422
    )
    assert "leave out user" in problem(post(server, {"user": 7, "ratings": [{"item": 1, "rating": 5}]}), 422)
    twice = {"ratings": [{"item": 1, "rating": 5}, {"item": "1", "rating": 4}]}
    assert "'1' is rated twice" in problem(post(server, twice), 422)
    assert "between 0.5 and 5" in problem(post(server, {"ratings": [{"item": 1, "rating": 5.5}]}), 422)
    assert "there is no column 'shoes'" in problem(post(server, {"features": {"shoes": 43}}), 422)
    assert "bounds are min, max, or both" in problem(post(server, {"user": 7, "where": {"year": {}}}), 422)

"""Recommendations, predictions and reasons over HTTP, against the same model asked in this process."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from cofill.data.vocabulary import Id
from cofill.models.lists.rules import By
from cofill.models.recommender import Recommender
from tests.serving.running_server import Asked, ServedHere, problem


@pytest.fixture
def server(untouched: Asked) -> Asked:
    return untouched


@pytest.fixture(scope="module")
def here(trained: Path) -> Recommender:
    return Recommender.load(trained)


def post(server: Asked, body: dict[str, Any]) -> httpx.Response:
    return server.client.post("/v1/recommendations", json=body)


def ids(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["items"]]


def test_a_known_user_gets_what_the_model_recommends(server: Asked, here: Recommender) -> None:
    answer = server.client.get("/v1/recommendations", params={"user": 7, "n": 5})
    expected = here.recommend(7, 5)
    found = answer.json()
    assert [(item["id"], item["title"]) for item in found["items"]] == [(one.item, one.title) for one in expected]
    assert [item["rating"] for item in found["items"]] == pytest.approx([one.rating for one in expected], abs=1e-4)
    assert [item["score"] for item in found["items"]] == pytest.approx([one.score for one in expected], rel=1e-5)
    assert [item["raters"] for item in found["items"]] == [one.raters for one in expected]
    assert found["known"] is True
    assert found["model_version"] == server.told["version"]
    assert found["items"][0]["attributes"] == {
        name: value for name, value in here.item_attributes.of(expected[0].item).items() if value is not None
    }


def test_an_unknown_user_gets_what_anybody_gets(server: Asked, here: Recommender) -> None:
    found = server.client.get("/v1/recommendations", params={"user": "nobody", "n": 3}).json()
    assert found["known"] is False
    assert [item["id"] for item in found["items"]] == [one.item for one in here.recommend("nobody", 3)]


def test_somebody_described_by_ratings_and_features(server: Asked, here: Recommender) -> None:
    ratings, features = {1: 5.0, 2: 0.5, 3: 4.0}, {"age": 30, "occupation": None}
    given = [{"item": item, "rating": rating} for item, rating in ratings.items()]
    answer = post(server, {"ratings": given, "features": {"age": 30}, "n": 4})
    assert ids(answer) == [one.item for one in here.recommend(ratings, 4, features=features)]
    assert answer.json()["known"] is None
    assert ids(post(server, {"ratings": given, "n": 4})) == [one.item for one in here.recommend(ratings, 4)]
    assert ids(post(server, {"features": {"age": 30}, "n": 4})) == [
        one.item for one in here.recommend({}, 4, features=features)
    ]


def test_what_is_known_is_left_out_or_not(server: Asked, here: Recommender) -> None:
    rated = {here.items.id(int(item)) for item in here.known_items(here.users.index(7))}
    assert not rated & {item["id"] for item in server.recommended(7, 80)}
    assert rated <= {item["id"] for item in server.recommended(7, 80, exclude_known=False)}


def test_filters(server: Asked, here: Recommender) -> None:
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


def test_among_and_exclude(server: Asked) -> None:
    everything = [item["id"] for item in server.recommended(7, 80)]
    some = everything[3:9]
    assert [item["id"] for item in server.recommended(7, 80, among=[*some, "unknown"])] == some
    assert ids(post(server, {"user": 7, "n": 80, "among": some, "exclude": some[:2]})) == some[2:]


RULES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # in a query, and in a body and in Python
    "by rating": ({"by": "rating"}, {"by": "rating"}),
    "exclude": ({"exclude": list(range(1, 40))}, {"exclude": list(range(1, 40))}),
    "boost": (
        {"boost": ["genres:Drama=4", "year:1990=0.5"]},
        {"boost": {"genres": {"Drama": 4}, "year": {"1990": 0.5}}},
    ),
    "at most": ({"at_most": ["genres=2"]}, {"at_most": {"genres": 2}}),
    "min ratings": ({"min_ratings": 35}, {"min_ratings": 35}),
    "diversity": ({"diversity": 0.8}, {"diversity": 0.8}),
}


@pytest.mark.parametrize(("query", "rules"), RULES.values(), ids=RULES)
def test_rules_are_those_of_the_model(
    server: Asked, here: Recommender, query: dict[str, Any], rules: dict[str, Any]
) -> None:
    expected = [one.item for one in here.recommend(7, 12, **rules)]
    assert expected != [one.item for one in here.recommend(7, 12)]  # the rule does something
    assert [item["id"] for item in server.recommended(7, 12, **query)] == expected
    assert ids(post(server, {"user": 7, "n": 12, **rules})) == expected
    batch = server.client.post("/v1/recommendations/batch", json={"requests": [{"user": 7, "n": 12, **rules}]})
    assert [item["id"] for item in batch.json()["answers"][0]["items"]] == expected


def test_new_items_get_their_share(model: Path) -> None:
    own = ServedHere(model)
    told = {"id": 9000, "title": "New", "features": {"genres": ["Drama"], "year": 1999}}
    assert own.client.put("/v1/item", json=told).status_code < 300
    assert 9000 not in [item["id"] for item in own.recommended(7, 10)]
    found = own.recommended(7, 10, new_items=0.1)
    assert found[-1]["id"] == 9000
    assert found[-1]["raters"] == 0
    assert [item["id"] for item in post(own, {"user": 7, "new_items": 0.1}).json()["items"]][-1] == 9000
    own.stop()


def test_similar_items_of_a_kind(server: Asked, here: Recommender) -> None:
    where: dict[str, Any] = {"genres": ["Drama"], "year": {"min": 1970}}
    query: dict[str, Any] = {"item": 11, "n": 20, "where": ["genres:Drama", "year:1970.."], "min_ratings": 30}
    found = server.client.get("/v1/similar", params=query).json()["items"]
    assert [item["id"] for item in found] == [one.item for one in here.similar(11, 20, where=where, min_ratings=30)]
    assert 0 < len(found) < 20
    colour = server.client.get("/v1/similar", params={"item": 11, "where": "colour:red"})
    assert "there is no column 'colour'" in problem(colour, 422)


def test_a_batch_is_its_parts(server: Asked) -> None:
    requests: list[dict[str, Any]] = [{"user": 7, "n": 2}, {"ratings": [{"item": 5, "rating": 1}], "n": 3}]
    answer = server.client.post("/v1/recommendations/batch", json={"requests": requests})
    assert answer.status_code == 200
    assert answer.json()["answers"] == [post(server, request).json() for request in requests]
    requests.append({"ratings": [{"item": "nothing", "rating": 1}]})
    answer = server.client.post("/v1/recommendations/batch", json={"requests": requests})
    assert problem(answer, 404).startswith("requests.2: item 'nothing' is not in the model")
    answer = server.client.post("/v1/recommendations/batch", json={"requests": [{"user": 7}] * 101})
    problem(answer, 422)


def test_predictions(server: Asked, here: Recommender) -> None:
    pairs: list[tuple[Id, Id]] = [(1, 1), (7, 30), ("nobody", 3), (4, "nothing")]
    body = {"pairs": [{"user": user, "item": item} for user, item in pairs]}
    answer = server.client.post("/v1/predictions", json=body)
    expected = here.predict_indices(here.users.find([u for u, _ in pairs]), here.items.find([i for _, i in pairs]))
    assert answer.json()["ratings"] == pytest.approx(expected.tolist(), abs=1e-4)
    many = {"pairs": [{"user": 1, "item": 1}] * 10_001}
    problem(server.client.post("/v1/predictions", json=many), 422)


def test_predictions_with_intervals(server: Asked, here: Recommender) -> None:
    pairs: list[tuple[Id, Id]] = [(1, 1), (7, 30), ("nobody", 3), (4, "nothing")]
    body = {"pairs": [{"user": user, "item": item} for user, item in pairs]}
    without = server.client.post("/v1/predictions", json=body).json()
    assert set(without) == {"ratings", "model", "model_version", "unknown"}
    assert without["unknown"] == {"users": ["nobody"], "items": ["nothing"]}
    answer = server.client.post("/v1/predictions", json=body | {"interval": True}).json()
    expected = here.predict_intervals(here.users.find([u for u, _ in pairs]), here.items.find([i for _, i in pairs]))
    for name, column in expected._asdict().items():
        assert answer[name] == pytest.approx(column.tolist(), abs=1e-4)
    many = {"pairs": [{"user": 1, "item": 1}] * 1001, "interval": True}
    assert "at most 1000 pairs at once" in problem(server.client.post("/v1/predictions", json=many), 422)


def test_ids_that_are_not_known_are_told(server: Asked) -> None:
    asked: dict[str, Any] = {"among": [1, 2, "lost", 3, "lost"], "exclude": ["gone", 2]}
    told = {"users": [], "items": ["lost", "gone"]}
    assert post(server, {"user": 7, **asked}).json()["unknown"] == told
    assert server.client.get("/v1/recommendations", params={"user": 7, **asked}).json()["unknown"] == told
    assert server.client.get("/v1/similar", params={"item": 7, **asked}).json()["unknown"] == told
    assert post(server, {"user": "nobody"}).json()["unknown"] == {"users": ["nobody"], "items": []}
    batch = server.client.post("/v1/recommendations/batch", json={"requests": [{"user": 7}, {"user": 7, **asked}]})
    assert [answer.get("unknown") for answer in batch.json()["answers"]] == [None, told]
    for known in (post(server, {"user": 7, "among": [1, 2]}), server.client.get("/v1/similar", params={"item": 7})):
        assert "unknown" not in known.json()


def test_a_value_that_no_item_has_is_told(server: Asked) -> None:
    for asked in (
        server.client.get("/v1/recommendations", params={"user": 7, "where": "genres:drama"}),
        server.client.get("/v1/similar", params={"item": 7, "where": "genres:drama"}),
        post(server, {"user": 7, "where": {"genres": ["Drama", "drama"]}}),
    ):
        assert problem(asked, 422) == "the filter, 'genres': no item has 'drama'; did you mean 'Drama'?"
        assert asked.json()["type"] == "/problems/unknown-value"
    boosted = post(server, {"user": 7, "boost": {"genres": {"drama": 2}}})
    assert problem(boosted, 422) == "boost, 'genres': no item has 'drama'; did you mean 'Drama'?"
    batch = {"requests": [{"user": 7}, {"user": 7, "where": {"genres": "drama"}}]}
    answer = server.client.post("/v1/recommendations/batch", json=batch)
    assert problem(answer, 422).startswith("requests.1: the filter, 'genres'")
    assert answer.json()["type"] == "/problems/unknown-value"


SIMILAR: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"where": ["genres:Drama", "year:1950.."]}, {"where": {"genres": "Drama", "year": {"min": 1950}}}),
    ({"among": list(range(1, 9))}, {"among": list(range(1, 9))}),
    ({"exclude": list(range(1, 50))}, {"exclude": list(range(1, 50))}),
    ({"min_ratings": 60}, {"min_ratings": 60}),
    ({"at_most": "genres=1"}, {"at_most": {"genres": 1}}),
    ({"diversity": 0.8}, {"diversity": 0.8}),
]


@pytest.mark.parametrize(("query", "rules"), SIMILAR, ids=lambda given: ",".join(given))
def test_rules_of_similar_items(server: Asked, here: Recommender, query: dict[str, Any], rules: dict[str, Any]) -> None:
    found = ids(server.client.get("/v1/similar", params={"item": 30, "n": 6, **query}))
    assert found == [one.item for one in here.similar(30, 6, **rules)]
    assert found != [one.item for one in here.similar(30, 6)]


def test_a_predicted_rating_is_explained_with_its_interval(server: Asked, here: Recommender) -> None:
    for who in ({"user": 7}, {"ratings": [{"item": 1, "rating": 4.5}]}, {"features": {"age": 50}}):
        why = server.client.post("/v1/why", json={**who, "item": 11, "by": "rating"}).json()
        assert 0.5 <= why["low"] < why["value"] < why["high"] <= 5
        assert "low" not in server.client.post("/v1/why", json={**who, "item": 11}).json()
    found = server.client.get("/v1/why", params={"user": 7, "item": 11, "by": "rating"}).json()
    expected = here.explain(7, 11, by="rating")
    assert (found["low"], found["high"]) == pytest.approx((expected.low, expected.high), abs=1e-4)


@pytest.mark.parametrize("by", ["list", "rating"])
def test_reasons_add_up(server: Asked, here: Recommender, by: By) -> None:
    for answer in (
        server.client.get("/v1/why", params={"user": 7, "item": 11, "by": by}),
        server.client.post("/v1/why", json={"ratings": [{"item": 1, "rating": 4.5}], "item": 11, "by": by}),
        server.client.post("/v1/why", json={"features": {"age": 50}, "item": 11, "by": by}),
    ):
        assert answer.status_code == 200, answer.text
        why = answer.json()
        assert why["by"] == by
        amounts = sum(one["amount"] for one in why["contributions"])
        assert why["base"] + amounts + why["remainder"] == pytest.approx(why["unclipped"], abs=1e-3)
        assert all(("item" in one) != ("feature" in one) for one in why["contributions"])
    for item in server.recommended(7, 2, why=True, by=by):
        why = item["why"]
        assert why["value"] == pytest.approx(item["score" if by == "list" else "rating"], abs=1e-3, rel=1e-5)
        amounts = sum(one["amount"] for one in why["contributions"])
        assert why["base"] + amounts + why["remainder"] == pytest.approx(why["unclipped"], abs=1e-3)
        assert why["unclipped"] == pytest.approx(here.explain(7, item["id"], by=by).value, rel=1e-5)


def test_lists_are_explained_unless_ratings_are_asked_for(server: Asked) -> None:
    assert server.client.get("/v1/why", params={"user": 7, "item": 11}).json()["by"] == "list"
    assert server.client.post("/v1/why", json={"user": 7, "item": 11}).json()["by"] == "list"
    assert server.recommended(7, 1, why=True)[0]["why"]["by"] == "list"


def test_refusals(server: Asked) -> None:
    get = server.client.get
    problem(get("/v1/why", params={"user": "nobody", "item": 11}), 404)
    problem(get("/v1/why", params={"user": 7, "item": "nothing"}), 404)
    assert "there is no column 'colour'" in problem(
        get("/v1/recommendations", params={"user": 7, "where": "colour:red"}), 422
    )
    assert "two conditions" in problem(
        get("/v1/recommendations", params={"user": 7, "where": ["year:1990..", "year:..2000"]}), 422
    )
    twice = {"ratings": [{"item": 1, "rating": 5}, {"item": "1", "rating": 4}]}
    assert "'1' is rated twice" in problem(post(server, twice), 422)
    assert "between 0.5 and 5" in problem(post(server, {"ratings": [{"item": 1, "rating": 5.5}]}), 422)
    assert "there is no column 'shoes'" in problem(post(server, {"features": {"shoes": 43}}), 422)
    for parameters, words in (
        ({"boost": "genres:Drama"}, "boost=genres:Drama: a boost is COLUMN:VALUE=FACTOR"),
        ({"boost": "colour:red=2"}, "boost: there is no column 'colour'"),
        ({"where": "red"}, "where=red: there is no column in it"),
        ({"by": "chance"}, "query.by: must be 'list' or 'rating'"),
        ({"min_ratings": -1}, "query.min_ratings: must be greater than or equal to 0"),
    ):
        assert problem(get("/v1/recommendations", params={"user": 7, **parameters}), 422).startswith(words)
    for body, words in (
        ({"boost": {"genres": {"Drama": 0}}}, "body.boost.genres.Drama: must be greater than 0"),
        ({"boost": {"year": {"soon": 2}}}, "boost, 'year': found 'soon' where a number belongs"),
        ({"at_most": {"colour": 1}}, "at_most: there is no column 'colour'"),
        ({"min_ratings": 1.5}, "body.min_ratings: must be a valid integer"),
    ):
        assert problem(post(server, {"user": 7, **body}), 422).startswith(words)


def test_any_number_of_boosts_leaves_a_list(server: Asked) -> None:
    genres = [column for column in server.client.get("/v1/model").json()["item_columns"] if column["name"] == "genres"]
    values = [one["value"] for one in genres[0]["values"]]
    for factor in (1e6, 1e-6):
        assert len(ids(post(server, {"user": 7, "n": 5, "boost": {"genres": dict.fromkeys(values, factor)}}))) == 5


@pytest.mark.parametrize("interval", [False, True])
def test_the_largest_batches_are_answered(untouched: Asked, interval: bool) -> None:
    number = 1_000 if interval else 10_000
    pairs = [{"user": 1 + at % 100, "item": 1 + at % 70} for at in range(number)]
    answer = untouched.client.post("/v1/predictions", json={"pairs": pairs, "interval": interval})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert len(found["ratings"]) == number
    few = untouched.client.post("/v1/predictions", json={"pairs": pairs[-7:], "interval": interval}).json()
    assert few["ratings"] == pytest.approx(found["ratings"][-7:], abs=1e-4)  # however they are shared out


def test_the_largest_batch_of_lists_is_answered(untouched: Asked) -> None:
    requests = [{"user": user, "why": True, "n": 10} for user in range(1, 101)]
    lists = untouched.client.post("/v1/recommendations/batch", json={"requests": requests}).json()["answers"]
    assert [len(one["items"]) for one in lists] == [10] * 100

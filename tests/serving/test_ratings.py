"""Ratings that are put, changed and taken back: every answer after an acknowledged write takes it into account."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from cofill.serving.app import Application
from cofill.serving.live.kept import KeptModels
from cofill.serving.live.store import Store
from cofill.serving.settings import ServingSettings
from tests.serving.conftest import ITEMS, USERS
from tests.serving.running_server import Server, problem


def test_a_rating_moves_the_recommendations(server: Server) -> None:
    user = server.new_user()
    before = server.recommended(user)
    server.rate(user, {before[0]["id"]: 0.5, before[1]["id"]: 0.5, 3: 5})
    after = server.recommended(user)
    assert not {before[0]["id"], before[1]["id"], 3} & {item["id"] for item in after}
    assert [item["rating"] for item in after] != [item["rating"] for item in before[2:]]


def test_a_rating_is_changed_and_taken_back(server: Server) -> None:
    user = server.new_user()
    before = server.recommended(user, ITEMS)
    server.rate(user, {5: 1})
    low = server.recommended(user, ITEMS)
    server.rate(user, {"5": 5})
    assert server.ratings(user) == {5: 5.0}
    assert server.recommended(user, ITEMS) != low
    server.rate(user, {5: 1})
    assert server.recommended(user, ITEMS) == low
    for _ in range(2):
        answer = server.client.delete("/v1/ratings", params={"user": user, "item": 5})
        assert (answer.status_code, answer.content) == (204, b"")
        assert server.ratings(user) == {}
    after = server.recommended(user, ITEMS)
    assert [item["id"] for item in after] == [item["id"] for item in before]
    for name in ("score", "rating"):  # the ratings of a known id are computed another way: the last digit may differ
        assert [item[name] for item in after] == pytest.approx([item[name] for item in before], abs=1.5e-6)


def test_a_rating_of_the_training_can_be_taken_back(server: Server) -> None:
    user = 11
    before = server.ratings(user)
    item = next(iter(before))
    assert server.client.delete("/v1/ratings", params={"user": user, "item": item}).status_code == 204
    assert server.ratings(user) == {other: rating for other, rating in before.items() if other != item}
    assert item in [entry["id"] for entry in server.recommended(user, 100)]
    assert server.client.delete("/v1/ratings", params={"user": "nobody", "item": "nothing"}).status_code == 204


def test_the_newest_live_ratings_come_first(server: Server) -> None:
    user = 12
    trained = server.ratings(user)
    new = [item for item in range(1, 30) if item not in trained][:3]
    for item in new:
        server.rate(user, {item: 3})
    found = server.client.get("/v1/ratings", params={"user": user}).json()["ratings"]
    assert [entry["item"] for entry in found[:3]] == new[::-1]
    assert [entry["live"] for entry in found] == [True] * 3 + [False] * len(trained)


def test_new_users_and_new_items(server: Server) -> None:
    first, second = server.new_user(), server.new_user()
    assert isinstance(first, int)
    assert USERS < first != second > USERS
    assert server.ratings(first) == {}
    answer = server.client.put("/v1/ratings", json={"user": 99_000, "ratings": [{"item": 98_000, "rating": 4.5}]})
    assert "item 98000 is not in the catalogue; check the id, or describe it first" in problem(answer, 404)
    assert server.client.put("/v1/item", json={"id": 98_000, "title": "Of which a title is known"}).status_code == 200
    server.rate(99_000, {98_000: 4.5, 1: 2})
    assert server.ratings(99_000) == {98_000: 4.5, 1: 2.0}
    assert server.client.get("/v1/item", params={"id": 98_000}).json()["ratings"]["count"] == 1
    found = server.client.get("/v1/users", params={"query": "99"}).json()["users"]
    assert (99_000, 2) in [(one["id"], one["ratings"]) for one in found]
    problem(server.client.get("/v1/ratings", params={"user": "nobody"}), 404)


def test_somebody_described(server: Server) -> None:
    young = server.client.post("/v1/users", json={"features": {"age": 18}}).json()["id"]
    old = server.client.post("/v1/users", json={"features": {"age": 70}}).json()["id"]
    assert server.recommended(young) != server.recommended(old)
    assert server.client.put("/v1/user", json={"id": young, "features": {"age": 70}}).json() == {"id": young}
    assert server.recommended(young) == server.recommended(old)
    wrong = {"id": young, "features": {"agee": 3}}
    assert "did you mean 'age'?" in problem(server.client.put("/v1/user", json=wrong), 422)
    assert "did you mean 'age'?" in problem(server.client.post("/v1/users", json={"features": {"agee": 1}}), 422)


def test_users_are_found_by_the_beginning_of_their_ids(server: Server) -> None:
    most = server.client.get("/v1/users", params={"n": 100}).json()["users"]
    counts = [user["ratings"] for user in most]
    assert len(most) == 100
    assert counts == sorted(counts, reverse=True)
    found = server.client.get("/v1/users", params={"query": "1", "n": 5}).json()["users"]
    assert found[0]["id"] == 1
    assert all(str(user["id"]).startswith("1") for user in found)


@pytest.mark.parametrize(
    ("ratings", "words"),
    [
        ([{"item": 1, "rating": 5.5}], "must be between 0.5 and 5. Got 5.5"),
        ([{"item": 1, "rating": 4}, {"item": "1", "rating": 4}], "'1' is rated twice"),
        ([{"item": 1}], "Field required"),
    ],
)
def test_ratings_that_are_refused_leave_nothing_behind(server: Server, ratings: list[object], words: str) -> None:
    sent = {"user": 77_000, "ratings": [{"item": 9, "rating": 3}, *ratings]}
    assert words in problem(server.client.put("/v1/ratings", json=sent), 422)
    problem(server.client.get("/v1/ratings", params={"user": 77_000}), 404)


def test_somebody_new_may_have_a_text_for_an_id_where_others_have_numbers(server: Server) -> None:
    server.rate("visitor-abc", {9: 3, 10: 5})
    assert server.ratings("visitor-abc") == {9: 3.0, 10: 5.0}
    found = server.client.get("/v1/users?query=visitor").json()["users"]
    assert ("visitor-abc", 2) in [(one["id"], one["ratings"]) for one in found]
    answer = server.client.get("/v1/recommendations", params={"user": "visitor-abc"}).json()
    assert answer["known"] is True
    assert answer["items"] != server.recommended("nobody")
    assert isinstance(server.new_user(), int)


def test_a_rating_may_say_when(server: Server) -> None:
    def put(time: object) -> httpx.Response:
        body = {"user": "visitor-when", "ratings": [{"item": 9, "rating": 3, "time": time}]}
        return server.client.put("/v1/ratings", json=body)

    for when in (0, 1_700_000_000.5, "2024-05-01T12:00:00Z", "2024-05-01T12:00:00+02:00", "2024-05-01", None):
        assert put(when).status_code == 200
    for wrong in ("yesterday", "", 1e300, True, [1], "2024-13-01", 20240501):
        assert "a time is seconds since 1970, or ISO 8601" in problem(put(wrong), 422)


def test_the_mean_of_an_item_follows_its_ratings(server: Server) -> None:
    before = server.recommended(3)[0]
    assert before == server.recommended(3)[0]
    user = server.new_user()
    for rating, raters in ((0.5, before["raters"] + 1), (5.0, before["raters"] + 1)):
        server.rate(user, {before["id"]: rating})
        (after,) = [one for one in server.recommended(3, n=80) if one["id"] == before["id"]]
        assert after["raters"] == raters
        assert after["mean"] == pytest.approx((before["mean"] * before["raters"] + rating) / raters, abs=1e-5)
    assert server.client.delete("/v1/ratings", params={"user": user, "item": before["id"]}).status_code == 204
    (again,) = [one for one in server.recommended(3, n=80) if one["id"] == before["id"]]
    assert again["mean"] == before["mean"]


@pytest.mark.parametrize("path", ["/v1/model", "/v1/ratings?user=3"])
def test_nobody_waits_for_the_model_while_rows_and_files_are_read(
    path: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = Application(ServingSettings(model=model))
    held: list[bool] = []

    def noting(read: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> Any:
            held.append(threading.current_thread().name.startswith("model"))
            return read(*given)

        return noted

    for kind, name in ((Store, "ratings_of"), (Store, "count"), (KeptModels, "before")):
        monkeypatch.setattr(kind, name, noting(getattr(kind, name)))

    async def ask() -> int:
        transport = httpx.ASGITransport(application.asgi)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get(path)).status_code

    assert asyncio.run(ask()) == 200
    application.store.close()
    assert held
    assert not any(held)


def test_many_rows_are_counted_once_a_minute(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_ratings("1", [("a", 3.0), ("b", 3.0)])
    assert store.rating_count() == 2
    store.put_ratings("1", [("c", 3.0)])
    assert store.rating_count() == 3
    monkeypatch.setattr("cofill.serving.live.store._MANY", 3)
    store.put_ratings("1", [("d", 3.0)])
    assert store.rating_count() == 3
    monkeypatch.setattr("cofill.serving.live.store._SECONDS_OF_A_COUNT", -1.0)
    assert store.rating_count() == 4

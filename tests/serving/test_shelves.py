"""Lists about no user, over HTTP: what is popular and new, by period and rule; what goes with a basket; pages."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from cofill.models.recommender import Recommender
from tests.serving.running_server import ServedTwice
from tests.serving.test_events import asked_of_both, send


def listed(shop: ServedTwice, path: str, **params: Any) -> list[dict[str, Any]]:
    first, second = asked_of_both(shop, path, **params)
    assert first == second
    items: list[dict[str, Any]] = first["items"]
    return items


def test_popular_of_all_time_and_of_a_period(shop: ServedTwice) -> None:
    items = listed(shop, "/v1/popular", n=100)
    assert [one["users"] for one in items] == sorted((one["users"] for one in items), reverse=True)
    last = items[-1]["id"]
    long_ago = time.time() - 5 * 86_400
    send(shop, *({"user": f"fan-{at}", "item": last, "kind": "view", "time": long_ago} for at in range(100)))
    send(shop, *({"user": f"fan-{at}", "item": last, "kind": "view"} for at in range(3)))
    of_week, of_day = (listed(shop, "/v1/popular", n=100, days=days) for days in (7, 1))
    assert (of_week[0]["id"], of_week[0]["users"]) == (last, 100)
    assert {one["id"]: one["users"] for one in of_day}[last] == 3
    dramas = listed(shop, "/v1/popular", n=100, days=7, where="genres:Drama", exclude=last)
    assert all("Drama" in one["attributes"]["genres"] for one in dramas)
    assert last not in [one["id"] for one in dramas]


def describe(shop: ServedTwice, item: Any, **about: Any) -> dict[str, Any]:
    answer = next(shop.clients).put("/v1/item", json={"id": item, **about})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def test_new_items_and_items_that_expire(shop: ServedTwice, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    describe(shop, 9001, title="New here", added=now + 100)
    describe(shop, 9002, title="Newer here", added=now + 200, available_until=now + 3_600)
    assert [one["id"] for one in listed(shop, "/v1/new", n=2)] == [9002, 9001]
    describe(shop, 9001, title="A new title is no new item")
    assert [one["id"] for one in listed(shop, "/v1/new", n=2, days=1)] == [9002, 9001]
    with monkeypatch.context() as later:
        later.setattr("cofill.serving.live.served.time.time", lambda: now + 3_700)
        for answer in asked_of_both(shop, "/v1/item", id=9002):
            assert (answer["available"], answer["available_until"]) == (False, now + 3_600)
        assert 9002 not in [one["id"] for one in listed(shop, "/v1/new", n=100)]
    assert describe(shop, 9002, available=True)["available_until"] is None
    assert listed(shop, "/v1/new", n=1)[0]["id"] == 9002
    for item in (9001, 9002):
        shop.client.delete("/v1/item", params={"id": item})


def test_a_basket_has_none_of_its_items_twice_and_follows_rules(shop: ServedTwice) -> None:
    asked = {"items": [3, "5", 5, "lost"], "n": 20, "where": {"genres": "Drama"}}
    answer = shop.client.post("/v1/basket", json=asked).json()
    found = [one["id"] for one in answer["items"]]
    assert len(set(found)) == len(found)
    assert not {3, 5} & set(found)
    assert all("Drama" in one["attributes"]["genres"] for one in answer["items"])
    assert answer["unknown"] == {"users": [], "items": ["lost"]}
    other = shop.client.post("/v1/basket", json=asked | {"items": [40]}).json()
    assert [one["id"] for one in other["items"]] != found


PAGED: dict[str, Callable[[ServedTwice, dict[str, Any]], Any]] = {
    "a user": lambda shop, page: shop.client.get("/v1/recommendations", params={"user": 7, "n": 10, **page}),
    "rules": lambda shop, page: shop.client.post(
        "/v1/recommendations", json={"user": 7, "n": 10, "diversity": 0.4, "new_items": 0.3, **page}
    ),
    "basket": lambda shop, page: shop.client.post("/v1/basket", json={"items": [3], "n": 10, **page}),
    "popular": lambda shop, page: shop.client.get("/v1/popular", params={"n": 10, "days": 7, **page}),
}


@pytest.mark.parametrize("what", PAGED)
def test_pages_are_parts_of_one_list(shop: ServedTwice, what: str) -> None:
    pages = [PAGED[what](shop, {"offset": offset}).json()["items"] for offset in (0, 10, 20)]
    found = [one["id"] for page in pages for one in page]
    assert len(set(found)) == len(found) == 30
    again = PAGED[what](shop, {"offset": 5}).json()["items"]
    assert [one["id"] for one in again] == found[5:15]


def test_your_own_order_within_rules(trained: Any) -> None:
    model = Recommender.load(trained)
    scores = -model.raters().astype("float32")
    found = model.items_by(scores, 5, where={"genres": "Drama"})
    assert len(found) == 5
    counts = [model.raters()[model.items.index(item)] for item in found]
    assert counts == sorted(counts)

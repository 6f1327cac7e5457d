"""Items and users in bulk and in pages, hidden and deleted; and people who are forgotten, in every process."""

import json
import threading
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.serving.live.served import OrderedIds
from tests.serving.conftest import ITEMS, USERS
from tests.serving.running_server import NO_TLS, Asked, ServedTwice, problem
from tests.serving.test_events import asked_of_both, send

LINES = {"content-type": "application/x-ndjson"}


def bulk(server: Asked, side: str, *lines: object) -> httpx.Response:
    content = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return server.client.post(f"/v1/{side}/bulk", content=content, headers=LINES)


def listed(server: Asked, side: str, n: int = 100) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        answer = server.client.get(f"/v1/{side}/list", params={"cursor": cursor, "n": n})
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page[side]
        if page["next"] is None:
            return found
        assert len(page[side]) == n
        cursor = page["next"]


def test_items_in_bulk_are_known_at_once_in_every_process(shop: ServedTwice) -> None:
    lines = [{"id": 30_000 + at, "title": f"Bulky {at}", "features": {"year": 1990 + at}} for at in range(5)]
    assert bulk(shop, "items", *lines[:3], "", *lines[3:], "").json() == {"stored": 5}
    for answer in asked_of_both(shop, "/v1/items", query="bulky"):
        assert {item["id"] for item in answer["items"]} == {line["id"] for line in lines}
    assert shop.client.get("/v1/item", params={"id": 30_004}).json()["attributes"]["year"] == 1994
    assert bulk(shop, "items", {"id": "sku-7", "title": "With a text for an id"}).json() == {"stored": 1}
    shop.rate("bulk-fan", {"sku-7": 5, 30_000: 4})
    assert shop.ratings("bulk-fan") == {"sku-7": 5.0, 30_000: 4.0}
    send(shop, {"user": "bulk-fan", "item": "sku-7", "kind": "buy"})


@pytest.mark.parametrize(
    ("line", "status", "words"),
    [
        ('{"id": 1', 400, "line 3: is not JSON"),
        ('{"id": 1, "title": "x", "name": 2}', 422, "line 3.name: Extra inputs"),
        ('{"id": 1, "features": {"yaer": 2}}', 422, "line 3: the description: there is no column 'yaer'; did you mean"),
        ('{"id": 40000, "title": "again"}', 422, "line 3: '40000' stands in line 1 already"),
    ],
)
def test_a_wrong_line_is_told_by_its_number_and_nothing_is_stored(
    shop: ServedTwice, line: str, status: int, words: str
) -> None:
    answer = bulk(shop, "items", {"id": 40_000, "title": "Unstored"}, "", line)
    assert words in problem(answer, status)
    problem(shop.client.get("/v1/item", params={"id": 40_000}), 404)


def test_users_in_bulk(shop: ServedTwice) -> None:
    young, old = ({"id": f"bulk-{age}", "features": {"age": age}} for age in (18, 70))
    assert bulk(shop, "users", young, old, {"id": "bulk-nothing"}).json() == {"stored": 3}
    assert shop.recommended("bulk-18") != shop.recommended("bulk-70")
    assert shop.ratings("bulk-nothing") == {}
    assert "line 1: the description: there is no column 'agee'" in problem(
        bulk(shop, "users", {"id": "x", "features": {"agee": 1}}), 422
    )
    many = "\n".join(f'{{"id": {at}}}' for at in range(10_001))
    answer = shop.client.post("/v1/users/bulk", content=many, headers=LINES)
    assert "line 10001: a body has at most 10000 lines" in problem(answer, 422)


def test_pages_have_everything_once(shop: ServedTwice) -> None:
    for side, least in (("items", ITEMS), ("users", USERS)):
        found = [str(entry["id"]) for entry in listed(shop, side, 7)]
        assert len(set(found)) == len(found) >= least
        assert found == sorted(found)
        assert [str(entry["id"]) for entry in listed(shop, side, 1000)] == found


def test_pages_stay_in_order_while_items_come_and_go(shop: ServedTwice) -> None:
    """Whatever is there from the first page to the last stands on one of them, once."""
    lasting = {str(entry["id"]) for entry in listed(shop, "items")}
    bulk(shop, "items", *({"id": f"flicker-{at}", "title": "Flicker"} for at in range(10)))
    stop = threading.Event()

    def disturb() -> None:
        at = 0
        with httpx.Client(base_url=shop.told["address"], timeout=60, verify=NO_TLS) as client:
            while not stop.is_set():
                client.delete("/v1/item", params={"id": f"flicker-{at % 10}"})
                client.put("/v1/item", json={"id": f"flicker-{at % 10}", "title": "Flicker"})
                at += 1

    disturbing = threading.Thread(target=disturb)
    disturbing.start()
    try:
        for _ in range(5):
            found = [str(entry["id"]) for entry in listed(shop, "items", 3)]
            assert len(set(found)) == len(found)
            assert lasting <= set(found)
    finally:
        stop.set()
        disturbing.join()


@given(
    ids=st.lists(st.text(min_size=1, max_size=4)),
    changes=st.lists(st.tuples(st.booleans(), st.text(min_size=1, max_size=2))),
    n=st.integers(1, 5),
)
@settings(max_examples=100, deadline=None)
def test_ordered_ids_see_what_stays_once(ids: list[str], changes: list[tuple[bool, str]], n: int) -> None:
    ordered = OrderedIds(ids)
    changed = iter(changes)
    there = set(ids)
    came: set[str] = set()
    went: set[str] = set()
    seen: list[str] = []
    more = True
    while more:
        found, more = ordered.after(seen[-1] if seen else "", n)
        seen += found
        for comes, id in [change for change in [next(changed, None)] if change]:
            (ordered.add if comes else ordered.remove)(id)
            (came if comes else went).add(id)
    assert seen == sorted(set(seen))
    assert there - went <= set(seen) <= there | came


def test_what_is_hidden_is_in_no_list_and_still_predicted(shop: ServedTwice) -> None:
    hidden = shop.recommended("nobody", 1)[0]["id"]
    title = shop.client.get("/v1/item", params={"id": hidden}).json()["title"]
    neighbour = shop.client.get("/v1/similar", params={"item": hidden, "n": 1}).json()["items"][0]["id"]
    predicted = {"pairs": [{"user": 1, "item": hidden}]}
    before = shop.client.post("/v1/predictions", json=predicted).json()["ratings"]
    assert shop.client.put("/v1/item", json={"id": hidden, "available": False}).json()["available"] is False

    def lists() -> list[list[Any]]:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("/v1/recommendations", {"user": "nobody", "n": 100}),
            ("/v1/recommendations", {"user": 1, "n": 100, "exclude_known": False, "by": "rating"}),
            ("/v1/recommendations", {"user": 1, "among": [hidden], "exclude_known": False}),
            ("/v1/similar", {"item": neighbour, "n": 100}),
            ("/v1/items", {"query": title, "n": 100}),
            ("/v1/items", {"query": str(hidden), "n": 100}),
            ("/v1/starters", {"n": 100}),
        ]
        return [
            [item["id"] for item in answer["items"]] for path, of in asked for answer in asked_of_both(shop, path, **of)
        ]

    assert not any(hidden in found for found in lists())
    assert shop.client.post("/v1/predictions", json=predicted).json()["ratings"] == before
    assert shop.client.get("/v1/item", params={"id": hidden}).json()["available"] is False
    found = shop.client.get("/v1/items", params={"query": title, "hidden": True}).json()["items"]
    assert hidden in [item["id"] for item in found]
    assert [entry["available"] for entry in listed(shop, "items") if entry["id"] == hidden] == [False]
    shop.rate("hidden-fan", {hidden: 4})  # those who have it may rate it
    assert shop.client.put("/v1/item", json={"id": hidden, "available": True}).json()["available"] is True
    assert all(hidden in found for found in lists())


def test_what_is_deleted_is_unknown_until_it_is_described_again(shop: ServedTwice) -> None:
    item = {"id": 31_000, "title": "Doomed", "features": {"year": 1999}}
    assert shop.client.put("/v1/item", json=item).status_code == 200
    shop.rate("mourner", {31_000: 5, 1: 4})
    for _ in range(2):
        assert shop.client.delete("/v1/item", params={"id": 31_000}).status_code == 204
    for path, of in (("/v1/item", {"id": 31_000}), ("/v1/similar", {"item": 31_000})):
        problem(shop.client.get(path, params=of), 404)
    for answer in asked_of_both(shop, "/v1/items", query="doomed", hidden=True):
        assert answer["items"] == []
    assert 31_000 not in [entry["id"] for entry in listed(shop, "items")]
    rating = {"user": "mourner", "ratings": [{"item": 31_000, "rating": 4}]}
    assert "is not in the catalogue" in problem(shop.client.put("/v1/ratings", json=rating), 404)
    again = shop.client.put("/v1/item", json={"id": 31_000, "title": "Back"}).json()
    assert (again["title"], again["attributes"]) == ("Back", {})
    assert shop.client.delete("/v1/item", params={"id": "never heard of"}).status_code == 204


@pytest.mark.parametrize("user", [7, "visitor-gone"])
def test_somebody_deleted_is_nobody_in_every_process_and_may_come_back(shop: ServedTwice, user: int | str) -> None:
    nobody = shop.recommended("nobody", 20)
    shop.rate(user, {3: 5, 4: 0.5})
    send(shop, {"user": user, "item": 5, "kind": "buy", "id": f"gone-{user}"})
    assert shop.client.put("/v1/user", json={"id": user, "features": {"age": 70}}).status_code == 200
    assert shop.recommended(user, 20) != nobody
    for _ in range(2):
        assert shop.client.delete("/v1/user", params={"id": user}).status_code == 204
    for answer in asked_of_both(shop, "/v1/recommendations", user=user, n=20):
        assert answer["known"] is False
        assert [item["id"] for item in answer["items"]] == [item["id"] for item in nobody]
    problem(shop.client.get("/v1/ratings", params={"user": user}), 404)
    problem(shop.client.get("/v1/why", params={"user": user, "item": 1}), 404)
    assert str(user) not in {str(entry["id"]) for entry in listed(shop, "users")}
    assert user not in [one["id"] for one in shop.client.get("/v1/users", params={"query": user}).json()["users"]]
    shop.rate(user, {6: 5})
    for answer in asked_of_both(shop, "/v1/ratings", user=user):
        assert {entry["item"]: entry["rating"] for entry in answer["ratings"]} == {6: 5.0}
    assert str(user) in {str(entry["id"]) for entry in listed(shop, "users")}
    # The event of before, delivered again, is of somebody who is gone.
    assert send(shop, {"user": user, "item": 5, "kind": "buy", "id": f"gone-{user}"})["stored"] == 0

"""Events over HTTP: lists follow them at once in every process, each counts once, and what was shown is left out."""

import json
import re
from collections import Counter
from typing import Any

import httpx
import pytest

from tests.serving.running_server import Asked, ServedTwice, problem


def send(server: Asked, *events: dict[str, Any]) -> dict[str, int]:
    answer = server.client.post("/v1/events", json={"events": list(events)})
    assert answer.status_code == 200, answer.text
    counted: dict[str, int] = answer.json()
    return counted


def asked_of_both(shop: ServedTwice, path: str, **params: Any) -> list[Any]:
    """What both servers answer."""
    found = []
    for _ in range(2):
        answer = next(shop.clients).get(path, params=params)
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
    return found


def test_lists_follow_events_at_once_in_every_process(shop: ServedTwice) -> None:
    anybody = [item["id"] for item in shop.recommended("nobody", 20)]
    assert send(shop, {"user": "follower", "item": anybody[0], "kind": "view"}) == {"stored": 1, "repeated": 0}
    first = asked_of_both(shop, "/v1/recommendations", user="follower", n=20)
    assert all(answer == first[0] for answer in first)
    assert first[0]["known"] is True
    assert anybody[0] not in [item["id"] for item in first[0]["items"]]
    send(shop, {"user": "follower", "item": anybody[0], "kind": "buy"}, {"user": "follower", "item": 9, "kind": "buy"})
    second = asked_of_both(shop, "/v1/recommendations", user="follower", n=20)
    assert all(answer == second[0] for answer in second)
    assert second[0]["items"] != first[0]["items"]
    scores = [{item["id"]: item["score"] for item in answer["items"]} for answer in (first[0], second[0])]
    assert scores[0] != scores[1]


def test_the_same_event_counts_once_and_a_stronger_one_counts_more(shop: ServedTwice) -> None:
    weak = {"user": "weak", "item": 3, "kind": "view", "id": "weak-1", "time": "2026-01-31T12:00:00Z"}
    strong = {"user": "strong", "item": 3, "kind": "buy", "id": 17, "time": 1_700_000_000}
    assert send(shop, weak, strong) == {"stored": 2, "repeated": 0}
    before = [shop.recommended(user, 5) for user in ("weak", "strong")]
    assert before[0] != before[1]
    assert send(shop, weak, strong, strong | {"kind": "view"}) == {"stored": 0, "repeated": 3}
    assert [shop.recommended(user, 5) for user in ("weak", "strong")] == before
    own = {"user": "own", "item": 3, "kind": "listened-to-the-end", "weight": 5}
    cart = {"user": "cart", "item": 3, "kind": "cart"}
    send(shop, own, cart, cart | {"weight": 2})
    assert shop.recommended("own", 5) == shop.recommended("strong", 5) == shop.recommended("cart", 5)


def test_an_order_of_events_is_as_good_as_another(shop: ServedTwice) -> None:
    events = [
        {"user": "", "item": item, "kind": kind} for item, kind in ((3, "view"), (5, "buy"), (3, "play"), (8, "cart"))
    ]
    send(shop, *({**event, "user": "forwards"} for event in events))
    for event in reversed(events):
        send(shop, {**event, "user": "backwards"})
    assert shop.recommended("forwards", 30) == shop.recommended("backwards", 30)


def test_what_was_shown_counts_for_nothing_and_can_be_left_out(shop: ServedTwice) -> None:
    user = "window-shopper"
    answer = asked_of_both(shop, "/v1/recommendations", user=user, n=5)[0]
    shown = [item["id"] for item in answer["items"]]
    version = answer["model_version"]
    sent = [
        {"user": user, "item": item, "kind": "shown", "id": f"{user}-{item}", "model_version": version}
        for item in shown
    ]
    assert send(shop, *sent) == {"stored": 5, "repeated": 0}
    assert send(shop, *sent) == {"stored": 0, "repeated": 5}
    assert [item["id"] for item in shop.recommended(user, 5)] == shown
    for other in asked_of_both(shop, "/v1/recommendations", user=user, n=5, exclude_shown=True):
        assert not {item["id"] for item in other["items"]} & set(shown)
        assert len(other["items"]) == 5
    body = {"user": user, "n": 5, "exclude_shown": True, "exclude": [other["items"][0]["id"]]}
    posted = shop.client.post("/v1/recommendations", json=body).json()["items"]
    assert not {item["id"] for item in posted} & {*shown, other["items"][0]["id"]}
    batch = shop.client.post("/v1/recommendations/batch", json={"requests": [body, {"user": user, "n": 5}]}).json()
    assert [item["id"] for item in batch["answers"][0]["items"]] == [item["id"] for item in posted]
    assert [item["id"] for item in batch["answers"][1]["items"]] == shown
    refused = shop.client.post("/v1/recommendations", json={"exclude_shown": True})
    assert "exclude_shown is about what a user was shown" in problem(refused, 422)


def test_a_list_that_is_marked_as_shown_is_a_page_that_does_not_come_again(shop: ServedTwice) -> None:
    asks = {"user": "marked", "n": 7, "mark_shown": True, "exclude_shown": True}
    pages = [next(shop.clients).post("/v1/recommendations", json=asks).json()["items"] for _ in range(3)]
    pages.append(asked_of_both(shop, "/v1/recommendations", **asks)[0]["items"])
    found = [item["id"] for page in pages for item in page]
    assert len(set(found)) == len(found) == 28
    latest = asked_of_both(shop, "/v1/events", n=1)[0]["events"][0]
    assert (latest["user"], latest["kind"], latest["model_version"]) == ("marked", "shown", shop.told["version"])


def test_lists_of_a_batch_are_marked_as_shown_together_or_not_at_all(shop: ServedTwice) -> None:
    def marked(*requests: dict[str, Any]) -> httpx.Response:
        return shop.client.post("/v1/recommendations/batch", json={"requests": requests})

    asks = {"user": "marked together", "n": 5, "mark_shown": True, "exclude_shown": True}
    assert "requests.1" in problem(marked(asks, asks | {"where": {"nothing": "here"}}), 422)
    rest = {"user": "marked together", "n": 10, "exclude_shown": True}
    before = shop.client.post("/v1/recommendations", json=rest).json()["items"]
    pages = marked(asks, asks).json()["answers"]
    assert [item["id"] for page in pages for item in page["items"]] == [item["id"] for item in before]
    after = asked_of_both(shop, "/v1/recommendations", **rest)[0]["items"]
    assert not {item["id"] for item in after} & {item["id"] for item in before}


def test_click_through_by_the_version_of_the_model(shop: ServedTwice) -> None:
    version = shop.told["version"]

    def counted() -> Counter[str]:
        text = shop.client.get("/metrics").text
        found = re.findall(rf"^(cofill_shown_(?:events_)?total)\{{([^}}]*{version}[^}}]*)\}} (\S+)$", text, re.M)
        return Counter({f"{name} {labels}": int(float(value)) for name, labels, value in found})

    before = counted()
    shown = [{"user": "clicker", "item": item, "kind": "shown", "model_version": version} for item in (1, 2, 3, 4)]
    send(shop, *shown)
    send(shop, {"user": "clicker", "item": 1, "kind": "click", "id": "clicked", "model_version": version})
    send(shop, {"user": "clicker", "item": 1, "kind": "click", "id": "clicked", "model_version": version})
    send(shop, {"user": "clicker", "item": 2, "kind": "buy"}, {"user": "clicker", "item": 9, "kind": "buy"})
    assert counted() - before == {
        f'cofill_shown_total model_version="{version}"': 4,
        f'cofill_shown_events_total kind="click",model_version="{version}"': 1,
        f'cofill_shown_events_total kind="buy",model_version="{version}"': 1,
    }
    assert "cofill_live_events" in shop.client.get("/metrics").text


def test_an_operator_sees_the_latest_events_and_the_click_through_of_each_day(shop: ServedTwice) -> None:
    version = shop.told["version"]

    def of_today() -> dict[str, Any]:
        both = asked_of_both(shop, "/v1/click-through")
        assert both[0] == both[1]
        return next((one for one in both[0]["days"] if one["model_version"] == version), {"shown": 0, "events": {}})

    before = of_today()
    send(shop, {"user": "watched", "item": 1, "kind": "shown", "model_version": version})
    send(shop, {"user": "watched", "item": 1, "kind": "click"})
    after = of_today()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", after["day"])
    assert after["shown"] == before["shown"] + 1
    assert after["events"]["click"] == before["events"].get("click", 0) + 1
    for answer in asked_of_both(shop, "/v1/events", n=2):
        click, shown = answer["events"]
        assert (click["user"], click["item"], click["kind"], click["weight"]) == ("watched", 1, "click", 1.0)
        assert (shown["kind"], shown["weight"], shown["model_version"]) == ("shown", 0.0, version)
        assert click["title"]
        assert click["received"] >= shown["received"]


@pytest.mark.parametrize(
    ("event", "status", "words"),
    [
        ({"item": 987_654}, 404, "events.1: item 987654 is not in the catalogue; check the id, or describe it first"),
        ({"kind": "stared"}, 422, "events.1: no weight is known of the kind 'stared'; send a weight with it"),
        ({"rating": 3}, 422, "Extra inputs"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_events_that_are_refused_leave_nothing_behind(
    shop: ServedTwice, event: dict[str, Any], status: int, words: str
) -> None:
    good = {"user": "refused", "item": 1, "kind": "view"}
    answer = shop.client.post("/v1/events", json={"events": [good, good | event]})
    assert words in problem(answer, status)
    problem(shop.client.get("/v1/ratings", params={"user": "refused"}), 404)

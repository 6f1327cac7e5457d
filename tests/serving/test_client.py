"""The typed clients, against a real server, and against one that has bad days."""

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from cofill.client import AsyncClient, Client, RefusedError, UnreachableError, calls, messages
from cofill.client.transport import Call
from tests.serving.running_server import Asked, Server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.told["address"]) as made:
        yield made


def test_lists_predictions_and_reasons(client: Client) -> None:
    found = client.recommend(7, n=5, where={"year": {"min": 1930}}, exclude=[1, "lost"], diversity=0.2, why=True)
    assert len(found.items) == 5
    assert found.known is True
    assert found.unknown == messages.UnknownIds(users=[], items=["lost"])
    first = found.items[0]
    assert first.attributes["year"] >= 1930
    assert first.why is not None
    assert first.why.contributions
    mine = client.recommend(ratings={1: 5.0, 2: 1.0}, features={"age": 30}, n=3, by="rating")
    assert (len(mine.items), mine.known) == (3, None)
    batch = client.recommend_many([{"user": 7, "n": 2}, {"ratings": {1: 5.0}, "n": 3, "min_ratings": 5}])
    assert [len(one.items) for one in batch.answers] == [2, 3]
    predicted = client.predict([(7, 1), ("nobody", 2)], interval=True)
    assert len(predicted.ratings) == 2
    assert predicted.low is not None
    assert predicted.low[0] < predicted.ratings[0]
    assert predicted.unknown == messages.UnknownIds(users=["nobody"], items=[])
    assert client.explain(first.id, 7).by == "list"
    assert client.explain(first.id, ratings={1: 5.0}, by="rating").low is not None


def test_items_and_people(client: Client) -> None:
    rules: dict[str, Any] = {"where": {"genres": ["Drama"], "year": {"min": 1930}}, "at_most": {"genres": 3}}
    similar = client.similar(30, n=4, among=list(range(1, 80)), **rules)
    assert all("Drama" in one.attributes["genres"] for one in similar.items)
    assert client.find_items("the", n=3).items
    assert len(client.starters(n=4).items) == 4
    assert client.item(30).id == 30
    ann = client.make_user(features={"age": 40}).id
    assert client.describe_user(ann, {"age": 41}).id == ann
    assert client.put_ratings(ann, {1: 4.5, 2: 1}).stored == 2
    assert {one.item: one.rating for one in client.ratings(ann).ratings} == {1: 4.5, 2: 1.0}
    assert len(client.ratings(ann, n=1).ratings) == 1
    client.withdraw_rating(ann, 1)
    assert [one.item for one in client.ratings(ann).ratings] == [2]
    assert [one.id for one in client.find_users(str(ann), n=1).users] == [ann]
    described = client.describe_item(5151, title="By the client", features={"year": 1999, "genres": ["Drama"]})
    assert (described.title, described.available) == ("By the client", True)


def test_a_catalogue_events_and_a_deletion(client: Client) -> None:
    films: list[calls.ItemLine] = [
        {"id": 6000 + number, "title": f"Bulk {number}", "features": {"year": 1990 + number, "genres": ["Drama"]}}
        for number in range(5)
    ]
    assert client.describe_items(films).stored == 5
    assert client.describe_items([{"id": 6004, "available": False}]).stored == 1
    listed = {one.id: one for one in client.all_items(at_once=30)}
    assert len(listed) >= 85
    assert (listed[6004].available, listed[6003].available) == (False, True)
    client.delete_item(6003)
    assert 6003 not in {one.id for one in client.all_items()}
    assert client.describe_users([{"id": 7001, "features": {"age": 33}}, {"id": 7002}]).stored == 2
    assert {7001, 7002} <= {one.id for one in client.all_users(at_once=50)}
    seen: list[calls.Event] = [
        {"id": "event-1", "user": 7001, "item": 6000, "kind": "view", "time": datetime(2026, 1, 31, 12)},
        {"id": "event-2", "user": 7001, "item": 6001, "kind": "buy", "weight": 3.0},
        {"id": "event-3", "user": 7001, "item": 1, "kind": "shown"},
    ]
    assert client.send_events(seen) == messages.EventsStored(stored=3, repeated=0)
    assert client.send_events(seen) == messages.EventsStored(stored=0, repeated=3)
    assert 1 not in {one.id for one in client.recommend(7001, n=90 + 10, exclude_shown=True).items}
    client.put_ratings(7001, {6000: 4.0}, time=1_700_000_000)
    client.delete_user(7001)
    assert 7001 not in {one.id for one in client.all_users()}
    with pytest.raises(RefusedError, match="not in the catalogue"):
        client.send_events([{"user": 7002, "item": "mistyped", "kind": "view"}])
    for number in (0, 1, 2, 4):
        client.delete_item(6000 + number)


def test_the_model_and_the_server(client: Client) -> None:
    model = client.model()
    assert (model.rated, model.scale.high) == (True, 5.0)
    assert client.health().status == "alive"
    assert client.ready().status == "ready"
    assert "cofill_request_seconds" in client.metrics()


def test_the_example_of_the_docs_runs(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    exec(compile(source.replace("http://127.0.0.1:8000", server.told["address"]), "docs/how-to/serve.md", "exec"), {})
    *entries, refused = capsys.readouterr().out.splitlines()
    assert len(entries) == 5
    assert refused.startswith("unknown-value the filter, 'genres': no item has 'comedy'")


def test_many_at_once(server: Server) -> None:
    async def ask() -> list[messages.Recommended]:
        async with AsyncClient(server.told["address"]) as client:
            lists = await asyncio.gather(*(client.recommend(user, n=2) for user in range(1, 21)))
            assert (await client.predict([(1, 1)])).ratings
            with pytest.raises(RefusedError) as caught:
                await client.item("nothing")
            assert caught.value.kind == "unknown-id"
            assert len([one async for one in client.all_items(at_once=50)]) >= 80
            return lists

    assert [len(one.items) for one in asyncio.run(ask())] == [2] * 20


def test_a_refusal_tells_what_is_wrong(client: Client) -> None:
    with pytest.raises(RefusedError, match="no item has 'drama'; did you mean 'Drama'") as caught:
        client.recommend(7, where={"genres": "drama"})
    error = caught.value
    assert (error.status, error.type, error.kind) == (422, "/problems/unknown-value", "unknown-value")
    assert len(error.request_id) == 32
    with pytest.raises(RefusedError) as caught:
        client.recommend(7, n=1000)
    assert caught.value.errors[0]["name"] == "n"


def test_ids_of_requests_are_the_callers(server: Server) -> None:
    with Client(server.told["address"], request_id=lambda: "order-17") as client, pytest.raises(RefusedError) as caught:
        client.item("nothing")
    assert caught.value.request_id == "order-17"


# A server that has bad days


def scripted(answers: list[httpx.Response | Exception]) -> tuple[httpx.MockTransport, list[httpx.Request]]:
    """What answers one request after the other, and the requests."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        one = answers[len(seen) - 1]
        if isinstance(one, Exception):
            raise one
        return one

    return httpx.MockTransport(answer), seen


def refusing(status: int, retry_after: str | None = None) -> httpx.Response:
    headers = {} if retry_after is None else {"retry-after": retry_after}
    told = {"type": "/problems/busy", "title": "Busy", "status": status, "detail": "later", "instance": "/"}
    return httpx.Response(status, json=told, headers={"content-type": "application/problem+json", **headers})


ALIVE = {"status": "alive"}
BROKEN = httpx.ConnectError("refused")


@pytest.mark.parametrize(
    ("bad_days", "waits"),
    [
        ([(503, "2")], [2.0]),
        ([(429, "1"), (503, None)], [1.0, 1.0]),
        ([(503, None)] * 3, [0.5, 1.0, 2.0]),
        ([None], [0.5]),  # it is not there
    ],
)
@pytest.mark.parametrize("awaited", [False, True])
def test_what_may_be_sent_again_is(
    monkeypatch: pytest.MonkeyPatch, bad_days: list[tuple[int, str | None] | None], waits: list[float], awaited: bool
) -> None:
    slept: list[float] = []
    answers = [BROKEN if day is None else refusing(*day) for day in bad_days]
    transport, seen = scripted([*answers, httpx.Response(200, json=ALIVE)])
    if awaited:

        async def ask() -> str:
            async def sleep(seconds: float) -> None:
                slept.append(seconds)

            monkeypatch.setattr("cofill.client.client.asyncio.sleep", sleep)
            async with AsyncClient("http://there", key="secret", transport=transport) as client:
                return (await client.health()).status

        assert asyncio.run(ask()) == "alive"
    else:
        monkeypatch.setattr("cofill.client.client.time.sleep", slept.append)
        with Client("http://there", key="secret", transport=transport) as client:
            assert client.health().status == "alive"
    assert len(slept) == len(waits)
    assert all(least <= found <= 1.5 * least for least, found in zip(waits, slept, strict=True))
    assert len({request.headers["x-request-id"] for request in seen}) == 1
    assert {request.headers["authorization"] for request in seen} == {"Bearer secret"}


def test_clients_do_not_come_back_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("cofill.client.client.time.sleep", slept.append)
    for _ in range(20):
        transport, _ = scripted([refusing(503, "2"), httpx.Response(200, json=ALIVE)])
        with Client("http://there", transport=transport) as client:
            client.health()
    assert len(set(slept)) > 1


def test_what_must_not_be_sent_again_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.client.client.time.sleep", lambda seconds: pytest.fail("it waited"))

    def once(ask: Callable[[Client], object], answer: httpx.Response | Exception, expected: type[Exception]) -> None:
        transport, seen = scripted([answer])
        with Client("http://there", transport=transport) as client, pytest.raises(expected):
            ask(client)
        assert len(seen) == 1

    once(lambda client: client.make_user(), refusing(503), RefusedError)
    once(lambda client: client.make_user(), BROKEN, UnreachableError)
    once(lambda client: client.roll_back(), refusing(503), RefusedError)
    once(lambda client: client.send_events([{"user": 1, "item": 2, "kind": "buy"}]), refusing(503), RefusedError)
    once(lambda client: client.recommend_many([{"user": 1, "mark_shown": True}]), refusing(503), RefusedError)
    once(lambda client: client.health(), refusing(503, "3600"), RefusedError)
    once(lambda client: client.health(), refusing(422), RefusedError)
    once(lambda client: client.health(), httpx.Response(502, text="<html>"), RefusedError)
    once(lambda client: client.health(), httpx.Response(200, text="hello"), RefusedError)


def test_nobody_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.client.client.time.sleep", lambda seconds: None)
    with Client("http://127.0.0.1:9") as client, pytest.raises(UnreachableError, match="is the server running there"):
        client.health()


# It is whole, and it is light


def made_calls() -> dict[str, Callable[..., Call[Any]]]:
    own = inspect.getmembers(calls, inspect.isfunction)
    return {name: make for name, make in own if make.__module__ == calls.__name__ and not name.startswith("_")}


def test_both_clients_have_every_call() -> None:
    for name in made_calls():
        assert inspect.iscoroutinefunction(getattr(AsyncClient, name)), name
        assert callable(getattr(Client, name)), name


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "recommend": (1,),
    "recommend_many": ([{"user": 1}],),
    "predict": ([(1, 1)],),
    "explain": (1, 1),
    "describe_items": ([{"id": 1}],),
    "describe_users": ([{"id": 1}],),
    "describe_user": (1, {}),
    "put_ratings": (1, {1: 4}),
    "withdraw_rating": (1, 1),
    "send_events": ([{"user": 1, "item": 1, "kind": "buy"}],),
    "similar": (1,),
    "basket": ([1],),
    "merge_users": (1, 2),
    "withdraw_event": (1,),
    "item": (1,),
    "describe_item": (1,),
    "delete_item": (1,),
    "delete_user": (1,),
    "ratings": (1,),
}
NOT_CALLED = {("GET", "/v1/recommendations"), ("GET", "/v1/why"), ("GET", "/v1/map")}
"""The same with a body, and what is for the page."""


def test_every_route_can_be_called(untouched: Asked) -> None:
    document = untouched.client.get("/openapi.json").json()
    made = [make(*ARGUMENTS.get(name, ())) for name, make in made_calls().items()]
    routes = {(method.upper(), path) for path, of in document["paths"].items() for method in of}
    called = {(call.method, call.path) for call in made}
    assert routes - called == NOT_CALLED
    assert called <= routes


def test_it_needs_neither_models_nor_server() -> None:
    code = (
        "import sys, cofill.client; print(sorted({'torch', 'numpy', 'polars', 'fastapi', 'httpx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""How a route is declared, how its message is read, and which thread answers: nobody waits for what takes long."""

import asyncio
import re
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI, Query, Response
from pydantic import AfterValidator, BaseModel
from starlette.routing import Route

from cofill.serving.app import Application
from cofill.serving.guard import Admission, Guard
from cofill.serving.metrics import Metrics
from cofill.serving.problems import add_handlers
from cofill.serving.request_messages import NothingQuery, parse_json
from cofill.serving.routing import MessageRoute, Right, Routes, WaitsForDatabase, WorksForLong
from cofill.serving.settings import ServingSettings
from tests.serving.conftest import declared_routes

OPEN, LIMITED, READS, WRITES, OPERATES = Right
RIGHTS = {
    ("GET", "/"): OPEN,
    ("HEAD", "/"): OPEN,
    ("GET", "/docs"): OPEN,
    ("HEAD", "/docs"): OPEN,
    ("GET", "/docs/{name:path}"): OPEN,
    ("HEAD", "/docs/{name:path}"): OPEN,
    ("GET", "/health"): OPEN,
    ("GET", "/metrics"): READS,
    ("GET", "/openapi.json"): READS,
    ("HEAD", "/openapi.json"): READS,
    ("GET", "/page/{name:path}"): OPEN,
    ("HEAD", "/page/{name:path}"): OPEN,
    ("GET", "/problems"): OPEN,
    ("HEAD", "/problems"): OPEN,
    ("GET", "/problems/{name:path}"): OPEN,
    ("HEAD", "/problems/{name:path}"): OPEN,
    ("GET", "/ready"): LIMITED,
    ("POST", "/v1/events"): WRITES,
    ("DELETE", "/v1/item"): WRITES,
    ("GET", "/v1/item"): READS,
    ("PUT", "/v1/item"): WRITES,
    ("GET", "/v1/items"): READS,
    ("POST", "/v1/items/bulk"): WRITES,
    ("GET", "/v1/items/list"): READS,
    ("GET", "/v1/map"): READS,
    ("GET", "/v1/model"): READS,
    ("POST", "/v1/model/reload"): OPERATES,
    ("POST", "/v1/model/rollback"): OPERATES,
    ("POST", "/v1/predictions"): READS,
    ("DELETE", "/v1/ratings"): WRITES,
    ("GET", "/v1/ratings"): READS,
    ("PUT", "/v1/ratings"): WRITES,
    ("GET", "/v1/recommendations"): READS,
    ("POST", "/v1/recommendations"): READS,
    ("POST", "/v1/recommendations/batch"): READS,
    ("GET", "/v1/similar"): READS,
    ("GET", "/v1/starters"): READS,
    ("DELETE", "/v1/user"): WRITES,
    ("PUT", "/v1/user"): WRITES,
    ("GET", "/v1/users"): READS,
    ("POST", "/v1/users"): WRITES,
    ("POST", "/v1/users/bulk"): WRITES,
    ("GET", "/v1/users/list"): READS,
    ("GET", "/v1/why"): READS,
    ("POST", "/v1/why"): READS,
}


def test_every_route_declares_its_right(model: Path) -> None:
    application = Application(ServingSettings(model=model))
    application.store.close()
    found = {
        (method, route.path): application.routes.declared(method, route.path)
        for route in application.api.routes
        if isinstance(route, Route)
        for method in route.methods or ()
    }
    assert all(isinstance(route, Route) for route in application.api.routes)  # none that has no methods
    assert {at: None if one is None else one.right for at, one in found.items()} == RIGHTS
    assert [at for at, one in found.items() if one is not None and one.takes_long] == [
        ("POST", "/v1/model/reload"),
        ("POST", "/v1/model/rollback"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        *((method, path, right) for (method, path), right in RIGHTS.items() if path != "/openapi.json"),
        ("GET", "/page/map.js", OPEN),
        ("GET", "/page/../keys.json", OPEN),  # of which there is no file
        ("GET", "/pages", READS),
        # What no route takes is refused behind the guard, and needs no less until then than a route could ask for.
        ("GET", "/v1/nothing", READS),
        ("OPTIONS", "/v1/item", READS),
        ("HEAD", "/v1/item", READS),  # as GET
        ("HEAD", "/health", OPEN),
        ("HEAD", "/v1/model/reload", READS),
        ("POST", "/v1/nothing", WRITES),
        ("POST", "/v1/model", WRITES),
        ("PATCH", "/v1/why", WRITES),
        ("POST", "/v1/why\n", WRITES),  # the router would take it: its pattern lets a line end at the end of a path
        ("GET", "/health\n", READS),
        ("PUT", "/health", OPEN),
        ("PUT", "/ready", LIMITED),
    ],
)
def test_the_guard_asks_for_what_is_declared(method: str, path: str, right: Right) -> None:
    assert declared_routes(FastAPI()).needed(method, path).right is right


def test_the_route_of_the_docs_answers() -> None:
    """One module and one declaration are all that a route takes."""
    docs = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-route.md"
    (source,) = re.findall(r"```python\n(.*?)```", docs.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(source, str(docs), "exec"), names)
    counts = np.array([3, 9, 5])
    served = SimpleNamespace(
        model=SimpleNamespace(item_counts=lambda: counts, items=SimpleNamespace(id="abc".__getitem__))
    )
    app = FastAPI()
    add_handlers(app)
    routes = Routes(app.router)
    names["add_popular"](routes, SimpleNamespace(asked=lambda: nullcontext(served)))
    assert routes.needed("GET", "/v1/popular").right is READS

    async def ask() -> list[Any]:
        async with _asked(app) as client:
            return [(await client.get(f"/v1/popular{query}")).json() for query in ("?n=2", "?n=101")]

    found, refused = asyncio.run(ask())
    assert found == {"items": ["b", "c"]}
    assert refused["detail"] == "query.n: must be less than or equal to 100"


def test_a_declaration_that_cannot_hold_is_refused() -> None:
    routes = Routes(FastAPI().router)
    routes.declare(["POST"], "/v1/new", READS)
    for method, path, right, why in (
        ("GET", "/v1/new", WRITES, "this method never writes"),
        ("POST", "/v1/new", WRITES, "is declared twice"),
        ("GET", "/v1/{user}/new", READS, "a path is fixed"),
        ("GET", "/page/{name:path}/new", READS, "a path is fixed"),
    ):
        with pytest.raises(ValueError, match=why):
            routes.declare([method], path, right)


def test_a_name_that_stands_twice_among_many_is_found() -> None:
    """If each were compared with each, this would take hours."""
    names = [f'"{number}": 1' for number in range(400_000)]
    with pytest.raises(ValueError, match="the name '399999' stands twice in one object"):
        parse_json(f"{{{', '.join(names)}, {names[-1]}}}".encode())


def test_a_large_body_is_read_beside_the_loop() -> None:
    readers: list[bool] = []

    def seen(text: str) -> str:
        readers.append(threading.current_thread() is threading.main_thread())
        return text

    class Said(BaseModel):
        text: Annotated[str, AfterValidator(seen)]

    app = FastAPI()

    @Routes(app.router).add("POST", "/", READS, None, "")
    async def take(said: Said) -> Response:
        return Response(str(len(said.text)))

    async def ask() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return [(await client.post("/", json={"text": "x" * size})).text for size in (10, 100_000)]

    assert asyncio.run(ask()) == ["10", "100000"]
    assert readers == [True, False]


def _asked(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


@pytest.mark.parametrize("kind", [WaitsForDatabase, WorksForLong])
def test_quick_answers_come_one_at_a_time_and_are_not_held_up(kind: type[MessageRoute]) -> None:
    quick_was_answered = threading.Event()
    under_way, most = 0, 0
    app = FastAPI()
    routes = Routes(app.router)

    @routes.add("GET", "/long", READS, None, "", kind=kind)
    def long(_: Annotated[NothingQuery, Query()]) -> Response:
        return Response(str(quick_was_answered.wait(30)))

    @routes.add("GET", "/quick", READS, None, "")
    def quick(_: Annotated[NothingQuery, Query()]) -> Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        time.sleep(0.01)
        under_way -= 1
        return Response("at once")

    async def ask() -> list[str]:
        async with _asked(app) as client:
            waiting = [asyncio.create_task(client.get("/long")) for _ in range(20)]
            quick = await asyncio.gather(*(client.get("/quick") for _ in range(10)))
            quick_was_answered.set()
            return [answer.text for answer in (*quick, *await asyncio.gather(*waiting))]

    assert asyncio.run(ask()) == ["at once"] * 10 + ["True"] * 20
    assert most == 1


def test_what_nobody_waits_for_any_more_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    given_up: list[None] = []
    app = FastAPI()
    routes = Routes(app.router)
    add_handlers(app)
    give_up = Guard._give_up

    def counted(*of_request: Any) -> None:
        give_up(*of_request)
        given_up.append(None)

    monkeypatch.setattr(Guard, "_give_up", counted)

    class Said(BaseModel):
        text: str

    @routes.add("POST", "/", READS, None, "")
    def take(said: Said) -> Response:
        done.append(said.text)
        until = time.monotonic() + 30
        while len(given_up) < 10 and time.monotonic() < until:  # the first holds up the others until time is up for all
            time.sleep(0.01)
        return Response("done")

    settings = ServingSettings(model=Path("model"), seconds=0.2)
    guarded: Any = Guard(app, settings, Metrics(), Admission(settings), routes)

    async def ask() -> list[int]:
        async with _asked(guarded) as client:
            answers = await asyncio.gather(*(client.post("/", json={"text": str(number)}) for number in range(10)))
            return [answer.status_code for answer in answers]

    assert asyncio.run(ask()) == [503] * 10  # the first one took too long, and the others had to wait for it
    assert len(done) == 1


def test_what_waits_or_works_for_long_is_marked_as_such() -> None:
    app = FastAPI()
    declared_routes(app)
    threads = {
        (method, route.path): route.threads._thread_name_prefix
        for route in app.routes
        if isinstance(route, MessageRoute) and route.threads is not MessageRoute.threads
        for method in route.methods or ()
    }
    writing = {at: "waiting" for at, right in RIGHTS.items() if right in (WRITES, OPERATES)}
    assert threads == writing | {
        ("POST", "/v1/recommendations/batch"): "working",
        ("GET", "/metrics"): "waiting",
        ("GET", "/ready"): "probing",
    }

"""How a body becomes a message, and which thread answers: what takes long keeps nobody else waiting."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI, Query, Response
from pydantic import AfterValidator, BaseModel

from cofill.serving.admission import Admission
from cofill.serving.asking import MessageRoute, _threads_of, waits_for_database, works_for_long
from cofill.serving.guard import Guard
from cofill.serving.metrics import Metrics
from cofill.serving.problems import add_handlers
from cofill.serving.queries import NothingQuery
from cofill.serving.routes_items import add_items
from cofill.serving.routes_model import add_model
from cofill.serving.routes_recommending import add_recommending
from cofill.serving.routes_users import add_users
from cofill.serving.settings import ServingSettings
from cofill.serving.strict_json import parse


def test_a_name_that_stands_twice_among_many_is_found_at_once() -> None:
    names = [f'"{number}": 1' for number in range(40_000)]
    started = time.perf_counter()
    with pytest.raises(ValueError, match="the name '39999' stands twice in one object"):
        parse(f"{{{', '.join(names)}, {names[-1]}}}".encode())
    assert time.perf_counter() - started < 2


def test_a_large_body_is_read_beside_the_loop() -> None:
    readers: list[bool] = []

    def seen(text: str) -> str:
        readers.append(threading.current_thread() is threading.main_thread())
        return text

    class Said(BaseModel):
        text: Annotated[str, AfterValidator(seen)]

    app = FastAPI()
    app.router.route_class = MessageRoute

    @app.post("/", response_model=None)
    async def take(said: Said) -> Response:
        return Response(str(len(said.text)))

    async def ask() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return [(await client.post("/", json={"text": "x" * size})).text for size in (10, 100_000)]

    assert asyncio.run(ask()) == ["10", "100000"]
    assert readers == [True, False]


def _asked(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


@pytest.mark.parametrize("mark", [waits_for_database, works_for_long])
def test_quick_answers_come_one_at_a_time_and_are_not_held_up(mark: Callable[[Any], Any]) -> None:
    quick_was_answered = threading.Event()
    under_way, most = 0, 0
    app = FastAPI()
    app.router.route_class = MessageRoute

    @app.get("/long", response_model=None)
    @mark
    def long(_: Annotated[NothingQuery, Query()]) -> Response:
        return Response(str(quick_was_answered.wait(30)))

    @app.get("/quick", response_model=None)
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


def test_what_nobody_waits_for_any_more_is_not_done() -> None:
    done: list[str] = []
    app = FastAPI()
    app.router.route_class = MessageRoute
    add_handlers(app)

    class Said(BaseModel):
        text: str

    @app.post("/", response_model=None)
    def take(said: Said) -> Response:
        done.append(said.text)
        time.sleep(0.3)
        return Response("done")

    settings = ServingSettings(model=Path("model"), seconds=0.2)
    guarded: Any = Guard(app, settings, Metrics(), Admission(settings))

    async def ask() -> list[int]:
        async with _asked(guarded) as client:
            answers = await asyncio.gather(*(client.post("/", json={"text": str(number)}) for number in range(10)))
            return [answer.status_code for answer in answers]

    assert asyncio.run(ask()) == [503] * 10  # the first one took too long, and the others had to wait for it
    assert len(done) == 1


def test_what_waits_or_works_for_long_is_marked_as_such() -> None:
    app = FastAPI()
    app.router.route_class = MessageRoute
    nothing: Any = None
    add_recommending(app.router, nothing)
    add_items(app.router, nothing, nothing, nothing)
    add_users(app.router, nothing, nothing)
    add_model(app.router, nothing, nothing, nothing, Path("model"))
    threads = {
        (method, route.path): _threads_of[route.endpoint]._thread_name_prefix
        for route in app.routes
        if isinstance(route, MessageRoute) and route.endpoint in _threads_of
        for method in route.methods or ()
    }
    assert threads == {
        ("POST", "/v1/recommendations/batch"): "working",
        ("PUT", "/v1/item"): "waiting",
        ("POST", "/v1/users"): "waiting",
        ("PUT", "/v1/user"): "waiting",
        ("PUT", "/v1/ratings"): "waiting",
        ("DELETE", "/v1/ratings"): "waiting",
        ("POST", "/v1/model/reload"): "waiting",
        ("GET", "/metrics"): "waiting",
    }

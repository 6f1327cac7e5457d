"""How a body becomes a message, and which thread answers: what takes long keeps nobody else waiting."""

import asyncio
import threading
import time
from typing import Annotated

import httpx
import pytest
from fastapi import FastAPI, Query, Response
from pydantic import AfterValidator, BaseModel

from cofill.serving.asking import MessageRoute, takes_long
from cofill.serving.queries import NothingQuery
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


def test_quick_answers_come_from_one_thread_which_long_ones_do_not_hold_up() -> None:
    quick_was_answered = threading.Event()
    threads: list[str] = []
    app = FastAPI()
    app.router.route_class = MessageRoute

    @app.get("/long", response_model=None)
    @takes_long
    def long(_: Annotated[NothingQuery, Query()]) -> Response:
        return Response(str(quick_was_answered.wait(30)))

    @app.get("/quick", response_model=None)
    def quick(_: Annotated[NothingQuery, Query()]) -> Response:
        threads.append(threading.current_thread().name)
        return Response("at once")

    async def ask() -> list[str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            waiting = [asyncio.create_task(client.get("/long")) for _ in range(10)]
            quick = await asyncio.gather(*(client.get("/quick") for _ in range(10)))
            quick_was_answered.set()
            return [answer.text for answer in (*quick, *await asyncio.gather(*waiting))]

    assert asyncio.run(ask()) == ["at once"] * 10 + ["True"] * 10
    assert len(set(threads)) == 1

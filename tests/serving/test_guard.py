"""Limits of time, number and rate, on the guard alone with an application that is as slow as the test wants."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from cofill.errors import SettingsError
from cofill.serving.api.guard import Guard, RateLimit
from cofill.serving.api.guard import guarded as with_guard
from cofill.serving.api.keys import new_key
from cofill.serving.api.problems import ProblemError
from cofill.serving.ops.metrics import Metrics
from cofill.serving.settings import ServingSettings
from tests.serving.running_server import problem


def guarded(application: Any, **limits: Any) -> httpx.AsyncClient:
    settings = ServingSettings(model=Path("model"), **limits)
    guard = with_guard(application, settings, Metrics())
    return httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://localhost")


class Held:
    """An application that answers what is asked of the model once it is let go, and all else at once."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/v1/model":
            await self.go.wait()
        await Response("here")(scope, receive, send)


def test_a_request_is_given_up_after_its_time() -> None:
    async def never(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    async def cut_short() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def ask() -> tuple[httpx.Response, httpx.Response]:
        async with guarded(never, request_timeout=0.1) as client:
            declared = {"content-type": "application/json"}
            return await client.get("/v1/model"), await client.post("/v1/why", content=cut_short(), headers=declared)

    answer, unread = asyncio.run(ask())
    assert "no answer within 0.1 seconds; a write may have been done or not" in problem(answer, 503)
    assert answer.headers["retry-after"] == "1"
    assert "the body did not arrive in time" in problem(unread, 408)


def test_only_so_many_are_under_way() -> None:
    async def ask() -> list[int]:
        held = Held()
        async with guarded(held, concurrency=2) as client:
            asked = [asyncio.ensure_future(client.get("/v1/model")) for _ in range(5)]
            while sum(one.done() for one in asked) < 3:
                await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED, timeout=0.01)
            held.go.set()
            answers = [*await asyncio.gather(*asked), await client.get("/v1/model")]
            return [answer.status_code for answer in answers]

    assert asyncio.run(ask()) == [200, 200, 503, 503, 503, 200]


def test_whether_the_server_works_is_told_however_many_are_under_way() -> None:
    async def ask() -> list[int]:
        held = Held()
        async with guarded(held, concurrency=1) as client:
            asked = [asyncio.ensure_future(client.get("/v1/model")) for _ in range(2)]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)  # the second is refused
            found = [(await client.get(path)).status_code for path in ("/health", "/page/page.js", "/", "/ready")]
            held.go.set()
            return [answer.status_code for answer in await asyncio.gather(*asked)] + found

    assert asyncio.run(ask()) == [200, 503, 200, 200, 200, 200]


@pytest.mark.parametrize(("concurrency", "status"), [(50, 503), (51, 200)])
def test_bodies_that_are_being_read_are_under_way_too_and_hold_up_nobody(concurrency: int, status: int) -> None:
    begun = 0

    async def ask() -> list[int]:
        more, held = asyncio.Event(), Held()
        held.go.set()

        async def trickling() -> AsyncIterator[bytes]:
            nonlocal begun
            yield b"{"
            begun += 1
            await more.wait()
            yield b"}"

        async with guarded(held, concurrency=concurrency, request_timeout=600) as client:
            declared = {"content-type": "application/json"}
            reading = [
                asyncio.ensure_future(client.post("/v1/why", content=trickling(), headers=declared)) for _ in range(50)
            ]
            while begun < 50:
                await asyncio.sleep(0)
            other = await client.get("/v1/model")
            more.set()
            return [other.status_code, *(answer.status_code for answer in await asyncio.gather(*reading))]

    assert asyncio.run(ask()) == [status, *[200] * 50]


def test_a_body_that_is_cut_off_is_not_carried_out() -> None:
    told: list[str] = []
    part: Message = {"type": "http.request", "body": b'{"a": 1}', "more_body": True}
    sent = iter([part, {"type": "http.disconnect"}])

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        told.append("the application")

    async def receive() -> Message:
        return next(sent)

    async def send(message: Message) -> None:
        told.append(message["type"])

    settings = ServingSettings(model=Path("model"))
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json"), (b"content-length", b"500")]
    scope = {"type": "http", "method": "PUT", "path": "/v1/ratings", "query_string": b"", "headers": headers}
    asyncio.run(Guard(application, settings, Metrics())(scope, receive, send))
    assert told == []


def test_what_nobody_foresaw_is_a_problem_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a secret")

    async def ask() -> httpx.Response:
        async with guarded(broken) as client:
            return await client.get("/v1/model")

    answer = asyncio.run(ask())
    problem(answer, 500)
    assert "secret" not in answer.text
    assert "a secret" in caplog.text


def test_strangers_do_not_close_the_page(tmp_path: Path) -> None:
    """Behind a proxy all come from one address."""
    keys = tmp_path / "keys.json"
    key = new_key(keys, "page", "read")

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        await Response("here")(scope, receive, send)

    async def ask() -> list[int]:
        async with guarded(answering, keys=keys, requests_per_second=0.001, burst=5) as client:

            async def statuses(path: str, token: str = "") -> set[int]:
                headers = {"authorization": f"Bearer {token}"} if token else {}
                return {(await client.get(path, headers=headers)).status_code for _ in range(20)}

            assert await statuses("/v1/model", "wrong") == {401, 429}
            assert await statuses("/v1/model") == {401}  # the page asks for a key then
            assert await statuses("/") | await statuses("/page/main.js") | await statuses("/health") == {200}
            assert (await client.get("/ready")).status_code == 200
            assert await statuses("/ready") == {200, 429}
            assert await statuses("/v1/model", key) == {200, 429}
            return [(await client.get("/")).status_code]

    assert asyncio.run(ask()) == [200]


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Via"])
def test_without_keys_nothing_comes_through_a_proxy(header: str, tmp_path: Path) -> None:
    """The proxy itself asks from this machine, by the name of this machine."""
    keys = tmp_path / "keys.json"
    key = new_key(keys, "shop", "read")

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        await Response("here")(scope, receive, send)

    async def ask(path: str, **settings: Any) -> httpx.Response:
        async with guarded(answering, **settings) as client:
            return await client.get(path, headers={header: "192.0.2.1", "Authorization": f"Bearer {key}"})

    for path in ("/v1/model", "/"):
        assert "a proxy passed this request on" in problem(asyncio.run(ask(path)), 421)
    assert asyncio.run(ask("/v1/model", keys=keys)).status_code == 200


def test_a_bucket_empties_and_fills_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("cofill.serving.api.guard.time.monotonic", lambda: now)
    limit = RateLimit(2.0, 3)
    for _ in range(3):
        limit.take("me")
    with pytest.raises(ProblemError, match="more than 2 requests a second; ask again in 1 s"):
        limit.take("me")
    limit.take("you")
    now += 0.5
    limit.take("me")
    with pytest.raises(ProblemError):
        limit.take("me")
    now += 1000
    for _ in range(3):
        limit.take("me")
    with pytest.raises(ProblemError):
        limit.take("me")
    RateLimit(0.0, 1).take("anybody")


def test_clients_are_forgotten_in_the_end() -> None:
    limit = RateLimit(1.0, 1)
    for number in range(10_500):
        limit.take(str(number))
    assert len(limit._buckets) == 10_000


@pytest.mark.parametrize(
    "host", ["covers.example.org", "https://x.org/path", "https://x.org; script-src *", "ftp://x.org", "*", "https://*"]
)
def test_pictures_come_from_origins_and_nothing_else_gets_into_the_policy(host: str) -> None:
    with pytest.raises(SettingsError, match=r"^--image-host must be an origin such as https://.+ Got '.+"):
        ServingSettings.of({"model": "model", "image_host": [host]})


def test_pictures_may_come_from_all_hosts_of_a_domain() -> None:
    found = ServingSettings.of({"model": "model", "image_host": ["https://*.Example.net:443", "http://[::1]:8080"]})
    assert found.image_host == ("https://*.example.net", "http://[::1]:8080")

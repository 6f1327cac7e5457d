"""The two clients: one that waits for each answer, and one to be awaited."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from cofill.client import calls
from cofill.client.messages import ListedItem, ListedUser
from cofill.client.transport import Call, Conversation, UnreachableError, require_httpx

_Reply = TypeVar("_Reply")
_Given = ParamSpec("_Given")


class _Settings:
    """What both clients are made with."""

    def __init__(
        self,
        address: str,
        *,
        key: str | None = None,
        timeout: float = 35.0,
        retries: int = 3,
        request_id: Callable[[], str] | None = None,
        **more: Any,
    ) -> None:
        """`timeout` in seconds, for each try, but not of a reload or a rollback, which take as long as they take.

        `retries`: how often what may be sent again is, when the server is busy.
        `request_id` makes the id of each call, which stands in the server's log; `more` is for httpx.
        """
        require_httpx()
        self._key = key
        self._retries = retries
        self._request_id = request_id
        self._open({"base_url": address, "timeout": timeout, **more})

    def _open(self, more: dict[str, Any]) -> None:
        raise NotImplementedError

    def _conversation(self, call: Call[Any]) -> Conversation:
        return Conversation(call, self._key, self._retries, self._request_id() if self._request_id else None)


def _waits(make: Callable[_Given, Call[_Reply]]) -> "Callable[Concatenate[Client, _Given], _Reply]":
    @wraps(make)
    def method(self: "Client", /, *given: _Given.args, **named: _Given.kwargs) -> _Reply:
        return self.send(make(*given, **named))

    return method


def _awaited(
    make: Callable[_Given, Call[_Reply]],
) -> "Callable[Concatenate[AsyncClient, _Given], Coroutine[Any, Any, _Reply]]":
    @wraps(make)
    async def method(self: "AsyncClient", /, *given: _Given.args, **named: _Given.kwargs) -> _Reply:
        return await self.send(make(*given, **named))

    return method


class Client(_Settings):
    """Asks a server and waits for each answer; many threads may use one."""

    def _open(self, more: dict[str, Any]) -> None:
        import httpx

        self._http = httpx.Client(**more)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; `with` does it by itself."""
        self._http.close()

    def send(self, call: Call[_Reply]) -> _Reply:
        """The reply; a `RefusedError` or an `UnreachableError` if there is none."""
        import httpx

        told = self._conversation(call)
        while True:
            response: httpx.Response | None = None
            try:
                response = self._http.request(**told.request())
            except httpx.TransportError as error:
                broken: Exception = error
            if response is not None and response.is_success:
                return call.reply(response.content)
            wait = told.wait(response)
            if wait is not None:
                time.sleep(wait)
            elif response is not None:
                raise told.refusal(response)
            else:
                raise _unreachable(self._http.base_url, broken) from broken

    recommend = _waits(calls.recommend)
    recommend_many = _waits(calls.recommend_many)
    predict = _waits(calls.predict)
    explain = _waits(calls.explain)
    similar = _waits(calls.similar)
    basket = _waits(calls.basket)
    popular = _waits(calls.popular)
    newest = _waits(calls.newest)
    find_items = _waits(calls.find_items)
    starters = _waits(calls.starters)
    item = _waits(calls.item)
    describe_item = _waits(calls.describe_item)
    describe_items = _waits(calls.describe_items)
    delete_item = _waits(calls.delete_item)
    list_items = _waits(calls.list_items)
    find_users = _waits(calls.find_users)
    make_user = _waits(calls.make_user)
    describe_user = _waits(calls.describe_user)
    merge_users = _waits(calls.merge_users)
    describe_users = _waits(calls.describe_users)
    delete_user = _waits(calls.delete_user)
    list_users = _waits(calls.list_users)
    ratings = _waits(calls.ratings)
    put_ratings = _waits(calls.put_ratings)
    withdraw_rating = _waits(calls.withdraw_rating)
    send_events = _waits(calls.send_events)
    withdraw_event = _waits(calls.withdraw_event)
    latest_events = _waits(calls.latest_events)
    click_through = _waits(calls.click_through)
    model = _waits(calls.model)
    reload = _waits(calls.reload)
    roll_back = _waits(calls.roll_back)
    retrain = _waits(calls.retrain)
    trainings = _waits(calls.trainings)
    health = _waits(calls.health)
    ready = _waits(calls.ready)
    metrics = _waits(calls.metrics)

    def all_items(self, at_once: int = 100) -> Iterator[ListedItem]:
        """Every item of the catalogue, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.list_items(cursor, n=at_once)
            yield from page.items
            cursor = page.next

    def all_users(self, at_once: int = 100) -> Iterator[ListedUser]:
        """Every user, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.list_users(cursor, n=at_once)
            yield from page.users
            cursor = page.next


class AsyncClient(_Settings):
    """Asks a server, and is awaited; many tasks may use one."""

    def _open(self, more: dict[str, Any]) -> None:
        import httpx

        self._http = httpx.AsyncClient(**more)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; `async with` does it by itself."""
        await self._http.aclose()

    async def send(self, call: Call[_Reply]) -> _Reply:
        """The reply; a `RefusedError` or an `UnreachableError` if there is none."""
        import httpx

        told = self._conversation(call)
        while True:
            response: httpx.Response | None = None
            try:
                response = await self._http.request(**told.request())
            except httpx.TransportError as error:
                broken: Exception = error
            if response is not None and response.is_success:
                return call.reply(response.content)
            wait = told.wait(response)
            if wait is not None:
                await asyncio.sleep(wait)
            elif response is not None:
                raise told.refusal(response)
            else:
                raise _unreachable(self._http.base_url, broken) from broken

    recommend = _awaited(calls.recommend)
    recommend_many = _awaited(calls.recommend_many)
    predict = _awaited(calls.predict)
    explain = _awaited(calls.explain)
    similar = _awaited(calls.similar)
    basket = _awaited(calls.basket)
    popular = _awaited(calls.popular)
    newest = _awaited(calls.newest)
    find_items = _awaited(calls.find_items)
    starters = _awaited(calls.starters)
    item = _awaited(calls.item)
    describe_item = _awaited(calls.describe_item)
    describe_items = _awaited(calls.describe_items)
    delete_item = _awaited(calls.delete_item)
    list_items = _awaited(calls.list_items)
    find_users = _awaited(calls.find_users)
    make_user = _awaited(calls.make_user)
    describe_user = _awaited(calls.describe_user)
    merge_users = _awaited(calls.merge_users)
    describe_users = _awaited(calls.describe_users)
    delete_user = _awaited(calls.delete_user)
    list_users = _awaited(calls.list_users)
    ratings = _awaited(calls.ratings)
    put_ratings = _awaited(calls.put_ratings)
    withdraw_rating = _awaited(calls.withdraw_rating)
    send_events = _awaited(calls.send_events)
    withdraw_event = _awaited(calls.withdraw_event)
    latest_events = _awaited(calls.latest_events)
    click_through = _awaited(calls.click_through)
    model = _awaited(calls.model)
    reload = _awaited(calls.reload)
    roll_back = _awaited(calls.roll_back)
    retrain = _awaited(calls.retrain)
    trainings = _awaited(calls.trainings)
    health = _awaited(calls.health)
    ready = _awaited(calls.ready)
    metrics = _awaited(calls.metrics)

    async def all_items(self, at_once: int = 100) -> AsyncIterator[ListedItem]:
        """Every item of the catalogue, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.list_items(cursor, n=at_once)
            for one in page.items:
                yield one
            cursor = page.next

    async def all_users(self, at_once: int = 100) -> AsyncIterator[ListedUser]:
        """Every user, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.list_users(cursor, n=at_once)
            for one in page.users:
                yield one
            cursor = page.next


def _unreachable(address: object, error: Exception) -> UnreachableError:
    reason = str(error) or type(error).__name__
    return UnreachableError(f"{str(address).rstrip('/')}: no answer came: {reason}; is the server running there?")

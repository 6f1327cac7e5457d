"""Which right a route needs, how its message is read, and who asks the model when."""

import asyncio
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from starlette.routing import Route

from cofill.serving.api.guard import Right, right_of
from cofill.serving.api.requests import parse_json
from cofill.serving.app import add_routes, new_api
from cofill.serving.live.served import ServedModel
from cofill.serving.live.store import Store
from cofill.serving.settings import ServingSettings
from tests.serving.conftest import live_model

OPEN, LIMITED, READS, WRITES, DELETES, OPERATES = Right
RIGHTS = {
    ("GET", "/"): OPEN,
    ("GET", "/docs"): OPEN,
    ("GET", "/health"): OPEN,
    ("GET", "/metrics"): READS,
    ("GET", "/openapi.json"): READS,
    ("GET", "/page/settings.json"): OPEN,
    ("GET", "/page/tokens.css"): OPEN,
    ("GET", "/ready"): LIMITED,
    ("GET", "/v1/click-through"): OPERATES,
    ("GET", "/v1/events"): OPERATES,
    ("POST", "/v1/events"): WRITES,
    ("DELETE", "/v1/events"): WRITES,
    ("POST", "/v1/users/merge"): WRITES,
    ("POST", "/v1/basket"): READS,
    ("GET", "/v1/new"): READS,
    ("GET", "/v1/popular"): READS,
    ("DELETE", "/v1/item"): DELETES,
    ("GET", "/v1/item"): READS,
    ("PUT", "/v1/item"): WRITES,
    ("GET", "/v1/items"): READS,
    ("POST", "/v1/items/bulk"): WRITES,
    ("GET", "/v1/items/list"): READS,
    ("GET", "/v1/map"): READS,
    ("GET", "/v1/model"): READS,
    ("POST", "/v1/model/reload"): OPERATES,
    ("POST", "/v1/model/retrain"): OPERATES,
    ("GET", "/v1/model/trainings"): OPERATES,
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
    ("DELETE", "/v1/user"): DELETES,
    ("PUT", "/v1/user"): WRITES,
    ("GET", "/v1/users"): READS,
    ("POST", "/v1/users"): WRITES,
    ("POST", "/v1/users/bulk"): WRITES,
    ("GET", "/v1/users/list"): READS,
    ("GET", "/v1/why"): READS,
    ("POST", "/v1/why"): READS,
}


def all_routes() -> FastAPI:
    """All routes that there are, with nothing behind them."""
    nothing: Any = None
    api = new_api()
    add_routes(api, nothing, nothing, nothing, ServingSettings(model=Path("model")))
    return api


def test_every_route_needs_its_right() -> None:
    found = {
        (method, route.path): right_of(method, route.path)
        for route in all_routes().routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert found == RIGHTS


@pytest.mark.parametrize(
    ("method", "path", "right"),
    [
        ("GET", "/page/map.js", OPEN),
        ("GET", "/page/../keys.json", OPEN),  # of which there is no file
        ("GET", "/pages", READS),
        # What no route takes is refused behind the guard.
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
def test_what_no_route_takes_needs_a_right_too(method: str, path: str, right: Right) -> None:
    assert right_of(method, path) is right


def test_the_route_of_the_docs_answers() -> None:
    """One module and one call are all that a route takes."""
    docs = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-route.md"
    (source,) = re.findall(r"```python\n(.*?)```", docs.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(source, str(docs), "exec"), names)
    counts = np.array([3, 9, 5])
    served = SimpleNamespace(
        model=SimpleNamespace(item_counts=lambda: counts, items=SimpleNamespace(id="abc".__getitem__))
    )

    async def asked(question: Any) -> Any:
        return question(served)

    app = new_api()
    names["add_most_rated"](app, SimpleNamespace(ask=asked))
    assert right_of("GET", "/v1/most-rated") is READS

    async def ask() -> list[Any]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return [(await client.get(f"/v1/most-rated{query}")).json() for query in ("?n=2", "?n=101")]

    found, refused = asyncio.run(ask())
    assert found == {"items": ["b", "c"]}
    assert refused["detail"] == "query.n: must be less than or equal to 100"


def test_a_name_that_stands_twice_among_many_is_found() -> None:
    """If each were compared with each, this would take hours."""
    names = [f'"{number}": 1' for number in range(400_000)]
    with pytest.raises(ValueError, match="the name '399999' stands twice in one object"):
        parse_json(f"{{{', '.join(names)}, {names[-1]}}}".encode())


def test_questions_are_answered_in_their_order_and_not_if_nobody_waits(model: Path, store: Store) -> None:
    live = live_model(model, store)
    begun, go = threading.Event(), threading.Event()
    order: list[int] = []

    def hold(served: ServedModel) -> None:
        begun.set()
        assert go.wait(60)

    async def ask() -> None:
        first = asyncio.ensure_future(live.ask(hold))
        await asyncio.to_thread(begun.wait, 60)
        others = [asyncio.ensure_future(live.ask(lambda served, at=at: order.append(at))) for at in range(10)]  # type: ignore[misc]
        await asyncio.sleep(0)  # all of them have asked
        others[3].cancel()
        await asyncio.wait([others[3]])
        go.set()
        await asyncio.gather(first, *others, return_exceptions=True)

    asyncio.run(ask())
    assert order == [0, 1, 2, 4, 5, 6, 7, 8, 9]

"""The application, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp

from cofill import __version__
from cofill.serving.database import Store, url_of
from cofill.serving.guard import Admission, Guard
from cofill.serving.item_map import ItemMap, add_map
from cofill.serving.live_model import LiveModel
from cofill.serving.metrics import Metrics
from cofill.serving.problems import MEDIA_TYPE, ProblemMessage, add_handlers
from cofill.serving.read_only import ReadOnlyStore
from cofill.serving.routes_items import add_items
from cofill.serving.routes_model import add_model
from cofill.serving.routes_page import add_page
from cofill.serving.routes_recommending import add_recommending
from cofill.serving.routes_users import add_users
from cofill.serving.routing import Right, Routes
from cofill.serving.served_model import read_card
from cofill.serving.settings import ServingSettings
from cofill.serving.split import Split

_PROBLEMS = {
    "400": "The body is not JSON.",
    "401": "A key is needed.",
    "403": "The key may not do that.",
    "404": "An id that is needed is not known.",
    "413": "The body is too long.",
    "415": "The body is not declared as JSON.",
    "422": "What was sent makes no sense here.",
    "429": "Too many requests.",
    "503": "Not now; try again.",
}


class Application:
    """What `server_processes.py` runs: `asgi` behind the guard, and the model that it serves."""

    def __init__(self, settings: ServingSettings) -> None:
        """Read the model and open the database; a `CofillError` if that fails."""
        self.admission = Admission(settings)
        for folder in settings.models.values():
            read_card(folder)  # a wrong path shall not leave a database behind
        self.store = ReadOnlyStore() if settings.read_only else Store(url_of(settings.database, settings.model))
        self.store.open()
        self.live = LiveModel(settings.model, self.store, settings.seconds, Split.of(settings))
        metrics = Metrics()
        item_map = ItemMap(settings.model)

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            self.live.start(metrics.looked, metrics.answered_by)
            yield
            self.live.stop()
            item_map.stop()
            self.store.close()

        # FastAPI's own pages of documentation come from a CDN: they are off.
        api = FastAPI(
            title="cofill",
            version=__version__,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
            lifespan=lifespan,
        )
        add_handlers(api)
        self.routes = Routes(api.router)
        add_routes(self.routes, self.live, self.store, item_map, metrics)
        self.routes.declare(["GET", "HEAD"], str(api.openapi_url), Right.READS)  # FastAPI's own
        api.openapi = lambda: _published(api)  # type: ignore[method-assign]
        self.api = api
        self.asgi: ASGIApp = Guard(api, settings, metrics, self.admission, self.routes)


def add_routes(routes: Routes, live: LiveModel, store: Store, item_map: ItemMap, metrics: Metrics) -> None:
    """Add all routes to one router, the most requested first, because they are tried in order."""
    add_recommending(routes, live)
    add_items(routes, live, store)
    add_map(routes, live, item_map)
    add_users(routes, live, store)
    add_model(routes, live, store, metrics)
    add_page(routes)


def _published(api: FastAPI) -> dict[str, object]:
    """The OpenAPI document, with the shape of our errors (problem+json), which FastAPI does not know."""
    if api.openapi_schema is None:
        document = get_openapi(title=api.title, version=api.version, routes=api.routes)
        schemas = document["components"]["schemas"]
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        schemas["Problem"] = ProblemMessage.model_json_schema()
        content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        for path in document["paths"].values():
            for operation in path.values():
                operation["responses"] |= {
                    status: {"description": text, "content": content} for status, text in _PROBLEMS.items()
                }
                operation["responses"]["default"] = {"description": "Another problem.", "content": content}
        api.openapi_schema = document
    return api.openapi_schema

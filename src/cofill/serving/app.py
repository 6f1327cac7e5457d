"""The application, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from cofill import __version__
from cofill.serving.batch_pace import Pace
from cofill.serving.database import Store, url_of
from cofill.serving.event_log import EventLog, Retention
from cofill.serving.guard import Admission, Guard
from cofill.serving.item_map import ItemMap, add_map
from cofill.serving.live_model import LiveModel
from cofill.serving.metrics import Metrics
from cofill.serving.openapi_document import published
from cofill.serving.problems import add_handlers
from cofill.serving.read_only import ReadOnlyStore
from cofill.serving.routes_catalogue import add_catalogue
from cofill.serving.routes_events import add_events
from cofill.serving.routes_items import add_items
from cofill.serving.routes_model import add_model
from cofill.serving.routes_page import add_page
from cofill.serving.routes_predicting import add_predicting
from cofill.serving.routes_recommending import add_recommending
from cofill.serving.routes_reference import add_reference
from cofill.serving.routes_users import add_users
from cofill.serving.routing import Right, Routes
from cofill.serving.served_model import read_card
from cofill.serving.settings import ServingSettings
from cofill.serving.split import Split


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
        keep = Retention(settings.keep_shown_days, settings.keep_events_days)
        self.events = EventLog(self.store, settings.event_weight, keep)
        self._metrics = metrics = Metrics()
        item_map = ItemMap(settings.model)

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            self.live.start(self._looked, metrics.answered_by)
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
        add_routes(self.routes, self.live, self.store, self.events, item_map, metrics, settings)
        self.routes.declare(["GET", "HEAD"], str(api.openapi_url), Right.READS)  # FastAPI's own
        api.openapi = lambda: self._document  # type: ignore[method-assign]
        self.api = api
        self._keys = settings.keys is not None
        self.asgi: ASGIApp = Guard(api, settings, metrics, self.admission, self.routes)

    def _looked(self, live: LiveModel, lag: int) -> None:
        self._metrics.looked(live, lag)
        if not live.disk.full:
            self.events.look_after([variant.served.card.version for variant in live.variants])

    @cached_property
    def _document(self) -> dict[str, Any]:
        return published(self.api, self.routes, self._keys)


def add_routes(
    routes: Routes,
    live: LiveModel,
    store: Store,
    events: EventLog,
    item_map: ItemMap,
    metrics: Metrics,
    settings: ServingSettings,
) -> None:
    """Add all routes to one router, the most requested first, because they are tried in order."""
    pace = Pace()
    add_recommending(routes, live, events, pace)
    add_predicting(routes, live, pace)
    add_events(routes, live, events, settings.event_weight, open_catalogue=settings.open_catalogue)
    add_items(routes, live, store)
    add_map(routes, live, item_map)
    add_users(routes, live, store, open_catalogue=settings.open_catalogue)
    add_catalogue(routes, live, store)
    add_model(routes, live, store, events, metrics)
    add_page(routes, settings)
    add_reference(routes)

"""The application, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp

from cofill import __version__
from cofill.serving.api.catalogue import add_catalogue, add_items
from cofill.serving.api.guard import guarded
from cofill.serving.api.lists import add_lists
from cofill.serving.api.model import add_model
from cofill.serving.api.openapi import PROBLEMS, operation_id, published
from cofill.serving.api.page import add_page
from cofill.serving.api.problems import add_handlers
from cofill.serving.api.requests import StrictRoute
from cofill.serving.api.shelves import add_shelves
from cofill.serving.api.users import add_events, add_users
from cofill.serving.live.events import EventLog, Retention
from cofill.serving.live.model import LiveModel
from cofill.serving.live.served import read_card
from cofill.serving.live.store import Store, is_disk_full
from cofill.serving.ops.metrics import Metrics
from cofill.serving.settings import ServingSettings


class Application:
    """What `processes.py` runs: `asgi` behind the guard, and the model that it serves."""

    def __init__(self, settings: ServingSettings) -> None:
        """Read the model and open the database; a `CofillError` if that fails."""
        self._metrics = metrics = Metrics()
        self._keys = settings.keys is not None
        self.api = new_api(self._lifespan)
        self.asgi: ASGIApp = guarded(self.api, settings, metrics)  # wrong keys shall not leave a database behind
        for folder in settings.models.values():
            read_card(folder)  # nor a wrong path
        self.store = Store.of(settings)
        self.store.open()
        self.live = LiveModel(settings, self.store)
        keep = Retention(settings.keep_shown_days, settings.keep_events_days, settings.forget_events_days)
        self.events = EventLog(self.store, settings.event_weight, keep)
        add_routes(self.api, self.live, self.events, metrics, settings)
        self.api.openapi = lambda: self._document  # type: ignore[method-assign]

    @asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        self.live.start(self._looked, self._metrics.answered_by)
        yield
        self.live.stop()
        self.store.close()

    def _looked(self, live: LiveModel, lag: int) -> None:
        self._metrics.looked(live, lag)
        try:
            self.events.look_after([variant.served.card.version for variant in live.variants])
        except SQLAlchemyError as error:
            if not is_disk_full(error):  # which the log has, and which is no reason to stop following
                raise

    @cached_property
    def _document(self) -> dict[str, Any]:
        return published(self.api, self._keys)


def new_api(lifespan: Any = None) -> FastAPI:
    """FastAPI as all routes need it."""
    # FastAPI's own pages of documentation come from a CDN: they are off.
    api = FastAPI(
        title="cofill",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses=PROBLEMS,
        generate_unique_id_function=operation_id,
        lifespan=lifespan,
    )
    api.router.route_class = StrictRoute
    add_handlers(api)
    return api


def add_routes(api: FastAPI, live: LiveModel, events: EventLog, metrics: Metrics, settings: ServingSettings) -> None:
    """Add all routes, the most requested first, because they are tried in order."""
    add_lists(api, live, events)
    add_shelves(api, live, events)
    add_events(api, live, events, settings)
    add_items(api, live)
    add_users(api, live, settings)
    add_catalogue(api, live)
    add_model(api, live, events, metrics, settings)
    add_page(api, settings)

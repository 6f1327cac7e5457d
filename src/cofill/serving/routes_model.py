"""The model's metadata, reloading it, and the server's health."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import BaseModel, Field, JsonValue

from cofill.config import Networks, Settings
from cofill.data.attributes import AttributeColumn
from cofill.data.features.lists import readable_kinds
from cofill.serving.database import Store
from cofill.serving.event_log import EventLog
from cofill.serving.live_model import LiveModel, Variant
from cofill.serving.metrics import Metrics
from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError
from cofill.serving.request_messages import ModelName, NothingQuery, QueryModel
from cofill.serving.routing import Probes, Right, Routes, WaitsForDatabase, answer, rounded
from cofill.serving.served_model import ServedModel

if TYPE_CHECKING:
    from cofill.data.features import Features


_MOST_CHOICES = 200  # of a column that describes people; a form has no room for more


class ScaleMessage(BaseModel):
    low: float
    high: float
    step: float | None


class ModelRatings(BaseModel):
    trained: int
    live: int


class FilterColumn(BaseModel):
    name: str
    kind: str = Field(json_schema_extra={"enum": list(readable_kinds())})
    values: list[dict[str, JsonValue]]
    low: float | str | None
    high: float | str | None


class DescribingColumn(BaseModel):
    column: str
    kind: str
    example: str
    choices: list[str] = Field(description="what can be chosen from; empty where anything can be said")


class SettingMessage(BaseModel):
    name: str
    label: str
    help: str
    value: JsonValue


class ServedMessage(BaseModel):
    """One of the models that are served at once."""

    name: str
    share: float = Field(description="the part of the people that it gets")
    version: str
    kind: str
    trained: str = Field(description="when it was trained")
    users: int = Field(description="how many users it knows")
    items: int = Field(description="how many items it knows")
    refused: int = Field(description="live ratings and descriptions that do not fit it, and are left out")
    before: str | None = Field(description="the version that a rollback would serve; null if none is kept")


class ModelMessage(BaseModel):
    name: str
    kind: str
    orientation: Networks
    version: str
    cofill_version: str
    trained: str = Field(description="when it was trained")
    trained_is_known: bool = Field(
        description="false: an older cofill wrote the model and did not say; `trained` is when the file was written"
    )
    rated: bool = Field(description="whether it was trained on ratings; otherwise on interactions, and rates nothing")
    read_only: bool = Field(description="whether the server keeps nothing, so that nothing can be written")
    scale: ScaleMessage
    users: int = Field(description="how many users it knows")
    items: int = Field(description="how many items it knows")
    ratings: ModelRatings
    settings: dict[str, JsonValue]
    settings_explained: list[SettingMessage]
    measures: dict[str, JsonValue]
    history: list[dict[str, JsonValue]]
    data: dict[str, JsonValue]
    item_columns: list[FilterColumn]
    user_columns: list[DescribingColumn]
    item_feature_columns: list[DescribingColumn]
    models: list[ServedMessage] = Field(description="all models that are served, this one among them")


class Reloaded(BaseModel):
    model: str
    version: str
    users: int = Field(description="how many users it knows")
    items: int = Field(description="how many items it knows")


class Status(BaseModel):
    status: Literal["alive", "ready"]


class ModelQuery(QueryModel):
    model: ModelName | None = Field(default=None, description="the name of one of several models; by default the first")


class ReloadQuery(QueryModel):
    model: ModelName | None = Field(default=None, description="the name of one of several models; by default all")


class RollbackQuery(QueryModel):
    model: ModelName | None = Field(default=None, description="the name of one of several models")


def add_model(routes: Routes, live: LiveModel, store: Store, events: EventLog, metrics: Metrics) -> None:
    replacing = threading.Lock()

    @routes.add("GET", "/v1/model", Right.READS, ModelMessage, "What is served")
    def get_model(query: Annotated[ModelQuery, Query()]) -> Response:
        """Its data, scale, settings and measures, and the columns to filter and to describe by."""
        with live.asked(query.model) as served:
            about = _about(served)
        about["ratings"]["live"] = store.rating_count()  # others need not wait for this, nor for files
        return answer(about | {"read_only": store.read_only, "models": [_in_short(one) for one in live.variants]})

    @routes.add(
        "POST",
        "/v1/model/reload",
        Right.OPERATES,
        Reloaded,
        "Serve the model that is in the folder now",
        kind=WaitsForDatabase,
        takes_long=True,  # reading a large model may take minutes
    )
    def reload_model(query: Annotated[ReloadQuery, Query()]) -> Response:
        """Answers when it is done. A broken model is refused, and the one before it stays in service."""
        return _replaced(lambda: live.reload(query.model))

    @routes.add(
        "POST",
        "/v1/model/rollback",
        Right.OPERATES,
        Reloaded,
        "Serve the model that was served before",
        kind=WaitsForDatabase,
        takes_long=True,
    )
    def roll_back_model(query: Annotated[RollbackQuery, Query()]) -> Response:
        """In all processes, at once; what was served until now is the one before, then."""
        return _replaced(lambda: live.roll_back(query.model))

    def _replaced(replace: Callable[[], ServedModel]) -> Response:
        if not replacing.acquire(blocking=False):  # each that waits would keep a thread from others
            raise ProblemError(503, "a model is being read already; try again", headers={"Retry-After": "1"})
        try:
            served = replace()
        finally:
            replacing.release()
        return answer(
            {
                "model": served.name,
                "version": served.card.version,
                "users": len(served.model.users),
                "items": len(served.model.items),
            }
        )

    @routes.add("GET", "/health", Right.OPEN, Status, "Whether the process is alive")
    async def get_health(_: Annotated[NothingQuery, Query()]) -> Response:
        """Answered from memory, however busy the server is."""
        return answer({"status": "alive"})

    @routes.add("GET", "/ready", Right.LIMITED, Status, "Whether requests can be answered", kind=Probes)
    def get_readiness(_: Annotated[NothingQuery, Query()]) -> Response:
        """Answered after a look into the database; 503 while it does not answer, or the server stops."""
        if live.draining:
            stopping = ProblemType.STOPPING
            raise ProblemError(503, "the server is stopping; send requests to another one", kind=stopping)
        store.counter()
        return answer({"status": "ready"})

    @routes.add("GET", "/metrics", Right.READS, None, "Figures for Prometheus", kind=WaitsForDatabase)
    def get_metrics(_: Annotated[NothingQuery, Query()]) -> Response:
        """In the text format of Prometheus."""
        return metrics.response(live, store, events)


def _in_short(variant: Variant) -> dict[str, Any]:
    model, card = variant.served.model, variant.served.card
    return {
        "name": variant.name,
        "share": rounded(variant.share),
        "version": card.version,
        "kind": model.kind,
        "trained": _time(card.trained),
        "users": len(model.users),
        "items": len(model.items),
        "refused": variant.served.refused,
        "before": variant.kept.before(variant.served.card.version),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _about(served: ServedModel) -> dict[str, Any]:
    model, card = served.model, served.card
    return {
        "name": served.name,
        "kind": model.kind,
        "orientation": getattr(model.settings, "orientation", "user"),
        "version": card.version,
        "cofill_version": card.cofill_version,
        "trained": _time(card.trained),
        "trained_is_known": card.trained_is_known,
        "rated": model.rated,
        "scale": {"low": model.scale.low, "high": model.scale.high, "step": served.step},
        "users": len(model.users),
        "items": len(model.items),
        "ratings": {"trained": model.predictor.known.trained.nnz},
        "settings": model.settings.model_dump(mode="json"),
        "settings_explained": _explained(model.settings),
        "measures": model.measures,
        "history": [record.as_json() for record in model.history],
        "data": model.data_summary,
        "item_columns": [_filter(column) for column in model.item_attributes.columns()],
        "user_columns": _describing(model.user_features),
        "item_feature_columns": _describing(model.item_features),
    }


def _filter(column: AttributeColumn) -> dict[str, Any]:
    low, high = (bound.isoformat() if isinstance(bound, date) else bound for bound in (column.low, column.high))
    values: Sequence[dict[str, Any]] = [{"value": value, "count": count} for value, count in column.values]
    return {"name": column.name, "kind": column.kind, "values": values, "low": low, "high": high}


def _describing(features: "Features | None") -> list[dict[str, Any]]:
    """The feature columns that can describe a new user or item."""
    if features is None:
        return []
    return [
        {
            "column": column.name,
            "kind": column.kind,
            "example": column.example,
            "choices": list(column.suggestions[:_MOST_CHOICES]),
        }
        for source in features.sources
        for column in source.used
    ]


def _explained(settings: Settings) -> list[dict[str, Any]]:
    """Every setting with its label and its help text."""
    values = settings.model_dump(mode="json")
    return [
        {
            "name": name,
            "label": field.title or name.replace("_", " ").capitalize(),
            "help": field.description or "",
            "value": values[name],
        }
        for name, field in type(settings).model_fields.items()
    ]

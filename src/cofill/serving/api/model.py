"""The model's metadata, reloading it, and the server's health."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Query, Response
from pydantic import Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import PlainTextResponse

from cofill.client.messages import ModelMessage, Reloaded, Status, Trainings
from cofill.data.attributes import AttributeColumn
from cofill.errors import DataError
from cofill.serving.api.problems import ProblemError, ProblemType, busy
from cofill.serving.api.requests import ModelName, QueryModel, answer, in_database, rounded
from cofill.serving.live.events import EventLog
from cofill.serving.live.model import LiveModel, Variant
from cofill.serving.live.served import ServedModel
from cofill.serving.ops.metrics import Metrics
from cofill.serving.ops.retraining import trainings
from cofill.serving.settings import ServingSettings, beside

if TYPE_CHECKING:
    from cofill.data.features import Features

_MOST_CHOICES = 200  # of a column that describes people; a form has no room for more


class ModelQuery(QueryModel):
    model: ModelName | None = Field(default=None, description="the name of one of several models; by default the first")


class ReloadQuery(QueryModel):
    model: ModelName | None = Field(default=None, description="the name of one of several models; by default all")


class RollbackQuery(QueryModel):
    model: ModelName | None = Field(default=None, description="the name of one of several models")


def add_model(api: FastAPI, live: LiveModel, events: EventLog, metrics: Metrics, settings: ServingSettings) -> None:
    tags: list[str | Enum] = ["model"]
    replacing = threading.Lock()

    @api.get("/v1/model", response_model=ModelMessage, summary="What is served", tags=tags)
    async def get_model(query: Annotated[ModelQuery, Query()]) -> Response:
        """Its data, scale, settings and measures, and the columns to filter and to describe by."""
        about = await live.ask(_about, query.model)
        # Others need not wait for this, nor for files.
        about["ratings"]["live"] = None if live.stale else await in_database(live.store.rating_count)
        return answer(about | {"read_only": live.store.read_only, "models": [_in_short(one) for one in live.variants]})

    @api.post(
        "/v1/model/reload", response_model=Reloaded, summary="Serve the model that is in the folder now", tags=tags
    )
    async def reload_model(query: Annotated[ReloadQuery, Query()]) -> Response:
        """Answers when it is done. A broken model is refused, and the one before it stays in service."""
        return await in_database(_replaced, partial(live.reload, query.model))

    @api.post(
        "/v1/model/rollback", response_model=Reloaded, summary="Serve the model that was served before", tags=tags
    )
    async def roll_back_model(query: Annotated[RollbackQuery, Query()]) -> Response:
        """In all processes, at once; what was served until now is the one before, then."""
        return await in_database(_replaced, partial(live.roll_back, query.model))

    @api.post(
        "/v1/model/retrain", response_model=Trainings, summary="Train a new model now", status_code=202, tags=tags
    )
    async def retrain_model() -> Response:
        """As at the time of `--retrain`: it is served if it is not worse. Answers with the trainings until now."""
        if settings.retrain is None:
            raise DataError("this server does not train; start it with --retrain and --retrain-with")
        await in_database(beside(settings.model, ".retrain").touch)
        return answer({"trainings": trainings(settings.model)}, 202)

    @api.get("/v1/model/trainings", response_model=Trainings, summary="The last trainings", tags=tags)
    async def list_trainings() -> Response:
        """What `--retrain` has trained, how it compared, and whether it was promoted, the latest first."""
        return answer({"trainings": await in_database(trainings, settings.model)})

    def _replaced(replace: Callable[[], ServedModel]) -> Response:
        if not replacing.acquire(blocking=False):  # each that waits would keep a thread from others
            raise busy("a model is being read already")
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

    @api.get("/health", response_model=Status, summary="Whether the process is alive", tags=tags)
    async def get_health() -> Response:
        """Answered from memory, however busy the server is."""
        return answer({"status": "alive"})

    @api.get("/ready", response_model=Status, summary="Whether requests can be answered", tags=tags)
    async def get_readiness() -> Response:
        """Answered after a look into the database; 503 when it has not answered for too long, or the server stops."""
        if live.draining:
            raise ProblemError(ProblemType.STOPPING, "the server is stopping; send requests to another one")
        try:
            await asyncio.to_thread(live.lag)  # not behind writers, who may wait for each other
        except SQLAlchemyError:
            if not live.stale:
                raise
        return answer({"status": "ready"})

    @api.get("/metrics", response_class=PlainTextResponse, summary="Figures for Prometheus", tags=tags)
    async def get_metrics() -> Response:
        """In the text format of Prometheus."""
        return await in_database(metrics.response, live, events)


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

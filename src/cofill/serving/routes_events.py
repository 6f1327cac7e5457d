"""Events: what people do, in up to a thousand at once, each counted once; and what they were shown."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from fastapi import Response
from pydantic import BaseModel, Field, model_validator

from cofill.errors import DataError, UnknownIdError
from cofill.serving.event_kinds import GREATEST_WEIGHT, KIND, SHOWN
from cofill.serving.event_log import Event, EventLog
from cofill.serving.request_messages import ItemOrUserId, Message, Moment, Version
from cofill.serving.routing import Right, Routes, WaitsForDatabase, answer

if TYPE_CHECKING:
    from cofill.serving.live_model import LiveModel

_MOST_EVENTS = 1_000

_Kind = Annotated[str, Field(strict=True, pattern=f"^{KIND}$")]
_Weight = Annotated[float, Field(strict=True, gt=0, le=GREATEST_WEIGHT, allow_inf_nan=False)]


# What is asked


class EventMessage(Message):
    """What somebody did with an item, or that it was shown to them."""

    id: ItemOrUserId | None = Field(default=None, description="your own: an event with an id counts once")
    user: ItemOrUserId
    item: ItemOrUserId
    kind: _Kind = Field(description="such as view, click, play or buy; shown is what somebody was shown")
    time: Moment | None = Field(default=None, description="when it happened; otherwise now")
    weight: _Weight | None = Field(default=None, description="how much it counts; otherwise as its kind does")
    model_version: Version | None = Field(default=None, description="of the answer that the item was shown in")

    @model_validator(mode="after")
    def _shown_counts_for_nothing(self) -> "EventMessage":
        if self.kind == SHOWN and self.weight is not None:
            raise ValueError("what was shown counts for nothing; leave out its weight")
        return self


class EventsToStore(Message):
    events: list[EventMessage] = Field(min_length=1, max_length=_MOST_EVENTS)


# What is answered


class EventsStored(BaseModel):
    stored: int
    repeated: int = Field(description="events whose ids were known already; they were not counted again")


# Routes


def add_events(
    routes: Routes, live: "LiveModel", log: EventLog, weights: Mapping[str, float], *, open_catalogue: bool
) -> None:
    @routes.add(
        "POST",
        "/v1/events",
        Right.WRITES,
        EventsStored,
        "What people did, or were shown; all or nothing",
        kind=WaitsForDatabase,
    )
    def store_events(request: EventsToStore) -> Response:
        """Lists follow at once. An event with an id of yours counts once, however often it is sent."""
        with live.asked() as served:
            for at, event in enumerate(request.events):
                if not served.takes_item(event.item, open_catalogue=open_catalogue):
                    raise UnknownIdError(f"events.{at}: {nobody_described(event.item)}")
        events = [_event(at, event, weights) for at, event in enumerate(request.events)]
        stored = log.put(events)
        return answer({"stored": stored, "repeated": len(events) - stored})


def nobody_described(item: int | str) -> str:
    """Why something about an item is refused."""
    return (
        f"item {item!r} is not in the catalogue; check the id, or describe it first with PUT /v1/item "
        "(a server that is started with --open-catalogue takes any)"
    )


def _event(at: int, sent: EventMessage, weights: Mapping[str, float]) -> Event:
    weight = 0.0 if sent.kind == SHOWN else sent.weight
    if weight is None:
        weight = weights.get(sent.kind)
    if weight is None:
        raise DataError(
            f"events.{at}: no weight is known of the kind {sent.kind!r}; send a weight with it, use one of "
            f"{', '.join(weights)} or {SHOWN}, or start the server with --event-weight {sent.kind}=1"
        )
    id = None if sent.id is None else str(sent.id)
    return Event(str(sent.user), str(sent.item), sent.kind, weight, sent.time, id, sent.model_version)

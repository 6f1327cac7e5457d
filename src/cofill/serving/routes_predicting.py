"""Predicted ratings, and the intervals around them."""

from collections.abc import Hashable, Sequence
from math import ceil
from typing import Any

from fastapi import Response
from pydantic import BaseModel, Field, StrictBool, model_validator

from cofill.serving.batch_pace import WAIT, Pace
from cofill.serving.live_model import LiveModel
from cofill.serving.request_messages import ItemOrUserId, Message, ModelName
from cofill.serving.routes_recommending import ANSWERED, HIGH, LOW
from cofill.serving.routing import Right, Routes, SometimesLong, answer, rounded, time_left
from cofill.serving.rule_messages import UnknownIds, unknown_ids
from cofill.serving.served_model import ServedModel

_MOST_PAIRS = 10_000
_MOST_INTERVALS = 1000  # each takes as long as hundreds of ratings
# Pairs that are predicted before others have their turn.
_PAIRS_A_TURN = 1000
_INTERVALS_A_TURN = 50


# What is asked


class Pair(Message):
    user: ItemOrUserId
    item: ItemOrUserId


class PredictionRequest(Message):
    pairs: list[Pair] = Field(min_length=1, max_length=_MOST_PAIRS)
    interval: StrictBool = Field(
        default=False, description="also between which ratings nine tenths of the true ones are expected"
    )
    model: ModelName | None = Field(
        default=None,
        description="of several models, the one to ask; by default that of the person, or of several people the first",
    )

    @property
    def takes_long(self) -> bool:
        """Whether others should not have to wait for it."""
        return len(self.pairs) > (_INTERVALS_A_TURN if self.interval else _PAIRS_A_TURN)

    @property
    def user(self) -> int | str | None:
        """Of all pairs; None if there are several."""
        return self.pairs[0].user if len({str(pair.user) for pair in self.pairs}) == 1 else None

    @model_validator(mode="after")
    def _few_intervals(self) -> "PredictionRequest":
        if self.interval and len(self.pairs) > _MOST_INTERVALS:
            raise ValueError(
                f"intervals are for at most {_MOST_INTERVALS} pairs at once; send fewer, or leave them out"
            )
        return self


# What is answered


class Predicted(BaseModel):
    ratings: list[float] = Field(description="in the order of the pairs")
    low: list[float] | None = Field(default=None, description=LOW)
    high: list[float] | None = Field(default=None, description=HIGH)
    unknown: UnknownIds | None = Field(
        default=None,
        description="ids that are not known: what is predicted of them is what anybody would expect; else left out",
    )
    model: str = Field(description=ANSWERED)
    model_version: str


# Route


def add_predicting(routes: Routes, live: LiveModel, pace: Pace) -> None:
    @routes.add("POST", "/v1/predictions", Right.READS, Predicted, "What users would give items", kind=SometimesLong)
    def predict(request: PredictionRequest) -> Response:
        """In the order of the pairs. Of unknown users and items as much is predicted as anybody would expect."""
        at_once = _INTERVALS_A_TURN if request.interval else _PAIRS_A_TURN
        pairs = request.pairs
        pace.check(_parts(len(pairs), request.interval), len(pairs), time_left())
        found: dict[str, Any] = {}
        version = ""
        at = 0
        while at < len(pairs):
            pace.check_time(time_left())
            measured = pace.knows(_parts(1, request.interval))
            one = live.asked(request.model) if request.user is None else live.asked_for(request.user, request.model)
            with pace.turn(one) as served:
                if served.card.version != version:  # another model has taken its place: all from one
                    version, at = served.card.version, 0
                    found = {"model": served.name, "model_version": version}
                some = pairs[at : at + at_once]
                with pace.measured(_kind(request.interval), len(some)):
                    columns = _predicted(served, some, request.interval)
                if at + at_once >= len(pairs):
                    found |= unknown_ids(served, [pair.user for pair in pairs], [pair.item for pair in pairs])
            for name, column in columns.items():
                found.setdefault(name, []).extend(column)
            at += at_once
            if not measured:  # now it is
                pace.check(_parts(len(pairs) - at, request.interval), len(pairs), time_left())
        return answer(found)


def _kind(interval: bool) -> Hashable:
    return "interval" if interval else "prediction"


def _parts(pairs: int, interval: bool) -> dict[Hashable, int]:
    """What a batch consists of, as its pace is measured."""
    return {_kind(interval): max(pairs, 0), WAIT: ceil(pairs / (_INTERVALS_A_TURN if interval else _PAIRS_A_TURN))}


def _predicted(served: ServedModel, pairs: Sequence[Pair], interval: bool) -> dict[str, list[float]]:
    model = served.model
    users = model.users.find([pair.user for pair in pairs])
    items = model.items.find([pair.item for pair in pairs])
    if interval and model.has_intervals:
        columns = model.predict_intervals(users, items)._asdict()
    else:
        columns = {"ratings": model.predict_indices(users, items)}
    return {name: [rounded(rating) for rating in column.tolist()] for name, column in columns.items()}

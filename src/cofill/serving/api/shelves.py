"""Lists that are about no user: what is popular, what is new, and what goes with a basket."""

import time
from enum import Enum
from functools import partial
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Response
from pydantic import Field

from cofill.arrays import Longs
from cofill.client.messages import NewItems, PopularItems, Recommended
from cofill.data.vocabulary import Id
from cofill.serving.api.lists import list_entries
from cofill.serving.api.requests import (
    MOST_RATINGS,
    OFFSET,
    Count,
    CountText,
    ItemOrUserId,
    ModelName,
    Offset,
    OffsetText,
    answer,
    in_database,
    page_of,
)
from cofill.serving.api.rules import RuleMessage, SimilarRuleQuery, unknown_ids
from cofill.serving.live.events import SECONDS_A_DAY, EventLog
from cofill.serving.live.model import LiveModel
from cofill.serving.live.served import ServedModel

_LONGEST_PERIOD = 3_650
_N = "how many at most"
_MODEL = "of several models, the one to ask; by default the first"


class ShelfQuery(SimilarRuleQuery):
    n: CountText = Field(default=10, description=_N)
    offset: OffsetText | None = Field(default=None, description=OFFSET)
    days: Annotated[int, Field(ge=1, le=_LONGEST_PERIOD)] | None = Field(
        default=None, description="of the last days alone; by default of all time"
    )


class Basket(RuleMessage):
    items: list[ItemOrUserId] = Field(min_length=1, max_length=MOST_RATINGS, description="what is in the basket")
    n: Count = Field(default=10, description=_N)
    offset: Offset | None = Field(default=None, description=OFFSET)
    model: ModelName | None = Field(default=None, description=_MODEL)


def add_shelves(api: FastAPI, live: LiveModel, log: EventLog) -> None:
    tags: list[str | Enum] = ["recommending"]

    @api.get("/v1/popular", response_model=PopularItems, summary="What is popular", tags=tags)
    async def list_popular_items(query: Annotated[ShelfQuery, Query()]) -> Response:
        """By how many users did something with an item. Within a period, items without any user come last."""
        counted = None if query.days is None else await in_database(log.popular, query.days)
        return answer(await live.ask(partial(_popular, query, counted)))

    @api.get("/v1/new", response_model=NewItems, summary="What is new in the catalogue", tags=tags)
    async def list_new_items(query: Annotated[ShelfQuery, Query()]) -> Response:
        """Items that were described while the server was running, those that were added last come first."""
        return answer(await live.ask(partial(_new, query)))

    @api.post("/v1/basket", response_model=Recommended, summary="What goes with a basket", tags=tags)
    async def complete_basket(request: Basket) -> Response:
        """Items that are chosen by those who choose these, best first, and none of these."""
        return answer(await live.ask(partial(_with_basket, request), request.model))


def _popular(query: ShelfQuery, counted: dict[str, int] | None, served: ServedModel) -> dict[str, Any]:
    raters = served.model.raters()
    counts = raters
    if counted is not None:
        counts = np.zeros_like(raters)
        found = served.model.items.find(list(counted))
        counts[found[found >= 0]] = np.fromiter(counted.values(), np.int64)[found >= 0]
    items = _shelf(query, np.lexsort((served.item_order(), -raters, -counts)), served)
    at = served.model.items.find(items).tolist()
    return _answered(query, served, [{"users": int(counts[index])} for index in at], items)


def _new(query: ShelfQuery, served: ServedModel) -> dict[str, Any]:
    raters, added = served.model.raters(), np.full(len(served.model.items), -np.inf)
    found = served.model.items.find(list(served.added))
    added[found[found >= 0]] = np.fromiter(served.added.values(), np.float64)[found >= 0]
    if query.days is not None:
        added[added <= time.time() - query.days * SECONDS_A_DAY] = -np.inf
    order = np.lexsort((served.item_order(), raters, -added))  # of those added together the least known first
    items = _shelf(query, order[np.isfinite(added[order])], served)
    return _answered(query, served, [{"added": served.added[item]} for item in items], items)


def _shelf(query: ShelfQuery, order: Longs, served: ServedModel) -> list[Id]:
    """Of items in this order, given by index, those that the rules let in."""
    scores = np.full(len(served.model.items), -np.inf, np.float32)
    scores[order] = -np.arange(len(order), dtype=np.float32)
    many, page = page_of(query.n, query.offset)
    rules = served.within_catalogue(query.similar_rules(served.model.item_attributes))
    return served.model.items_by(scores, many, **rules)[page]


def _answered(query: ShelfQuery, served: ServedModel, more: list[dict[str, Any]], items: list[Id]) -> dict[str, Any]:
    entries = [served.item_entry(item, **about) for item, about in zip(items, more, strict=True)]
    unknown = unknown_ids(served, (), [*(query.among or ()), *(query.exclude or ())])
    return {"items": entries, "model_version": served.card.version} | unknown


def _with_basket(request: Basket, served: ServedModel) -> dict[str, Any]:
    model = served.model
    there = {model.items.own(item): None for item in request.items if served.has_item(item)}
    who = dict.fromkeys(there, model.scale.high if model.rated else 1.0)
    many, page = page_of(request.n, request.offset)
    ranked = model.recommend(who, many, by=request.by, **served.within_catalogue(request.rules()))
    unknown = unknown_ids(served, (), [*request.items, *(request.among or ()), *(request.exclude or ())])
    about = {"known": None, "model": served.name, "model_version": served.card.version}
    return {"items": list_entries(served, ranked[page])} | about | unknown

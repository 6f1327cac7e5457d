"""Items: search, show, describe, and starter items to rate first."""

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from fastapi import Query, Response
from pydantic import BaseModel, Field, JsonValue, StrictBool

from cofill.data.vocabulary import Id
from cofill.errors import CofillError, DataError
from cofill.models.lists.rules import SimilarRules
from cofill.serving.database import ItemToKeep, Store
from cofill.serving.live_model import LiveModel
from cofill.serving.request_messages import (
    CountText,
    Description,
    IdQuery,
    IdText,
    ItemOrUserId,
    Message,
    QueryModel,
    Title,
    Words,
)
from cofill.serving.routing import Right, Routes, WaitsForDatabase, answer, rounded
from cofill.serving.rule_messages import SimilarRuleQuery, UnknownIds, unknown_ids
from cofill.serving.served_model import ServedModel

_SIMILAR = 8  # on an item's page
_BINS = 10  # of a scale that has no steps


# What is asked


class ItemsQuery(QueryModel):
    query: Words = ""
    n: CountText = 10
    hidden: bool = Field(default=False, description="hidden items too")


class StartersQuery(QueryModel):
    n: CountText = 12


class SimilarQuery(SimilarRuleQuery):
    item: IdText = Field(description="the item that others shall be like")
    n: CountText = Field(default=10, description="how many items at most")


class ItemToStore(Message):
    id: ItemOrUserId
    title: Title | None = None
    features: Description | None = None
    available: StrictBool | None = Field(
        default=None, description="false hides it: it stays known, and is in no list; true shows it again"
    )


# What is answered


class FoundItem(BaseModel):
    id: int | str
    title: str | None
    ratings: int
    attributes: dict[str, JsonValue]


class FoundItems(BaseModel):
    items: list[FoundItem]
    model_version: str


class SimilarItem(BaseModel):
    id: int | str
    title: str | None
    similarity: float
    attributes: dict[str, JsonValue]


class SimilarItems(BaseModel):
    items: list[SimilarItem] = Field(description="the most similar first")
    unknown: UnknownIds | None = Field(default=None, description="ids of `among` and `exclude` that are not known")
    model_version: str


class Share(BaseModel):
    rating: float
    count: int


class ItemRatings(BaseModel):
    count: int
    mean: float | None
    distribution: list[Share]


class Item(BaseModel):
    id: int | str
    title: str | None
    available: bool = Field(description="whether it may be in lists")
    attributes: dict[str, JsonValue]
    ratings: ItemRatings
    similar: list[SimilarItem]
    model_version: str


# Routes


def add_items(routes: Routes, live: LiveModel, store: Store) -> None:
    @routes.add("GET", "/v1/items", Right.READS, FoundItems, "Items by the beginnings of the words of their titles")
    def find_items(query: Annotated[ItemsQuery, Query()]) -> Response:
        """Words of fewer letters than a title has are enough: `query=god fa` finds The Godfather."""
        with live.asked() as served:
            model = served.model
            without = None if query.hidden else served.availability.withheld()
            found = served.items.find(query.query, model.item_counts(), query.n, without)
            found = [index for index in found if served.has_item(model.items.id(index))]
            return answer(_found(served, [model.items.id(index) for index in found]))

    @routes.add("GET", "/v1/starters", Right.READS, FoundItems, "Known, diverse items to rate first")
    def list_starters(query: Annotated[StartersQuery, Query()]) -> Response:
        """For somebody of whom nothing is known yet: items that many know and that differ from each other."""
        with live.asked() as served:
            return answer(_found(served, served.starters(query.n)))

    @routes.add("GET", "/v1/similar", Right.READS, SimilarItems, "Items that are like one")
    def find_similar_items(query: Annotated[SimilarQuery, Query()]) -> Response:
        """Items that the same people choose, the most similar first, within the rules that are given."""
        with live.asked() as served:
            rules = query.similar_rules(served.model.item_attributes)
            found = _similar(served, served.known_item(query.item), query.n, rules)
            unknown = unknown_ids(served, (), [*(query.among or ()), *(query.exclude or ())])
            return answer({"items": found, "model_version": served.card.version} | unknown)

    @routes.add("GET", "/v1/item", Right.READS, Item, "All about an item")
    def get_item(query: Annotated[IdQuery, Query()]) -> Response:
        """Its attributes, how it was rated, and items that are like it."""
        with live.asked() as served:
            return answer(_item(served, served.known_item(query.id)))

    @routes.add(
        "PUT",
        "/v1/item",
        Right.WRITES,
        Item,
        "Describe an item, known or new; recommendable at once",
        kind=WaitsForDatabase,
    )
    def describe_item(request: ItemToStore) -> Response:
        """A description replaces the one before it; columns that are left out are unknown."""
        with live.asked() as served:
            checked = checked_item(served, request)
        store.put_items([checked])
        with live.asked() as served:
            return answer(_item(served, served.known_item(checked.item)))


def _found(served: ServedModel, items: list[Id]) -> dict[str, Any]:
    counts, index = served.model.item_counts(), served.model.items.index
    entries = [served.item_entry(item, ratings=int(counts[index(item)])) for item in items]
    return {"items": entries, "model_version": served.card.version}


def _similar(served: ServedModel, item: Id, n: int, rules: SimilarRules | None = None) -> list[dict[str, Any]]:
    found = served.model.similar(item, n, **served.within_catalogue(rules or SimilarRules()))
    return [served.item_entry(one.item, similarity=rounded(one.similarity)) for one in found]


def _item(served: ServedModel, item: Id) -> dict[str, Any]:
    values = served.ratings_for(served.model.items.index(item))
    try:
        similar = _similar(served, item, _SIMILAR)
    except CofillError:
        similar = []  # too little is known of it
    ratings = {
        "count": len(values),
        "mean": None if (mean := served.mean_rating(item)) is None else rounded(mean),
        "distribution": _distribution(served, values),
    }
    available = served.availability.shown(item)
    return served.item_entry(
        item, available=available, ratings=ratings, similar=similar, model_version=served.card.version
    )


def _distribution(served: ServedModel, values: npt.NDArray[np.float32]) -> list[dict[str, Any]]:
    """A histogram of ratings: one bin for each step of the scale; without steps, ten equal bins."""
    low, high = served.model.scale
    if served.step is None:
        counts, edges = np.histogram(values, _BINS, (low, high))
        places = (edges[:-1] + edges[1:]) / 2
    else:
        steps = round((high - low) / served.step)
        places = low + served.step * np.arange(steps + 1)
        nearest = np.clip(np.round((values - low) / served.step), 0, steps).astype(np.int64)
        counts = np.bincount(nearest, minlength=steps + 1)
    return [{"rating": rounded(place), "count": int(count)} for place, count in zip(places, counts, strict=True)]


def _with_title(served: ServedModel, request: ItemToStore) -> dict[str, Any] | None:
    """The features, including those from the title if the model learned from titles."""
    features = request.features
    if features is None or request.title is None or "title" not in served.full_description("item", {}):
        return features
    return {"title": request.title} | features


def checked_item(served: ServedModel, request: ItemToStore) -> ItemToKeep:
    """What is said about an item, checked before it is written."""
    model, features = served.model, _with_title(served, request)
    item = model.items.own(request.id)
    if request.title is None and features is None and (request.available is None or not served.has_item(item)):
        raise DataError(f"nothing is said about item {item!r}; give a title, features, or both")
    if features is not None:
        if model.item_features is None:
            raise DataError("the model was trained without features of items, so it cannot make use of any")
        model.item_features.encode(served.full_description("item", features))
    return ItemToKeep(str(request.id), request.title, features, request.available)

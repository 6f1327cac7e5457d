"""The catalogue: items found, shown, described and mapped; items and users in bulk, listed in pages, deleted."""

import base64
import binascii
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
import numpy.typing as npt
from fastapi import FastAPI, Query, Response
from pydantic import Field, StrictBool

from cofill.client.messages import FoundItems, Item, ListedItems, ListedUsers, Map, SimilarItems, Stored
from cofill.data.attributes import AttributeColumn
from cofill.data.vocabulary import Id
from cofill.errors import CofillError, DataError
from cofill.models.lists.rules import SimilarRules
from cofill.models.recommender import Side
from cofill.serving.api.problems import ProblemError, ProblemType, about_part
from cofill.serving.api.requests import (
    LONGEST_ID,
    CountText,
    Description,
    IdQuery,
    IdText,
    ItemOrUserId,
    Message,
    Moment,
    QueryModel,
    Title,
    Words,
    answer,
    in_database,
    lines_body,
    lines_of,
    rounded,
)
from cofill.serving.api.rules import SimilarRuleQuery, unknown_ids
from cofill.serving.live.model import LiveModel
from cofill.serving.live.served import ServedModel
from cofill.serving.live.store import ItemToKeep

_SIMILAR = 8  # on an item's page
_BINS = 10  # of a scale that has no steps
_MOST_LISTED = 1_000
_MOST_GROUPS = 8  # that colours can tell apart; everything else has none
_MOST_VALUES = 40  # of a column that tells what kind of thing an item is
_LINES_AT_ONCE = 100  # that are checked before others have their turn with the model
_LONGEST_CURSOR = 4 * LONGEST_ID * 4 // 3 + 4  # of an id of four bytes a character
_N = "how many at most"


# What is asked


class ItemsQuery(QueryModel):
    query: Words = Field(default="", description="the beginnings of words; empty finds all")
    n: CountText = Field(default=10, description=_N)
    hidden: bool = Field(default=False, description="hidden items too")


class StartersQuery(QueryModel):
    n: CountText = Field(default=12, description=_N)


class SimilarQuery(SimilarRuleQuery):
    item: IdText = Field(description="the item that others shall be like")
    n: CountText = Field(default=10, description=_N)


class ItemToStore(Message):
    id: ItemOrUserId = Field(description="the id of an item")
    title: Title | None = Field(default=None, description="its title")
    features: Description | None = Field(
        default=None, description="what it is, by column; columns that are left out are unknown"
    )
    available: StrictBool | None = Field(
        default=None, description="false hides it: it stays known, and is in no list; true shows it again"
    )
    available_until: Moment | None = Field(default=None, description="when it is hidden; true above takes that back")
    added: Moment | None = Field(default=None, description="since when it is new; otherwise since it was described")


class PageQuery(QueryModel):
    cursor: Annotated[str, Field(max_length=_LONGEST_CURSOR)] = Field(
        default="", description="`next` of the page before; nothing for the first"
    )
    n: Annotated[int, Field(ge=1, le=_MOST_LISTED)] = Field(default=100, description=_N)


class UserLine(Message):
    id: ItemOrUserId = Field(description="the id of a user")
    features: Description | None = Field(
        default=None, description="what they are, by column; columns that are left out are unknown"
    )


# Routes


def add_items(api: FastAPI, live: LiveModel) -> None:
    tags: list[str | Enum] = ["items"]

    @api.get(
        "/v1/items",
        response_model=FoundItems,
        summary="Items by the beginnings of the words of their titles",
        tags=tags,
    )
    async def find_items(query: Annotated[ItemsQuery, Query()]) -> Response:
        """Words of fewer letters than a title has are enough: `query=god fa` finds The Godfather."""

        def find(served: ServedModel) -> dict[str, Any]:
            model = served.model
            without = None if query.hidden else served.availability.withheld()
            indices = served.items.find(query.query, model.item_counts(), query.n, without)
            return _found(served, [item for item in map(model.items.id, indices) if served.has_item(item)])

        return answer(await live.ask(find))

    @api.get("/v1/starters", response_model=FoundItems, summary="Known, diverse items to rate first", tags=tags)
    async def list_starters(query: Annotated[StartersQuery, Query()]) -> Response:
        """For a new user to rate: items that many users know and that differ from each other."""
        return answer(await live.ask(lambda served: _found(served, served.starters(query.n))))

    @api.get("/v1/similar", response_model=SimilarItems, summary="Items that are like one", tags=tags)
    async def find_similar_items(query: Annotated[SimilarQuery, Query()]) -> Response:
        """Items that the same people choose, the most similar first, within the rules that are given."""

        def find(served: ServedModel) -> dict[str, Any]:
            rules = query.similar_rules(served.model.item_attributes)
            found = _similar(served, served.known_item(query.item), query.n, rules)
            unknown = unknown_ids(served, (), [*(query.among or ()), *(query.exclude or ())])
            return {"items": found, "model_version": served.card.version} | unknown

        return answer(await live.ask(find))

    @api.get("/v1/item", response_model=Item, summary="All about an item", tags=tags)
    async def get_item(query: Annotated[IdQuery, Query()]) -> Response:
        """Its attributes, how it was rated, and items that are like it."""
        return answer(await live.ask(partial(_item, query.id)))

    @api.put(
        "/v1/item", response_model=Item, summary="Describe an item, known or new; recommendable at once", tags=tags
    )
    async def describe_item(request: ItemToStore) -> Response:
        """A description replaces the one before it; columns that are left out are unknown."""
        checked = await live.ask(partial(_checked_item, request))
        await in_database(live.store.put_items, [checked])
        return answer(await live.ask(partial(_item, checked.item)))

    @api.get("/v1/map", response_model=Map, summary="The most rated items in two dimensions", tags=tags)
    async def get_map() -> Response:
        """Items that the same people choose stand near each other. Empty for a model that was stored without a map."""
        return answer(await live.ask(map_of))


def add_catalogue(api: FastAPI, live: LiveModel) -> None:
    tags: list[str | Enum] = ["catalogue"]

    @api.get("/v1/items/list", response_model=ListedItems, summary="All items, hidden ones too, in pages", tags=tags)
    async def list_items(query: Annotated[PageQuery, Query()]) -> Response:
        """By their ids as text. Each item that stays is on one page, whatever comes and goes meanwhile."""

        def page(served: ServedModel) -> dict[str, Any]:
            ids, following = _page(served, "item", query)
            counts, index = served.model.item_counts(), served.model.items.index
            entries = [
                served.item_entry(item, available=served.availability.shown(item), ratings=int(counts[index(item)]))
                for item in ids
            ]
            return {"items": entries, "next": following, "model_version": served.card.version}

        return answer(await live.ask(page))

    @api.post(
        "/v1/items/bulk",
        response_model=Stored,
        summary="Describe many items; all or nothing",
        tags=tags,
        openapi_extra=lines_body(ItemToStore),
    )
    async def store_items(items: Annotated[list[tuple[int, ItemToStore]], lines_of(ItemToStore)]) -> Response:
        """A line of JSON for each item, as `PUT /v1/item` takes it."""
        checked = await _each_line(live, items, _checked_item)
        await in_database(live.store.put_items, checked)
        return answer({"stored": len(items)})

    @api.delete("/v1/item", summary="Delete an item, if there is one", status_code=204, tags=tags)
    async def delete_item(query: Annotated[IdQuery, Query()]) -> Response:
        """It is unknown from then on. To take it out of lists for a while, hide it with `"available": false`."""
        if await live.ask(lambda served: served.has_item(query.id)):
            await in_database(live.store.delete_item, query.id)
        return Response(status_code=204)

    @api.get("/v1/users/list", response_model=ListedUsers, summary="All users, in pages", tags=tags)
    async def list_users(query: Annotated[PageQuery, Query()]) -> Response:
        """By their ids as text. Each user who stays is on one page, also if others come and go meanwhile."""

        def page(served: ServedModel) -> dict[str, Any]:
            ids, following = _page(served, "user", query)
            counts, users = served.model.user_counts(), served.model.users
            entries = [
                {"id": user, "ratings": int(counts[users.index(user)]) if served.in_model(user) else 0} for user in ids
            ]
            return {"users": entries, "next": following}

        return answer(await live.ask(page))

    @api.post(
        "/v1/users/bulk",
        response_model=Stored,
        summary="Describe many users; all or nothing",
        tags=tags,
        openapi_extra=lines_body(UserLine),
    )
    async def store_users(users: Annotated[list[tuple[int, UserLine]], lines_of(UserLine)]) -> Response:
        """A line of JSON for each user: an id, and features if the model was trained with features of users."""
        await _each_line(live, users, lambda user, served: check_features(user.features, served))
        await in_database(live.store.put_users, [(str(user.id), user.features) for _, user in users])
        return answer({"stored": len(users)})

    @api.delete("/v1/user", summary="Delete a person", status_code=204, tags=tags)
    async def delete_user(query: Annotated[IdQuery, Query()]) -> Response:
        """Ratings, events and description are removed, here and in exports. A hash of the id is kept, to keep it so."""
        await in_database(live.store.forget_user, query.id)
        await live.ask(lambda served: None)  # from memory too, before this is answered
        return Response(status_code=204)


# Items


def _found(served: ServedModel, items: list[Id]) -> dict[str, Any]:
    counts, index = served.model.item_counts(), served.model.items.index
    entries = [served.item_entry(item, ratings=int(counts[index(item)])) for item in items]
    return {"items": entries, "model_version": served.card.version}


def _similar(served: ServedModel, item: Id, n: int, rules: SimilarRules | None = None) -> list[dict[str, Any]]:
    found = served.model.similar(item, n, **served.within_catalogue(rules or SimilarRules()))
    return [served.item_entry(one.item, similarity=rounded(one.similarity)) for one in found]


def _item(id: Id, served: ServedModel) -> dict[str, Any]:
    item = served.known_item(id)
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
    available, until = served.availability.shown(item), served.availability.until.get(item)
    about = {"available": available, "available_until": until, "ratings": ratings, "similar": similar}
    return served.item_entry(item, **about, model_version=served.card.version)


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


def _checked_item(request: ItemToStore, served: ServedModel) -> ItemToKeep:
    """What is said about an item, checked before it is written."""
    model, features = served.model, _with_title(served, request)
    item = model.items.own(request.id)
    dates = request.available_until, request.added
    told = request.available is not None or any(date is not None for date in dates)
    if request.title is None and features is None and not (told and served.has_item(item)):
        raise DataError(f"nothing is said about item {item!r}; give a title, features, or both")
    if features is not None:
        if model.item_features is None:
            raise DataError("the model was trained without features of items, so it cannot make use of any")
        model.item_features.encode(served.full_description("item", features))
    return ItemToKeep(str(request.id), request.title, features, request.available, *dates)


# The map, as `cofill train` drew it, with groups to colour by


def map_of(served: ServedModel) -> dict[str, Any]:
    """The most rated items in two dimensions; none of a model that was stored without a map."""
    column, group_of = _grouping(served)
    model, drawn = served.model, served.model.item_places
    counts = model.item_counts()
    indices, places = ([], []) if drawn is None else (drawn.items.tolist(), drawn.places.tolist())
    entries = [
        {
            "id": item,
            "title": model.titles.get(item),
            "x": rounded(x),
            "y": rounded(y),
            "ratings": int(counts[index]),
            "group": group_of(item),
        }
        for index, (x, y) in zip(indices, places, strict=True)
        if served.availability.shown(item := model.items.id(index))
    ]
    return {"items": entries, "group_column": column, "model_version": served.card.version}


def _grouping(served: ServedModel) -> tuple[str | None, Callable[[Id], str | None]]:
    """Groups to colour by: the most frequent values of a column with few, or else yes/no columns, such as genres.

    An item is in the first group that it has; in none if it has only rare ones.
    """
    columns = served.model.item_attributes.columns()
    few = [column for column in columns if 1 < len(column.values) <= _MOST_VALUES and not _is_flag(column)]
    if few:
        name = few[0].name
        groups = {str(value) for value, _ in few[0].values[:_MOST_GROUPS]}
        cells = served.attributes_of
        return name, lambda item: next((one for one in _as_list(cells(item).get(name)) if one in groups), None)
    flags = sorted((dict(column.values).get(True, 0), column.name) for column in columns if _is_flag(column))
    rarest_first = [name for _, name in flags[-_MOST_GROUPS:]] if len(flags) > 1 else []

    def flag_of(item: Id) -> str | None:
        attributes = served.attributes_of(item)
        return next((name for name in rarest_first if attributes.get(name) is True), None)

    return None, flag_of


def _is_flag(column: AttributeColumn) -> bool:
    return any(isinstance(value, bool) for value, _ in column.values)


def _as_list(value: Any) -> list[str]:
    return [] if value is None else [str(one) for one in (value if isinstance(value, list) else [value])]


# In bulk, and in pages

_Sent = TypeVar("_Sent", ItemToStore, UserLine)
_Checked = TypeVar("_Checked")


async def _each_line(
    live: LiveModel, lines: Sequence[tuple[int, _Sent]], check: Callable[[_Sent, ServedModel], _Checked]
) -> list[_Checked]:
    """What `check` makes of each line; an error names the line."""
    seen: dict[str, int] = {}
    for number, line in lines:
        id = str(line.id)
        if id in seen:
            detail = f"line {number}: {id!r} stands in line {seen[id]} already; keep one of them"
            raise ProblemError(ProblemType.INVALID_REQUEST, detail)
        seen[id] = number

    def some(lines: Sequence[tuple[int, _Sent]], served: ServedModel) -> list[_Checked]:
        checked: list[_Checked] = []
        for number, line in lines:
            try:
                checked.append(check(line, served))
            except CofillError as error:
                raise about_part(f"line {number}", error) from error
        return checked

    parts = [lines[at : at + _LINES_AT_ONCE] for at in range(0, len(lines), _LINES_AT_ONCE)]
    return [one for part in parts for one in await live.ask(partial(some, part))]


def check_features(features: dict[str, Any] | None, served: ServedModel) -> None:
    """An error if features do not describe a user of the model."""
    if features is None:
        return
    if served.model.user_features is None:
        raise DataError("the model was trained without features of users, so it cannot make use of any")
    served.model.user_features.encode(served.full_description("user", features))


def _page(served: ServedModel, side: Side, query: PageQuery) -> tuple[list[Id], str | None]:
    """The ids of a page, and the cursor of the next one."""
    ids, more = served.ids_after(side, _position(query.cursor), query.n)
    return ids, _cursor(str(ids[-1])) if more else None


def _cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _position(cursor: str) -> str:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True).decode()
        if _cursor(text) == cursor:
            return text
    except (binascii.Error, ValueError):
        pass
    raise DataError("the cursor is none of ours; begin without one, and go on with `next` of each page")

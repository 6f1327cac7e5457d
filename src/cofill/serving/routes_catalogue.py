"""The catalogue: items and users in bulk, listed in pages, deleted."""

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field, JsonValue

from cofill.data.vocabulary import Id
from cofill.errors import CofillError, DataError
from cofill.models.recommender import Side
from cofill.serving.database import Store
from cofill.serving.live_model import LiveModel
from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError, kind_of
from cofill.serving.request_messages import (
    LONGEST_ID,
    Description,
    IdQuery,
    ItemOrUserId,
    Lines,
    Message,
    QueryModel,
    lines_of,
)
from cofill.serving.routes_items import ItemToStore, checked_item
from cofill.serving.routes_users import Stored, check_features
from cofill.serving.routing import Right, Routes, WaitsForDatabase, answer
from cofill.serving.served_model import ServedModel

_MOST_LISTED = 1_000
_LINES_AT_ONCE = 100  # that are checked before others have their turn with the model
_LONGEST_CURSOR = 4 * LONGEST_ID * 4 // 3 + 4  # of an id of four bytes a character


# What is asked


class PageQuery(QueryModel):
    cursor: Annotated[str, Field(max_length=_LONGEST_CURSOR)] = Field(
        default="", description="`next` of the page before; nothing for the first"
    )
    n: Annotated[int, Field(ge=1, le=_MOST_LISTED)] = 100


class UserLine(Message):
    id: ItemOrUserId
    features: Description | None = None


# What is answered


class ListedItem(BaseModel):
    id: int | str
    title: str | None
    available: bool
    ratings: int
    attributes: dict[str, JsonValue]


class ListedItems(BaseModel):
    items: list[ListedItem]
    next: str | None = Field(description="the cursor of the next page; null after the last")
    model_version: str


class ListedUser(BaseModel):
    id: int | str
    ratings: int


class ListedUsers(BaseModel):
    users: list[ListedUser]
    next: str | None = Field(description="the cursor of the next page; null after the last")


# Routes


def add_catalogue(routes: Routes, live: LiveModel, store: Store) -> None:
    @routes.add("GET", "/v1/items/list", Right.READS, ListedItems, "All items, hidden ones too, in pages")
    def list_items(query: Annotated[PageQuery, Query()]) -> Response:
        """By their ids as text. Each item that stays is on one page, whatever comes and goes meanwhile."""
        with live.asked() as served:
            ids, following = _page(served, "item", query)
            counts, index = served.model.item_counts(), served.model.items.index
            entries = [
                served.item_entry(item, available=served.availability.shown(item), ratings=int(counts[index(item)]))
                for item in ids
            ]
            return answer({"items": entries, "next": following, "model_version": served.card.version})

    @routes.add(
        "POST",
        "/v1/items/bulk",
        Right.WRITES,
        Stored,
        "Describe many items; all or nothing",
        kind=WaitsForDatabase,
        lines=ItemToStore,
    )
    def store_items(request: Annotated[Request, Lines(ItemToStore)]) -> Response:
        """A line of JSON for each item, as `PUT /v1/item` takes it."""
        items = lines_of(request, ItemToStore)
        checked = _each_line(live, items, checked_item)
        store.put_items(checked)
        return answer({"stored": len(items)})

    @routes.add(
        "DELETE",
        "/v1/item",
        Right.WRITES,
        None,
        "Delete an item, if there is one",
        status=204,
        kind=WaitsForDatabase,
    )
    def delete_item(query: Annotated[IdQuery, Query()]) -> Response:
        """It is unknown from then on. To take it out of lists for a while, hide it with `"available": false`."""
        with live.asked() as served:
            known = served.has_item(query.id)
        if known:
            store.delete_item(query.id)
        return Response(status_code=204)

    @routes.add("GET", "/v1/users/list", Right.READS, ListedUsers, "All users, in pages")
    def list_users(query: Annotated[PageQuery, Query()]) -> Response:
        """By their ids as text. Each user who stays is on one page, whoever comes and goes meanwhile."""
        with live.asked() as served:
            ids, following = _page(served, "user", query)
            counts, users = served.model.user_counts(), served.model.users
            entries = [
                {"id": user, "ratings": int(counts[users.index(user)]) if served.in_model(user) else 0} for user in ids
            ]
            return answer({"users": entries, "next": following})

    @routes.add(
        "POST",
        "/v1/users/bulk",
        Right.WRITES,
        Stored,
        "Describe many users; all or nothing",
        kind=WaitsForDatabase,
        lines=UserLine,
    )
    def store_users(request: Annotated[Request, Lines(UserLine)]) -> Response:
        """A line of JSON for each user: an id, and features if the model was trained with features of users."""
        users = lines_of(request, UserLine)
        _each_line(live, users, lambda served, user: check_features(served, user.features))
        store.put_users([(str(user.id), user.features) for _, user in users])
        return answer({"stored": len(users)})

    @routes.add(
        "DELETE",
        "/v1/user",
        Right.WRITES,
        None,
        "Delete a person",
        status=204,
        kind=WaitsForDatabase,
    )
    def delete_user(query: Annotated[IdQuery, Query()]) -> Response:
        """Ratings, events and description are removed, here and in exports. A hash of the id is kept, to keep it so."""
        store.forget_user(query.id)
        with live.asked():  # from memory too, before this is answered
            return Response(status_code=204)


_Sent = TypeVar("_Sent", ItemToStore, UserLine)
_Checked = TypeVar("_Checked")


def _each_line(
    live: LiveModel, lines: Sequence[tuple[int, _Sent]], check: Callable[[ServedModel, _Sent], _Checked]
) -> list[_Checked]:
    """What `check` makes of each line; an error names the line."""
    seen: dict[str, int] = {}
    for number, line in lines:
        id = str(line.id)
        if id in seen:
            raise ProblemError(422, f"line {number}: {id!r} stands in line {seen[id]} already; keep one of them")
        seen[id] = number
    checked: list[_Checked] = []
    for first in range(0, len(lines), _LINES_AT_ONCE):
        with live.asked() as served:
            for number, line in lines[first : first + _LINES_AT_ONCE]:
                try:
                    checked.append(check(served, line))
                except CofillError as error:
                    kind = kind_of(error) or ProblemType.SERVER_ERROR
                    raise ProblemError(kind.status, f"line {number}: {error}", kind=kind) from error
    return checked


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

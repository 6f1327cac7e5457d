"""Answers as bytes, and what the routes share."""

import json
from typing import Any

from starlette.responses import Response

from cofill.data.vocabulary import Id
from cofill.errors import UnknownIdError
from cofill.models.explanation import Contribution, Explanation
from cofill.serving.served_model import ServedModel

_DIGITS = 6  # of a rating that is predicted in single precision
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def answer(document: Any, status: int = 200) -> Response:
    """JSON as it is: what we made ourselves is not validated again."""
    return Response(_encode(document).encode(), status, media_type="application/json")


def rounded(number: float) -> float:
    return round(float(number), _DIGITS)


def known_item(served: ServedModel, item: Id) -> Id:
    """The item as the model calls it; 404 if it does not."""
    items = served.model.items
    if item not in items:
        raise UnknownIdError(f"item {item!r} is not known; check the id, or describe it with PUT /v1/item")
    return items.id(items.index(item))


def item_entry(served: ServedModel, item: Id, **more: Any) -> dict[str, Any]:
    title = served.model.titles.get(item)
    return {"id": item, "title": title, **more, "attributes": served.attributes_of(item)}


def explained(why: Explanation, most: int | None = None) -> dict[str, Any]:
    """An explanation; beyond `most` contributions, the rest joins the remainder, so that it still adds up."""
    shown = why.contributions if most is None else why.contributions[:most]
    rest = sum(one.amount for one in why.contributions[len(shown) :])
    return {
        "item": why.item,
        "title": why.title,
        "rating": rounded(why.clipped),
        "unclipped": rounded(why.rating),
        "base": rounded(why.base),
        "contributions": [_push(one) for one in shown],
        "remainder": rounded(why.remainder + rest),
    }


def _push(one: Contribution) -> dict[str, Any]:
    about = {"item": one.item, "title": one.title, "rating": one.rating, "feature": one.feature}
    return {"amount": rounded(one.amount)} | {name: value for name, value in about.items() if value is not None}

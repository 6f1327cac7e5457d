"""The OpenAPI document: what FastAPI makes of the routes, with the key that each needs.

An operation is called as its function is (`recommend_for_user` -> `recommendForUser`), and is described by its
docstring.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from cofill.serving.api.guard import Right, right_of
from cofill.serving.api.problems import MEDIA_TYPE, Problem

DESCRIPTION = (
    "Predictions and lists of a served model, which follow what people do at once. Ids are texts or whole numbers, and "
    '42 and "42" are the same; in a query everything is text. Unknown fields are refused. HEAD is answered wherever '
    "GET is. Every response has an X-Request-Id: the one that was sent in the same header, or a new one."
)
TAGS = [
    {"name": "recommending", "description": "Lists, and what speaks for what is in them."},
    {"name": "predicting", "description": "Predicted ratings, and the intervals around them."},
    {"name": "events", "description": "What people do, in up to a thousand at once, each counted once."},
    {"name": "items", "description": "Items: search, show, describe, and starter items to rate first."},
    {"name": "users", "description": "Users and their ratings."},
    {"name": "catalogue", "description": "Items and users in bulk, listed in pages, deleted."},
    {"name": "model", "description": "The model's metadata, reloading it, and the server's health."},
]
_KEY = "key"
_RIGHTS = {
    Right.READS: "any key",
    Right.WRITES: "a key that may write",
    Right.DELETES: "an admin key",
    Right.OPERATES: "an admin key",
}


def _response(description: str, *headers: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        "headers": {name: {"schema": {"type": "string"}} for name in ("X-Request-Id", *headers)},
    }


PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: _response("The body is not JSON."),
    401: _response("A key is needed."),
    403: _response("The key may not do that."),
    404: _response("An id that is needed is not known."),
    413: _response("The body is too long."),
    415: _response("The body is not declared as JSON."),
    422: _response("What was sent makes no sense here."),
    429: _response("Too many requests.", "Retry-After"),
    503: _response("Not now; try again.", "Retry-After"),
    "default": _response("Another problem."),
}
"""The responses of every route, beside its own."""


def operation_id(route: APIRoute) -> str:
    first, *others = route.name.split("_")
    return first + "".join(word.capitalize() for word in others)


def published(api: FastAPI, keys: bool) -> dict[str, Any]:
    """The document; `keys`: whether the server asks for keys."""
    document = get_openapi(title=api.title, version=api.version, description=DESCRIPTION, routes=api.routes, tags=TAGS)
    components = document["components"]
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    components["schemas"] |= problem.pop("$defs") | {"Problem": problem}
    about = "A key that `cofill keys new` has made."
    components["securitySchemes"] = {_KEY: {"type": "http", "scheme": "bearer", "description": about}}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            right = right_of(method.upper(), path)
            if right not in _RIGHTS:
                operation["security"] = []
                continue
            operation["security"] = [{_KEY: []}] if keys else [{}, {_KEY: []}]
            operation["x-right"] = _RIGHTS[right]
    return document

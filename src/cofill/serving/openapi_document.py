"""The OpenAPI document: what FastAPI makes of the routes, with our problems, keys, headers and groups of routes.

An operation is called as its function is (`recommend_for_user` -> `recommendForUser`), belongs to the group of its
module, and is described by its docstring. The right that is declared beside its path says whether it needs a key.
"""

import sys
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from cofill.serving.problems import MEDIA_TYPE, ProblemMessage
from cofill.serving.routing import Right, Routes

_DESCRIPTION = (
    "Predictions and lists of a served model, which follow what people do at once. Ids are texts or whole numbers, and "
    '42 and "42" are the same; in a query everything is text. Unknown fields are refused. HEAD is answered wherever '
    "GET is."
)
_PROBLEMS = {
    "400": "The body is not JSON.",
    "401": "A key is needed.",
    "403": "The key may not do that.",
    "404": "An id that is needed is not known.",
    "413": "The body is too long.",
    "415": "The body is not declared as JSON.",
    "422": "What was sent makes no sense here.",
    "429": "Too many requests.",
    "503": "Not now; try again.",
}
_HEADERS = {
    "X-Request-Id": "The id of the request: the one that was sent in the same header, or a new one.",
    "RateLimit": 'What is left of the rate limit: "default";r=REQUESTS;t=SECONDS until all are there again.',
    "RateLimit-Policy": 'The rate limit: "default";q=REQUESTS;w=SECONDS.',
    "Retry-After": "After how many seconds to try again.",
}
_RIGHTS = {
    Right.READS: "any key",
    Right.WRITES: "a key that may write",
    Right.OPERATES: "a key that may write",
}
_KEY = "key"
_FIELDS = {
    "amount": "how far it moves the item up (above 0) or down",
    "answers": "one for each request, in their order",
    "attributes": "what is known of the item, by column",
    "available": "whether it may be in lists",
    "base": "what anybody would get",
    "by": "what was explained: the score in lists, or the predicted rating",
    "cofill_version": "the version of cofill that made the model",
    "column": "the name of a column",
    "contributions": "the ratings and features that push it up or down, the strongest first",
    "count": "how many there are",
    "data": "the data that the model was trained on",
    "distribution": "how many ratings there are of each kind",
    "events": "what people did, or were shown",
    "example": "a value of the column",
    "exclude_known": "whether items that the user has rated are left out",
    "feature": "the column of features that speaks",
    "features": "what somebody or something is, by column; columns that are left out are unknown",
    "help": "what it is for",
    "high": "the greatest value; null if there is none",
    "history": "what was measured after each epoch of the training",
    "id": "an id",
    "interval": "whether intervals are asked for",
    "item": "the id of an item",
    "item_columns": "the columns that lists can be filtered by",
    "item_feature_columns": "the columns that an item can be described by",
    "items": "the items",
    "kind": "of which kind it is",
    "label": "what people call it",
    "live": "how many were given live",
    "low": "the least value; null if there is none",
    "mean": "the mean of all ratings; null if there are none",
    "measures": "what was measured when the model was trained",
    "model": "the name of the model",
    "model_version": "the version of the model that answered",
    "n": "how many at most",
    "name": "a name",
    "orientation": "what the rows of the network are",
    "pairs": "the users and items that ratings are predicted of",
    "query": "the beginnings of words; empty finds all",
    "rated": "whether it was rated",
    "rating": "a rating, within the scale of the model",
    "ratings": "the ratings, or how many there are",
    "remainder": "what no single rating or feature is answerable for",
    "requests": "the lists that are asked for",
    "scale": "between which numbers ratings lie",
    "settings": "the settings that the model was trained with",
    "settings_explained": "the settings, in the words of people",
    "similar": "items that are like it, the most similar first",
    "similarity": "how much it is like the item that was asked about; 1 is the same",
    "status": "the state of the server",
    "step": "the step between possible ratings; null if they are any number",
    "stored": "how many were stored",
    "time": "when it was given, in seconds since 1970",
    "title": "the title; null if there is none",
    "trained": "how many the model was trained on",
    "unclipped": "the value before it was brought within the scale",
    "user": "the id of a user",
    "user_columns": "the columns that a user can be described by",
    "users": "the users",
    "value": "the value",
    "values": "the values that items have, and how many have each, the most frequent first",
    "version": "the version of the model",
    "why": "whether each item is explained",
    "x": "from left to right",
    "y": "from below to above",
}
"""What a field of this name is, in any message that does not say so itself."""
_GROUPS = {"item map": "items"}  # routes that stand in a module of their own and belong to another group


def published(api: FastAPI, routes: Routes, keys: bool) -> dict[str, Any]:
    """The document; `keys`: whether the server asks for keys."""
    document = get_openapi(title=api.title, version=api.version, description=_DESCRIPTION, routes=api.routes)
    components = document["components"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    problem = ProblemMessage.model_json_schema(ref_template="#/components/schemas/{model}")
    components["schemas"] |= problem.pop("$defs") | {"Problem": problem | {"title": "Problem"}}
    components["headers"] = {
        name: {"description": text, "schema": {"type": "string"}} for name, text in _HEADERS.items()
    }
    components["securitySchemes"] = {
        _KEY: {"type": "http", "scheme": "bearer", "description": "A key that `cofill keys new` has made."}
    }
    for schema in components["schemas"].values():
        for name, field in schema.get("properties", {}).items():
            _describe(name, field)
    groups: dict[str, str] = {}
    for route, method, operation in _operations(api, document):
        group, about = _group(route)
        groups.setdefault(group, about)
        operation["tags"] = [group]
        for parameter in operation.get("parameters", ()):
            _describe(parameter["name"], parameter)
        declared = routes.declared(method.upper(), route.path)
        right = Right.OPEN if declared is None else declared.right
        _add_security(operation, right, keys)
        _add_problems(operation)
        _add_headers(operation, limited=right is not Right.OPEN)
    document["tags"] = [{"name": name, "description": about} for name, about in groups.items()]
    return document


def _operations(api: FastAPI, document: dict[str, Any]) -> Iterator[tuple[APIRoute, str, dict[str, Any]]]:
    for route in api.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            for method in sorted(route.methods or ()):
                yield route, method.lower(), document["paths"][route.path][method.lower()]


def _describe(name: str, field: dict[str, Any]) -> None:
    if "description" not in field and name in _FIELDS:
        field["description"] = _FIELDS[name]


def _group(route: APIRoute) -> tuple[str, str]:
    """What the routes of a module are called together, and what its docstring says they are about."""
    module = route.endpoint.__module__
    name = module.rpartition(".")[2].removeprefix("routes_").replace("_", " ")
    about = (sys.modules[module].__doc__ or "").strip().partition("\n")[0]
    return _GROUPS.get(name, name), about


def _add_security(operation: dict[str, Any], right: Right, keys: bool) -> None:
    if right not in _RIGHTS:
        operation["security"] = []
        return
    operation["security"] = [{_KEY: []}] if keys else [{}, {_KEY: []}]
    operation["x-right"] = _RIGHTS[right]


def _add_problems(operation: dict[str, Any]) -> None:
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    operation["responses"] |= {status: {"description": text, "content": content} for status, text in _PROBLEMS.items()}
    operation["responses"]["default"] = {"description": "Another problem.", "content": content}


def _add_headers(operation: dict[str, Any], limited: bool) -> None:
    for status, response in operation["responses"].items():
        names = ["X-Request-Id"]
        if limited and status != "default":
            names += ["RateLimit", "RateLimit-Policy"]
        if status in ("429", "503"):
            names.append("Retry-After")
        response["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in names}

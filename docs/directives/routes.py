"""`{routes}`: every route of the server with its fields, from the OpenAPI document that the server publishes."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from cofill.serving.api.openapi import published
from cofill.serving.app import add_routes, new_api
from cofill.serving.settings import ServingSettings
from directives import page_nodes

_HEAD = ("field", "type", "what")
_WIDTHS = (22, 28, 50)


class RoutesOfTheServer(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        document = _document()
        groups = {one["name"]: one["description"] for one in document["tags"]}
        sections = {name: page_nodes.section(name.capitalize(), f"routes-{page_nodes.slug(name)}") for name in groups}
        for name, about in groups.items():
            if about:
                sections[name] += page_nodes.paragraph(about)
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if method != "head":
                    sections[operation["tags"][0]] += _route(document, method.upper(), path, operation)
        return [one for one in sections.values() if any(isinstance(child, nodes.section) for child in one)]


def _document() -> dict[str, Any]:
    """The document of a server with nothing behind its routes."""
    nothing: Any = None
    app = new_api()
    add_routes(app, nothing, nothing, nothing, ServingSettings(model=Path("model")))
    return published(app, keys=False)


def _route(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> nodes.section:
    page = page_nodes.section(f"`{method} {path}`", page_nodes.slug(f"{method} {path}"))
    summary = operation.get("summary", "").rstrip(".")
    about = " ".join(operation.get("description", "").split())
    page += page_nodes.paragraph(f"{summary}. {about}".strip())
    parameters = operation.get("parameters", ())
    if parameters:
        page += nodes.rubric("", "Query")
        rows = [
            (_name(one["name"], one.get("required", False)), _type(one["schema"]), one.get("description", ""))
            for one in parameters
        ]
        page += page_nodes.table(_HEAD, rows, _WIDTHS)
    for title, content in (
        ("Body", operation.get("requestBody", {}).get("content", {})),
        ("Answer", operation["responses"].get("200", {}).get("content", {})),
    ):
        for kind, said in content.items():
            if not (fields := _fields(document, said.get("schema", {}))):
                continue
            page += nodes.rubric("", title if kind == "application/json" else f"{title} ({kind})")
            page += page_nodes.table(_HEAD, fields, _WIDTHS)
    return page


def _fields(document: dict[str, Any], schema: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Of the message itself, and by dotted names of the messages that are listed in it."""
    schema = _resolved(document, schema)
    required = set(schema.get("required", ()))
    return [
        (_name(name, name in required), _type(field), field.get("description", ""))
        for name, field in schema.get("properties", {}).items()
    ]


def _resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "items" in schema:  # lines of JSON
        schema = schema["items"]
    if "$ref" in schema:
        found: dict[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def _name(name: str, required: bool) -> str:
    return f"`{name}`" + (" (required)" if required else "")


def _type(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    for together in ("anyOf", "oneOf", "allOf"):
        if together in schema:
            kinds = dict.fromkeys(_type(one) for one in schema[together])
            return " or ".join([one for one in kinds if one != "null"] + (["null"] if "null" in kinds else []))
    kind = schema.get("type", "anything")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object of {_type(inner)}" if isinstance(inner, dict) and inner else "object"
    return str(kind)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("routes", RoutesOfTheServer)
    return {"parallel_read_safe": True}

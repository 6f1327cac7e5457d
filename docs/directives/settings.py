"""`{settings}`: every setting, from the classes that declare it."""

from typing import Any, Literal, get_args, get_origin

from docutils import nodes
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from cofill.cli.options import default_text
from cofill.config import PRESETS, CFNSettings, ListSettings, Settings, Stage
from cofill.models import algorithms
from directives import page_nodes

_HEAD = ("setting", "default", "values", "what it does")
_WIDTHS = (18, 16, 16, 50)
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


class SettingsOfTheNetwork(SphinxDirective):
    """A table a stage, in the order in which a model goes through them, and the presets."""

    def run(self) -> list[nodes.Node]:
        every = page_nodes.section("Every model", "settings-of-every-model")
        every += _table(Stage, set())
        parts = [every]
        stages = [base for base in reversed(CFNSettings.__bases__) if issubclass(base, Settings)]
        for stage in stages:
            title = "Lists" if stage is ListSettings else stage.__name__.removesuffix("Settings")
            part = page_nodes.section(title, f"settings-of-{title.lower()}")
            part += page_nodes.paragraph(_summary(stage))
            part += _table(stage, set(Stage.model_fields))
            parts.append(part)
        presets = page_nodes.section("Presets")
        for name, (about, values) in PRESETS.items():
            presets += page_nodes.paragraph(f"`--preset {name}`, `CFNSettings.preset({name!r})`: {about}.")
            presets += page_nodes.code("\n".join(f"{key} = {_toml(value)}" for key, value in values.items()), "toml")
        return [*parts, presets]


class SettingsOfBaselines(SphinxDirective):
    """A table for each of the other algorithms."""

    def run(self) -> list[nodes.Node]:
        parts: list[nodes.Node] = []
        for name, entry in algorithms().items():
            declared = entry.load().settings_class
            if name == "cfn" or not entry.home.startswith("cofill."):
                continue
            part = page_nodes.section(name, f"settings-of-{name}")
            part += page_nodes.paragraph(_summary(entry.load()))
            own = set(getattr(declared, "its_own", declared.model_fields))
            if issubclass(declared, ListSettings):
                own -= set(ListSettings.model_fields) - set(Settings.model_fields)
            part += _table(declared, set(declared.model_fields) - own)
            if issubclass(declared, ListSettings):
                part += page_nodes.paragraph("Beside these, it has the settings of lists that are listed above.")
            parts.append(part)
        return parts


def _summary(declared: type) -> str:
    text = (declared.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(text.split())


def _table(declared: type[BaseModel], without: set[str]) -> nodes.table:
    rows = [
        (f"`{name}`", default_text(field), _values(field), field.description or field.title or "")
        for name, field in declared.model_fields.items()
        if name not in without
    ]
    return page_nodes.table(_HEAD, rows, _WIDTHS)


def _values(field: FieldInfo) -> str:
    """The values that are taken: names, or a kind of number with its bounds."""
    kinds = [one for one in (get_args(field.annotation) or (field.annotation,)) if one is not type(None)]
    if get_origin(field.annotation) is Literal:
        return ", ".join(f"`{one}`" for one in kinds)
    names = [f"`{name}`" for one in kinds if get_origin(one) is Literal for name in get_args(one)]
    numbers = {int: "whole number", float: "number", bool: "yes or no", str: "text"}
    words = [numbers[one] for one in kinds if one in numbers] or ([] if names else ["whole numbers"])
    bounds = [
        f"{sign} {getattr(one, which):g}"
        for one in field.metadata
        for which, sign in _SIGNS.items()
        if getattr(one, which, None) is not None and abs(getattr(one, which)) < 2**62
    ]
    return " or ".join([" ".join([*words, ", ".join(bounds)]).strip(), *names]).removeprefix(" or ")


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("settings-of-the-network", SettingsOfTheNetwork)
    app.add_directive("settings-of-baselines", SettingsOfBaselines)
    return {"parallel_read_safe": True}

"""Steps, errors and warnings as JSON: from a worker to the driver, who raises and shows them as its own."""

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from typing import Any

from cofill.errors import CofillError, DataError, DataWarning, Place, Remedy
from cofill.progress import Step

Told = dict[str, Any]
"""What JSON can hold."""

_ANY_VALUE = {"any": True}  # the value ... of a remedy's argument


def told_step(step: Step) -> Told:
    return asdict(step) | {"measures": {name: float(value) for name, value in step.measures.items()}}


def heard_step(told: Mapping[str, Any]) -> Step:
    return Step(**told)


def told_error(error: CofillError) -> Told:
    return {"class": _name(type(error)), "message": str(error), "about": _about(error)}


def heard_error(told: Mapping[str, Any]) -> CofillError:
    """The error that a worker has raised: of the same class, with the same message."""
    found = _class(told["class"], CofillError)
    if found.__init__ is CofillError.__init__:
        error: CofillError = _with_remedy(found, told["about"])
        return error
    make: Any = found.__new__  # its own __init__ asks for something else
    error = make(found)
    CofillError.__init__(error, told["message"])
    return error


def told_warning(message: Warning | str, category: type[Warning]) -> Told:
    told: Told = {"class": _name(category), "message": str(message)}
    return told | ({"about": _about(message.about)} if isinstance(message, DataWarning) else {})


def show_again(told: Mapping[str, Any]) -> None:
    """Warn as the worker did."""
    category = _class(told["class"], Warning)
    if "about" in told and issubclass(category, DataWarning):
        about = _with_remedy(DataError, told["about"])
        warnings.warn(category(about.found, about.remedy, where=about.where), stacklevel=2)
    else:
        warnings.warn(told["message"], category, stacklevel=2)


def _about(error: CofillError) -> Told:
    arguments = {name: _ANY_VALUE if value is ... else value for name, value in error.remedy.arguments.items()}
    return {
        "found": error.found,
        "remedy": [error.remedy.text, arguments],
        "where": None if error.where is None else list(error.where),
    }


def _with_remedy(found: type[Any], about: Mapping[str, Any]) -> Any:
    text, arguments = about["remedy"]
    remedy = Remedy(text, {name: ... if value == _ANY_VALUE else value for name, value in arguments.items()})
    return found(about["found"], remedy, where=None if about["where"] is None else Place(*about["where"]))


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str, root: type[Any]) -> type[Any]:
    """The class of that name, if there is one below `root`; else `root`, or for a warning `UserWarning`."""
    module, _, inside = name.partition(":")
    try:
        found: Any = import_module(module)
        for part in inside.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):  # of a module that only the worker has
        found = None
    if isinstance(found, type) and issubclass(found, root):
        return found
    return UserWarning if root is Warning else root

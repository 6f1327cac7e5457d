"""Packages that cofill needs or can make use of: whether they are there, and the command that brings them."""

import re
from importlib.metadata import PackageNotFoundError, metadata, version
from importlib.util import find_spec
from typing import NamedTuple

from cofill.errors import SettingsError

FOR_DEVELOPERS = ("dev", "docs", "peers")
"""Extras that nobody needs who only uses cofill."""


class Package(NamedTuple):
    """A package that cofill names."""

    name: str
    version: str | None
    """None if it is not installed."""


def packages() -> dict[str, list[Package]]:
    """What is needed, under "", and what each extra brings."""
    try:
        about = metadata("cofill")
    except PackageNotFoundError:  # run from its source, without being installed
        return {"": []}
    found: dict[str, list[Package]] = {"": []}
    found |= {extra: [] for extra in about.get_all("Provides-Extra") or () if extra not in FOR_DEVELOPERS}
    for required in about.get_all("Requires-Dist") or ():
        named, _, marker = required.partition(";")
        extra = re.search(r"""extra\s*==\s*['"]([^'"]+)""", marker)
        name = re.match(r"[\w.-]+", named)
        if name is not None and name[0] != "cofill" and (extra[1] if extra else "") in found:
            found[extra[1] if extra else ""].append(Package(name[0], _version(name[0])))
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def command(extra: str) -> str:
    """What installs an extra."""
    return f"pip install 'cofill[{extra}]'"


def require(what: str, extra: str, *modules: str) -> None:
    """SettingsError with the install command if one of an extra's modules is missing; `what` needs it."""
    for module in modules:
        if find_spec(module) is None:
            raise SettingsError(f"{what} needs {module}, which is not installed. Run: {command(extra)}")

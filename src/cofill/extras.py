"""Packages that a plain install leaves out: whether they are there, and the command that brings them."""

from importlib.util import find_spec

from cofill.errors import SettingsError


def command(extra: str) -> str:
    """What installs an extra."""
    return f"pip install 'cofill[{extra}]'"


def require(what: str, extra: str, *modules: str) -> None:
    """SettingsError with the install command if one of an extra's modules is missing; `what` needs it."""
    for module in modules:
        if find_spec(module) is None:
            raise SettingsError(f"{what} needs {module}, which is not installed. Run: {command(extra)}")

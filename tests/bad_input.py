"""Cases of bad input. What is said of each is in messages.md, which people read: place, finding and remedy.

`Said` pins these keys of a message where a test needs more than the case.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cofill.errors import DataError


class Said(NamedTuple):
    """The keys of a message. "…" stands for any words between two keys."""

    where: str
    """The line or row, and the column; for what is no file, also what it is: "the tuples, row 2"."""
    found: str
    remedy: str = ""
    arguments: Mapping[str, Any] = {}
    """All those that the remedy names, with their values; ... is any value."""

    def check(self, error: DataError, source: Path | None = None) -> None:
        """That the error, about a file or about something else, says just this."""
        assert self.found, "what is found is to be pinned"
        assert self.remedy or self.arguments, "the remedy is to be pinned"
        place, found, remedy = _parts(error)
        expected = ", ".join(part for part in ("" if source is None else str(source), self.where) if part)
        if error.where is None:  # said in one sentence
            assert found.startswith(f"{expected}: " if expected else ""), error
        else:
            assert place == expected
        _assert_in_order(self.found, found)
        _assert_in_order(self.remedy, remedy)
        for name, value in self.arguments.items():
            assert f"{name.removeprefix('no_')}={'...' if value is ... else repr(value)}" in remedy, remedy
        assert "\n" not in str(error)


def _parts(error: DataError) -> tuple[str, str, str]:
    """Place, finding and remedy. The remedy of an error said in one sentence stands behind its last semicolon."""
    if error.remedy:
        return str(error.where or ""), error.found, error.remedy
    found, _, remedy = error.found.rpartition("; ")
    return str(error.where or ""), found, remedy


def _assert_in_order(keys: str, text: str) -> None:
    pattern = ".*".join(rf"(?<!\w){re.escape(key.strip())}(?!\w)" for key in keys.split("…"))
    assert not keys or re.search(pattern, text), f"{keys!r} is not in {text!r}"


class BadFile(NamedTuple):
    """A file with this content, and how it is read."""

    content: str | bytes
    options: Mapping[str, Any] = {}
    name: str = "table.csv"

    def written(self, folder: Path) -> Path:
        path = folder / self.name
        path.write_bytes(self.content if isinstance(self.content, bytes) else self.content.encode())
        return path


class BadCall(NamedTuple):
    """A call that cannot be answered."""

    call: Callable[[], object]


def refusal(call: Callable[..., object], *arguments: Any, **options: Any) -> DataError:
    """The error that a call is answered with."""
    with pytest.raises(DataError) as caught:
        call(*arguments, **options)
    return caught.value

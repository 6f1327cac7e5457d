"""Columns that nothing is learned from: addresses, ids of other catalogues, titles, and whatever fits no kind."""

import re
from typing import ClassVar

from cofill.data.features.columns import Coded
from cofill.data.features.kind import Kind, Learn
from cofill.data.features.kinds.number import MOST

NAMES_AN_ADDRESS = re.compile(r"zip|postal|postcode|phone|e-?mail|url$|link$", re.IGNORECASE)


class Skip(Kind):
    """Nothing that a model learns from."""

    called: ClassVar[str] = "skip"
    holds: ClassVar[str] = "anything"
    used: ClassVar[bool] = False

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        useless = not column.distinct or NAMES_AN_ADDRESS.search(name) or column.share(_is_address) >= MOST
        return cls.learn if useless else None


def _is_address(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://"))

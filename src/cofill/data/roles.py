"""Which column is which: users, items, ratings, times and titles, by name or by position."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from cofill.data.origin import Role, quoted
from cofill.errors import DataError

# Names are compared in lower case without blanks, dashes and underscores; the more usual ones stand first.
USUAL_NAMES: dict[Role, tuple[str, ...]] = {
    "user": (
        *(
            "userid",
            "user",
            "uid",
            "userindex",
            "customerid",
            "customer",
            "reviewerid",
            "reviewer",
            "memberid",
        ),
        *("member", "profileid", "accountid", "personid", "visitorid", "readerid", "clientid", "raterid"),
    ),
    "item": (
        *("itemid", "item", "iid", "itemindex", "movieid", "movie", "filmid", "film", "productid", "product"),
        *("asin", "bookid", "book", "isbn", "songid", "song", "trackid", "artistid", "businessid", "animeid"),
        *("jokeid", "gameid", "recipeid", "restaurantid", "beerid", "showid", "articleid"),
    ),
    "rating": ("rating", "ratings", "score", "stars", "star", "starrating", "value", "overall", "bookrating"),
    "time": (
        *("timestamp", "time", "ts", "unixtime", "unixreviewtime", "unixtimestamp", "datetime", "date"),
        *("ratedat", "createdat", "reviewtime", "reviewdate"),
    ),
    "title": (
        "title",
        "movietitle",
        "itemtitle",
        "booktitle",
        "producttitle",
        "name",
        "itemname",
        "moviename",
    ),
}
Given = Mapping[Role, str | int | None]
"""What the caller said: a column's name, its position from 0, "" for none, or None to look for it."""


@dataclass(frozen=True)
class Wanted:
    """Which columns a table must have, their order where it has no names, and what the caller said of them."""

    given: Given
    required: tuple[Role, ...] = ("user", "item", "rating")
    optional: tuple[Role, ...] = ("time", "title")
    by_position: tuple[Role, ...] = ("user", "item", "rating", "time")

    @property
    def listed(self) -> str:
        """What is required, for an error message."""
        return f"{', '.join(self.required[:-1])} and {self.required[-1]}"

    @property
    def lengths(self) -> tuple[int, int]:
        """How many columns a table without names has: without and with the optional ones."""
        return len(self.required), len(self.by_position)

    @property
    def rating_position(self) -> int | None:
        """Where the rating stands in a table without names; None if there need not be one."""
        if "rating" not in self.required:
            return None
        said = self.given.get("rating")
        return said if isinstance(said, int) else self.by_position.index("rating")


def normalised(name: str) -> str:
    """A column name without case, blanks, dashes and underscores."""
    return re.sub(r"[\s_\-.]+", "", name).lower()


def recognised(names: Sequence[str]) -> dict[Role, list[int]]:
    """The positions of the columns that have a usual name, the most usual first."""
    plain = [normalised(name) for name in names]
    return {
        role: [position for usual in USUAL_NAMES[role] for position, name in enumerate(plain) if name == usual]
        for role in get_args(Role)
    }


def columns_by_name(names: Sequence[str], wanted: Wanted, source: str) -> dict[Role, int]:
    """The position of each column in a table with names. `source` begins every error."""
    found = recognised(names)
    chosen: dict[Role, int] = {}
    for role, said in wanted.given.items():
        if isinstance(said, int):
            chosen[role] = _checked_position(role, said, len(names), source)
        elif said:
            chosen[role] = _named(role, said, names, source)
    for role in (*wanted.required, *wanted.optional):
        if role in chosen or (wanted.given.get(role) == "" and role not in wanted.required):
            continue
        free = [position for position in found[role] if position not in chosen.values()]
        if role in wanted.required and not free:
            raise DataError(
                f"{source}: no column is recognised as the {role}; found {_listed(names)}; "
                f"say which with {role}=... (--{role}-column on the command line), by name or position from 0"
            )
        if role in wanted.required and len(free) > 1:
            both = " and ".join(quoted(names[position]) for position in free[:2])
            raise DataError(f"{source}: {both} could both be the {role}; choose one with {role}={names[free[0]]!r}")
        if free:
            chosen[role] = free[0]
    return _distinct(chosen, names, source)


def columns_by_position(width: int, wanted: Wanted, source: str) -> dict[Role, int]:
    """The position of each column in a table of `width` cells without names: user, item, rating[, time]."""
    chosen: dict[Role, int] = {}
    for role, said in wanted.given.items():
        if isinstance(said, int):
            chosen[role] = _checked_position(role, said, width, source)
        elif said:
            raise DataError(
                f"{source}: {role}={said!r} names a column, but there is no header; "
                f"give its position from 0, or header=True"
            )
    if width > len(wanted.by_position) and not all(role in chosen for role in wanted.required):
        raise DataError(f"{source}: {width} columns and no header; say which to use, such as user=0, item=1, rating=2")
    for position, role in enumerate(wanted.by_position[:width] if width <= len(wanted.by_position) else ()):
        if role not in chosen and position not in chosen.values() and wanted.given.get(role) != "":
            chosen[role] = position
    for role in wanted.required:
        if role not in chosen:
            raise DataError(
                f"{source}: {width} columns and none is left for the {role}; "
                f"{wanted.listed} are needed: give a position with {role}=..., from 0"
            )
    return _distinct(chosen, [f"column {position + 1}" for position in range(width)], source)


def _named(role: Role, wanted: str, names: Sequence[str], source: str) -> int:
    matches = [position for position, name in enumerate(names) if name == wanted]
    matches = matches or [position for position, name in enumerate(names) if name.lower() == wanted.lower()]
    if not matches:
        raise DataError(
            f"{source}: there is no column {wanted!r} for the {role}; found {_listed(names)}; "
            f"pass one of them as {role}=..."
        )
    if len(matches) > 1:
        raise DataError(
            f"{source}: {len(matches)} columns are called {wanted!r}; "
            f"choose one by its position from 0, such as {role}={matches[0]}"
        )
    return matches[0]


def _checked_position(role: Role, position: int, width: int, source: str) -> int:
    if not 0 <= position < width:
        raise DataError(f"{source}: {role}={position} is not a column; there are {width}: give 0 to {width - 1}")
    return position


def _distinct(chosen: dict[Role, int], names: Sequence[str], source: str) -> dict[Role, int]:
    taken: dict[int, Role] = {}
    for role, position in chosen.items():
        if position in taken:
            raise DataError(
                f"{source}: {quoted(names[position])} would be both the {taken[position]} and the {role}; "
                f"choose another with {role}=..."
            )
        taken[position] = role
    return chosen


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name) for name in names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"

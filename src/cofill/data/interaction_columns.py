"""Columns of interactions (user, item[, count or event][, time]), and how to tell them from columns of ratings."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from cofill.data.cells import DECIMAL_COMMA, is_number
from cofill.data.roles import Role, Rows, Wanted, columns_by_name, columns_by_position, listed, normalised, recognised
from cofill.errors import DataError, Place, quoted

MOST = 0.9  # of the first lines: one that is wrong does not change what a column holds
DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}")
SECONDS = ((1e8, 1e11), (1e11, 1e14))  # since 1970, from 1973 on; and milliseconds: no rating or count is so large
TRUE_AND_FALSE = {"true", "false"}
LEVELS = range(2, 22)  # how many different ratings a scale has


@dataclass(frozen=True)
class InteractionColumns(Wanted):
    """The columns of a table of interactions."""

    required: tuple[Role, ...] = ("user", "item")
    optional: tuple[Role, ...] = ("count", "event", "time", "title")
    by_position: tuple[Role, ...] = ("user", "item", "count", "time")
    empty: str = "it needs one {unit} for each interaction: user, item"
    file: str = "the interactions file"
    one: str = "interaction"

    def likely_width(self, share: Callable[[int], float]) -> int:
        # A decimal comma cuts every line of a table in two, too.
        return 3 if share(3) >= 0.5 else 2

    def has_header(self, first: Sequence[str], below: Rows, source: str) -> bool:
        """Whether the first row has names: usual ones, or words above numbers."""
        if any(isinstance(column, str) and column for column in self.given.values()):
            return True
        if any(is_number(cell) or DATE.match(cell) for cell in first):
            return False
        if any(recognised(first)[role] for role in self.required):
            return True
        rows = [row for row in below if len(row) == len(first)]
        if any(is_number(cell) for row in rows for cell in row[:2]):
            return True
        if rows and not any(cell == row[at] for row in rows for at, cell in enumerate(first)):
            raise DataError(
                f"cannot tell a header from an interaction: {quoted(', '.join(first))} has no usual name of a column, "
                "and none of it comes again below",
                "pass header=True with user=... and item=..., or header=False if it is data",
                where=Place(source, "line", 1),
            )
        return False

    def columns(self, names: Sequence[str] | None, width: int, below: Rows, source: str) -> dict[str, int]:
        """The position of each column in use, by role. Without names, the third may hold events or times, too."""
        if names is not None:
            return columns_by_name(names, self, source)
        given = dict(self.given)
        if 2 < width <= len(self.by_position) and 2 not in given.values():
            third = third_role(below)
            if third == "event" and given.get("event") is None:
                given["event"] = 2
            elif third == "time" and width == 3 and given.get("time") is None:
                given["time"] = 2
        return columns_by_position(width, replace(self, given=given), source)


@dataclass(frozen=True)
class EitherColumns(Wanted):
    """Columns of ratings or, where there are none, of interactions; the roles that are found tell which."""

    required: tuple[Role, ...] = ("user", "item")
    optional: tuple[Role, ...] = ("rating", "count", "event", "time", "title")
    reasons: list[str] = field(default_factory=list)
    """Why they are interactions, once they are; for whoever asked."""

    @property
    def judges_cells(self) -> bool:
        return True

    def likely_width(self, share: Callable[[int], float]) -> int:
        return self._interactions.likely_width(share)

    def makes_sense(self, rows: Rows) -> bool:
        return len(rows[0]) == 2 or self._ratings.makes_sense(rows)

    def has_header(self, first: Sequence[str], below: Rows, source: str) -> bool:
        if any(recognised(first)[role] for role in ("user", "item", "rating")):
            return True
        if len(first) == 2 or third_role([first, *below]) != "count":
            return self._interactions.has_header(first, below, source)
        return self._ratings.has_header(first, below, source)

    def columns(self, names: Sequence[str] | None, width: int, below: Rows, source: str) -> dict[str, int]:
        reason = self._by_position(width, below) if names is None else self._by_name(names, below, source)
        self.reasons[:] = [] if reason is None else [reason]
        wanted = self._ratings if reason is None else self._interactions
        return wanted.columns(names, width, below, source)

    def settled(self, columns: Mapping[str, int], names: Sequence[str]) -> Wanted:
        return (self._interactions if self.reasons else self._ratings).settled(columns, names)

    @property
    def _ratings(self) -> Wanted:
        return Wanted(self.given)

    @property
    def _interactions(self) -> InteractionColumns:
        return InteractionColumns(self.given)

    def _by_position(self, width: int, below: Rows) -> str | None:
        """Why columns without names are those of interactions; None if they are not."""
        if width == 2:
            return "there are two columns, which hold no ratings"
        if width > len(self.by_position) or any(said is not None for said in self.given.values()):
            return None
        third = third_role(below)
        if third == "event":
            return f"its third column holds events such as {quoted(below[0][2].strip())}"
        return "its third column holds times" if third == "time" and width == 3 else None

    def _by_name(self, names: Sequence[str], below: Rows, source: str) -> str | None:
        usual = recognised(names)
        if usual["rating"] or not all(usual[role] or self.given.get(role) is not None for role in self.required):
            return None
        if not (usual["count"] or usual["event"]):
            self._refuse_unclear(names, below, source)
        return f"there is no column of ratings (its columns: {', '.join(names)})"

    def _refuse_unclear(self, names: Sequence[str], below: Rows, source: str) -> None:
        """DataError if a column without a usual name holds what may well be ratings."""
        known = {position for positions in recognised(names).values() for position in positions}
        said = {column for column in self.given.values() if column is not None}
        for position, name in enumerate(names):
            cells = [row[position].strip() for row in below if len(row) == len(names)]
            if position in known or position in said or name in said or normalised(name).endswith("id"):
                continue
            if {cell.lower() for cell in cells if cell} == TRUE_AND_FALSE:
                raise DataError(
                    f"no column is recognised as the rating, and column {quoted(name)} is true in some lines and false "
                    f"in others, which may be ratings; found {listed(names)}",
                    (
                        f"write 1 and 0 and pass rating={name!r} if it is, or pass rating='' if these are interactions "
                        f"without ratings"
                    ),
                    where=source,
                )
            if _may_be_ratings([cell for cell in cells if cell]):
                raise DataError(
                    f"no column is recognised as the rating, and column {quoted(name)} may hold ratings; found "
                    f"{listed(names)}",
                    f"pass rating={name!r} if it does, or rating='' if these are interactions without ratings",
                    where=source,
                )


def third_role(rows: Rows) -> Role:
    """What the third column of interactions without names holds: events, times or counts."""
    cells = [cell for row in rows if len(row) > 2 and (cell := row[2].strip())]
    words = [cell for cell in cells if not is_number(cell) and not re.match(DECIMAL_COMMA, cell)]
    if not cells:
        return "count"
    if len(words) >= MOST * len(cells):
        if all(DATE.match(word) for word in words):
            return "time"
        return "event" if len(set(words)) < len(words) else "count"  # a single word is a slip more likely
    times = any(all(cell.isdecimal() and low <= int(cell) < high for cell in cells) for low, high in SECONDS)
    return "time" if times else "count"


def _may_be_ratings(cells: Sequence[str]) -> bool:
    """Whether the cells are a few different numbers, and do not count the lines."""
    if not cells or not all(is_number(cell) for cell in cells):
        return False
    numbers = [float(cell) for cell in cells]
    if all(later - earlier == 1 for earlier, later in pairwise(numbers)):
        return False
    return len(set(numbers)) in LEVELS and all(-100 <= number <= 100 for number in numbers)

"""Which column is which (user, item, rating, time, title, ...), by name or by position; and whether there is a header.

`Wanted` are the columns of ratings, `InteractionColumns` those of interactions, `EitherColumns` those of whichever it
is; `Everything` takes all columns of a table of side information.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar, cast

from cofill.data.cells import DECIMAL_COMMA, IdsIn, is_number
from cofill.data.reading import ROLES, Column, Role
from cofill.errors import DataError, Place, quoted

# Names are compared in lower case without blanks, dashes and underscores; the more usual ones stand first.
_NAMES: dict[Role, str] = {
    "user": (
        "userid user uid userindex customerid customer reviewerid reviewer memberid member profileid "
        "accountid personid visitorid readerid clientid raterid"
    ),
    "item": (
        "itemid item iid itemindex movieid movie filmid film productid product asin bookid book isbn songid "
        "song trackid artistid businessid animeid jokeid gameid recipeid restaurantid beerid showid "
        "articleid sku"
    ),
    "rating": "rating ratings score stars star starrating value overall bookrating rui",
    "count": (
        "count counts plays playcount listens listencount clicks clickcount views viewcount visits purchases "
        "quantity qty units frequency freq interactions weight"
    ),
    "event": (
        "event eventtype eventname action actiontype behavior behaviour behaviortype behaviourtype "
        "interaction interactiontype feedbacktype activity type"
    ),
    "time": (
        "timestamp time ts unixtime unixreviewtime unixtimestamp datetime date ratedat createdat reviewtime "
        "reviewdate eventtime eventtimestamp eventdate playedat orderdate orderedat purchasedat purchasedate"
    ),
    "title": "title movietitle itemtitle booktitle producttitle name itemname moviename",
}
USUAL_NAMES: dict[Role, tuple[str, ...]] = {role: tuple(names.split()) for role, names in _NAMES.items()}
ID_NAMES = frozenset({"id", *USUAL_NAMES["user"], *USUAL_NAMES["item"]})
OTHER_NAMES = frozenset({"tag", "tags", "source", "target", "from", "to", "genres", *USUAL_NAMES["title"]})
LEAST_WIDE = 6  # columns of numbers that are more likely a column for each item than anything else
Given = Mapping[Role, Column]
"""What the caller said of each column."""
Rows = Sequence[Sequence[str]]
MOST = 0.9  # of the first lines: one that is wrong does not change what a column holds
YEAR_AT_END = re.compile(r"\(([12]\d{3})\)\s*$")
DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}")
LEAST_TIME = 1e8  # in seconds since 1970, or in finer units: no rating or count is so large
TRUE_AND_FALSE = {"true", "false"}
LEVELS = range(2, 22)  # how many different ratings a scale has


@dataclass(frozen=True)
class Wanted:
    """Which columns a table must have, their order where it has no names, and what the caller said of them."""

    given: Given
    required: tuple[Role, ...] = ("user", "item", "rating")
    optional: tuple[Role, ...] = ("time", "title")
    by_position: tuple[Role, ...] = ("user", "item", "rating", "time")
    empty: str = "it needs one {unit} for each rating: user, item, rating"
    """What to put into a file that has nothing in it."""
    file: str = "the ratings file"
    one: str = "rating"
    """What a line of it is."""
    skippable: bool = True
    """Whether bad lines may be skipped."""
    judges_cells: ClassVar[bool] = False
    """Whether `columns` looks at the first rows, so that frames must show theirs too."""
    mixed_ids: bool = False
    """Whether ids may be strings and integers in one column: in questions they may, in data it is likely a mistake."""

    @property
    def what(self) -> str:
        """What the lines of it are."""
        return f"{self.one}s"

    @property
    def others(self) -> str:
        """What may be passed beside files and frames."""
        return f", arrays ({self.order('s')}), or ({self.order()}) tuples"

    @property
    def least(self) -> int:
        """How many columns there must be."""
        return len(self.required)

    @property
    def listed(self) -> str:
        """What is required, for an error message."""
        return f"{', '.join(self.required[:-1])} and {self.required[-1]}"

    @property
    def lengths(self) -> range:
        """How many columns a table without names may have: without the optional ones, with some or all of them."""
        return range(len(self.required), len(self.by_position) + 1)

    def ids_in(self, role: str) -> IdsIn:
        """What ids a column may have, if any."""
        return ("mixed" if self.mixed_ids else "alike") if role in ("user", "item") else None

    def order(self, plural: str = "") -> str:
        """The columns of a table without names, such as "user, item, rating[, time]"."""
        more = self.by_position[len(self.required) :]
        first = ", ".join(f"{role}{plural}" for role in self.required)
        return first + "".join(f"[, {role}{plural}" for role in more) + "]" * len(more)

    def likely_width(self, share: Callable[[int], float]) -> int:
        """How many columns the separator should give; `share` of lines are cut into a number of columns or more."""
        return max(2, self.least)

    def settled(self, columns: Mapping[str, int], names: Sequence[str]) -> "Wanted":
        """The same once the columns are found, so that nothing is left to decide."""
        return replace(self, given=cast(Given, {role: names[position] for role, position in columns.items()}))

    @property
    def rating_position(self) -> int | None:
        """Where the rating stands in a table without names; None if there need not be one."""
        if "rating" not in self.required:
            return None
        said = self.given.get("rating")
        return said if isinstance(said, int) else self.by_position.index("rating")

    def makes_sense(self, rows: Rows) -> bool:
        """Whether the first rows of a file, cut at some separator, look like what is wanted."""
        named = [column for column in self.given.values() if isinstance(column, str) and column]
        if named and all(column in rows[0] for column in named):
            return True
        usual = recognised(rows[0])
        if sum(bool(usual[role]) for role in self.required) >= 2:
            return True
        position = self.rating_position
        return position is None or all(position < len(row) and is_number(row[position]) for row in rows)

    def has_header(self, first: Sequence[str], below: Rows, source: str) -> bool:
        """Whether the first row has names."""
        if any(isinstance(column, str) and column for column in self.given.values()):
            return True
        if any(is_number(cell) for cell in first):
            return False
        if any(recognised(first)[role] for role in self.required):
            return True
        position = self.rating_position
        if position is None or position >= len(first) or not first[position].strip():
            return False
        if re.match(DECIMAL_COMMA, first[position]):
            return False
        self._refuse_wide(below, len(first), source)
        raise DataError(
            f"cannot tell a header from a rating: {quoted(first[position])} is no number, and no cell is a usual "
            "column name",
            "pass header=True with user=..., item=..., rating=..., or header=False and correct the line",
            where=Place(source, "line", 1),
        )

    def columns(self, names: Sequence[str] | None, width: int, below: Rows, source: str) -> dict[str, int]:
        """The position of each column in use, by role."""
        if names is not None:
            try:
                return columns_by_name(names, self, source)
            except DataError:
                if any(recognised(names)[role] for role in ("item", "rating")):
                    raise
                self._refuse_wide(below, len(names), source)
                raise
        if width > len(self.by_position) and not all(self.given.get(role) is not None for role in self.required):
            self._refuse_wide(below, width, source)
        return columns_by_position(width, self, source)

    def labels(self, names: Sequence[str] | None, columns: Mapping[str, int]) -> dict[str, str]:
        """The columns in use, as an error message calls them."""
        if names is None:
            return {role: f"column {position + 1} ({role})" for role, position in columns.items()}
        return {role: f"column {quoted(names[position])}" for role, position in columns.items()}

    def _refuse_wide(self, rows: Rows, width: int, source: str) -> None:
        """DataError if the file looks like a table with a column for each item: it would be read as nonsense."""
        cells = [cell.strip() for row in rows for cell in row[1:]]
        if self.required != ("user", "item", "rating") or width < LEAST_WIDE or not cells:
            return
        if not all(is_number(cell) for cell in cells if cell) or not any(cells):
            return
        found = f"{width} columns of numbers, which looks like a row for each user and a column for each item"
        unknown = stands_for_unknown([float(cell) for cell in cells if cell])
        if unknown is not None:
            remedy = f"pass wide=True, and unknown={unknown!r} if that stands for unknown"
        else:
            remedy = "pass wide=True, and unknown=... if a number stands for unknown"
        raise DataError(found, remedy, where=source)


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
    judges_cells: ClassVar[bool] = True
    reasons: list[str] = field(default_factory=list)
    """Why they are interactions, once they are; for whoever asked."""

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
            truths = {cell.lower() for cell in cells if cell} == TRUE_AND_FALSE
            if truths or _may_be_ratings([cell for cell in cells if cell]):
                raise DataError(
                    f"no column is recognised as the rating, and column {quoted(name)} may hold ratings"
                    f"{', true or false' if truths else ''}; found {listed(names)}",
                    f"pass rating={name!r} if it does{' (written 1 and 0)' if truths else ''}, or rating='' if these "
                    "are interactions without ratings",
                    where=source,
                )


@dataclass(frozen=True)
class Everything:
    """All columns of a table of side information, whatever they are called."""

    names: Sequence[str] | None = None
    """What the caller calls the columns of a file without header."""
    familiar: Collection[str] = ()
    """Names that make a line a header."""
    least: int = 2
    """How many columns there must be."""
    empty: str = "it needs one {unit} for each id and what is known about it"
    file: str = "the file with the features"
    what: str = "features"
    skippable: bool = False
    others: str = ", tuples of tags or links, or (ids, vectors)"
    """What may be passed beside files and frames."""
    judges_cells: ClassVar[bool] = False

    def makes_sense(self, rows: Rows) -> bool:
        return any(normalised(cell) in ID_NAMES for cell in rows[0])

    def has_header(self, first: Sequence[str], below: Rows, source: str) -> bool:
        """Whether the first row has names."""
        if self.names is not None or any(is_number(cell) for cell in first):
            return False
        if any(cell in self.familiar or normalised(cell) in ID_NAMES | OTHER_NAMES for cell in first):
            return True
        if len(first) == 1:
            return False
        rows = [row for row in below if len(row) == len(first)]
        for at in range(len(first)):
            cells = [row[at] for row in rows if row[at].strip()]
            if cells and all(is_number(cell) for cell in cells):
                return True
        raise DataError(
            f"cannot tell a header from the first line of data: {quoted(', '.join(first))} has no usual name of an id "
            "column and stands above no numbers",
            "pass header=True or header=False",
            where=Place(source, "line", 1),
        )

    def columns(self, names: Sequence[str] | None, width: int, below: Rows, source: str) -> dict[str, int]:
        """The position of each column, by name. Without names, titles that end in a year are found by that."""
        given = list(names) if names is not None and self.names is None else checked_names(self.names, width, source)
        if names is self.names is None and (titles := titles_at(below, width)) is not None:
            given[titles] = "title"
        refuse_repeated(given, source)
        return {name: position for position, name in enumerate(given)}

    def labels(self, names: Sequence[str] | None, columns: Mapping[str, int]) -> dict[str, str]:
        return {name: f"column {quoted(name)}" for name in columns}


def stands_for_unknown(numbers: Sequence[float]) -> float | int | None:
    """A number that seems to mean unknown: the most frequent one, far beyond the others, such as 99 among -10 to 10."""
    counts = Counter(numbers)
    usual, count = counts.most_common(1)[0] if counts else (0.0, 0)
    others = max((abs(number) for number in counts if number != usual), default=0.0)
    if count < 2 or not others or abs(usual) <= 2 * others:
        return None
    return int(usual) if usual.is_integer() else usual


def titles_at(rows: Rows, width: int) -> int | None:
    """The first column whose cells are mostly titles with a year behind, such as Heat (1995)."""
    most = MOST * max(len(rows), 1)
    ends = (sum(len(row) == width and bool(YEAR_AT_END.search(row[at])) for row in rows) for at in range(width))
    return next((at for at, count in enumerate(ends) if count >= most), None)


def checked_names(names: Sequence[str] | None, width: int, source: str) -> list[str]:
    """The names that the caller gives to the columns; without any, their numbers."""
    if names is None:
        return [f"column {position + 1}" for position in range(width)]
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise DataError(
            f"names={quoted(names)} are no names of columns", "give a list such as ['id', 'age']", where=source
        )
    if len(names) != width:
        raise DataError(
            f"{len(names)} names for {width} columns", "give one for each, that of the id too", where=source
        )
    refuse_repeated(names, source)
    return list(names)


def refuse_repeated(names: Sequence[str], source: str) -> None:
    """DataError if two columns have the same name, or one has none."""
    seen: set[str] = set()
    for position, name in enumerate(names):
        if not name.strip():
            raise DataError(f"column {position + 1} has no name", "give it one", where=source)
        if name in seen:
            raise DataError(f"two columns are called {name!r}", "rename one of them", where=source)
        seen.add(name)


def normalised(name: str) -> str:
    """A column name without case, blanks, dashes and underscores."""
    return re.sub(r"[\s_\-.]+", "", name).lower()


def recognised(names: Sequence[str]) -> dict[Role, list[int]]:
    """The positions of the columns that have a usual name, the most usual first."""
    plain = [normalised(name) for name in names]
    return {
        role: [position for usual in USUAL_NAMES[role] for position, name in enumerate(plain) if name == usual]
        for role in ROLES
    }


def columns_by_name(names: Sequence[str], wanted: Wanted, source: str) -> dict[str, int]:
    """The position of each column in a table with names. `source` begins every error."""
    found = recognised(names)
    chosen: dict[str, int] = {}
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
            problem = f"no column is recognised as the {role}; found {listed(names)}"
            remedy = f"name it {role!r}, or give {role}=..., a name or a position from 0{without_ratings(role, wanted)}"
            raise DataError(problem, remedy, where=source)
        if role in wanted.required and len(free) > 1:
            both = " and ".join(quoted(names[position]) for position in free[:2])
            problem = f"{both} could both be the {role}"
            raise DataError(problem, f"choose one with {role}={names[free[0]]!r}", where=source)
        if free:
            chosen[role] = free[0]
    return _distinct(chosen, names, source)


def columns_by_position(width: int, wanted: Wanted, source: str) -> dict[str, int]:
    """The position of each column in a table of `width` cells without names: user, item, rating[, time]."""
    chosen: dict[str, int] = {}
    for role, said in wanted.given.items():
        if isinstance(said, int):
            chosen[role] = _checked_position(role, said, width, source)
        elif said:
            found = f"{said!r}, which is to be the {role}, names a column, but there is no header"
            raise DataError(found, "give its position from 0, or header=True", where=source)
    if width > len(wanted.by_position) and not all(role in chosen for role in wanted.required):
        found = f"{width} columns and no header"
        remedy = "say which to use, such as " + ", ".join(f"{role}={at}" for at, role in enumerate(wanted.required))
        raise DataError(found, remedy, where=source)
    for position, role in enumerate(wanted.by_position[:width] if width <= len(wanted.by_position) else ()):
        if role not in chosen and position not in chosen.values() and wanted.given.get(role) != "":
            chosen[role] = position
    for role in wanted.required:
        if role not in chosen:
            raise DataError(
                f"{width} columns and none is left for the {role}",
                f"{wanted.listed} are needed: give a position with {role}=..., from 0{without_ratings(role, wanted)}",
                where=source,
            )
    return _distinct(chosen, [f"column {position + 1}" for position in range(width)], source)


def without_ratings(role: Role, wanted: Wanted) -> str:
    """What else can be done about a table of users and items that has no ratings."""
    apart = role == "rating" and wanted.required == ("user", "item", "rating")
    return "; clicks, plays and orders are read by Interactions.read" if apart else ""


def _named(role: Role, wanted: str, names: Sequence[str], source: str) -> int:
    matches = [position for position, name in enumerate(names) if name == wanted]
    matches = matches or [position for position, name in enumerate(names) if name.lower() == wanted.lower()]
    if not matches:
        problem = f"there is no column {wanted!r} for the {role}; found {listed(names)}"
        raise DataError(problem, f"pass one of them as {role}=...", where=source)
    if len(matches) > 1:
        problem = f"{len(matches)} columns are called {wanted!r}"
        raise DataError(problem, f"choose one by its position from 0, such as {role}={matches[0]!r}", where=source)
    return matches[0]


def _checked_position(role: Role, position: int, width: int, source: str) -> int:
    if not 0 <= position < width:
        found = f"{position} is not the position of a column; there are {width}"
        raise DataError(found, f"pass {role}=..., from 0 to {width - 1}", where=source)
    return position


def _distinct(chosen: dict[str, int], names: Sequence[str], source: str) -> dict[str, int]:
    taken: dict[int, str] = {}
    for role, position in chosen.items():
        if position in taken:
            found = f"{quoted(names[position])} would be both the {taken[position]} and the {role}"
            raise DataError(found, f"choose another with {role}=...", where=source)
        taken[position] = role
    return chosen


def listed(names: Sequence[str]) -> str:
    """Names of columns for an error message."""
    shown = ", ".join(quoted(name) for name in names[:12])
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"


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
    return "time" if all(cell.isdecimal() and int(cell) >= LEAST_TIME for cell in cells) else "count"


def _may_be_ratings(cells: Sequence[str]) -> bool:
    """Whether the cells are a few different numbers, and do not count the lines."""
    if not cells or not all(is_number(cell) for cell in cells):
        return False
    numbers = [float(cell) for cell in cells]
    if all(later - earlier == 1 for earlier, later in pairwise(numbers)):
        return False
    return len(set(numbers)) in LEVELS and all(-100 <= number <= 100 for number in numbers)

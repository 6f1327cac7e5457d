"""Columns of cells -> arrays of ids, ratings, counts and times; the first bad cell is named exactly."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.errors import DataError, Place, quoted

SECONDS_A_DAY = 86_400
FINER_UNITS = (1e11, 1e14, 1e17)  # Unix times from these on are milli-, micro- and nanoseconds: 1e11 s is the year 5138
EXACT_INTEGERS = 2.0**53
CALENDAR = (19000101, 21001231)  # days written as numbers; as seconds these would be of August 1970
BLANKS = " \t"
DECIMAL_COMMA = r"^\s*[+-]?\d*,\d+\s*$"
THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2},\d{3}\s*$"
_CLOCK = r"(?<hour>[01]\d|2[0-3]):(?<minute>[0-5]\d)(?::(?<second>[0-5]\d(?:[.,]\d{1,9})?))?"
_ZONE = r"(?:Z|UTC|GMT|(?<sign>[+-])(?<zone_hour>\d{2}):?(?<zone_minute>\d{2}))?"
_AT = rf"(?:(?:T|,?\s+){_CLOCK}\s?)?{_ZONE}\s*$"
# ISO dates, and dates with points, which begin with the day everywhere: 5.1.2010.
DATES = (
    rf"^\s*(?<year>\d{{4}})[-/](?<month>\d{{1,2}})[-/](?<day>\d{{1,2}}){_AT}",
    rf"^\s*(?<day>\d{{1,2}})\.\s?(?<month>\d{{1,2}})\.\s?(?<year>\d{{4}}){_AT}",
)


@dataclass(frozen=True)
class Origin:
    """The source of cells, as error messages name it."""

    name: str
    """The path of a file, or "the DataFrame" and the like."""
    unit: Literal["line", "row"] = "row"
    """Text files have lines; everything else has rows. Both count from 1."""
    first: int = 1
    """The line of the first row of cells (2 below a header)."""
    lines: npt.NDArray[np.int64] | None = None
    """(n,): the line of each row, where quoted cells may span several; None: one after the other."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What messages call the columns, such as "column 'userId'", by their keys."""
    without_nul: bool = False
    """Whether the whole file is known to have no NUL: one search of its bytes is cheaper than one of every id."""
    skippable: bool = False
    """Whether the caller could have bad lines skipped, which a remedy may then propose."""

    def line(self, row: int) -> int:
        """The line (or row, from 1) of the cells at `row` (from 0)."""
        return self.first + row if self.lines is None else int(self.lines[row])

    def error(self, row: int, column: str, found: str, remedy: str) -> DataError:
        """The error about one cell."""
        if self.skippable:
            remedy += SKIPPING
        label = self.labels.get(column, column)
        return DataError(found, remedy, where=Place(self.name, self.unit, self.line(row), label))

    def kept(self, rows: npt.NDArray[np.bool_]) -> "Origin":
        """The origin of some of the rows."""
        lines = np.arange(self.first, self.first + len(rows)) if self.lines is None else self.lines
        return replace(self, lines=lines[rows])


SKIPPING = ", or have such lines skipped with skip_bad_lines=100"


class BadCellsError(DataError):
    """An error about the first of several bad cells of one kind."""

    rows: npt.NDArray[np.bool_]
    """(n,): all rows that have one."""


def is_number(cell: str) -> bool:
    """Whether a cell is written as a number, NaN and infinity included."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def canonical_integers(cells: pl.Series) -> npt.NDArray[np.int64] | None:
    """The integers of a string column if every cell is written as one is (42, -3, but not 042); else None."""
    integers = cells.cast(pl.Int64, strict=False)
    if integers.null_count() or cells.str.starts_with("+").any() or cells.str.starts_with("-0").any():
        return None
    zero = cells.str.starts_with("0")
    return integers.to_numpy() if (cells.filter(zero) == "0").all() else None


def ids(cells: pl.Series, column: str, origin: Origin, *, text: bool) -> npt.NDArray[np.int64] | pl.Series:
    """Ids (n,): int64, or a series of strings. In a `text` file, canonical integers are integers."""
    dtype = cells.dtype
    if dtype in (pl.Categorical, pl.Enum):
        cells, dtype = cells.cast(pl.String), pl.String()
    _refuse_missing(cells, column, origin, "an id")
    if dtype == pl.String:
        integers = canonical_integers(cells) if text else None
        if integers is not None:
            return integers
        if not origin.without_nul:
            _refuse(
                *(cells.str.contains("\0", literal=True), cells, column, origin),
                *("where an id belongs, which has no NUL character", "remove the character"),
            )
        return cells
    if dtype.is_integer():
        wide = cells.cast(pl.Int64, strict=False)
        belongs = "where an id of 64 bits belongs"
        _refuse(wide.is_null(), cells, column, origin, belongs, "pass such ids as strings")
        return wide.to_numpy()
    origin = replace(origin, skippable=False)
    if dtype.is_float():
        raise origin.error(
            *(0, column, f"the ids are floats, the first is {cells[0]}"),
            "ids are strings or integers: .cast(pl.Int64) in polars, .astype('int64') in pandas",
        )
    raise origin.error(0, column, f"the ids are of type {dtype}", "ids are strings or integers: convert the column")


def ratings(
    cells: pl.Series, origin: Origin, scale: tuple[float, float] | None, decimal: bool | None = None
) -> npt.NDArray[np.float32]:
    """Ratings (n,), each finite and within `scale`, if that is given; `decimal` as in `with_points`."""
    values = _numbers(cells, "rating", origin, decimal)
    if scale is not None:
        outside = (values < np.float32(scale[0])) | (values > np.float32(scale[1]))
        if outside.any():
            _refuse(
                *(pl.Series(outside), cells, "rating", origin),
                f"outside the scale {scale[0]:g} to {scale[1]:g}",
                "correct it, or widen scale=...",
            )
    return values


def counts(cells: pl.Series, origin: Origin, decimal: bool | None = None) -> npt.NDArray[np.float32]:
    """Counts (n,) or weights, each finite and above 0; `decimal` as in `with_points`."""
    values = _numbers(cells, "count", origin, decimal)
    belongs = "where a count above 0 belongs"
    _refuse(pl.Series(values <= 0), cells, "count", origin, belongs, "correct or remove it")
    return values


def _numbers(cells: pl.Series, column: str, origin: Origin, decimal: bool | None = None) -> npt.NDArray[np.float32]:
    """Finite numbers (n,)."""
    if not (cells.dtype == pl.String or cells.dtype.is_numeric()):
        raise replace(origin, skippable=False).error(
            0, column, f"the {column}s are of type {cells.dtype}", f"{column}s are numbers: convert the column"
        )
    parsed = cells.cast(pl.Float32, strict=False)
    if parsed.null_count():
        _refuse_missing(cells, column, origin, "a number")
        parsed = with_points(cells, decimal).str.strip_chars().cast(pl.Float32, strict=False)
        _refuse(parsed.is_null(), cells, column, origin, "where a number belongs", "correct or remove it")
    values = parsed.to_numpy()
    if not np.isfinite(values).all():
        bad = pl.Series(~np.isfinite(values))
        _refuse(bad, cells, column, origin, "where a finite number belongs", "correct or remove it")
    return values


def events(cells: pl.Series, origin: Origin) -> pl.Series:
    """What happened (n,), as words: view, buy."""
    _refuse_missing(cells, "event", origin, "an event")
    return words(cells)


def words(cells: pl.Series) -> pl.Series:
    """Cells of any kind as text without blanks around it; null where there is nothing."""
    return cells.cast(pl.String).str.strip_chars()


def has_decimal_commas(cells: pl.Series) -> bool:
    """Whether all commas in a column are decimal commas. 1,000 could be a thousand, so it does not count."""
    commas = cells.filter(cells.str.contains(",", literal=True))
    if not len(commas) or cells.str.contains(".", literal=True).any() or commas.str.contains(THOUSANDS).all():
        return False
    return bool(commas.str.contains(DECIMAL_COMMA).all())


def with_points(cells: pl.Series, decimal: bool | None = None) -> pl.Series:
    """Replace decimal commas by points if all cells have them; `decimal` says so of cells that are only a part."""
    decimal = has_decimal_commas(cells) if decimal is None else decimal
    return cells.str.replace(",", ".", literal=True) if decimal else cells


TimeForm = Literal["number", "date"]
"""How times are written in text."""


def time_form(cells: pl.Series) -> TimeForm:
    """How most cells of a column of text write times."""
    numbers = cells.str.strip_chars().cast(pl.Float64, strict=False)
    return "number" if 2 * numbers.null_count() <= len(cells) else "date"


def times(
    cells: pl.Series, origin: Origin, form: TimeForm | None = None
) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """Times (n,) in seconds: int64, or float64 where fractions matter. Dates count from 1970 in UTC.

    Numbers are Unix times; their size tells seconds from milliseconds and finer units.

    `form` says how they are written in a text that these cells are only a part of; else the cells themselves tell.
    """
    _refuse_missing(cells, "time", origin, "a time")
    dtype, dates = cells.dtype, False
    if dtype.is_integer():
        return _unix_seconds(cells.cast(pl.Int64), origin)
    if dtype == pl.Date:
        return cells.cast(pl.Int64).to_numpy() * SECONDS_A_DAY
    if dtype == pl.Datetime:
        microseconds = cells.dt.epoch("us").to_numpy()
        whole, rest = np.divmod(microseconds, 1_000_000)
        return whole if not rest.any() else microseconds / 1e6
    if dtype == pl.String:
        if form in (None, "number"):
            whole_numbers = cells.cast(pl.Int64, strict=False)
            if not whole_numbers.null_count():
                return _unix_seconds(whole_numbers, origin)
        form = time_form(cells) if form is None else form
        dates = form != "number"
        numbers = _seconds_of_dates(cells) if dates else cells.str.strip_chars().cast(pl.Float64, strict=False)
        remedy = "write Unix seconds or ISO dates throughout, or leave the column out with time=''"
        _refuse(numbers.is_null(), cells, "time", origin, "where a time belongs", remedy)
    elif dtype.is_numeric():
        numbers = cells.cast(pl.Float64)
    else:
        raise replace(origin, skippable=False).error(
            0, "time", f"the times are of type {dtype}", "give numbers, dates or datetimes"
        )
    seconds = numbers.to_numpy()
    if not np.isfinite(seconds).all():
        bad = pl.Series(~np.isfinite(seconds))
        _refuse(bad, cells, "time", origin, "where a finite time belongs", "correct or remove it")
    return _whole(seconds) if dates else _unix_seconds(numbers, origin)


def _unix_seconds(cells: pl.Series, origin: Origin) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """Unix times in seconds, whatever unit each is in; a column of dates may have days written as 20100105."""
    times = cells.to_numpy()
    calendar = cells.is_between(*CALENDAR)
    if "date" in origin.labels.get("time", "").lower() and calendar.any():
        days = cells.cast(pl.Int64).cast(pl.String).str.to_date("%Y%m%d", strict=False)
        bad = calendar if 2 * calendar.sum() < len(cells) else days.is_null() | ~calendar  # the fewer ones are slips
        remedy = "write days such as 20100105 throughout, or Unix seconds"
        _refuse(bad, cells, "time", origin, "where a time as in the other rows belongs", remedy)
        return days.cast(pl.Int64).to_numpy() * SECONDS_A_DAY
    if -FINER_UNITS[0] < times.min() and times.max() < FINER_UNITS[0]:
        return times if times.dtype == np.int64 else _whole(times)
    return _whole(times / 1000.0 ** np.digitize(np.abs(times), FINER_UNITS))


def _whole(
    seconds: npt.NDArray[np.int64] | npt.NDArray[np.float64],
) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """As integers where they are whole and small enough to be exact."""
    exact = (seconds == np.floor(seconds)).all() and (np.abs(seconds) < EXACT_INTEGERS).all()
    return seconds.astype(np.int64) if exact else seconds


def _seconds_of_dates(cells: pl.Series) -> pl.Series:
    """Seconds since 1970 (UTC without an offset) of dates; null where a cell is none."""
    first, second = (cells.str.extract_groups(pattern).struct.unnest() for pattern in DATES)
    parts = (
        first
        if not first["year"].null_count()
        else first.select(pl.coalesce(first[name], second[name]) for name in first.columns)
    )

    def number(name: str) -> pl.Expr:
        return pl.col(name).str.replace(",", ".", literal=True).cast(pl.Float64).fill_null(0.0)

    two = [pl.col(name).str.zfill(2) for name in ("month", "day")]
    # A cell that is no date at all has no date part, and so stays null.
    days = pl.concat_str("year", *two, separator="-").str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64)
    offset = (number("zone_hour") * 3600 + number("zone_minute") * 60) * pl.when(sign="-").then(-1).otherwise(1)
    clock = number("hour") * 3600 + number("minute") * 60 + number("second")
    return parts.select(days.cast(pl.Float64) * SECONDS_A_DAY + clock - offset).to_series()


def _refuse_missing(cells: pl.Series, column: str, origin: Origin, belongs: str) -> None:
    """Raise at the first missing cell: null or an empty string."""
    missing = cells.is_null()
    if cells.dtype == pl.String:
        missing = missing | (cells.str.len_bytes() == 0).fill_null(True)
    if missing.any():
        found = f"the cell is empty where {belongs} belongs"
        raise _bad_cells(missing, column, origin, found, f"fill it in or remove the {origin.unit}")
    if cells.dtype.is_float() and belongs == "an id" and cells.is_nan().any():
        raise _bad_cells(
            *(cells.is_nan(), column, origin, "found NaN where an id belongs"),
            "drop such rows, then .astype('int64'): pandas makes floats of integers when some are missing",
        )


def _refuse(bad: pl.Series, cells: pl.Series, column: str, origin: Origin, problem: str, remedy: str) -> None:
    if bad.any():
        found = f"found {quoted(cells[int(bad.arg_max() or 0)])} {problem}"
        raise _bad_cells(bad, column, origin, found, remedy)


def _bad_cells(bad: pl.Series, column: str, origin: Origin, found: str, remedy: str) -> BadCellsError:
    said = origin.error(int(bad.arg_max() or 0), column, found, remedy)
    error = BadCellsError(said.found, said.remedy, where=said.where)
    error.rows = np.asarray(bad.to_numpy(), np.bool_)
    return error


def refuse_mixed(ids: "list[Any]", column: str, origin: Origin) -> None:
    """DataError if ids are neither all strings nor all integers."""
    first_of: dict[type, int] = {}
    for row, id in enumerate(ids):
        if id is not None:
            first_of.setdefault(type(id), row)
    if len(first_of) > 1:
        first, row = sorted(first_of.values())[:2]
        raise origin.error(
            *(row, column, f"found {quoted(ids[row])} ({type(ids[row]).__name__}) beside {quoted(ids[first])}"),
            "ids are all strings or all integers: make them one type",
        )


IdsIn = Literal["alike", "mixed"] | None
"""Ids that are all strings or all integers, ids of both types, or no ids at all."""


def series_of(values: Any, column: str, origin: Origin, *, ids: IdsIn = None) -> pl.Series:
    """Values of any kind as a series. Ids that should be alike and are not are refused; mixed ones become text."""
    if isinstance(values, pl.Series):
        return values
    array = values if isinstance(values, (np.ndarray, list)) else np.asarray(values)
    if isinstance(array, np.ndarray):
        if array.ndim != 1:
            raise DataError(f"the {column}s have shape {array.shape}", "pass one dimension", where=origin.name)
        if array.dtype.kind == "M":
            return pl.Series(array.astype("datetime64[us]"))
        if array.dtype.kind in "iufb" and array.dtype != np.float16:
            return pl.Series(np.ascontiguousarray(array))
        array = array.tolist()
    if any(hasattr(kind, "item") for kind in set(map(type, array))):  # numbers of numpy or torch
        array = [value.item() if hasattr(value, "item") else value for value in array]
    plain = array
    if ids == "mixed" and {type(value) for value in plain} == {str, int}:
        plain = [str(value) for value in plain]
    if ids:
        refuse_mixed(plain, column, origin)
    try:
        return pl.Series(plain, strict=ids is not None)
    except (TypeError, OverflowError, pl.exceptions.PolarsError, UnicodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"the {column}s cannot be read ({reason})", "pass plain numbers and strings", where=origin.name
        ) from error


def pandas_values(column: Any) -> Any:
    """The cells of a pandas column as an array, or as a list where some are missing: each of those is None."""
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    missing = column.isna().to_numpy()
    if missing.any() and not (isinstance(column.dtype, np.dtype) and column.dtype.kind == "f"):
        # None, NaN, NaT and pandas.NA all mean the same; polars only knows None.
        return [None if gone else value for value, gone in zip(column.tolist(), missing, strict=True)]
    return column.to_numpy()

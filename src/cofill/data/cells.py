"""Columns of cells -> arrays of ids, ratings and times; the first bad cell is named exactly."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from cofill.data.origin import Origin, Role, quoted
from cofill.errors import DataError

if TYPE_CHECKING:
    import polars as pl

SECONDS_A_DAY = 86_400
EXACT_INTEGERS = 2.0**53
ISO_TIME = (
    r"^\s*(?<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?<hour>[01]\d|2[0-3]):(?<minute>[0-5]\d)(?::(?<second>[0-5]\d(?:[.,]\d{1,9})?))?)?"
    r"(?:Z|(?<sign>[+-])(?<zone_hour>\d{2}):?(?<zone_minute>\d{2}))?\s*$"
)


def digits_total(integers: npt.NDArray[np.int64]) -> int:
    """How many characters all `integers` (n,) have together when written canonically."""
    if not len(integers):
        return 0
    low, high = int(integers.min()), int(integers.max())
    total = len(integers)
    if low < 0:
        total += int(np.count_nonzero(integers < 0))
    power = 10
    while power <= max(high, -low):
        if low >= power:
            total += len(integers)
        else:
            total += int(np.count_nonzero(integers >= power)) + int(np.count_nonzero(integers <= -power))
        power *= 10
    return total


def canonical_integers(cells: "pl.Series") -> npt.NDArray[np.int64] | None:
    """The integers of a string column if every cell is the canonical form of one; else None.

    Whatever parses as an integer is at least as long as that integer's canonical form, and longer if it has a
    leading zero, a plus or a blank. So all cells are canonical exactly if the total lengths agree.
    """
    import polars as pl

    parsed = cells.cast(pl.Int64, strict=False)
    if parsed.null_count():
        return None
    integers = parsed.to_numpy()
    return integers if cells.str.len_bytes().sum() == digits_total(integers) else None


def ids(cells: "pl.Series", role: Role, origin: Origin, *, text: bool) -> "npt.NDArray[np.int64] | pl.Series":
    """Ids (n,): int64, or a series of strings. In a `text` file, canonical integers are integers."""
    import polars as pl

    dtype = cells.dtype
    if dtype in (pl.Categorical, pl.Enum):
        cells, dtype = cells.cast(pl.String), pl.String()
    _refuse_missing(cells, role, origin, "an id")
    if dtype == pl.String:
        integers = canonical_integers(cells) if text else None
        return cells if integers is None else integers
    if dtype.is_integer():
        wide = cells.cast(pl.Int64, strict=False)
        _refuse(wide.is_null(), cells, role, origin, "where an id of 64 bits belongs", "pass such ids as strings")
        return wide.to_numpy()
    if dtype.is_float():
        raise origin.error(
            *(0, role, f"the ids are floats, the first is {cells[0]}"),
            "ids are strings or integers: .cast(pl.Int64) in polars, .astype('int64') in pandas",
        )
    raise origin.error(0, role, f"the ids are of type {dtype}", "ids are strings or integers: convert the column")


def ratings(cells: "pl.Series", origin: Origin, scale: tuple[float, float] | None) -> npt.NDArray[np.float32]:
    """Ratings (n,), each finite and within `scale`, if that is given."""
    import polars as pl

    if not (cells.dtype == pl.String or cells.dtype.is_numeric()):
        raise origin.error(
            0, "rating", f"the ratings are of type {cells.dtype}", "ratings are numbers: convert the column"
        )
    parsed = cells.cast(pl.Float32, strict=False)
    if parsed.null_count():
        _refuse_missing(cells, "rating", origin, "a number")
        parsed = cells.str.strip_chars().cast(pl.Float32, strict=False)
        _refuse(parsed.is_null(), cells, "rating", origin, "where a number belongs", "correct or remove it")
    values = parsed.to_numpy()
    if not np.isfinite(values).all():
        bad = pl.Series(~np.isfinite(values))
        _refuse(bad, cells, "rating", origin, "where a finite number belongs", "correct or remove it")
    if scale is not None:
        outside = (values < np.float32(scale[0])) | (values > np.float32(scale[1]))
        if outside.any():
            _refuse(
                *(pl.Series(outside), cells, "rating", origin),
                f"outside the scale {scale[0]:g} to {scale[1]:g}",
                "correct it, or widen scale=...",
            )
    return values


def times(cells: "pl.Series", origin: Origin) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """Times (n,) in seconds: int64, or float64 where fractions matter. Dates count from 1970 in UTC."""
    import polars as pl

    _refuse_missing(cells, "time", origin, "a time")
    dtype = cells.dtype
    if dtype.is_integer():
        return cells.cast(pl.Int64).to_numpy()
    if dtype == pl.Date:
        return cells.cast(pl.Int64).to_numpy() * SECONDS_A_DAY
    if dtype == pl.Datetime:
        microseconds = cells.dt.epoch("us").to_numpy()
        whole, rest = np.divmod(microseconds, 1_000_000)
        return whole if not rest.any() else microseconds / 1e6
    if dtype == pl.String:
        whole_numbers = cells.cast(pl.Int64, strict=False)
        if not whole_numbers.null_count():
            return whole_numbers.to_numpy()
        numbers = cells.str.strip_chars().cast(pl.Float64, strict=False)
        if numbers.null_count() == len(numbers):
            numbers = _iso_seconds(cells)
        advice = "write Unix seconds or ISO dates throughout, or leave the column out with time=''"
        _refuse(numbers.is_null(), cells, "time", origin, "where a time belongs", advice)
    elif dtype.is_numeric():
        numbers = cells.cast(pl.Float64)
    else:
        raise origin.error(0, "time", f"the times are of type {dtype}", "give numbers, dates or datetimes")
    seconds = numbers.to_numpy()
    if not np.isfinite(seconds).all():
        bad = pl.Series(~np.isfinite(seconds))
        _refuse(bad, cells, "time", origin, "where a finite time belongs", "correct or remove it")
    if (seconds == np.floor(seconds)).all() and (np.abs(seconds) < EXACT_INTEGERS).all():
        return seconds.astype(np.int64)
    return seconds


def _iso_seconds(cells: "pl.Series") -> "pl.Series":
    """Seconds since 1970 of ISO dates and datetimes (UTC without an offset); null where a cell is none."""
    import polars as pl

    parts = cells.str.extract_groups(ISO_TIME).struct.unnest()

    def number(name: str) -> "pl.Series":
        return parts[name].str.replace(",", ".", literal=True).cast(pl.Float64, strict=False).fill_null(0.0)

    # A cell that is no date at all has no date part, and so stays null.
    days = parts["date"].str.to_date("%Y-%m-%d", strict=False).cast(pl.Int64).cast(pl.Float64)
    offset = number("zone_hour") * 3600 + number("zone_minute") * 60
    signed = (parts["sign"] == "-").fill_null(False).cast(pl.Float64) * -2 + 1
    return days * SECONDS_A_DAY + number("hour") * 3600 + number("minute") * 60 + number("second") - offset * signed


def _refuse_missing(cells: "pl.Series", role: Role, origin: Origin, belongs: str) -> None:
    """Nulls and empty strings are missing."""
    import polars as pl

    missing = cells.is_null()
    if cells.dtype == pl.String:
        missing = missing | (cells.str.len_bytes() == 0).fill_null(True)
    if missing.any():
        row = int(missing.arg_max() or 0)
        raise origin.error(
            row, role, f"the cell is empty where {belongs} belongs", f"fill it in or remove the {origin.unit}"
        )
    if cells.dtype.is_float() and role in ("user", "item") and cells.is_nan().any():
        row = int(cells.is_nan().arg_max() or 0)
        raise origin.error(
            *(row, role, "found NaN where an id belongs"),
            "drop such rows, then .astype('int64'): pandas makes floats of integers when some are missing",
        )


def _refuse(bad: "pl.Series", cells: "pl.Series", role: Role, origin: Origin, problem: str, advice: str) -> None:
    if bad.any():
        row = int(bad.arg_max() or 0)
        raise origin.error(row, role, f"found {quoted(cells[row])} {problem}", advice)


def checked_scale(scale: tuple[float, float]) -> tuple[float, float]:
    """The scale that a caller gives, if it is one."""
    low, high = float(scale[0]), float(scale[1])
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise DataError(f"scale={tuple(scale)} is not a scale; give its least and greatest rating, such as (1, 5)")
    return low, high

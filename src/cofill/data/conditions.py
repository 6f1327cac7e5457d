"""Rules about what items are, written as words, as a command line or an address has them.

    genres:Comedy      year:1990..1999      year:1990..      conditions
    genres:Comedy=1.5                                        boosts
    genres=3                                                 at most so many of a kind

An error names the word; whoever passed it on says what they call it (`DataError.said_of`).
"""

from collections.abc import Iterable
from math import isfinite

from cofill.data.attributes import Attributes, Condition, Scalar
from cofill.errors import DataError

GREATEST_BOOST = 1e6


def conditions_in(words: Iterable[str], attributes: Attributes) -> dict[str, Condition]:
    """COLUMN:VALUE, or COLUMN:LOW..HIGH of what has an order, where either end may be missing.

    A column that is given twice may have either value.
    """
    ordered = {column.name: column.ordered for column in attributes.columns()}
    values: dict[str, list[Scalar]] = {}
    bounds: dict[str, dict[str, Scalar | None]] = {}
    for word in words:
        column, value = _column_and_value(word, ordered, "COLUMN:VALUE, such as genres:Comedy, or COLUMN:LOW..HIGH")
        ranged = ordered.get(column, False) and ".." in value
        if column in bounds or (ranged and column in values):
            raise DataError(f"{column} has two conditions", "give one range", where=word)
        if not ranged:
            values.setdefault(column, []).append(value)
            continue
        low, _, high = value.partition("..")
        if not low and not high:
            raise DataError(f"a range has a beginning, an end, or both, such as {column}:1990..", where=word)
        bounds[column] = {name: bound for name, bound in (("min", low), ("max", high)) if bound}
    return {**values, **bounds}


def boosts_in(words: Iterable[str], attributes: Attributes) -> dict[str, dict[Scalar, float]]:
    """COLUMN:VALUE=FACTOR; each value of a column once."""
    columns = {column.name for column in attributes.columns()}
    found: dict[str, dict[Scalar, float]] = {}
    for word in words:
        rule, _, text = word.rpartition("=")  # a value may have an equals sign of its own
        factor = _number(text)
        if not rule or not 0 < factor <= GREATEST_BOOST:
            problem = "a boost is COLUMN:VALUE=FACTOR, where the factor is above 0"
            raise DataError(problem, "write 1.5 for more, 0.5 for less, such as genres:Comedy=1.5", where=word)
        column, value = _column_and_value(rule, columns, "COLUMN:VALUE=FACTOR, such as genres:Comedy=1.5", word)
        boosts = found.setdefault(column, {})
        if value in boosts:
            raise DataError(f"{column}:{value} is boosted twice", "keep one of its factors", where=word)
        boosts[value] = factor
    return found


def limits_in(words: Iterable[str]) -> dict[str, int]:
    """COLUMN=N; each column once."""
    found: dict[str, int] = {}
    for word in words:
        column, _, text = word.rpartition("=")
        number = _number(text)
        if not column or number < 1 or not number.is_integer():
            raise DataError("a limit is COLUMN=N, where N is 1 or more", "write it so, such as genres=3", where=word)
        if column in found:
            raise DataError(f"{column} has two limits", "keep one of them", where=word)
        found[column] = int(number)
    return found


def _column_and_value(rule: str, columns: Iterable[str], form: str, word: str | None = None) -> tuple[str, str]:
    """Split COLUMN:VALUE; the name of a column may contain a colon."""
    own = [column for column in columns if rule.startswith(f"{column}:")]
    column = max(own, key=len) if own else rule.partition(":")[0]
    if not column or not rule.startswith(f"{column}:"):
        raise DataError("there is no column in it", f"write {form}", where=word or rule)
    return column, rule[len(column) + 1 :]


def _number(text: str) -> float:
    """0 of what is none."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if isfinite(number) else 0.0

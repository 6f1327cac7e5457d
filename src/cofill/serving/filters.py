"""Which items an answer is chosen from: conditions on their attributes, lists of ids."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.data.attributes import Condition
from cofill.errors import DataError
from cofill.models.recommender import Recommender
from cofill.serving.messages import Bounds, ItemOrUserId, Where

Flags = npt.NDArray[np.bool_]


def choosable(
    model: Recommender,
    where: Where | None,
    among: Sequence[ItemOrUserId] | None,
    exclude: Sequence[ItemOrUserId] | None,
) -> Flags | None:
    """(items,): which items may be recommended; None if any may. Ids that are not known do not count."""
    if where is None and among is None and exclude is None:
        return None
    flags = np.ones(len(model.items), np.bool_)
    if among is not None:
        flags = _listed(model, among)
    if where:
        flags &= model.item_attributes.matching({column: _condition(wanted) for column, wanted in where.items()})
    if exclude:
        flags &= ~_listed(model, exclude)
    return flags


def where_of(words: Sequence[str], model: Recommender) -> Where:
    """Conditions as an address has them: genres:Comedy, year:1990..1999, year:1990.. and year:..1999.

    A column that is named more than once may have any of its values.
    """
    kinds = {column.name: column.kind for column in model.item_attributes.columns()}
    found: dict[str, Any] = {}
    for word in words:
        column, value = _split(word, kinds)
        if kinds.get(column) in ("number", "date") and ".." in value:
            if column in found:
                raise DataError(f"where={word}: {column} has two conditions; give one range")
            low, _, high = value.partition("..")
            if not low and not high:
                raise DataError(f"where={word}: a range has a beginning, an end, or both, such as {column}:1990..")
            found[column] = Bounds(min=low or None, max=high or None)
        elif isinstance(found.get(column), Bounds):
            raise DataError(f"where={word}: {column} has two conditions; give one range")
        else:
            found.setdefault(column, []).append(value)
    return found


def _split(word: str, columns: dict[str, Any]) -> tuple[str, str]:
    """A column's name may have a colon itself."""
    own = [column for column in columns if word.startswith(f"{column}:")]
    column = max(own, key=len) if own else word.partition(":")[0]
    if not word.startswith(f"{column}:"):
        raise DataError(f"where={word}: write COLUMN:VALUE, such as genres:Comedy, or COLUMN:LOW..HIGH")
    return column, word[len(column) + 1 :]


def _condition(wanted: Any) -> Condition:
    if isinstance(wanted, Bounds):
        return wanted.model_dump(exclude_none=True)
    condition: Condition = wanted
    return condition


def _listed(model: Recommender, ids: Sequence[ItemOrUserId]) -> Flags:
    flags = np.zeros(len(model.items), np.bool_)
    indices = model.items.find(list(ids))
    flags[indices[indices >= 0]] = True
    return flags

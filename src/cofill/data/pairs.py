"""Pairs of user and item, in whatever form somebody has them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Id

if TYPE_CHECKING:
    pass

Ids = Sequence[Id] | npt.NDArray[Any]
Pairs = "Ratings | Sequence[tuple[Id, Id]] | tuple[Ids, Ids] | polars.DataFrame | pandas.DataFrame"


def ids_of_pairs(pairs: Any) -> tuple[Ids, Ids]:
    """The users and the items of pairs: Ratings, a frame, two columns of ids, or a sequence of (user, item)."""
    if isinstance(pairs, Ratings):
        users, items = pairs.users.array(), pairs.items.array()
        return users[pairs.user_index], items[pairs.item_index]
    return pairs

"""Which items may be shown: those that are hidden are known and in no list, those that are deleted are unknown.

And ids in the order of their text, for pages of a list that stays in order while it changes.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable

import numpy as np

from cofill.arrays import Bools
from cofill.data.vocabulary import Id, Vocabulary


class Availability:
    """What of a model's items is hidden or deleted."""

    def __init__(self, items: Vocabulary) -> None:
        self._items = items
        self.hidden: set[Id] = set()
        self.deleted: set[Id] = set()
        self._flags: Bools | None = None

    def tell(self, item: Id, *, available: bool, deleted: bool) -> None:
        """What is so of an item from now on; it may not be known yet."""
        for holds, some in ((not available, self.hidden), (deleted, self.deleted)):
            (some.add if holds else some.discard)(item)
        self._flags = None

    def shown(self, item: Id) -> bool:
        """Whether an item may be in lists."""
        return item not in self.hidden and item not in self.deleted

    def withheld(self) -> Bools | None:
        """(items,): which items may not be in lists; None if all may."""
        if not self.hidden and not self.deleted:
            return None
        if self._flags is None or len(self._flags) != len(self._items):
            self._flags = np.zeros(len(self._items), np.bool_)
            indices = self._items.find([*self.hidden, *self.deleted])
            self._flags[indices[indices >= 0]] = True
        return self._flags


class OrderedIds:
    """Ids by their text. A page goes on after the last text of the one before, whatever came or went meanwhile."""

    def __init__(self, ids: Iterable[Id]) -> None:
        self._texts = sorted({str(id) for id in ids})

    def add(self, id: Id) -> None:
        text = str(id)
        at = bisect_right(self._texts, text)
        if not at or self._texts[at - 1] != text:
            insort(self._texts, text)

    def remove(self, id: Id) -> None:
        text = str(id)
        at = bisect_right(self._texts, text)
        if at and self._texts[at - 1] == text:
            del self._texts[at - 1]

    def after(self, text: str, n: int) -> tuple[list[str], bool]:
        """The next n texts after one ("": from the beginning), and whether there are more."""
        at = bisect_right(self._texts, text) if text else 0
        return self._texts[at : at + n], at + n < len(self._texts)

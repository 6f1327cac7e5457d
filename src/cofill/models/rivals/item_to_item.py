"""Scorers with a weight for every pair of items: a score is the sum of the weights of what somebody did.

    score_j = sum_i x_i B_ij          x_i: the grade of what somebody did, B_ii = 0

B is fitted once. An item that came later, or of which a tenth of the ratings has changed since, is folded in: from the
sums over those who rated it of its grade times their grades of the fitted items. In training that is a column of X'X.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows
from cofill.models.lists.feedback import Feedback
from cofill.models.lists.scorer import Doubles, Flags, Floats, Ints, ListScorer, Sides
from cofill.models.rivals.item_embedding import ItemEmbedding
from cofill.models.rivals.list_rival import LivePopularity

Longs = npt.NDArray[np.int64]

# An item whose ratings have changed by at least this share of those in training is folded in anew.
_CHANGED_SHARE = 0.1


class Together(NamedTuple):
    """What is known of an item by those who rated it."""

    sums: Doubles  # (fitted items,): its grades times those of each other item, added up; 0 for itself
    own: float  # its squared grades, added up
    item: int  # its place among the fitted items; -1 if it came later


class Later(NamedTuple):
    """An item that was folded in, towards the fitted items."""

    inputs: Floats  # (fitted items,): what it adds to their scores, for a grade of 1
    targets: Floats  # (fitted items,): what they add to its score
    vector: Floats  # (width,)


class ItemToItemScorer(ListScorer):
    """B, and what follows ratings and items. What it says depends on ratings alone, not on the order they came in."""

    def __init__(self, feedback: Feedback, sides: Sides, embedding: ItemEmbedding, norms: Doubles) -> None:
        """`norms` (fitted items,): the length of the column of grades of each item in training."""
        super().__init__(feedback, sides)
        self._embedding, self._norms = embedding, norms
        trained = feedback.trained()
        self._ratings: Longs = np.bincount(trained.indices, minlength=len(norms))[: len(norms)]
        self._popularity = LivePopularity(feedback)
        self._later: dict[int, Later] = {}
        self._stale = set(np.flatnonzero(self._ratings == 0).tolist())
        self._stale |= feedback.changed_items() | set(range(len(norms), feedback.items))

    @property
    def fitted(self) -> int:
        """How many items B is of."""
        return len(self._norms)

    @abstractmethod
    def _products(self, done: SparseRows) -> Floats:
        """(n, fitted): x B, of fitted items only."""

    @abstractmethod
    def _weights(self, inputs: Ints, targets: Ints) -> Doubles:
        """(m, n): B of n inputs and m targets, all of them fitted."""

    @abstractmethod
    def _inputs_and_targets(self, together: Together) -> tuple[Floats, Floats]:
        """The weights (fitted,) from an item to the others, and from them to it; 0 for itself."""

    # Questions

    def many(self, done: SparseRows) -> Floats:
        later = self._followed()
        fitted = _restricted(done, done.indices < self.fitted, self.fitted)
        replaced = np.isin(fitted.indices, list(later))
        unchanged = fitted if not replaced.any() else _restricted(fitted, ~replaced, self.fitted)
        scores = np.tile(self._popularity.hint(), (done.rows, 1))
        scores[:, : self.fitted] += self._products(unchanged)
        people = np.repeat(np.arange(done.rows), done.counts())
        for entry in np.flatnonzero(np.isin(done.indices, list(later))).tolist():
            added = done.values[entry] * later[int(done.indices[entry])].inputs
            scores[people[entry], : self.fitted] += added
        for item, folded in later.items():
            scores[:, item] = self._popularity.hint()[item] + _product(fitted, folded.targets)
        return scores

    def shares(self, items: Ints, grades: Floats, asked: Ints) -> Doubles:
        later = self._followed()
        old_items = np.array([item < self.fitted and item not in later for item in items.tolist()], np.bool_)
        old_asked = np.array([item < self.fitted and item not in later for item in asked.tolist()], np.bool_)
        found = np.zeros((len(asked), len(items)))
        found[np.ix_(old_asked, old_items)] = self._weights(items[old_items], asked[old_asked])
        for place in np.flatnonzero(~old_items).tolist():
            if (folded := later.get(int(items[place]))) is not None:
                found[old_asked, place] = folded.inputs[asked[old_asked]]
        speaks = items < self.fitted
        for place in np.flatnonzero(~old_asked).tolist():
            if (folded := later.get(int(asked[place]))) is not None:
                found[place, speaks] = folded.targets[items[speaks]]
        return found * grades.astype(np.float64)

    def scored(self) -> Flags:
        later = self._followed()
        flags = np.zeros(self.feedback.items, np.bool_)
        flags[: self.fitted] = self._ratings > 0
        for item, folded in later.items():
            flags[item] = bool(folded.targets.any())
        return flags

    def item_vectors(self) -> Floats:
        later = self._followed()
        vectors = np.zeros((self.feedback.items, self._embedding.vectors.shape[1]), np.float32)
        vectors[: self.fitted] = self._embedding.vectors
        for item, folded in later.items():
            vectors[item] = folded.vector
        return vectors

    # Following

    def changed(self, users: Iterable[int], items: Iterable[int]) -> None:
        items = set(items)
        self._popularity.changed(items)
        self._stale |= items
        for user in users:
            if not len(self.feedback.trained_row(user)[0]):
                self._stale |= self.feedback.later_items(user)  # their sums lean on what this user did

    def _followed(self) -> dict[int, Later]:
        if self._stale:
            changed = self.feedback.changed_items()
            kept = {item: folded for item, folded in self._later.items() if item not in self._stale}
            anew = [item for item in self._stale if self._differs(item, item in changed)]
            found = kept | {item: self._folded_in(item) for item in anew}
            self._later = dict(sorted(found.items()))
            self._stale = set()
        return self._later

    def _differs(self, item: int, changed: bool) -> bool:
        """Whether an item is not, or no longer, scored as it was fitted."""
        if item >= self.fitted or not self._ratings[item]:
            return True
        return changed and self.feedback.changes(item) >= _CHANGED_SHARE * self._ratings[item]

    def _folded_in(self, item: int) -> Later:
        together = self._together(item)
        inputs, targets = self._inputs_and_targets(together)
        lengths = self._norms * np.sqrt(together.own)
        cosines = np.divide(together.sums, lengths, out=np.zeros(self.fitted), where=lengths > 0)
        return Later(inputs, targets, self._embedding.folded_in(cosines.astype(np.float32)))

    def _together(self, item: int) -> Together:
        sums = np.zeros(self.fitted)
        users, grades = self.feedback.column(item)
        for user, grade in zip(users.tolist(), grades.tolist(), strict=True):
            others, theirs = self._did_in_training(user)
            sums[others] += grade * theirs.astype(np.float64)
        place = item if item < self.fitted else -1
        if place >= 0:
            sums[place] = 0.0
        return Together(sums, float((grades.astype(np.float64) ** 2).sum()), place)

    def _did_in_training(self, user: int) -> tuple[Ints, Floats]:
        """What a user did in training, or since if that was nothing, of the items that were fitted."""
        items, grades = self.feedback.trained_row(user)
        if not len(items):
            items, grades = self.feedback.row(user)
        fitted = items < self.fitted
        return items[fitted], grades[fitted]


def _restricted(rows: SparseRows, kept: Flags, columns: int) -> SparseRows:
    """Some of the entries of a sparse matrix, which has so many columns."""
    ends = np.concatenate([[0], np.cumsum(kept)])
    return SparseRows(ends[rows.indptr].astype(np.int64), rows.indices[kept], rows.values[kept], columns)


def _product(rows: SparseRows, vector: Floats) -> Floats:
    """(rows,): a sparse matrix times a vector, each row added up in the same order whatever the others are."""
    sums: Floats = rows.row_sums(rows.values * vector[rows.indices]).astype(np.float32)
    return sums

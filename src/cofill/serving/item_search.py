"""Items by their titles, as fast as somebody types."""

import unicodedata
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from cofill.data.vocabulary import Id, Vocabulary

Longs = npt.NDArray[np.int64]

_FEW_CHANGES = 1000  # that are looked through one by one before everything is sorted anew


def folded_words(text: str) -> list[str]:
    """The words of a text, without case and accents; whatever is no letter or digit stands between words."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    kept = "".join(
        character if character.isalnum() else " " for character in decomposed if not unicodedata.combining(character)
    )
    return kept.split()


class ItemSearch:
    """Every word of every title, sorted, with the items that have it; titles that came later beside it."""

    def __init__(self, items: Vocabulary, titles: Mapping[Id, str]) -> None:
        self._items = items
        self._titles = titles
        self._sort()

    def _sort(self) -> None:
        pairs = sorted(
            (word, self._items.index(item))
            for item, title in self._titles.items()
            if item in self._items
            for word in set(folded_words(title))
        )
        self._words = [word for word, _ in pairs]
        self._having = np.array([index for _, index in pairs], np.int64)
        self._later: dict[int, list[str]] = {}

    def changed(self, item: Id) -> None:
        """An item has got another title."""
        self._later[self._items.index(item)] = folded_words(self._titles.get(item, ""))
        if len(self._later) > _FEW_CHANGES:
            self._sort()

    def find(self, query: str, counts: Longs, n: int) -> list[int]:
        """Indices of at most n items whose titles have a word that begins with each word of the query.

        The most rated come first, but before them the one whose id the query is. All items match an empty query.
        """
        words = folded_words(query)
        if words:
            found = self._matching(words)
        else:
            found = np.arange(len(self._items)) if not query.strip() else np.empty(0, np.int64)
        exact = [self._items.index(query)] if query in self._items else []
        best = most_rated(found, counts, n + 1)
        return (exact + [index for index in best if index not in exact])[:n]

    def _matching(self, words: list[str]) -> Longs:
        found: Longs | None = None
        for word in words:
            low, high = bisect_left(self._words, word), bisect_left(self._words, word + "\U0010ffff")
            having = np.unique(self._having[low:high])
            found = having if found is None else np.intersect1d(found, having, assume_unique=True)
        assert found is not None
        if not self._later:
            return found
        found = np.setdiff1d(found, np.fromiter(self._later, np.int64))
        later = [
            index
            for index, own in self._later.items()
            if all(any(candidate.startswith(word) for candidate in own) for word in words)
        ]
        return np.concatenate([found, np.array(later, np.int64)])


def most_rated(found: Longs, counts: Longs, n: int) -> list[int]:
    """The n of some indices with most ratings, the lower index first among equals."""
    if len(found) > n:
        of_found = counts[found]
        threshold = np.partition(of_found, len(found) - n)[len(found) - n]
        found = found[of_found >= threshold]
    order = np.lexsort((found, -counts[found]))
    return [int(index) for index in found[order][:n]]

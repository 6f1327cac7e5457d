"""Search: items by title, users by id, and starter items to rate first."""

import unicodedata
from bisect import bisect_left
from collections.abc import Collection, Mapping

import numpy as np

from cofill.arrays import Bools, Floats, Longs
from cofill.data.vocabulary import Id, Vocabulary

_FEW_CHANGES = 1000  # that are looked through one by one before everything is sorted anew
_FEWEST, _SHARE, _MOST = 200, 0.1, 2000  # candidates: so many, or that share of the items
_FEWEST_OF_FEW, _SHARE_OF_FEW = 24, 1 / 3  # and no more than this of a small world, where few are much rated


def folded_words(text: str) -> list[str]:
    """The words of a text, without case and accents; everything but letters and digits separates words."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    kept = "".join(
        character if character.isalnum() else " " for character in decomposed if not unicodedata.combining(character)
    )
    return kept.split()


class ItemSearch:
    """A sorted index of title words; titles added later are kept beside it."""

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
        """Note that an item has a new title."""
        self._later[self._items.index(item)] = folded_words(self._titles.get(item, ""))
        if len(self._later) > _FEW_CHANGES:
            self._sort()

    def find(self, query: str, counts: Longs, n: int, without: Bools | None = None) -> list[int]:
        """Indices of at most n items whose titles have a word that begins with each word of the query.

        The most rated come first, but before them the one whose id the query is. All items match an empty query. Items
        that are flagged in `without` (items,) do not.
        """
        words = folded_words(query)
        if words:
            found = self._matching(words)
        else:
            found = np.arange(len(self._items)) if not query.strip() else np.empty(0, np.int64)
        exact = [self._items.index(query)] if query in self._items else []
        if without is not None:
            found, exact = found[~without[found]], [index for index in exact if not without[index]]
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


class UserSearch:
    """A sorted index of ids as text; ids added later are kept beside it."""

    def __init__(self, users: Vocabulary) -> None:
        self._users = users
        pairs = sorted((str(user), index) for index, user in enumerate(users))
        self._texts = [text for text, _ in pairs]
        self._indices = np.array([index for _, index in pairs], np.int64)

    def find(self, query: str, counts: Longs, n: int, without: Collection[Id] = ()) -> list[int]:
        """Indices of at most n users whose ids begin with the query, the most rated first, an exact one before.

        Those `without` are not among them.
        """
        low, high = bisect_left(self._texts, query), bisect_left(self._texts, query + "\U0010ffff")
        known = len(self._texts)
        later = [index for index in range(known, len(self._users)) if str(self._users.id(index)).startswith(query)]
        found = np.concatenate([self._indices[low:high], np.array(later, np.int64)])
        exact = [self._users.index(query)] if query in self._users else []
        if without:
            left_out = self._users.find(list(without))
            found = np.setdiff1d(found, left_out)
            exact = [index for index in exact if index not in left_out]
        return (exact + [index for index in most_rated(found, counts, n + 1) if index not in exact])[:n]


def most_rated(found: Longs, counts: Longs, n: int) -> list[int]:
    """The n of some indices with most ratings, the lower index first among equals."""
    if len(found) > n:
        of_found = counts[found]
        threshold = np.partition(of_found, len(found) - n)[len(found) - n]
        found = found[of_found >= threshold]
    order = np.lexsort((found, -counts[found]))
    return [int(index) for index in found[order][:n]]


def starter_items(vectors: Floats, counts: Longs, n: int) -> list[int]:
    """Indices of at most n items, in the order in which to show them. Deterministic.

    Alternates between the item least similar to those chosen so far, and the most rated one of the half that is more
    unlike them than the other. Once the candidates are used up, the most rated of the others follow.
    """
    by_ratings = np.argsort(-counts, kind="stable")
    by_ratings = by_ratings[counts[by_ratings] > 0]
    many = min(max(_FEWEST, int(_SHARE * len(counts))), _MOST, max(_FEWEST_OF_FEW, int(_SHARE_OF_FEW * len(counts))))
    candidates, others = by_ratings[:many], by_ratings[many:]
    if len(candidates) and vectors.shape[1]:
        candidates = candidates[_order(_directions(vectors[candidates]), n)]
    return [int(index) for index in np.concatenate([candidates, others])[:n]]


def _order(directions: Floats, n: int) -> list[int]:
    """Places among candidates that are in the order of their ratings."""
    chosen = [0]
    unlike = 1 - directions @ directions[0]
    unlike[0] = -np.inf
    while len(chosen) < min(n, len(directions)):
        if len(chosen) % 2:
            pick = int(np.argmax(unlike))
        else:
            free = np.flatnonzero(unlike > -np.inf)
            pick = int(free[unlike[free] >= np.median(unlike[free])][0])
        chosen.append(pick)
        unlike = np.minimum(unlike, 1 - directions @ directions[pick])
        unlike[pick] = -np.inf
    return chosen


def _directions(vectors: Floats) -> Floats:
    around = vectors - vectors.mean(0)
    directions: Floats = around / np.maximum(np.linalg.norm(around, axis=1, keepdims=True), 1e-12)
    return directions

"""Users by how their ids begin."""

from bisect import bisect_left

import numpy as np
import numpy.typing as npt

from cofill.data.vocabulary import Vocabulary
from cofill.serving.item_search import most_rated

Longs = npt.NDArray[np.int64]


class UserSearch:
    """The ids as text, sorted; those that came later beside them."""

    def __init__(self, users: Vocabulary) -> None:
        self._users = users
        pairs = sorted((str(user), index) for index, user in enumerate(users))
        self._texts = [text for text, _ in pairs]
        self._indices = np.array([index for _, index in pairs], np.int64)

    def find(self, query: str, counts: Longs, n: int) -> list[int]:
        """Indices of at most n users whose ids begin with the query, the most rated first, an exact one before."""
        low, high = bisect_left(self._texts, query), bisect_left(self._texts, query + "\U0010ffff")
        known = len(self._texts)
        later = [index for index in range(known, len(self._users)) if str(self._users.id(index)).startswith(query)]
        found = np.concatenate([self._indices[low:high], np.array(later, np.int64)])
        exact = [self._users.index(query)] if query in self._users else []
        return (exact + [index for index in most_rated(found, counts, n + 1) if index not in exact])[:n]

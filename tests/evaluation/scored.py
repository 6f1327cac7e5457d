"""Models whose scores, and whose training ratings, are written down; and interactions."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.models.lists.rules import By

Floats = npt.NDArray[np.float32]


class Scored:
    """Scores (users, items); the pairs (user, item) are known to it. Of nobody it says what it says of `nobody`."""

    def __init__(
        self,
        users: Sequence[Id],
        items: Sequence[Id],
        scores: Sequence[Sequence[float]] | npt.NDArray[np.floating | np.integer],
        *,
        known: Sequence[tuple[int, int]] = (),
        nobody: Sequence[float] | None = None,
        scale: tuple[float, float] = (1, 5),
    ) -> None:
        self.users, self.items = Vocabulary(users), Vocabulary(items)
        self.scale = Scale(*scale)
        self.scores = np.array(scores, np.float32).reshape(len(users), len(items))
        self.nobody = np.array(nobody if nobody is not None else np.zeros(len(items)), np.float32)
        self.known = np.zeros((len(users), len(items)), np.bool_)
        for user, item in known:
            self.known[user, item] = True
        self.most_at_once = 0

    def user_scores(self, users: npt.NDArray[np.int64], *, by: By = "list") -> Floats:
        assert users.dtype == np.int64
        assert (users >= 0).all()
        self.most_at_once = max(self.most_at_once, len(users))
        return self.scores[users]

    def known_items(self, user: int) -> npt.NDArray[np.int32]:
        assert user >= 0
        return np.flatnonzero(self.known[user]).astype(np.int32)

    def stranger_scores(self, *, by: By = "list") -> Floats:
        return self.nobody

    def user_counts(self) -> npt.NDArray[np.int64]:
        return np.array([len(self.known_items(user)) for user in range(len(self.users))], np.int64)

    def item_counts(self) -> npt.NDArray[np.int64]:
        return np.bincount(np.nonzero(self.known)[1], minlength=len(self.items))


class Linear(Scored):
    """Scores of somebody are the sum over their ratings of value x link (items, items); its users have `values`."""

    def __init__(self, values: npt.NDArray[np.float32], links: npt.NDArray[np.float32], users: Sequence[Id]) -> None:
        items = range(values.shape[1])
        known = [(int(user), int(item)) for user, item in np.argwhere(values > 0)]
        super().__init__(users, items, values @ links, known=known, nobody=list(items))
        self.links = links

    def new_user_scores(self, items: npt.NDArray[np.int32], values: Floats, *, by: By = "list") -> Floats:
        assert (np.diff(items) > 0).all()
        return np.asarray(values @ self.links[items], np.float32)


def interactions(pairs: Sequence[tuple[Id, Id]]) -> Interactions:
    """How often says nothing."""
    return Interactions.read([(user, item, 1 + place % 5) for place, (user, item) in enumerate(pairs)])


def ratings(triples: Sequence[tuple[Id, Id, float]], scale: tuple[float, float] = (1, 5)) -> Ratings:
    return Ratings.read(list(triples), scale=scale)

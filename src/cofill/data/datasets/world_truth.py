"""The truth of the synthetic world: what everybody would think of every film, and what they would choose to see.

Liking and choosing are kept apart. The truth itself is that of liking, as predictions of ratings are measured
against it; that of choosing is its part `choosing`. `Truth.best_scores` needs both.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cofill.arrays import Doubles
from cofill.data.datasets.world_choosing import Choosing
from cofill.data.datasets.world_liking import Liking
from cofill.errors import DataError
from cofill.files import replacing

_NUMBERS = ("mean", "strength", "noise")
_ARRAYS = ("user_bias", "item_bias", "taste", "attributes")
_ARRAYS_OF_CHOOSING = ("appeal", "interest", "themes", "counts")


@dataclass(frozen=True, eq=False)
class Truth(Liking):
    """`truth(users, items)` are true ratings, `truth.choosing.log_odds(users, items)` how likely a rating is there."""

    choosing: Choosing

    def best_scores(self, users: npt.ArrayLike, *, relevant: float = 4.0, held_out: float = 0.1) -> Doubles:
        """Scores whose order is the best possible list, among the items that were not trained on: (n, items).

        `relevant` is the least rating that counts, `held_out` the share of all ratings that was drawn for the test.

        The score is the mean gain of NDCG: the probability that the item is among the person's held-out ratings, times
        the mean of what it then gains (the rating less the lowest of the scale if it is relevant, else nothing). The
        discounted gain of a list is a sum over its places, of weights that fall from place to place, so no order has a
        higher mean than that by mean gain; and what a person chose and how they liked it is drawn independently given
        the truth, so the two factors multiply. NDCG divides by the gain of the ideal list, which hardly
        depends on any one item: that the best for the one is the best for the other is close to exact, not exact.

        With p the probability that it was chosen at all, an item unknown to the training is held out with probability
        p h / (1 - p (1 - h)), which is close to 1 for an item that this person has almost certainly seen.
        """
        user_index = np.asarray(users)
        chosen = self.choosing.probabilities(user_index)
        chosen *= held_out / (1 - (1 - held_out) * chosen)
        return np.asarray(chosen * self.all_gains(user_index, relevant))

    def write(self, path: Path) -> None:
        """Write a safetensors file from which `read_truth` makes the same truth again."""
        from safetensors.numpy import save

        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {name: getattr(self.choosing, name) for name in _ARRAYS_OF_CHOOSING}
        numbers = {name: repr(getattr(self, name)) for name in _NUMBERS} | {"choice": repr(self.choosing.choice)}
        content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata=numbers)
        with replacing(path, DataError) as draft:
            draft.write_bytes(content)


def read_truth(path: Path) -> Truth:
    """Read what `Truth.write` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            mean, strength, noise, choice = (float(file.metadata()[name]) for name in (*_NUMBERS, "choice"))
            user_bias, item_bias, taste, attributes = (file.get_tensor(name) for name in _ARRAYS)
            choosing = Choosing(choice, *(file.get_tensor(name) for name in _ARRAYS_OF_CHOOSING))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: not the truth of a world ({error}). Name the truth.safetensors that World.write made."
        ) from error
    return Truth(mean, strength, noise, user_bias, item_bias, taste, attributes, choosing)

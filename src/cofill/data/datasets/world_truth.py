"""What every person of the synthetic world would think of every film, before noise and rounding.

    truth(u, i) = mean + user_bias[u] + item_bias[i] + strength tanh(taste[u] . attributes[i]),  on the scale

Taste comes in part from age and occupation, attributes in part from genres and year: that part can be known
of somebody, or of a film, without a single rating. Tags are given by attributes, so they tell still more.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cofill.errors import DataError
from cofill.files import replacing

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LOW, HIGH = 0.5, 5.0
DIMENSIONS = 8
MATCH_SPREAD = 1.15  # standard deviation of taste . attributes: far enough out for the tanh to bend
ERA = 0  # the dimension in which people of an age like the films of a time
_ARRAYS = ("user_bias", "item_bias", "taste", "attributes")
_NUMBERS = ("mean", "strength", "noise")


@dataclass(frozen=True, eq=False)
class Truth:
    """The formula above. user_bias (users,), item_bias (items,), taste (users, k), attributes (items, k)."""

    mean: float
    strength: float
    noise: float
    user_bias: Floats
    item_bias: Floats
    taste: Floats
    attributes: Floats

    def __call__(self, users: npt.ArrayLike, items: npt.ArrayLike) -> Doubles:
        """The noiseless rating for each pair of indices: (n,)."""
        user_index, item_index = np.asarray(users), np.asarray(items)
        match = np.einsum("nk,nk->n", self.taste[user_index], self.attributes[item_index])
        liking = self.mean + self.user_bias[user_index] + self.item_bias[item_index]
        exact = liking.astype(np.float64) + self.strength * np.tanh(match)
        return np.asarray(np.clip(exact, LOW, HIGH))

    def expected(self, users: npt.ArrayLike, items: npt.ArrayLike) -> Doubles:
        """The mean of the rating that each pair would give: (n,). No prediction has a smaller squared error.

        It differs from the truth near the ends of the scale, where noise and rounding can only go one way.
        """
        from scipy.special import ndtr

        exact = self(users, items)
        steps = np.arange(LOW + 0.25, HIGH, 0.5)  # between two half stars
        above = [ndtr((exact - step) / self.noise) for step in steps]
        return np.asarray(LOW + 0.5 * np.sum(above, axis=0))

    def write(self, path: Path) -> None:
        """Write a safetensors file from which `read_truth` makes the same truth again."""
        from safetensors.numpy import save

        content = save(
            {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS},
            metadata={name: repr(getattr(self, name)) for name in _NUMBERS},
        )
        with replacing(path, DataError) as draft:
            draft.write_bytes(content)


def read_truth(path: Path) -> Truth:
    """Read what `Truth.write` wrote."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            mean, strength, noise = (float(file.metadata()[name]) for name in _NUMBERS)
            arrays = [file.get_tensor(name) for name in _ARRAYS]
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: not the truth of a world ({error}). Name the truth.safetensors that World.write made."
        ) from error
    return Truth(mean, strength, noise, *arrays)


def make_truth(
    *, genres: Bools, years: npt.NDArray[np.int16], ages: npt.NDArray[np.int16],
    occupations: npt.NDArray[np.int8], rng: np.random.Generator,
) -> Truth:  # fmt: skip
    """Draw tastes and biases for people of these ages and occupations and films of these genres and years.

    genres (items, genres), years (items,), ages (users,), occupations (users,).
    """
    from_genres = _standard(genres @ rng.normal(size=(genres.shape[1], DIMENSIONS)))
    attributes = _mix(0.55, from_genres, rng)
    attributes[:, ERA] = _mix(0.7, _standard(years[:, None]), rng)[:, 0]
    decades = np.eye(8)[np.clip(ages // 10, 0, 7)]
    trades = np.eye(int(occupations.max(initial=0)) + 1)[occupations]
    backgrounds = np.concatenate([decades, trades], axis=1)
    from_background = _standard(backgrounds @ rng.normal(size=(backgrounds.shape[1], DIMENSIONS)))
    taste = _mix(0.4, from_background, rng)
    taste[:, ERA] = _mix(0.6, _standard(-ages[:, None]), rng)[:, 0]
    scale = np.sqrt(MATCH_SPREAD / np.sqrt(DIMENSIONS))
    quality = _mix(0.3, _standard(genres @ rng.normal(size=(genres.shape[1], 1))), rng)[:, 0]
    mildness = _mix(0.15, _standard(backgrounds @ rng.normal(size=(backgrounds.shape[1], 1))), rng)[:, 0]
    return Truth(
        mean=3.5,
        strength=0.7,
        noise=0.83,
        user_bias=(0.47 * mildness).astype(np.float32),
        item_bias=(0.56 * quality).astype(np.float32),
        taste=(scale * taste).astype(np.float32),
        attributes=(scale * attributes).astype(np.float32),
    )


def _mix(known: float, explained: Doubles, rng: np.random.Generator) -> Doubles:
    """Variables of variance 1, of which the share `known` is explained."""
    mixed: Doubles = np.sqrt(known) * explained + np.sqrt(1 - known) * rng.normal(size=explained.shape)
    return mixed


def _standard(columns: npt.NDArray[np.generic]) -> Doubles:
    """Columns of mean 0 and deviation 1, or of zeros where nothing varies."""
    centred = columns.astype(np.float64) - columns.astype(np.float64).mean(axis=0)
    deviation = centred.std(axis=0)
    return np.asarray(centred / np.where(deviation > 1e-9, deviation, 1.0))

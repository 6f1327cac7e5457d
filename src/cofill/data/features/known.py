"""The side features of a model that lives on: those it was trained with, and those that came later."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class SideFeatures:
    """One vector for each row, or for each column, all of one width; zeros where nothing is known. Width 0: none."""

    def __init__(self, trained: Floats, described: Bools | None = None) -> None:
        """`described` (count,) tells those of which something is known, though it be all zeros, from the others.

        Without it, those that are all zeros count as unknown.
        """
        self.trained = trained  # (count, width)
        self.trained_described: Bools = np.asarray(trained.any(axis=1)) if described is None else described
        self.values, self.described = self.trained, self.trained_described  # the same as they stand now
        self._later: set[int] = set()

    @classmethod
    def none(cls, count: int) -> "SideFeatures":
        return cls(np.zeros((count, 0), np.float32))

    @property
    def width(self) -> int:
        return int(self.trained.shape[1])

    def grow(self, count: int) -> None:
        """Make room for indices below `count`; of new ones nothing is known."""
        more = count - len(self.values)
        if more > 0:
            self.values = np.concatenate([self.values, np.zeros((more, self.width), np.float32)])
            self.described = np.concatenate([self.described, np.zeros(more, np.bool_)])

    def describe(self, index: int, vector: Floats) -> None:
        """What is known of one index from now on."""
        self.grow(index + 1)
        if self.values is self.trained:
            self.values = self.trained.copy()
        if self.described is self.trained_described:
            self.described = self.trained_described.copy()
        self.values[index] = vector
        self.described[index] = True
        self._later.add(index)

    def later(self) -> tuple[Longs, Floats]:
        """Indices (n,) and vectors (n, width) of everything that was described later."""
        indices = np.array(sorted(self._later), np.int64)
        return indices, self.values[indices]

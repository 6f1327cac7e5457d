"""The codes of a matrix's rows, as they were trained and as they stand now."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.models.cfn.gp import LeaveOneOut
from cofill.models.cfn.network import CFNetwork, encode_rows
from cofill.models.cfn.scaling import Scaling
from cofill.models.known import KnownRatings
from cofill.models.matrix import described_as_trained, grown

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

_CHUNK = 1024
# Numbers in the codes of all rows that are kept unasked: 64 MB.
_MOST_KEPT = 16_000_000


@dataclass(frozen=True)
class ReadRows:
    """The rows of the training as the network has read them in all columns; part of a model has some columns only."""

    codes: Floats  # (rows, width)
    left_out: LeaveOneOut | None  # for the decoder "process"

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For the file of a model in shards."""
        return {"codes": self.codes} | ({} if self.left_out is None else self.left_out.arrays())

    @classmethod
    def restored(
        cls,
        arrays: dict[str, npt.NDArray[Any]],
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        features: SideFeatures,
        *,
        decoded: bool,
    ) -> "ReadRows":
        """From what a file kept, with the decoder "process" or not; ValueError where it does not fit together."""
        codes, left_out = arrays["codes"], None
        if codes.shape != (known.trained.rows, network.width):
            raise ValueError(f"the codes of the rows have shape {list(codes.shape)}, which is not the network's")
        if decoded:
            left_out = LeaveOneOut.restored(network, scaling, features, known.trained_counts(), arrays)
        return cls(codes, left_out)


class RowCodes:
    """Reads rows through the network. Codes come with the scaled mean of their row."""

    def __init__(
        self,
        network: CFNetwork,
        scaling: Scaling,
        known: KnownRatings,
        features: SideFeatures,
        read: ReadRows | None = None,
    ) -> None:
        """`read`: in part of a model, which cannot read the rows of the training by itself."""
        self._network = network
        self._scaling = scaling
        self._known = known
        self._features = features  # of the rows
        self._trained = None if read is None else read.codes  # (rows, width), once all of them were needed
        self._current: Floats | None = None  # the same where rows have changed since
        self._current_means = scaling.means
        self._asked = 0  # codes of rows, by now
        self._changed: set[int] = set()  # since the training
        self._stale: set[int] = set()  # rows whose current codes are out of date
        self.version = 0  # rises whenever a row changes
        for row in [*known.changed_rows().tolist(), *features.later()[0].tolist()]:
            self.changed(row)

    def changed(self, row: int) -> None:
        """The row has other ratings or features than before."""
        self.version += 1
        if self.is_as_trained(row):
            self._changed.discard(row)
        else:
            self._changed.add(row)
        if self._current is not None or row in self._changed:
            self._stale.add(row)
        else:
            self._stale.discard(row)

    def is_as_trained(self, row: int) -> bool:
        """Whether the row has the ratings and features that it was trained with, and no others."""
        return self._known.row_as_trained(row) and described_as_trained(self._features, row)

    def of_ratings(self, columns: Ints, ratings: Floats, features: Floats) -> tuple[Floats, np.float32]:
        """Code (width,) and mean of a row that is known only by these ratings and features (P,).

        A column that the network was not trained on tells it nothing.
        """
        mean = self._scaling.mean_of(columns, ratings, features)
        trained = columns < self._network.columns
        row = SparseRows(np.array([0, trained.sum()]), columns[trained], ratings[trained], self._network.columns)
        return encode_rows(self._network, self._scaling.down_with(row, np.array([mean]), features[None]))[0], mean

    def now(self, rows: Longs) -> tuple[Floats, Floats]:
        """Codes (n, width) and means (n,) of rows as they stand now."""
        self._asked += len(rows)
        if self._trained is not None or (self._asked > self._known.rows and self._worth_keeping()):
            codes, means = self.all_now()
            return codes[rows], means[rows]
        return self._mixed(rows, ~np.isin(rows, list(self._changed)))

    def _worth_keeping(self) -> bool:
        """Whether the codes of all rows take little memory: then they are encoded once, not for every list anew."""
        return self._known.rows * self._network.width <= _MOST_KEPT

    def for_regression(self, rows: Longs) -> tuple[Floats, Floats]:
        """Codes (n, width) and means (n,) of rows as they were trained; of rows that came later, as they stand now.

        The weights of a column are fitted to these, so that they do not depend on what else was asked or rated
        between its ratings.
        """
        return self._mixed(rows, self.was_trained(rows))

    def was_trained(self, rows: Longs) -> npt.NDArray[np.bool_]:
        """(n,): whether each row had ratings in the training."""
        trained = np.zeros(len(rows), np.bool_)
        old = rows < self._known.trained.rows
        trained[old] = self._known.trained_counts()[rows[old]] > 0
        return trained

    def all_now(self) -> tuple[Floats, Floats]:
        """Codes (rows, width) and means (rows,) of every row; kept, and brought up to date where rows changed."""
        if self._trained is None:
            self._trained = self._encode_trained(np.arange(self._known.trained.rows))
        if self._stale:
            if self._current is None:
                self._current, self._current_means = self._trained.copy(), self._scaling.means.copy()
            self._current = grown(self._current, self._known.rows)
            self._current_means = grown(self._current_means, self._known.rows)
            for row in self._stale:
                if row in self._changed:
                    self._current[row], self._current_means[row] = self._of_row(row)
                else:
                    self._current[row], self._current_means[row] = self._trained[row], self._scaling.means[row]
            self._stale.clear()
        return self._trained if self._current is None else self._current, self._current_means

    def as_trained(self) -> tuple[Floats, Floats]:
        """Codes (rows, width) and means (rows,) of every row of the training; not kept if they were not before."""
        kept = self._trained
        return self._encode_trained(np.arange(self._known.trained.rows)) if kept is None else kept, self._scaling.means

    def _mixed(self, rows: Longs, as_trained: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Some rows as they were trained, the others as they stand now."""
        codes = np.empty((len(rows), self._network.width), np.float32)
        means = np.empty(len(rows), np.float32)
        old = rows[as_trained]
        codes[as_trained] = self._encode_trained(old) if self._trained is None else self._trained[old]
        means[as_trained] = self._scaling.means[old]
        for position in np.flatnonzero(~as_trained).tolist():
            codes[position], means[position] = self._of_row(int(rows[position]))
        return codes, means

    def _of_row(self, row: int) -> tuple[Floats, np.float32]:
        return self.of_ratings(*self._known.row(row), self._features.values[row])

    def _encode_trained(self, rows: Longs) -> Floats:
        codes = np.empty((len(rows), self._network.width), np.float32)
        for first in range(0, len(rows), _CHUNK):
            chosen = rows[first : first + _CHUNK]
            part = self._known.trained.take(chosen)
            scaled = self._scaling.down_with(part, self._scaling.means[chosen], self._features.trained[chosen])
            codes[first : first + _CHUNK] = encode_rows(self._network, scaled)
        return codes

"""How uncertain columns are of rows: posterior variances of the decoder's Gaussian process, in batches of columns.

What a column thinks of a row is as uncertain as that of any other before its ratings are known, however little the code
of the row is believed: that shrinks what is explained, not what there is to explain.

Two things are left out, which cost the most and are hardly seen in an interval. A row that a column has rated is read
with that rating, so that every row is read once for all columns. Of a column with many ratings, `MOST_READ` count,
evenly spaced. What they are worth is the affair of `intervals.Spread`, which is calibrated on the same variances.
"""

from collections.abc import Iterator, Sequence, Sized
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.models.decoder.inverse import Inverse
from cofill.models.decoder.kernel import SHORT, Amplitudes, CodeSpace
from cofill.models.decoder.solving import BatchSeen, gram_of, kernel_of
from cofill.threads import on_all_cores, one_blas_thread

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]

MOST_READ = 256  # ratings of a column
_NUMBERS = 1_000_000  # in a batch of kernels, or of what is read for them


class RowsOf(NamedTuple):
    """Rows of each of some columns, one column after the other."""

    starts: Longs  # (columns + 1,)
    places: Longs  # (n,): which of the codes
    trust: Floats  # (n,)

    @classmethod
    def of(cls, each: Sequence[Sized], places: Longs, trust: Floats) -> "RowsOf":
        """With as many rows of a column as its part of `each` has."""
        return cls(np.concatenate([[0], np.cumsum([len(rows) for rows in each], dtype=np.int64)]), places, trust)

    def padded(self) -> tuple[Longs, Floats]:
        """Places and trust with one more at the end, which is not believed."""
        return np.append(self.places, 0), np.append(self.trust, np.float32(0))


@one_blas_thread()
def posterior_variances(
    space: CodeSpace, amplitudes: Amplitudes, codes: Floats, rated: RowsOf, asked: RowsOf
) -> Doubles:
    """(asked,): of what columns would say of rows, without noise, in squares of scaled ratings."""
    along, directions = space.along(codes), space.directions(codes)
    found = np.empty(len(asked.places))

    rated, asked = (RowsOf(one.starts, *one.padded()) for one in (rated, asked))

    def seen(rows: RowsOf, entries: Longs) -> BatchSeen:
        """(B, n) entries, padded with -1, which is the last."""
        places = rows.places[entries]
        return BatchSeen(along[places], directions[places], rows.trust[entries], entries >= 0)

    def work(columns: Longs) -> None:
        counts = np.diff(rated.starts)[columns]
        own = amplitudes.for_column(int(counts.max(initial=0)))
        known = seen(rated, _entries(rated.starts, columns, MOST_READ))
        entries = _entries(asked.starts, columns)
        wanted = seen(asked, entries)
        explained = Inverse(gram_of(known, own)).explained(kernel_of(own, wanted, known))
        variances = own.bias + own.taste * (wanted.along**2).sum(2) + own.cosine + own.local - explained
        found[entries[wanted.there]] = np.maximum(variances, 0)[wanted.there]

    on_all_cores(work, _batches(np.diff(rated.starts), np.diff(asked.starts), along.shape[1] + len(space.centre)))
    return found


def _batches(rated: Longs, asked: Longs, width: int) -> Iterator[Longs]:
    """Columns with about as many ratings that are asked about at all; short ones are never with others."""
    chosen = np.flatnonzero(asked)
    read = np.minimum(rated, MOST_READ)
    order = chosen[np.lexsort((asked[chosen], read[chosen]))]
    for part in np.split(order, [int((rated[order] <= SHORT).sum())]):
        first = 0
        while first < len(part):
            some = part[first : first + 4096]
            n, q = np.maximum(read[some], 1), np.maximum.accumulate(asked[some])
            numbers = np.arange(1, len(some) + 1) * (n + q) * np.maximum(n, width)
            last = first + max(int((numbers <= _NUMBERS).sum()), 1)
            yield part[first:last]
            first = last


def _entries(starts: Longs, columns: Longs, most: int | None = None) -> Longs:
    """(B, n): of each column its entries, or the `most` of them that are evenly spaced; padded with -1."""
    counts = np.diff(starts)[columns][:, None]
    taken = counts if most is None else np.minimum(counts, most)
    turn = np.arange(int(taken.max(initial=0)))
    entries = starts[columns][:, None] + turn * counts // np.maximum(taken, 1)
    return np.where(turn < taken, entries, -1)

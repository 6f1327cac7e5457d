"""Ids into indices, and pairs into order, without comparing them: tables and counting sorts."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cofill.data.vocabulary import Indices, Vocabulary

if TYPE_CHECKING:
    import polars as pl

Order = npt.NDArray[np.int32] | npt.NDArray[np.int64]
# Integer ids are looked up in a table, not sorted, while it has at most this many places for each rating.
TABLE_PLACES = 4


def indexed(ids: "npt.NDArray[np.int64] | pl.Series") -> tuple[Vocabulary, Indices]:
    """The vocabulary of ids (n,) in ascending order, and the index of each (n,)."""
    import polars as pl

    if isinstance(ids, np.ndarray):
        low, high = int(ids.min()), int(ids.max())
        most = TABLE_PLACES * len(ids) + 1024
        if high - low <= most:
            low = 0 if low >= 0 and high <= most else low
            offsets = ids - low if low else ids
            table = np.zeros(high - low + 1, np.bool_)
            table[offsets] = True
            places = np.cumsum(table, dtype=np.int32) - np.int32(1)
            return Vocabulary(np.flatnonzero(table) + low), places[offsets]
        ids = pl.Series(ids)
    unique = ids.unique().sort()
    numbered = pl.DataFrame({"id": unique, "index": np.arange(len(unique), dtype=np.int32)})
    joined = pl.DataFrame({"id": ids}).join(numbered, on="id", how="left", maintain_order="left")
    vocabulary = Vocabulary(unique.to_numpy() if unique.dtype == pl.Int64 else unique.to_list())
    return vocabulary, joined["index"].to_numpy()


def by_user_then_item(users: Indices, items: Indices, shape: tuple[int, int]) -> tuple[Indices, Indices, Order]:
    """Users (n,) and items (n,) in order, and where each pair was before (n,). It is stable."""
    from scipy.sparse import csr_array

    n = len(users)
    integer = np.int32 if n < np.iinfo(np.int32).max else np.int64
    before: Order = np.arange(n, dtype=np.int32) if integer is np.int32 else np.arange(n, dtype=np.int64)
    if not (users[1:] >= users[:-1]).all():
        before = _counting_order(users, shape[0])
        items = items[before]
    ends = np.zeros(shape[0] + 1, integer)
    counts = np.bincount(users, minlength=shape[0])
    np.cumsum(counts, out=ends[1:])
    # By rows to by columns and back: each way is a counting sort, and the second leaves rows in order.
    entries: Any = (before, items, ends)
    there_and_back: Any = csr_array(entries, shape=shape).tocsc().tocsr()
    in_order = np.repeat(np.arange(shape[0], dtype=np.int32), counts)
    return in_order, np.asarray(there_and_back.indices, np.int32), there_and_back.data


def _counting_order(keys: Indices, size: int) -> Order:
    """(n,): the stable order that sorts `keys`, all in [0, size)."""
    from scipy.sparse import csr_array

    n = len(keys)
    # A matrix with one entry a row: asked for column by column, its row numbers come out sorted by key.
    ends = np.arange(n + 1, dtype=np.int32 if n < np.iinfo(np.int32).max else np.int64)
    entries: Any = (np.zeros(n, np.int8), keys, ends)
    matrix: Any = csr_array(entries, shape=(n, size))
    return np.asarray(matrix.tocsc().indices)


def last_of_each_pair(users: Indices, items: Indices, times: npt.NDArray[Any] | None) -> npt.NDArray[np.bool_] | None:
    """(n,): which of the pairs to keep: the latest of each, or the last without times; None if all."""
    again = (users[1:] == users[:-1]) & (items[1:] == items[:-1])  # (n - 1,): the pair before is the same
    if not again.any():
        return None
    keep = np.append(~again, True)
    if times is not None:
        repeated = np.flatnonzero(np.append(again, False) | np.append(False, again))
        ends = keep[repeated]
        run = np.cumsum(ends) - ends
        # Runs stay where they are, and lexsort is stable: of equal times, the later in order stays last.
        latest = repeated[np.lexsort((times[repeated], run))][ends]
        keep[repeated] = False
        keep[latest] = True
    return keep

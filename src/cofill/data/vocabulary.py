"""Ids <-> indices: the one place where the caller's identifiers become row numbers and come back."""

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from cofill.arrays import Bools, Ints, Longs
from cofill.errors import DataError, UnknownIdError

Id = str | int

CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
INT64 = np.iinfo(np.int64)
# Below this many ids, a dictionary is faster than sorting the vocabulary for a binary search.
FEW_IDS = 64


class Vocabulary:
    """The ids of one side (users or items), in the order of their indices. Grows; never forgets.

    All ids of a vocabulary are strings, or all are integers, and they come back as they went in. Strings may join
    integers later, if they are not written as one: visitors beside the customers of a numbered history. Of a data set
    they may not, where a string among integers is more likely a mistake.
    A look-up takes either form as long as it is unambiguous: "42" finds the integer 42 in a vocabulary of
    integers (a command line only has strings), and 42 finds "42" in a vocabulary of strings; "042" does not
    find 42.
    """

    def __init__(self, ids: Sequence[Id] | npt.NDArray[np.generic] = ()) -> None:
        self._ids: list[Id] = []
        self._index: dict[Id, int] = {}
        self._integers: bool | None = None  # whether what is written as an integer is one; None: the first id decides
        self._strings = 0  # that joined integers
        self._sorted: tuple[Longs, Ints] | None = None
        if isinstance(ids, np.ndarray) and np.issubdtype(ids.dtype, np.integer):
            self._integers = True  # an empty array of integers still says what is to come
        self.add(ids)
        if len(self._ids) != len(ids):
            raise DataError(f"a vocabulary needs unique ids: {len(ids) - len(self._ids)} of {len(ids)} repeat another")

    @property
    def integers(self) -> bool:
        """Whether all ids are integers; False for an empty vocabulary that has yet to see its first id."""
        return bool(self._integers) and not self._strings

    @property
    def mixed(self) -> bool:
        """Whether strings have joined integers."""
        return bool(self._strings)

    def own(self, id: Id) -> Id:
        """An id, known or new, in the form in which it is kept here."""
        return self._key(_checked(id))

    @property
    def ids(self) -> list[Id]:
        """All ids, in the order of their indices (a copy)."""
        return list(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Id]:
        return iter(self._ids)

    def __contains__(self, id: object) -> bool:
        if isinstance(id, (bool, np.bool_)) or not isinstance(id, (str, int, np.integer)):
            return False
        return self._key(id) in self._index

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return bool(self._integers) == bool(other._integers) and self._ids == other._ids

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        kind = "integer" if self.integers else "integer and string" if self.mixed else "string"
        return f"Vocabulary({len(self)} {kind} ids)"

    def id(self, index: int) -> Id:
        """The id at `index`, as a Python str or int."""
        if not 0 <= index < len(self._ids):
            raise UnknownIdError(f"index {index} is outside this vocabulary of {len(self._ids)} ids")
        return self._ids[index]

    def index(self, id: Id) -> int:
        """The index of `id`; UnknownIdError if it is not there."""
        found = self._index.get(self._key(_checked(id)), -1)
        if found < 0:
            kind = "an integer" if self.integers else "an integer or a string" if self.mixed else "a string"
            raise UnknownIdError(f"unknown id {id!r}: it is not among the {len(self)} known ids (each {kind})")
        return found

    def find(self, ids: Iterable[Id] | npt.NDArray[np.generic]) -> Ints:
        """Ints of `ids`, int32 of the same length; -1 where an id is unknown."""
        if isinstance(ids, np.ndarray):
            if self.integers and len(ids) > FEW_IDS and np.issubdtype(ids.dtype, np.integer):
                return self._find_integers(ids)
            ids = ids.tolist()
        keys = [self._key(_checked(id)) for id in ids]
        return np.fromiter((self._index.get(key, -1) for key in keys), np.int32, len(keys))

    def add(self, ids: Iterable[Id] | npt.NDArray[np.generic]) -> Ints:
        """Ints of `ids`, int32 of the same length; those that are new are appended in their order.

        Nothing is added when one of them is refused.
        """
        checked: list[Id]
        if isinstance(ids, np.ndarray) and ids.dtype.kind == "i":
            checked = ids.tolist()
        else:
            checked = [_checked(id) for id in (ids.tolist() if isinstance(ids, np.ndarray) else ids)]
        if not checked:
            return np.empty(0, np.int32)
        integers = self._integers
        if integers is None:
            integers = isinstance(checked[0], int)
            mixed = next((id for id in checked if isinstance(id, int) != integers), None)
            if mixed is not None:
                raise DataError(
                    f"ids are all strings or all integers: found {checked[0]!r} and {mixed!r}", "use one type"
                )
        self._integers = integers
        self._sorted = None
        keys: list[Id] = [self._key(id) for id in checked]
        if not self._ids:
            index_of = dict(zip(keys, range(len(keys)), strict=True))
            if len(index_of) == len(keys):  # the usual beginning: ids that do not repeat
                self._ids, self._index = keys, index_of
                self._strings = sum(isinstance(key, str) for key in keys) if integers else 0
                return np.arange(len(keys), dtype=np.int32)
        found = np.empty(len(keys), np.int32)
        for position, key in enumerate(keys):
            index = self._index.setdefault(key, len(self._ids))
            if index == len(self._ids):
                self._ids.append(key)
                self._strings += integers and isinstance(key, str)
            found[position] = index
        return found

    def only(self, indices: Iterable[int]) -> "Vocabulary":
        """A vocabulary of some of the ids, in the order of their indices here as given."""
        some = Vocabulary()
        some._integers = self._integers
        some.add([self._ids[index] for index in indices])
        return some

    @classmethod
    def restored(cls, ids: pl.Series, integers: pl.Series | None = None) -> "Vocabulary":
        """From a column of ids; where strings have joined integers, `integers` (n,) says which are which."""
        if integers is None:
            return cls(ids.to_list())
        made = cls()
        made._integers = True
        made.add(ids)
        if [isinstance(id, int) for id in made] != integers.to_list():
            raise DataError("ids and what is said of their kind do not fit together", "save the vocabulary again")
        return made

    def copy(self) -> "Vocabulary":
        """A vocabulary with the same ids that grows on its own."""
        twin = Vocabulary()
        twin._ids, twin._index = list(self._ids), dict(self._index)
        twin._integers, twin._strings, twin._sorted = self._integers, self._strings, self._sorted
        return twin

    def array(self) -> Longs | npt.NDArray[np.object_]:
        """The ids as an int64 array, or as an object array if there are strings."""
        if self.integers:
            return np.array(self._ids, dtype=np.int64)
        return np.array(self._ids, dtype=np.object_)

    def column(self) -> pl.Series:
        """The ids as a column of a table: of integers, or of text if one of them is a string."""
        if self.integers:
            return pl.Series(self._ids, dtype=pl.Int64)
        return pl.Series([str(id) for id in self._ids] if self.mixed else self._ids, dtype=pl.String)

    def keys(self) -> npt.NDArray[np.uint64]:
        """A number of 64 bits for each id, from its text alone: whatever is drawn for an id is drawn by its key."""
        return id_keys(self._ids)

    def _key(self, id: Id | np.integer) -> Id:
        """`id` in the form that this vocabulary keeps, or an unfindable one."""
        if not self._integers:
            return str(id)
        if isinstance(id, str):
            return int(id) if CANONICAL_INTEGER.fullmatch(id) and INT64.min <= int(id) <= INT64.max else id
        return int(id)

    def _find_integers(self, ids: npt.NDArray[np.generic]) -> Ints:
        if self._sorted is None:
            array = self.array().astype(np.int64)
            order = np.argsort(array, kind="stable").astype(np.int32)
            self._sorted = array[order], order
        known, order = self._sorted
        if not len(known):
            return np.full(len(ids), -1, np.int32)
        # An unsigned id beyond int64 would wrap round to a negative one: it cannot be known.
        wanted = ids.astype(np.int64)
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        hit = (known[place] == wanted) & ((wanted >= 0) | (ids.dtype.kind == "i"))
        return np.where(hit, order[place], np.int32(-1)).astype(np.int32)


def id_keys(ids: Iterable[Id]) -> npt.NDArray[np.uint64]:
    """(n,): a hash of 64 bits of each id, the same for 42 and "42"."""
    digests = b"".join(blake2b(str(id).encode("utf-8", "surrogatepass"), digest_size=8).digest() for id in ids)
    return np.frombuffer(digests, np.dtype("<u8")).astype(np.uint64)


def _checked(id: object) -> Id:
    """`id` as a Python str or int; DataError for whatever else."""
    if isinstance(id, str):
        if not id:
            raise DataError("an id is an empty string", "give every user and item a name or a number")
        return str(id)
    if isinstance(id, (int, np.integer)) and not isinstance(id, bool):
        if not INT64.min <= id <= INT64.max:
            raise DataError(f"the integer id {id} does not fit 64 bits", "pass it as a string")
        return int(id)
    if isinstance(id, (float, np.floating)):
        if id != id:
            raise DataError("an id is NaN: it is missing", "drop that row (pandas marks missing ids so)")
        raise DataError(
            f"an id is the float {id}",
            "ids are strings or integers (pandas makes floats of integers when some are missing: drop those rows, then "
            ".astype('int64'))",
        )
    raise DataError(f"an id is {id!r} of type {type(id).__name__}", "ids are strings or integers")


# Ids into indices, and pairs into order, without comparing them: tables and counting sorts

Order = Ints | Longs
# Integer ids are looked up in a table, not sorted, while it has at most this many places for each rating.
TABLE_PLACES = 4


def indexed(ids: Longs | pl.Series) -> tuple[Vocabulary, Ints]:
    """The vocabulary of ids (n,) in ascending order, and the index of each (n,)."""
    if isinstance(ids, pl.Series) and ids.dtype == pl.Int64:
        ids = ids.to_numpy()
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


def by_user_then_item(users: Ints, items: Ints, shape: tuple[int, int]) -> tuple[Ints, Ints, Order]:
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


def _counting_order(keys: Ints, size: int) -> Order:
    """(n,): the stable order that sorts `keys`, all in [0, size)."""
    from scipy.sparse import csr_array

    n = len(keys)
    # A matrix with one entry a row: asked for column by column, its row numbers come out sorted by key.
    ends = np.arange(n + 1, dtype=np.int32 if n < np.iinfo(np.int32).max else np.int64)
    entries: Any = (np.zeros(n, np.int8), keys, ends)
    matrix: Any = csr_array(entries, shape=(n, size))
    return np.asarray(matrix.tocsc().indices)


def last_of_each_pair(users: Ints, items: Ints, times: npt.NDArray[Any] | None) -> Bools | None:
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

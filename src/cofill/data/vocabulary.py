"""Ids <-> indices: the one place where the caller's identifiers become row numbers and come back."""

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from cofill.errors import DataError, UnknownIdError

Id = str | int
Indices = npt.NDArray[np.int32]

CANONICAL_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
INT64 = np.iinfo(np.int64)
# Below this many ids, a dictionary is faster than sorting the vocabulary for a binary search.
FEW_IDS = 64


class Vocabulary:
    """The ids of one side (users or items), in the order of their indices. Grows; never forgets.

    All ids of a vocabulary are strings or all are integers (`integers`), and they come back as they went in.
    A look-up takes either form as long as it is unambiguous: "42" finds the integer 42 in a vocabulary of
    integers (a command line only has strings), and 42 finds "42" in a vocabulary of strings; "042" does not
    find 42.
    """

    def __init__(self, ids: Sequence[Id] | npt.NDArray[np.generic] = ()) -> None:
        self._ids: list[Id] = []
        self._index: dict[Id, int] = {}
        self._integers: bool | None = None  # None: the first id decides
        self._sorted: tuple[npt.NDArray[np.int64], Indices] | None = None
        if isinstance(ids, np.ndarray) and np.issubdtype(ids.dtype, np.integer):
            self._integers = True  # an empty array of integers still says what is to come
        self.add(ids)
        if len(self._ids) != len(ids):
            raise DataError(f"a vocabulary needs unique ids: {len(ids) - len(self._ids)} of {len(ids)} repeat another")

    @property
    def integers(self) -> bool:
        """Whether the ids are integers; False for an empty vocabulary that has yet to see its first id."""
        return bool(self._integers)

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
        return self.integers == other.integers and self._ids == other._ids

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        kind = "integer" if self.integers else "string"
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
            kind = "an integer" if self.integers else "a string"
            raise UnknownIdError(f"unknown id {id!r}: it is not among the {len(self)} known ids (each {kind})")
        return found

    def find(self, ids: Iterable[Id] | npt.NDArray[np.generic]) -> Indices:
        """Indices of `ids`, int32 of the same length; -1 where an id is unknown."""
        if isinstance(ids, np.ndarray):
            if self._integers and len(ids) > FEW_IDS and np.issubdtype(ids.dtype, np.integer):
                return self._find_integers(ids)
            ids = ids.tolist()
        keys = [self._key(_checked(id)) for id in ids]
        return np.fromiter((self._index.get(key, -1) for key in keys), np.int32, len(keys))

    def add(self, ids: Iterable[Id] | npt.NDArray[np.generic]) -> Indices:
        """Indices of `ids`, int32 of the same length; those that are new are appended in their order.

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
                    f"ids are all strings or all integers: found {checked[0]!r} and {mixed!r}; use one type"
                )
        keys: list[Id] = [_as_integer(id) for id in checked] if integers else [str(id) for id in checked]
        self._integers = integers
        self._sorted = None
        if not self._ids:
            index_of = dict(zip(keys, range(len(keys)), strict=True))
            if len(index_of) == len(keys):  # the usual beginning: ids that do not repeat
                self._ids, self._index = keys, index_of
                return np.arange(len(keys), dtype=np.int32)
        found = np.empty(len(keys), np.int32)
        for position, key in enumerate(keys):
            index = self._index.setdefault(key, len(self._ids))
            if index == len(self._ids):
                self._ids.append(key)
            found[position] = index
        return found

    def copy(self) -> "Vocabulary":
        """A vocabulary with the same ids that grows on its own."""
        twin = Vocabulary()
        twin._ids, twin._index = list(self._ids), dict(self._index)
        twin._integers, twin._sorted = self._integers, self._sorted
        return twin

    def array(self) -> npt.NDArray[np.int64] | npt.NDArray[np.object_]:
        """The ids as an int64 array or as an object array of str."""
        if self._integers:
            return np.array(self._ids, dtype=np.int64)
        return np.array(self._ids, dtype=np.object_)

    def _key(self, id: Id | np.integer) -> Id:
        """`id` in the form that this vocabulary keeps, or an unfindable one."""
        if not self._integers:
            return str(id)
        if isinstance(id, str):
            return int(id) if CANONICAL_INTEGER.fullmatch(id) else id
        return int(id)

    def _find_integers(self, ids: npt.NDArray[np.generic]) -> Indices:
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


def _checked(id: object) -> Id:
    """`id` as a Python str or int; DataError for whatever else."""
    if isinstance(id, str):
        if not id:
            raise DataError("an id is an empty string; give every user and item a name or a number")
        return str(id)
    if isinstance(id, (int, np.integer)) and not isinstance(id, bool):
        if not INT64.min <= id <= INT64.max:
            raise DataError(f"the integer id {id} does not fit 64 bits; pass it as a string")
        return int(id)
    if isinstance(id, (float, np.floating)):
        if id != id:
            raise DataError("an id is NaN: it is missing; drop that row (pandas marks missing ids so)")
        raise DataError(
            f"an id is the float {id}; ids are strings or integers "
            "(pandas makes floats of integers when some are missing: drop those rows, then .astype('int64'))"
        )
    raise DataError(f"an id is {id!r} of type {type(id).__name__}; ids are strings or integers")


def _as_integer(id: Id) -> int:
    if isinstance(id, int):
        return id
    if CANONICAL_INTEGER.fullmatch(id) and INT64.min <= int(id) <= INT64.max:
        return int(id)
    raise DataError(
        f"the id {id!r} cannot join a vocabulary of integers; "
        "use integers throughout, or read the first ratings with ids that are strings"
    )

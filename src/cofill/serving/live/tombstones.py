"""Who was deleted, so that they stay deleted: kept as keyed hashes, because an id may be an e-mail address."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.vocabulary import Id

_BYTES = 8  # a database has integers of that size; of a billion ids none is likely to meet one of a thousand


def digest_of(user: Id, salt: str) -> int:
    hashed = blake2b(str(user).encode("utf-8", "surrogatepass"), digest_size=_BYTES, key=salt.encode())
    return int.from_bytes(hashed.digest(), "big", signed=True)


class Tombstones(NamedTuple):
    """The hashes of users who were deleted, with the key of their database."""

    salt: str
    digests: Sequence[int]

    def among(self, users: Iterable[Id]) -> list[Id]:
        """Those of some users who were deleted."""
        if not self.digests:
            return []
        deleted = set(self.digests)
        return [user for user in users if digest_of(user, self.salt) in deleted]


class Hashed:
    """The hashes of ids that grow in number; each is made once."""

    def __init__(self) -> None:
        self._digests: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def find(self, users: Sequence[Id], deleted: Tombstones) -> list[Id]:
        """Those of `users`, the same ids as the last time and maybe more, who were deleted."""
        new = [digest_of(user, deleted.salt) for user in users[len(self._digests) :]]
        self._digests = np.concatenate([self._digests, np.array(new, np.int64)])
        return [users[at] for at in np.flatnonzero(np.isin(self._digests, list(deleted.digests))).tolist()]

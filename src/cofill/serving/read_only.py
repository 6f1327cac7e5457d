"""A server without a database: a store that is always empty, and a count of replaced models that workers share."""

import fcntl
import os
from pathlib import Path

from sqlalchemy.engine import URL

from cofill.serving.database import Counter, Store
from cofill.serving.metrics import FOLDER

_COUNT = "generation"
_BYTES = 8


class ReadOnlyStore(Store):
    """Live ratings that never come; in place of a database, tables in memory that stay empty."""

    read_only = True

    def __init__(self) -> None:
        super().__init__(URL.create("sqlite", database=":memory:"))
        self.name = "no database (read-only)"
        self._generation = SharedCount(Path(os.environ[FOLDER]) / _COUNT if FOLDER in os.environ else None)

    def counter(self) -> Counter:
        return Counter(0, self._generation.read(), "")

    def next_generation(self) -> int:
        return self._generation.advance()

    def close(self) -> None:
        super().close()
        self._generation.close()


class SharedCount:
    """A number in a file that several processes count on, or in this process alone if there is no file."""

    def __init__(self, path: Path | None) -> None:
        self._own = 0
        self._file = None if path is None else os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def read(self) -> int:
        return self._own if self._file is None else int.from_bytes(os.pread(self._file, _BYTES, 0), "big")

    def advance(self) -> int:
        if self._file is None:
            self._own += 1
            return self._own
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            advanced = self.read() + 1
            os.pwrite(self._file, advanced.to_bytes(_BYTES, "big"), 0)
            return advanced
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

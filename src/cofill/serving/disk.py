"""A full disk under the database: noticed by what fails and by the space that is left, and told to operators."""

import errno
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

log = logging.getLogger("cofill.serving")

_LEAST_FREE = 256 * 1024  # bytes; a write of a thousand ratings takes less
_POSTGRESQL_IS_FULL = "53100"


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error of SQLAlchemy, or of a driver, says so."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    return getattr(cause, "sqlstate", None) == _POSTGRESQL_IS_FULL


class Disk:
    """The disk that a database is on: `full` after a write that failed for that, until one succeeds again."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.full = False
        self._name = name
        file = engine.url.database if engine.dialect.name == "sqlite" else None
        self._folder = None if file is None or file == ":memory:" else Path(file).absolute().parent
        event.listen(engine, "handle_error", self._failed)

    def free_bytes(self) -> int | None:
        """The space left for a file of SQLite; None elsewhere, where the database knows."""
        if self._folder is None:
            return None
        try:
            found = os.statvfs(self._folder)
        except OSError:
            return None
        return found.f_bavail * found.f_frsize

    def look(self, write: Callable[[], object]) -> None:
        """Look at the space that is left; once it was too little, also `write` something small to see if it can be."""
        free = self.free_bytes()
        if free is not None and free < _LEAST_FREE:
            self._is_full()
        elif self.full:
            try:
                write()
            except SQLAlchemyError:
                return
            self.full = False
            log.warning("%s: there is space on the disk again; writes are taken", self._name)

    def _failed(self, context: ExceptionContext) -> None:
        if is_disk_full(context.original_exception):
            self._is_full()

    def _is_full(self) -> None:
        if not self.full:
            log.error("%s: the disk is full: writes fail until there is space", self._name)
        self.full = True

"""Tells when this process has written to its database, so that its model follows before anybody asks."""

import threading
from typing import Any

from sqlalchemy import Connection, Engine, event

_WROTE = "cofill.wrote"


def watch_writes(engine: Engine) -> threading.Event:
    """An event that is set after each commit of this process: once it is done, not when it is about to be."""
    written = threading.Event()

    def committing(connection: Connection) -> None:
        connection.info[_WROTE] = True

    def returned(_: object, record: Any) -> None:
        if record.info.pop(_WROTE, False):
            written.set()

    event.listen(engine, "commit", committing)
    event.listen(engine.pool, "checkin", returned)
    return written

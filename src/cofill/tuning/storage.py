"""The database of a study: its URL, opening it, and its error messages."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cofill.errors import CofillError

_SECONDS_FOR_THE_LOCK = 60
_ATTEMPTS = 5


def storage_url(out: Path) -> str:
    """The default database of a study: a file that survives a kill at any moment."""
    return URL.create("sqlite", database=str(out / "study.db")).render_as_string(hide_password=False)


def shown_url(url: str) -> str:
    """The URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


@contextmanager
def storage_explained(url: str) -> Iterator[None]:
    """Turn database errors into a CofillError with the database's own message and what to do."""
    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        raise CofillError(
            f"{shown_url(url)}: the study there cannot be read or written ({_database_says(error)}); see that the "
            f"database is whole, within reach and has space, then give the same command again, or begin another study "
            f"with --out or --storage"
        ) from error


def open_storage(url: str) -> RDBStorage:
    """The database there, with the tables of a study."""
    waiting = {"connect_args": {"timeout": _SECONDS_FOR_THE_LOCK}} if url.startswith("sqlite") else {}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return RDBStorage(url, engine_kwargs=waiting)
        except (DBAPIError, StorageInternalError):
            if attempt == _ATTEMPTS:
                with storage_explained(url):
                    raise
            time.sleep(0.2)  # somebody may be making the tables at this moment
        except (SQLAlchemyError, ImportError, ValueError, RuntimeError) as error:
            raise CofillError(
                f"--storage: no study can be kept there ({_database_says(error)}); check the address"
            ) from error
    raise AssertionError("not reached")


def _database_says(error: BaseException) -> str:
    """The database's own message, without Optuna's guess at a cause and SQLAlchemy's statement."""
    while isinstance(error, StorageInternalError) and error.__cause__ is not None:
        error = error.__cause__
    words = getattr(error, "orig", None) or error
    return " ".join(str(words).split())[:300]

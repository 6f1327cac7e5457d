"""The database of a study: its URL, opening it, and its error messages."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from cofill.cluster.session import LOCAL
from cofill.errors import CofillError, SettingsError

_SECONDS_FOR_THE_LOCK = 60
_ATTEMPTS = 5


def storage_url(out: Path) -> str:
    """The default database of a study: a file that survives a kill at any moment."""
    return URL.create("sqlite", database=str(out / "study.db")).render_as_string(hide_password=False)


def absolute_url(url: str) -> str:
    """The same database for processes that work in another folder."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database in (None, "", ":memory:"):
        return url
    return parsed.set(database=str(Path(str(parsed.database)).absolute())).render_as_string(hide_password=False)


def check_within_reach(url: str, ray: str) -> None:
    """Refuse a database in a file for workers on several machines, which must not share one."""
    if ray != LOCAL and url.startswith("sqlite"):
        raise SettingsError(
            f"the workers of a search on the cluster {ray} are on several machines, and {shown_url(url)} is a file of "
            f"one",
            "give storage='postgresql://...', which all of them can reach",
        )


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
            f"{shown_url(url)}: the study there cannot be read or written ({_database_says(error)})",
            (
                "see that the database is whole, within reach and has space, then go on with the same search, or begin "
                "another with out=... or storage=..."
            ),
        ) from error


def open_storage(url: str) -> RDBStorage:
    """The database there, with the tables of a study."""
    waiting = {"connect_args": {"timeout": _SECONDS_FOR_THE_LOCK}} if url.startswith("sqlite") else {}
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            return RDBStorage(_with_driver(url), engine_kwargs=waiting)
        except (DBAPIError, StorageInternalError):
            if attempt == _ATTEMPTS:
                with storage_explained(url):
                    raise
            time.sleep(0.2)  # somebody may be making the tables at this moment
        except (SQLAlchemyError, ImportError, ValueError, RuntimeError) as error:
            raise CofillError(
                f"no study can be kept at that address ({_database_says(error)})",
                "check storage=...",
            ) from error
    raise AssertionError("not reached")


def _with_driver(url: str) -> str:
    """postgresql:// by the driver of `cofill[postgres]`, where it is installed and no other is named."""
    scheme, _, rest = url.partition("://")
    if scheme not in ("postgresql", "postgres") or find_spec("psycopg") is None:
        return url
    return f"postgresql+psycopg://{rest}"


def _database_says(error: BaseException) -> str:
    """The database's own message, without Optuna's guess at a cause and SQLAlchemy's statement."""
    while isinstance(error, StorageInternalError) and error.__cause__ is not None:
        error = error.__cause__
    words = getattr(error, "orig", None) or error
    return " ".join(str(words).split())[:300]

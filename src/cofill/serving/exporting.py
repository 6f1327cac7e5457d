"""Live ratings into a frame for the next training.

A row without a rating is one that was taken back: the pair is unknown from then on, wherever it was known from.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cofill.data.vocabulary import CANONICAL_INTEGER, INT64
from cofill.errors import DataError
from cofill.serving.database import url_of
from cofill.serving.settings import live_file
from cofill.serving.store import Store

if TYPE_CHECKING:
    import polars as pl


def export_frame(database: str | None, model: Path | None) -> "pl.DataFrame":
    """user, item, rating and time (seconds) of everything in a database, or in the file beside a model."""
    import polars as pl

    if database is None:
        assert model is not None
        if not live_file(model).exists():
            raise DataError(f"{live_file(model)}: there is no such file; has {model} been served without --database?")
    url = url_of(database, model or Path())
    if url.drivername == "sqlite" and not Path(url.database or "").exists():
        raise DataError(f"{url.database}: there is no such file; check --database")
    store = Store(url)
    try:
        store.open(make=False)
        ratings = store.changes_since(0).ratings
    finally:
        store.close()
    return pl.DataFrame(
        {
            "user": _ids([rating.user for rating in ratings]),
            "item": _ids([rating.item for rating in ratings]),
            "rating": pl.Series([rating.rating for rating in ratings], dtype=pl.Float64),
            "time": pl.Series([rating.time for rating in ratings], dtype=pl.Float64),
        }
    )


def _ids(texts: Sequence[str]) -> "pl.Series":
    """Integers if every one is written as an integer would be, as in a file of ratings; else texts."""
    import polars as pl

    if all(CANONICAL_INTEGER.fullmatch(text) and INT64.min <= int(text) <= INT64.max for text in texts):
        return pl.Series([int(text) for text in texts], dtype=pl.Int64)
    return pl.Series(list(texts), dtype=pl.String)

"""Whatever is a table, as a polars or a pandas frame; and frames that spreadsheets take no harm from."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import polars as pl

from cofill.extras import require

if TYPE_CHECKING:
    import pandas as pd


class InFrames(ABC):
    """Something that can be had as a frame."""

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """A polars DataFrame."""

    def to_pandas(self) -> "pd.DataFrame":
        """The columns of `to_polars()` as a pandas DataFrame; needs `pip install 'cofill[pandas]'`."""
        return in_pandas(self.to_polars())


def in_pandas(frame: pl.DataFrame) -> "pd.DataFrame":
    """A polars frame as one of pandas."""
    require("a pandas frame", "pandas", "pandas", "pyarrow")
    return frame.to_pandas()


# A spreadsheet takes a cell that begins with one of these for a formula, or drops the mark.
_MARKS = "^[=+@\\-\\t\\r']"


def safe_in_a_spreadsheet(frame: pl.DataFrame) -> pl.DataFrame:
    """Texts that a spreadsheet would take for formulas, with an apostrophe before them; numbers stay numbers.

    A text that begins with an apostrophe gets another one, so that taking one away gives back what was there.
    """
    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    marked = [
        pl.when(pl.col(name).str.contains(_MARKS)).then("'" + pl.col(name)).otherwise(pl.col(name)).alias(name)
        for name in texts
    ]
    return frame.with_columns(marked)

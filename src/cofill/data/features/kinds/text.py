"""Texts: their words, weighed by how rare they are (tf-idf), are reduced to a few feature columns."""

import re
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cofill.arrays import Floats
from cofill.data.features.columns import Cells, Coded, ReadableColumn, legible, misplaced
from cofill.data.features.kind import Learn, Summary, TermKind, TermNames, unit_rows

if TYPE_CHECKING:
    import polars as pl

    from cofill.data.features.kind import Matrix

LONGEST_TEXT = 500
# Words in a cell, on average, from which on cells are texts.
LONG_TEXT = 5.0
WORD = re.compile(r"[^\W\d_]{2,}")
STOP_WORDS = frozenset(
    (
        *("about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at"),
        *("be", "because", "been", "before", "being", "but", "by", "can", "could", "did", "do"),
        *("does", "for", "from", "had", "has", "have", "he", "her", "here", "him", "his"),
        *("how", "if", "in", "into", "is", "it", "its", "just", "me", "more", "most"),
        *("my", "no", "not", "of", "off", "on", "one", "only", "or", "other", "our"),
        *("out", "over", "own", "she", "so", "some", "than", "that", "the", "their", "them"),
        *("then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "until"),
        *("up", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who"),
        *("whom", "why", "will", "with", "would", "you", "your"),
    )
)


def parse_text(value: object) -> str:
    """A text; a number is none."""
    if not isinstance(value, str):
        raise misplaced(value, "a text")
    return value


class Text(TermKind):
    """Something to read, such as a plot."""

    called: ClassVar[str] = "text"
    holds: ClassVar[str] = "a text"
    searched: ClassVar[bool] = True

    terms: TermNames

    @classmethod
    def fits(cls, name: str, column: Coded) -> Learn | None:
        if not column.is_text():
            return None
        length = np.average([len(value.split()) for value in column.distinct], weights=column.counts())
        return cls.learn if float(length) > LONG_TEXT else None

    @classmethod
    def learn(cls, name: str, of: Cells, reduce_to: int) -> Self:
        of.parsed(name, parse_text)
        return cls(**cls.seen(name, of), terms=())

    def counted(self, value: Any) -> dict[Any, float]:
        counts: dict[Any, float] = {}
        for word in _words(parse_text(value)):
            counts[word] = counts.get(word, 0.0) + 1.0
        return counts

    def weights(self, found_in: npt.NDArray[np.int64], filled: int) -> Floats:
        """The inverse document frequency; 1 for a word that all texts have."""
        return np.asarray(np.log((1.0 + filled) / (1.0 + found_in)) + 1.0, np.float32)

    def weighed(self, counts: "Matrix", weights: Floats) -> "Matrix":
        matrix = counts.astype(np.float64)
        matrix.data = np.log1p(matrix.data) * weights[matrix.indices]
        return unit_rows(matrix)

    def words(self, of: Cells) -> ReadableColumn:
        return texts_in_words(self.name, of)

    @classmethod
    def types(cls) -> tuple[Any, ...]:
        import polars as pl

        return (pl.String,)

    @classmethod
    def equal(cls, cells: "pl.Series", value: Any) -> "pl.Series":
        """Which texts contain `value`, in upper or in lower case."""
        if not isinstance(value, str) or not value:
            raise cls.misfit(value)
        return cells.str.to_lowercase().str.contains(value.lower(), literal=True)

    @classmethod
    def summed_up(cls, cells: "pl.Series") -> Summary:
        return Summary()


def texts_in_words(name: str, of: Cells) -> ReadableColumn:
    """The beginnings of texts."""
    import polars as pl

    found = of.parsed(name, lambda value: legible(str(value)[:LONGEST_TEXT]))
    return ReadableColumn(Text.called, pl.Series(found, dtype=pl.String)).taken(of.columns[name].codes)


def _words(text: str) -> list[str]:
    """The words of `text` in lower case, in order: two letters or more, without those that every text has."""
    return [word for word in WORD.findall(text.lower()) if word not in STOP_WORDS]

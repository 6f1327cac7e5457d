"""Where a cell came from, so that an error can say which line of which file to look at."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from cofill.errors import DataError

Role = Literal["user", "item", "rating", "time", "title"]

LONGEST_QUOTE = 60


def quoted(found: object) -> str:
    """What was found, in quotes on one line, shortened if it is long."""
    text = repr(found)
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 4]}...{text[0]}"


@dataclass(frozen=True)
class Origin:
    """A source of ratings as the reader of an error message knows it."""

    name: str
    """The path of a file, or "the DataFrame" and the like."""
    unit: Literal["line", "row"] = "row"
    """Text files have lines; everything else has rows. Both count from 1."""
    first: int = 1
    """The line of the first rating (2 below a header)."""
    lines: npt.NDArray[np.int64] | None = None
    """(n,): the line of each rating, where quoted cells may span several; None: one after the other."""
    labels: Mapping[Role, str] = field(default_factory=dict)
    """The name of each column in use, such as "column 'userId'"."""

    def line(self, row: int) -> int:
        """The line (or row, from 1) of the rating at `row` (from 0)."""
        return self.first + row if self.lines is None else int(self.lines[row])

    def error(self, row: int, role: Role, problem: str, advice: str) -> DataError:
        """The error about one cell."""
        return self.line_error(self.line(row), f"{self.labels.get(role, role)}: {problem}", advice)

    def line_error(self, line: int, problem: str, advice: str) -> DataError:
        """The error about one line."""
        return DataError(f"{self.name}, {self.unit} {line}, {problem}; {advice}")

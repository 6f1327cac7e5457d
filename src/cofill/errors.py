"""Everything that cofill raises on purpose.

CofillError
├── DataError             a file, frame or array that cannot be read
│   └── UnknownValueError a rule that asks for a value that no item has
├── DatasetError          a data set that cannot be found, downloaded or checked
├── SettingsError         a setting outside its range, or one that does not exist
├── UnknownIdError        an id that the model has never seen, where one is needed
├── NotFittedError        a model that is asked before it is fitted
├── TrainingDivergedError weights that ran away during training
├── CheckpointError       a checkpoint that is missing, broken or of another run
├── ModelFileError        a model folder that is truncated, altered or of a newer version
└── ClusterError          machines that cannot be reached, or a team of workers that failed

Each message names the thing, the limit, what was found, and the next step, on one line. `where`, `found` and `remedy`
keep them apart. A remedy names arguments as Python does, also on the command line, where `separator=';'` is the flag
`--separator ';'`. No message names a flag, unless as part of a whole command. A warning is one line too, at a terminal.
"""

import sys
from typing import Any, NamedTuple

LONGEST_QUOTE = 60


def quoted(found: object) -> str:
    """What was found, in quotes on one line, shortened if it is long."""
    text = repr(found).replace("\n", " ")  # an array or a tensor has several lines
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 4]}...{text[0]}"


class Place(NamedTuple):  # no dataclass: `cofill --help` need not wait for what that imports
    """Where something was found."""

    source: str
    """The path of a file, or "the DataFrame" and the like."""
    unit: str = "row"
    """"line" in a text file, else "row"."""
    number: int | None = None
    """Of the line or row, from 1."""
    column: str | None = None
    """As a message calls it, such as "column 'userId'"."""

    def __str__(self) -> str:
        line = "" if self.number is None else f", {self.unit} {self.number}"
        return f"{self.source}{line}" + ("" if self.column is None else f", {self.column}")


class CofillError(Exception):
    """Whatever cofill raises on purpose is one of these. The command line prints it without a stack trace."""

    def __init__(self, found: str, remedy: str = "", *, where: Place | str | None = None) -> None:
        self.found, self.remedy = found, remedy
        self.where = Place(where) if isinstance(where, str) else where
        super().__init__(("" if where is None else f"{where}: ") + found + (f"; {remedy}" if remedy else ""))


class DataError(CofillError, ValueError):
    """A file, frame or array that cannot be read."""

    def said_of(self, source: str) -> "DataError":
        """The same error with another name for the source."""
        return self if self.where is None else type(self)(
            self.found, self.remedy, where=self.where._replace(source=source)
        )  # fmt: skip


class UnknownValueError(DataError):
    """A rule that asks for a value that no item has."""


class DatasetError(CofillError):
    """A data set that cannot be found, downloaded or checked."""


class SettingsError(CofillError, ValueError):
    """A setting outside its range, or one that does not exist."""


class UnknownIdError(CofillError, KeyError):
    """An id that the model has never seen, where one is needed."""

    def __str__(self) -> str:  # KeyError would print the repr of its argument
        return str(self.args[0])


class NotFittedError(CofillError, RuntimeError):
    """A model that is asked before it is fitted."""


class TrainingDivergedError(CofillError, ArithmeticError):
    """A training whose loss diverged."""


class CheckpointError(CofillError):
    """A checkpoint that is missing, broken or of another run."""


def train_anew(otherwise: str = "") -> str:
    """What helps against a checkpoint that cannot be resumed, after something else that does."""
    return f"{otherwise}train without resume=True"


class ModelFileError(CofillError):
    """A model folder that is truncated, altered or of a newer version."""


class ClusterError(CofillError):
    """Machines that cannot be reached, or a team of workers that failed."""


class DataWarning(UserWarning):
    """A remark about data with a remedy, which reads as a DataError does."""

    word = "warning"

    def __init__(self, found: str, remedy: str = "", *, where: Place | str | None = None) -> None:
        super().__init__(str(DataError(found, remedy, where=where)))


class DataNote(DataWarning):
    """How data was understood, where that is a choice: nothing needs to be done about it."""

    word = "note"


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Replacement for `warnings.showwarning`: one line, without the place in the code."""
    sys.stderr.write(f"cofill: {getattr(message, 'word', 'warning')}: {message}\n")

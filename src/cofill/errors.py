"""Everything that cofill raises on purpose.

CofillError
├── DataError             a file, frame or array that cannot be read as ratings
├── DatasetError          a data set that cannot be found, downloaded or checked
├── SettingsError         a setting outside its range, or one that does not exist
├── UnknownIdError        an id that the model has never seen, where one is needed
├── NotFittedError        a model that is asked before it is fitted
├── TrainingDivergedError weights that ran away during training
├── CheckpointError       a checkpoint that is missing, broken or of another run
└── ModelFileError        a model folder that is truncated, altered or of a newer version

Each message names the thing, the limit, what was found, and the next step, on one line. So is a warning, at a terminal.
"""

import sys
from typing import Any


class CofillError(Exception):
    """The root of the tree above. The command line prints it without a stack trace."""


class DataError(CofillError, ValueError):
    """A file, frame or array that cannot be read as ratings."""


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
    """Weights that ran away during training."""


class CheckpointError(CofillError):
    """A checkpoint that is missing, broken or of another run."""


class ModelFileError(CofillError):
    """A model folder that is truncated, altered or of a newer version."""


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """In place of `warnings.showwarning`: one line, without the place in the code."""
    sys.stderr.write(f"cofill: warning: {message}\n")

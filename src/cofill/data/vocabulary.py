"""Ids <-> indices: the one place where the caller's identifiers become row numbers and come back."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

Id = str | int
Indices = npt.NDArray[np.int32]


class Vocabulary:
    """The ids of one side (users or items), in the order of their indices. Grows; never forgets.

    All ids of a vocabulary are strings or all are integers (`integers`), and they come back as they went in.
    A look-up takes either form as long as it is unambiguous: "42" finds the integer 42 in a vocabulary of
    integers (a command line only has strings), and 42 finds "42" in a vocabulary of strings.
    """

    def __init__(self, ids: Sequence[Id] | npt.NDArray[np.generic] = ()) -> None: ...

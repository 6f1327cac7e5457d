"""A model in a folder, as tasks over ranges of people see it: its outline, who is in it, and what one task loads."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.attributes import Attributes
from cofill.data.ratings import Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import ModelFileError, Remedy
from cofill.models.lists.rules import By, Catalogue, Rules
from cofill.models.persistence import read_outline, read_people

if TYPE_CHECKING:
    from cofill.models.recommender import Recommender

Longs = npt.NDArray[np.int64]


class Range(NamedTuple):
    """People by their indices in the whole model, from `first` to before `last`."""

    first: int
    last: int


class Held(NamedTuple):
    """A model that knows at least the people of a range, and the index in the whole model of its first person."""

    model: "Recommender"
    offset: int


class ModelOutline:
    """What is known of a model without loading it: enough to check a question, and to divide it among tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        found = read_outline(folder)
        self.digest, self.rated, self.users = found.digest, found.rated, found.users
        self.users_are_integers = found.users_are_integers
        self.scale: Scale = found.scale
        self.items: Vocabulary = found.items
        self._attributes = found.attributes
        self._parts = found.parts

    @cached_property
    def item_attributes(self) -> Attributes:
        return Attributes(self.items) if self._attributes is None else Attributes.restored(self.items, self._attributes)

    def check_rules(self, rules: Rules, by: By) -> None:
        """Raise what is wrong with rules before many tasks find it."""
        items = len(self.items)
        Catalogue(
            self.items,
            self.item_attributes,
            counts=np.ones(items, np.int64),
            placeable=np.ones(items, np.bool_),
            vectors=np.ones((items, 1), np.float32),
            floor=0.0 if by == "list" else self.scale.low,
        ).selection(rules)

    def find_people(self, ids: Iterable[Id] | npt.NDArray[np.generic]) -> Longs:
        """Indices in the whole model; -1 for those whom it does not know."""
        return read_people(self.folder).find(ids).astype(np.int64)

    def whole_parts(self) -> Sequence[Range]:
        """The ranges of people that can be loaded on their own; no task asks for people of two of them."""
        ends = np.cumsum([0, *(self._parts or [self.users])]).tolist()
        return [Range(first, last) for first, last in pairwise(ends)]

    def cut(self, tasks: int) -> list[Range]:
        """All people in about so many ranges of about the same size, none of which lies in two parts."""
        parts = self.whole_parts()
        ranges: list[Range] = []
        for part in parts:
            size = part.last - part.first
            pieces = max(1, min(size, round(tasks * size / max(1, self.users))))
            ends = np.linspace(part.first, part.last, pieces + 1).astype(int).tolist()
            ranges += [Range(*ends[at : at + 2]) for at in range(pieces)]
        return ranges


class ModelParts:
    """What a worker has loaded: the model, or the part of it that the last task was about."""

    def __init__(self, folder: Path, digest: str) -> None:
        """`digest` is that of the model that is asked for, which may have been replaced since."""
        self._folder, self._digest = folder, digest
        self._held: Held | None = None

    def held_for(self, people: Range) -> Held:
        held = self._held
        if held is None or not held.offset <= people.first <= people.last <= held.offset + len(held.model.users):
            self._held = None  # before the next is loaded: two at a time would take twice the memory
            self._held = model_for(self._folder, people)
            if read_outline(self._folder).digest != self._digest:
                raise ModelFileError(
                    f"{self._folder}: another model has taken the place of the one that was asked for",
                    Remedy.passing("run the same again, with another {out}", out=...),
                )
        assert self._held is not None
        return self._held


def model_for(folder: Path, people: Range) -> Held:
    """A model that can answer for these people: the part of it that they are in, or the whole where it has none."""
    from cofill.models.recommender import Recommender

    ends = np.cumsum([0, *read_outline(folder).parts])
    if len(ends) == 1:
        return Held(Recommender.load(folder), 0)
    part = int(np.searchsorted(ends, people.first, "right")) - 1
    return Held(Recommender.load(folder, part=part), int(ends[part]))

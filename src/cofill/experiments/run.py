"""A run: one algorithm, trained on one part of the data; and the name under which its result is kept."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from cofill.experiments.source_code import code_of
from cofill.models import algorithm

Task = Literal["measure", "validate", "cost"]
"""Test a model; train only as far as validation data go, which touches no test rating; time and memory, alone."""

# Raised when the same run would leave another record behind.
_FORMAT = 2
# They do not change what is learned, apart from rounding.
_BESIDE_THE_POINT = {"threads", "checkpoint_seconds"}


@dataclass(frozen=True)
class Part:
    """Which ratings are trained on, and which tested: a random share, or a published fold from 0."""

    by: Literal["random", "published"]
    ratio: float | None = None
    seed: int | None = None
    fold: int | None = None


@dataclass(frozen=True)
class Run:
    """All that defines a result, and a label for people."""

    label: str
    task: Task
    algorithm: str
    settings: Mapping[str, Any]  # apart from the defaults
    part: Part
    data: str  # fingerprint of the ratings
    side: str | None  # fingerprint of the side information; None: without

    @cached_property
    def all_settings(self) -> dict[str, Any]:
        """Of the model, defaults too."""
        dumped = algorithm(self.algorithm).settings_class.of(self.settings).model_dump(mode="json")
        return {name: value for name, value in dumped.items() if name not in _BESIDE_THE_POINT}

    @cached_property
    def digest(self) -> str:
        """The same for the same run, whoever asks for it; another one if a default or the code has changed."""
        return f"{self.definition}-{self.code}"

    @cached_property
    def definition(self) -> str:
        """The same whatever the code is."""
        defining = {name: value for name, value in self.as_json().items() if name != "label"}
        defining |= {"settings": self.all_settings, "format": _FORMAT}
        return hashlib.sha256(json.dumps(defining, sort_keys=True).encode()).hexdigest()[:20]

    @cached_property
    def code(self) -> str:
        return code_of(self.algorithm)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"settings": dict(self.settings)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Run":
        return cls(**{**document, "part": Part(**document["part"])})

"""A run: one algorithm, trained on one part of the data; and the store of finished runs, one JSON file each.

An interrupted experiment continues, because runs in the store are not repeated.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from cofill import __version__
from cofill.errors import DataError
from cofill.experiments.source_code import code_of
from cofill.files import json_of, replacing
from cofill.models import algorithm

Task = Literal["measure", "validate", "cost"]
"""Test a model; train only as far as validation data go, which touches no test rating; time and memory, alone."""

Protocol = Literal["last", "strong"]
"""Protocols of lists beside random splits: the last rating of each user; users who are new to the model."""

# Raised when the same run would leave another record behind.
_FORMAT = 3
# They do not change what is learned, apart from rounding.
_BESIDE_THE_POINT = {"threads", "checkpoint_seconds"}


@dataclass(frozen=True)
class Part:
    """The training and test ratings of a run: a random split, a published fold counted from 0, or a protocol."""

    by: Literal["random", "published"] | Protocol
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
        """All settings of the model, including defaults."""
        dumped = algorithm(self.algorithm).settings_class.of(self.settings).model_dump(mode="json")
        return {name: value for name, value in dumped.items() if name not in _BESIDE_THE_POINT}

    @cached_property
    def digest(self) -> str:
        """A hash of the run; it changes if a default or the code changes."""
        return f"{self.definition}-{self.code}"

    @cached_property
    def definition(self) -> str:
        """A hash of the run that does not depend on the code."""
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


Record = dict[str, Any]
"""What a run left behind, as JSON: a result, or the problem that it ended with."""


class Store:
    """A folder of records, named by the digests of their runs; each says in which session it was made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = uuid4().hex[:12]

    def path(self, run: Run) -> Path:
        return self.folder / f"{run.digest}.json"

    def find(self, run: Run) -> Record | None:
        """The record of a run, or None if it has not been finished yet."""
        path = self.path(run)
        try:
            record = json_of(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise DataError(f"{path}: not the record of a run ({error}); remove it, and it is run again") from error
        if not isinstance(record, dict) or record.get("digest") != run.digest:
            raise DataError(f"{path}: not the record of the run of that name; remove it, and it is run again")
        return record

    def outdated(self, run: Run) -> bool:
        """Whether there is a result, but only from other code."""
        return not self.path(run).exists() and any(self.folder.glob(f"{run.definition}-*.json"))

    def keep(self, run: Run, record: Record) -> None:
        document = {
            "digest": run.digest,
            "code": run.code,
            "version": __version__,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "session": self.session,
            "run": run.as_json() | {"settings": run.all_settings},
            **record,
        }
        with replacing(self.path(run)) as draft:
            draft.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")

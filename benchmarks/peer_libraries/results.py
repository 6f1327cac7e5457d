"""Stored results, one small file a run: written beside its target and renamed, so that a killed run leaves none."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cofill.files import replacing
from peer_libraries.answering import Doubles

DONE, FAILED, LIMIT, MISSING = "done", "failed", "time limit", "not installed"


@dataclass(frozen=True)
class Result:
    """One library model on one split."""

    dataset: str
    split: int
    peer: str
    state: str
    problem: str = ""  # fingerprint of the split
    settings: str = ""
    code: str = ""  # fingerprint of cofill's own algorithm; others have a version
    reason: str = ""  # why it has no measures
    part: dict[str, int] = field(default_factory=dict)
    measures: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, dict[str, float]] = field(default_factory=dict)  # fit, predict, list: wall and processor
    peak_bytes: int = 0
    fallback: int = 0  # predictions that the library could not make
    chosen: str = ""
    version: str = ""
    minutes: float = 0.0  # the whole process, with reading and a small run before it
    load: float = 0.0  # of the machine when it began


class Store:
    """A folder of results: DATASET/SPLIT/PEER.json, and values of users beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, dataset: str, split: int, peer: str) -> Path:
        return self.folder / dataset / str(split) / f"{peer}.json"

    def read(self, dataset: str, split: int, peer: str) -> Result | None:
        """None where there is none that can be read: then it is run again."""
        try:
            return Result(**json.loads(self.path(dataset, split, peer).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def of_users(self, result: Result) -> dict[str, Doubles]:
        path = self.path(result.dataset, result.split, result.peer).with_suffix(".npz")
        if not path.exists():
            return {}
        with np.load(path, allow_pickle=False) as kept:
            return {name: kept[name] for name in kept.files}

    def write(self, result: Result, of_users: dict[str, Doubles] | None = None) -> None:
        """Values of users first: a result that can be read is whole."""
        path = self.path(result.dataset, result.split, result.peer)
        path.parent.mkdir(parents=True, exist_ok=True)
        if of_users:
            with replacing(path.with_suffix(".npz")) as beside, beside.open("wb") as out:
                np.savez_compressed(out, allow_pickle=False, **of_users)
        with replacing(path) as beside:
            beside.write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")

    def all(self, datasets: tuple[str, ...], splits: int, peers: tuple[str, ...]) -> list[Result]:
        found = (self.read(dataset, split, peer) for dataset in datasets for split in range(splits) for peer in peers)
        return [result for result in found if result is not None]


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    return [asdict(result) for result in results]

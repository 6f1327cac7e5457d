"""End a training at a chosen moment: once it has saved so often, or so many epochs later.

`killed_after` raises where it stands, which leaves on disk what a kill leaves there. `KILLS_ITSELF` is a program that a
real SIGKILL ends at the same moment. No clock is involved, so a busy machine changes nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cofill.models.cfn.checkpoint import Checkpoint
from cofill.models.cfn.sgd import FusedEngine

KILLS_ITSELF = """
import json, os, signal, sys
from pathlib import Path
from cofill import CFN, Ratings
from tests.models.cfn.killing import ended_after
ratings, checkpoint, resume, saves, steps, changes = sys.argv[1:]
with ended_after(Path(checkpoint), int(saves), lambda: os.kill(os.getpid(), signal.SIGKILL), steps=int(steps)):
    model = CFN(**json.loads(changes))
    model.fit(Ratings.read(ratings), checkpoint=Path(checkpoint), resume=resume == "resume")
"""


class Killed(BaseException):
    """Nothing catches it."""


def killed_after(watched: Path, saves: int, train: Callable[[], object]) -> dict[str, Any]:
    """Train until `watched` was saved so often; returns where that checkpoint stands."""

    def kill() -> None:
        raise Killed

    with ended_after(watched, saves, kill) as state:
        try:
            train()
        except Killed:
            return state
    raise AssertionError("the run ended before it could be killed")


@contextmanager
def ended_after(watched: Path, saves: int, end: Callable[[], None], *, steps: int = 0) -> Iterator[dict[str, Any]]:
    """Call `end` after so many saves and as many epochs more; yields the state that was saved last."""
    state: dict[str, Any] = {}
    seen = {"saves": 0, "steps": 0}
    save, train = Checkpoint.save, FusedEngine.train

    def counted_save(self: Checkpoint, weights: Any, best: Any, now: dict[str, Any]) -> None:
        save(self, weights, best, now)
        if self.path == watched:
            seen["saves"] += 1
            state.clear()
            state.update(now)
            if seen["saves"] == saves and not steps:
                end()

    def counted_train(self: FusedEngine, minibatches: Any, learning_rate: float) -> Any:
        lost = train(self, minibatches, learning_rate)
        if seen["saves"] >= saves:
            seen["steps"] += 1
            if seen["steps"] == steps:
                end()
        return lost

    with patch.object(Checkpoint, "save", counted_save), patch.object(FusedEngine, "train", counted_train):
        yield state

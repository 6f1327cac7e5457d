"""What workers do in the tests of training: many small trainings in one team, or one that meets with trouble."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofill import files
from cofill.cluster import train
from cofill.cluster.train import train_portion
from cofill.exchange import Exchange
from cofill.progress import Progress, Step


def train_in_trouble(exchange: Exchange, arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    """The program of a training, killed as `trouble.json` beside the partition says: {attempt: [rank, what, when]}.

    What is "exchange", the so-many-th of the worker, "manifest", before the so-many-th is written, or "step", a part of
    the training that tells of its progress.
    """
    folder = Path(arguments["partition"]).parent
    with (folder / "processes.txt").open("a") as book:
        book.write(f"{os.getpid()}\n")
    rank, what, when = json.loads((folder / "trouble.json").read_text()).get(str(arguments["attempt"]), (-1, "", 0))
    if rank != exchange.rank:
        return train_portion(exchange, arguments, tell)
    if what == "exchange":
        return train_portion(_Mortal(exchange, when), arguments, tell)
    if what == "step":

        def tell_and_die(step: Step) -> None:
            tell(step)
            if step.what == when:
                os.kill(os.getpid(), signal.SIGKILL)

        return train_portion(exchange, arguments, tell_and_die)
    written = 0
    replacing = files.replacing

    def dying(target: Path, *others: Any) -> Any:
        nonlocal written
        written += target.name == "checkpoint.json"
        if written == when:
            os.kill(os.getpid(), signal.SIGKILL)
        return replacing(target, *others)

    setattr(train, "replacing", dying)  # noqa: B010 (it is a function of another module)
    return train_portion(exchange, arguments, tell)


class _Mortal:
    """An exchange whose process is killed in the middle of one."""

    def __init__(self, exchange: Exchange, when: int) -> None:
        self._exchange, self._left = exchange, when
        self.rank, self.size = exchange.rank, exchange.size

    def __getattr__(self, name: str) -> Any:
        if name in ("all_reduce", "max_", "gather"):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return getattr(self._exchange, name)

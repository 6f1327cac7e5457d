"""Programs for the teams of the tests: they add up numbers in steps, and keep a checkpoint after each."""

import json
import os
import signal
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cofill.errors import DataError, DataWarning, Remedy
from cofill.exchange import Exchange
from cofill.files import replacing
from cofill.progress import Progress, Step

STEPS = 6


def add_up(exchange: Exchange, arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    """Each step adds what all workers bring; the sum is kept in a file, from which the next attempt goes on.

    "trouble" says what shall happen: {"before": step, "on": rank, "attempts": [...], "do": what}.
    """
    folder = Path(arguments["folder"])
    kept = folder / "sum.json"
    with (folder / "processes.txt").open("a") as book:
        book.write(f"{os.getpid()}\n")
    at, value = 0, np.zeros(3, np.float32)
    if arguments["resume"] and kept.exists():
        saved = json.loads(kept.read_text())
        at, value = saved["step"], np.array(saved["value"], np.float32)
    began = at
    for step in range(at, STEPS):
        _get_into_trouble(exchange, arguments, step)
        part = np.array([0.1, 0.2, 0.3], np.float32) * (step + 1) * (exchange.rank + 1)
        value = np.float32(0.9) * value + exchange.all_reduce(part)
        if exchange.rank == 0:
            with replacing(kept) as draft:
                draft.write_text(json.dumps({"step": step + 1, "value": value.tolist()}))
        tell(Step("adding", step + 1, STEPS, (step + 1) / STEPS, unit="step", measures={"loss": float(value[0])}))
        if exchange.rank == 0 and step == 0:
            warnings.warn("numbers are small", UserWarning, stacklevel=1)
            warnings.warn(DataWarning("odd", Remedy.passing("give {scale}", scale=...), where="here"), stacklevel=1)
    return {
        "value": value.tolist(),
        "began": began,
        "attempt": arguments["attempt"],
        "rank": exchange.rank,
        "threads": [arguments["threads"], os.environ["OMP_NUM_THREADS"], os.environ["NUMBA_NUM_THREADS"]],
        "process": os.getpid(),
        "sent": exchange.sent,
    }


def _get_into_trouble(exchange: Exchange, arguments: Mapping[str, Any], step: int) -> None:
    trouble = arguments.get("trouble")
    if trouble is None or step != trouble["before"] or arguments["attempt"] not in trouble["attempts"]:
        return
    if exchange.rank != trouble["on"]:
        return
    match trouble["do"]:
        case "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "be stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(600)
        case "raise":
            raise ArithmeticError("one and one\n  is three")
        case "refuse":
            raise DataError("no good", Remedy.passing("give {separator}", separator=";"), where="ratings.csv")


def wait(exchange: Exchange, arguments: Mapping[str, Any], tell: Progress) -> None:
    """Say in a file that it has begun, and wait."""
    (Path(arguments["folder"]) / f"{exchange.rank}.pid").write_text(str(os.getpid()))
    exchange.all_reduce(np.zeros(1, np.float32))
    (Path(arguments["folder"]) / f"{exchange.rank}.begun").touch()
    time.sleep(arguments["seconds"])


def lose_a_machine(exchange: Exchange, arguments: Mapping[str, Any], tell: Progress) -> int:
    """The first team exchanges until that fails; the next one has it easy."""
    if arguments["attempt"] == 1:
        for at in range(6000):
            exchange.all_reduce(np.zeros(1, np.float32))
            if at == 0:
                (Path(arguments["folder"]) / f"{exchange.rank}.begun").touch()
                tell(Step("waiting to be lost", 0, 1, 0.0))
            time.sleep(0.01)
    exchange.all_reduce(np.zeros(1, np.float32))
    return exchange.rank

"""What workers of these tests do; a module of its own, because a worker that starts has little to load then."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cofill.crew import Duty, StoppedError

from cofill.errors import DataError


def begin_lists(duty: Duty, equipment: bytes) -> Callable[[Any], Any]:
    """In the place of those who make lists: kill themselves."""
    return lambda task: os.kill(os.getpid(), signal.SIGKILL)


def begin_predictions(duty: Duty, equipment: bytes) -> Callable[[Any], Any]:
    """In the place of those who predict: refuse."""

    def do(task: Any) -> None:
        raise DataError("no good at it,\n ask another")

    return do


def begin_work(duty: Duty, equipment: bytes) -> Callable[[Any], Any]:
    """Good ones and bad ones."""
    if equipment == b"patient":
        duty.stop_between_steps()

    def do(task: dict[str, Any]) -> Any:
        match task["do"]:
            case "add":
                for share in (0.2, 0.4, 0.5):
                    duty.report(share)
                sys.stdout.write("not an answer\n")
                return {"sum": sum(task["numbers"]), "of": len(equipment), "in": os.getpid()}
            case "threads":
                return [duty.threads, os.environ["OMP_NUM_THREADS"], os.environ["NUMBA_NUM_THREADS"]]
            case "refuse":
                raise DataError("no good,\n  give another")
            case "break":
                raise KeyError("what")
            case "panic":
                raise SystemExit("a library gave up")
            case "die once" | "freeze once" if Path(task["mark"]).exists():
                return "the second time"
            case "die once":
                Path(task["mark"]).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            case "freeze once":
                Path(task["mark"]).touch()
                os.kill(os.getpid(), signal.SIGSTOP)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "wait":
                Path(task["begun"]).touch()
                while duty.wanted():
                    time.sleep(0.01)
                Path(task["ended"]).touch()
                raise StoppedError
        raise AssertionError(task)

    return do

"""What workers of these tests do; a module of its own, because a worker that starts has little to load then."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cofill.errors import DataError
from cofill.workers import StoppedError, Work, cores


def begin(work: Work, shared: bytes) -> Callable[[Any], Any]:
    """In the place of those who make lists and predict: they kill themselves, or refuse."""

    def do(task: Any) -> None:
        if "pairs" in task:
            raise DataError("no good at it,\n ask another")
        os.kill(os.getpid(), signal.SIGKILL)

    return do


def begin_work(work: Work, shared: bytes) -> Callable[[Any], Any]:
    """What the workers of these tests can do."""
    if shared == b"patient":
        work.stop_between_steps()

    def do(task: dict[str, Any]) -> Any:
        match task["do"]:
            case "add":
                work.report(0.5)
                print("not an answer")  # noqa: T201
                return {"sum": sum(task["numbers"]), "of": len(shared), "in": os.getpid()}
            case "threads":
                return [work.threads, cores(), os.environ["NUMBA_NUM_THREADS"]]
            case "refuse":
                raise DataError("no good,\n  give another")
            case "break":
                raise KeyError("what")
            case "die once" if Path(task["mark"]).exists():
                return "the second time"
            case "die once":
                Path(task["mark"]).touch()
                os.kill(os.getpid(), signal.SIGKILL)
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leave":
                os._exit(3)
            case "wait":
                Path(task["begun"]).write_text(str(os.getpid()))
                while work.wanted():
                    time.sleep(0.01)
                Path(task["ended"]).touch()
                raise StoppedError
        raise AssertionError(task)

    return do

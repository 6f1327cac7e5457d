"""A measurement in a process of its own, so that its memory and its threads are its own.

A module of tasks ends with `answer_as_process`; `python -m MODULE TASK '{"arguments": ...}'` prints the result as JSON.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def measure(module: str, task: str, **arguments: Any) -> Any:
    """Run a task of a module in a new process and wait for its result."""
    command = [sys.executable, "-m", module, task, json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the measurement {task!r} stopped with exit code {done.returncode}")
    return json.loads(done.stdout)


def answer_as_process(*tasks: Callable[..., Any]) -> None:
    """Do the task that this process was started for."""
    by_name = {task.__name__: task for task in tasks}
    json.dump(by_name[sys.argv[1]](**json.loads(sys.argv[2])), sys.stdout)


def percentiles(times: list[float]) -> dict[str, float]:
    return {"p50": float(np.percentile(times, 50)), "p99": float(np.percentile(times, 99))}

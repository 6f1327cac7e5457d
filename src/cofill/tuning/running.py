"""Workers in processes of their own, and somebody who watches them."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from optuna import Study
from optuna.trial import TrialState

from cofill.cores import cores
from cofill.errors import CofillError
from cofill.processes import start_worker, stop_workers
from cofill.tuning.data import SearchData
from cofill.tuning.storage import storage_explained
from cofill.tuning.study import FINISHED, Plan, open_study

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_TO_STOP = 10.0


@dataclass(frozen=True)
class Standing:
    """How far a search is."""

    finished: int
    trials: int
    best: float | None


Watch = Callable[[Standing], None]


def search(
    data: SearchData,
    plan: Plan,
    *,
    url: str,
    name: str = "cofill",
    trials: int = 200,
    workers: int | None = None,
    watch: Watch | None = None,
) -> Study:
    """Go on with the study, or begin it, until it has that many finished trials; `watch` is called now and then.

    Each of the workers (default: one a core) is a process with one thread. The study may be worked on by other
    searches at the same time. Whatever is interrupted goes on with the same call.
    """
    study = open_study(url, name, plan)
    job = {"url": url, "name": name, "plan": plan.to_json(), "trials": trials, "parent": os.getpid()}
    with storage_explained(url):
        standing = _standing(study, trials)
        if watch is not None:
            watch(standing)
        wanted = min(workers or cores(), max(trials - standing.finished, 0))
        # On standard input, not as an argument: everybody can see those, and an address may have a password.
        with _at_work(wanted, json.dumps(job).encode() + b"\n" + data.to_bytes()) as team:
            while any(worker.running for worker in team):
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                _check(team)
                if watch is not None:
                    watch(_standing(study, trials))
            _check(team)
        standing = _standing(study, trials)
    if standing.finished < trials:
        raise CofillError(
            f"all workers were killed after {standing.finished} of {trials} trials, perhaps for want of memory; "
            f"the same command goes on, with fewer --workers if need be"
        )
    if watch is not None:
        watch(standing)
    return study


class _Worker:
    """A process, and the thread that hands it its task and hears what it has to say."""

    def __init__(self, task: bytes) -> None:
        self.process = start_worker(
            "cofill.tuning.worker", threads=1, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        self._said = b""
        self._thread = threading.Thread(target=self._attend, args=(task,), daemon=True)
        self._thread.start()

    def _attend(self, task: bytes) -> None:
        self._said = self.process.communicate(task)[1]

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def problem(self) -> str | None:
        """What went wrong; being killed is no problem as long as others live."""
        if self.running or self.process.returncode <= 0:
            return None
        lines = self._said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"a worker ended with exit code {self.process.returncode}"

    def close(self) -> None:
        """After the end of its process."""
        self._thread.join()


def _check(team: list[_Worker]) -> None:
    for worker in team:
        if worker.problem:
            raise CofillError(worker.problem)


@contextmanager
def _at_work(count: int, task: bytes) -> Iterator[list[_Worker]]:
    team: list[_Worker] = []
    try:
        for _ in range(count):
            team.append(_Worker(task))
        yield team
    finally:
        stop_workers((worker.process for worker in team), _SECONDS_TO_STOP)  # what they leave undone is done again
        for worker in team:
            worker.close()


def _standing(study: Study, trials: int) -> Standing:
    finished = study.get_trials(deepcopy=False, states=FINISHED)
    values = [trial.value for trial in finished if trial.state == TrialState.COMPLETE and trial.value is not None]
    return Standing(len(finished), trials, min(values, default=None))

"""A search: several workers on one study, and its progress display."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from optuna import Study
from optuna.trial import TrialState

from cofill.cluster.session import workplace
from cofill.errors import CofillError
from cofill.interrupts import postponed
from cofill.progress import Step, duration, shown
from cofill.tuning.goals import Goal
from cofill.tuning.list_search_data import ListSearchData
from cofill.tuning.search_data import SearchData
from cofill.tuning.storage import absolute_url, check_within_reach, storage_explained
from cofill.tuning.study import FINISHED, Plan, fail_the_dead, open_study
from cofill.workers import map_unordered


@dataclass(frozen=True)
class Standing:
    """The state of a search."""

    finished: int
    trials: int
    best: float | None
    goal: Goal


Watch = Callable[[Standing], None]


def search(
    data: SearchData | ListSearchData,
    plan: Plan,
    *,
    url: str,
    name: str = "cofill",
    trials: int = 200,
    workers: int | None = None,
    watch: Watch | None = None,
    ray: str | None = None,
) -> Study:
    """Start or continue a study until it has that many finished trials; `watch` is called regularly.

    Each of the workers (default: one a core) is a process with one thread. The study may be worked on by other
    searches at the same time. An interrupted search continues with the same call. A worker that is killed is
    replaced, and its trial is done again.

    `ray` is the address of a Ray cluster whose machines run the workers; all of them must reach the database.
    """
    if ray is not None:
        check_within_reach(url, ray)
    study = open_study(url, name, plan)
    task = {"url": absolute_url(url), "name": name, "plan": plan.to_json(), "trials": trials}
    with storage_explained(url), workplace(ray) as place:
        standing = _standing(study, trials, plan.goal)
        if watch is not None:
            watch(standing)
        wanted = min(workers or place.cores, max(trials - standing.finished, 0))
        try:
            with map_unordered(
                "cofill.tuning.trials:begin_work",
                [task] * wanted,
                workers=wanted,
                shared=data.to_bytes() if wanted else b"",
                on_ray=place.on_ray,
                muted=True,
                look=lambda: None if watch is None else watch(_standing(study, trials, plan.goal)),
            ) as outcomes:
                for outcome in outcomes:
                    if outcome.problem is not None and not outcome.killed:
                        raise CofillError(outcome.problem)
        finally:
            fail_the_dead(study)  # a worker that did not stop in time could not give back what it had begun
        standing = _standing(study, trials, plan.goal)
    if standing.finished < trials:
        raise CofillError(
            f"all workers were killed after {standing.finished} of {trials} trials, perhaps for want of memory",
            "the same search goes on, with fewer workers=... if need be",
        )
    if watch is not None:
        watch(standing)
    return study


def _standing(study: Study, trials: int, goal: Goal) -> Standing:
    with postponed():  # else the database would stay locked, and no trial could be given back
        finished = study.get_trials(deepcopy=False, states=FINISHED)
    values = [trial.value for trial in finished if trial.state == TrialState.COMPLETE and trial.value is not None]
    return Standing(len(finished), trials, goal.best(values), goal)


# What a person sees


@contextmanager
def search_progress(quiet: bool = False) -> Iterator[Watch | None]:
    """Show finished trials, the best so far and the time left, whenever a trial ends."""
    if quiet:
        yield None
        return
    clock = _Clock()
    last = -1
    with shown() as progress:

        def watch(standing: Standing) -> None:
            nonlocal last
            left, done, trials = clock.left(standing), standing.finished, standing.trials
            if done != last:
                last = done
                text = _told(standing, left)
                progress(Step("searching", done, trials, done / trials, text=text, logged=done >= trials))

        yield watch


class _Clock:
    """Estimates the time left from the trials that ended in this process."""

    def __init__(self) -> None:
        self._before: int | None = None
        self._first: tuple[float, int] | None = None

    def left(self, standing: Standing) -> float | None:
        """Seconds left; None if not known yet."""
        if self._before is None:
            self._before = standing.finished
        if self._first is None and standing.finished > self._before:  # what came before was the start of the workers
            self._first = time.monotonic(), standing.finished
        if self._first is None or standing.finished == self._first[1]:
            return None
        each = (time.monotonic() - self._first[0]) / (standing.finished - self._first[1])
        return each * (standing.trials - standing.finished)


def _told(standing: Standing, left: float | None) -> str:
    parts = [f"{standing.finished} of {standing.trials} trials"]
    if standing.best is not None:
        parts.append(f"best {standing.goal.label} {standing.best:.4f}")
    if left:
        parts.append(f"{duration(left)} left")
    return "  ".join(parts)

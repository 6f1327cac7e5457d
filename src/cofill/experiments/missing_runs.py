"""Do all missing runs, one by one in this process or by workers; and show the progress."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

from cofill.cluster.session import Workplace, cores_each, workplace
from cofill.errors import CofillError
from cofill.experiments.experiment_data import ExperimentData
from cofill.experiments.runs import Record, Run, Store
from cofill.progress import Step, duration, shown
from cofill.workers import Work, map_unordered, problem_of


@dataclass(frozen=True)
class Event:
    """A run made progress (`share`) or is finished (`record`)."""

    run: Run
    share: float
    record: Record | None = None


Watch = Callable[[Event], None]


def finish(
    runs: Sequence[Run],
    data: ExperimentData,
    store: Store,
    *,
    workers: int | None = None,
    watch: Watch,
    ray: str | None = None,
) -> None:
    """Do all runs, and store each as soon as it is done.

    One worker is this process, with all cores. Several are processes that share the cores out. Costs are measured
    one by one, each in a new process, so that its memory is its own. With `ray`, the address of a Ray cluster, the
    processes are on its machines, one on each by default.
    """
    alone = [run for run in runs if run.task == "cost"]
    others = [run for run in runs if run.task != "cost"]
    here = ray is None and (workers or 1) == 1
    if others and here:
        _finish_here(others, data, store, watch)
    if not alone and (not others or here):
        return
    content = data.to_bytes()
    with workplace(ray) as place:
        if others and not here:
            several = workers or len(place.machines)
            _finish_elsewhere(others, content, store, watch, place, several, cores_each(place.machines, several))
        for run in alone:
            _finish_elsewhere([run], content, store, watch, place, 1, 0)


def _finish_here(runs: Sequence[Run], data: ExperimentData, store: Store, watch: Watch) -> None:
    from cofill.experiments.measuring import perform

    for run in runs:
        watch(Event(run, 0.0))
        try:
            record = perform(run, data, threads=0, report=partial(_went_on, watch, run))
        except BrokenPipeError:  # nobody watches any more, which is no problem of the run
            raise
        except Exception as error:
            raise _of_run(run, problem_of(error)) from error
        store.keep(run, record)
        watch(Event(run, 1.0, record))


def _went_on(watch: Watch, run: Run, share: float) -> None:
    watch(Event(run, share))


def _finish_elsewhere(
    runs: Sequence[Run],
    content: bytes,
    store: Store,
    watch: Watch,
    place: Workplace,
    workers: int,
    threads: int,
) -> None:
    tasks = [run.as_json() for run in runs]
    function = f"{__name__}:begin_work"
    with map_unordered(
        function,
        tasks,
        workers=workers,
        threads=threads,
        shared=content,
        on_ray=place.on_ray,
        report=lambda task, share: watch(Event(runs[task], share)),
    ) as outcomes:
        for outcome in outcomes:
            run = runs[outcome.task]
            if outcome.problem is not None:
                raise _of_run(run, outcome.problem)
            if outcome.result["code"] != run.code:
                raise _of_run(run, "the code of cofill has changed since this command began")
            record = outcome.result | {"seconds": outcome.seconds}
            store.keep(run, record)
            watch(Event(run, 1.0, record))


def begin_work(work: Work, content: bytes) -> Callable[[Any], Record]:
    """Entry point of a worker: returns the function that does a run with the shared data."""
    from cofill.experiments.measuring import perform

    data = ExperimentData.from_bytes(content)
    return lambda task: perform(Run.from_json(task), data, threads=work.threads, report=work.report)


def _of_run(run: Run, problem: str) -> CofillError:
    return CofillError(f"{run.label}: {problem}; what is finished is kept, and the same command goes on")


# What a person sees


class Standing:
    """Progress of the runs, and the time left, estimated from the finished ones."""

    def __init__(self, runs: list[Run], finished: dict[str, float], workers: int) -> None:
        """`finished`: seconds by digest of runs that were done before."""
        self._runs = runs
        self._seconds = dict(finished)
        self._shares: dict[str, float] = {}
        self._workers = workers
        self._kinds = {run.digest: self._kind(run) for run in runs}

    @staticmethod
    def _kind(run: Run) -> tuple[object, ...]:
        return run.label, run.task, run.part.ratio

    def take(self, event: Event) -> None:
        if event.record is not None:
            self._seconds[event.run.digest] = event.record["seconds"]
            self._shares.pop(event.run.digest, None)
        else:
            self._shares[event.run.digest] = event.share

    @property
    def done(self) -> int:
        return sum(run.digest in self._seconds for run in self._runs)

    @property
    def completed(self) -> float:
        """The number of finished runs, plus the finished shares of others."""
        return self.done + sum(self._shares.values())

    def left(self) -> float | None:
        """Seconds left, or None if not known yet."""
        if not self._seconds:
            return None
        overall = fmean(self._seconds.values())
        by_label: dict[str, list[float]] = {}
        by_kind: dict[tuple[object, ...], list[float]] = {}
        for run in self._runs:
            if run.digest in self._seconds:
                by_label.setdefault(run.label, []).append(self._seconds[run.digest])
                by_kind.setdefault(self._kinds[run.digest], []).append(self._seconds[run.digest])
        seconds = 0.0
        for run in self._runs:
            if run.digest in self._seconds:
                continue
            like = by_kind.get(self._kinds[run.digest]) or by_label.get(run.label)
            seconds += (1 - self._shares.get(run.digest, 0.0)) * (fmean(like) if like else overall)
        return seconds / self._workers

    def told(self) -> str:
        running = [f"{run.label} {self._shares[run.digest]:.0%}" for run in self._runs if run.digest in self._shares]
        parts = [f"{self.done} of {len(self._runs)} runs", *(["now " + ", ".join(running)] if running else [])]
        left = self.left()
        if left is not None and self.done < len(self._runs):
            parts.append(f"about {duration(left)} left")
        return "  ".join(parts)


Begin = Callable[[list[Run], dict[str, float], int], Watch]
"""Called with the runs of a stage, the seconds of those that are finished, and the workers."""


@contextmanager
def experiment_progress(what: str, quiet: bool = False) -> Iterator[Begin]:
    """Show finished runs, running ones and the time left; a log gets a line for every finished run."""
    with shown(quiet) as progress:

        def begin(runs: list[Run], finished: dict[str, float], workers: int) -> Watch:
            standing = Standing(runs, finished, workers)

            def watch(event: Event) -> None:
                standing.take(event)
                done, text = standing.completed, standing.told()
                progress(Step(what, done, len(runs), done / len(runs), text=text, logged=event.record is not None))

            return watch

        yield begin

"""What a person sees while an experiment runs: runs done, what is at work, the time left; on stderr."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import fmean

from cofill.experiments.run import Run
from cofill.experiments.running import Event, Watch

_SECONDS_BETWEEN_LINES = 15.0


class Standing:
    """How far the runs are, and how long the others will take, judged by those that are finished."""

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
        """Runs that are done, and what is done of others."""
        return self.done + sum(self._shares.values())

    def left(self) -> float | None:
        """Seconds, or None as long as nothing is known."""
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
    """A live line on a terminal, a line now and then in a log."""
    if quiet:
        yield lambda runs, finished, workers: lambda event: None
        return
    if not sys.stderr.isatty():
        yield lambda runs, finished, workers: _Lines(what, Standing(runs, finished, workers))
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn(f"[bold]{what}"), BarColumn(bar_width=20), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=None, told="preparing")

        def begin(runs: list[Run], finished: dict[str, float], workers: int) -> Watch:
            standing = Standing(runs, finished, workers)

            def watch(event: Event) -> None:
                standing.take(event)
                bars.update(task, total=len(runs), completed=standing.completed, told=standing.told())

            return watch

        yield begin


class _Lines:
    def __init__(self, what: str, standing: Standing) -> None:
        self._what, self._standing, self._last = what, standing, 0.0

    def __call__(self, event: Event) -> None:
        self._standing.take(event)
        now = time.monotonic()
        if event.record is None and now - self._last < _SECONDS_BETWEEN_LINES:
            return
        self._last = now
        sys.stderr.write(f"{self._what}: {self._standing.told()}\n")
        sys.stderr.flush()


def duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"

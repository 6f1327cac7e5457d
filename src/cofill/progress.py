"""What a person sees while something takes long: on the terminal a live line, in a log a line now and then."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from cofill.cfn.training import EpochRecord, Report

_Item = TypeVar("_Item")

_PHASES = {"pretrain": "pre-training", "search": "finding the epochs", "train": "training"}
_SECONDS_BETWEEN_LINES = 2.0


@contextmanager
def training_progress(quiet: bool = False) -> Iterator[Report | None]:
    """A report for `fit` that shows epoch, loss, validation RMSE, ratings per second and time left on stderr."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield _LogLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("[bold]{task.description:<18}"),
        BarColumn(bar_width=24),
        TextColumn("epoch {task.completed:.0f} of at most {task.total:.0f}"),
        TextColumn("{task.fields[measures]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks = {}

        def report(record: EpochRecord, epochs: int) -> None:
            if record.phase not in tasks:
                tasks[record.phase] = bars.add_task(_PHASES[record.phase], total=epochs, measures="")
            measures = _measures(record, epochs)
            bars.update(tasks[record.phase], total=epochs, completed=record.epoch, measures=measures)

        yield report


def counted(items: Iterable[_Item], total: int, what: str, quiet: bool = False) -> Iterator[_Item]:
    """The items, with progress on stderr while they are taken."""
    if quiet or not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=what, total=total, console=Console(stderr=True), transient=True)


@contextmanager
def share_done(what: str, quiet: bool = False) -> Iterator[Callable[[float], None] | None]:
    """A callback that takes the share done, from 0 to 1, and shows it on stderr."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=1.0)
        yield lambda share: bars.update(task, completed=share)


class _LogLines:
    """Where nobody watches: one line an epoch, but not more often than a reader of the log would like."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, record: EpochRecord, epochs: int) -> None:
        now = time.monotonic()
        if now - self._last < _SECONDS_BETWEEN_LINES and record.epoch not in (1, epochs):
            return
        self._last = now
        line = f"{_PHASES[record.phase]}: epoch {record.epoch} of at most {epochs}  {_measures(record, epochs)}"
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _measures(record: EpochRecord, epochs: int) -> str:
    parts = [f"loss {record.loss:.4f}"]
    if record.validation_rmse is not None:
        parts.append(f"validation RMSE {record.validation_rmse:.4f}")
    parts.append(f"{record.ratings_per_second / 1e6:.2f} M ratings/s")
    parts.append(f"at most {_duration((epochs - record.epoch) * record.seconds)} left")
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )

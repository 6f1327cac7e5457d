"""What a person sees while something takes long: on the terminal a live line, in a log a line now and then."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:  # the making of worlds shows progress too, and need not wait for torch
    from rich.progress import TaskID

    from cofill.models.cfn.training import EpochRecord, Report

_Item = TypeVar("_Item")

_PHASES = {"pretrain": "pre-training", "search": "finding the epochs", "train": "training"}
_SOLVING = "solving the columns"
_SECONDS_BETWEEN_LINES = 2.0
_WIDE = 116  # columns of a terminal that has room for a bar and the speed


class TrainingProgress(NamedTuple):
    """What `fit` calls: `epoch` after every epoch, `solved` with the share of the columns solved for; or nothing."""

    epoch: "Report | None" = None
    solved: Callable[[float], None] | None = None


@contextmanager
def training_progress(quiet: bool = False) -> Iterator[TrainingProgress]:
    """Shows epoch, loss, validation RMSE, ratings per second and time left on stderr, then the columns solved for."""
    if quiet:
        yield TrainingProgress()
        return
    if not sys.stderr.isatty():
        yield TrainingProgress(_LogLines(), _ShareLines(_SOLVING, begun=False))
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    console = Console(stderr=True)
    wide = console.width >= _WIDE
    columns = (
        TextColumn("[bold]{task.description:<19}"),
        *([BarColumn(bar_width=16)] if wide else []),
        TextColumn("{task.fields[measures]}"),
    )
    with Progress(*columns, console=console) as bars:
        waiting = bars.add_task("preparing", total=None, measures="")  # the first epoch may take a while
        tasks: dict[str, TaskID] = {}

        def show(what: str, completed: float, total: float, measures: str) -> None:
            bars.update(waiting, visible=False)
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total, measures="")
            bars.update(tasks[what], total=total, completed=completed, measures=measures)

        def epoch(record: "EpochRecord", epochs: int) -> None:
            measures = f"epoch {record.epoch}/{epochs}  {_measures(record, epochs, speed=wide)}"
            show(_PHASES[record.phase], record.epoch, epochs, measures)

        def solved(share: float) -> None:
            show(_SOLVING, share, 1.0, f"{share:.0%}")

        yield TrainingProgress(epoch, solved)
        if _SOLVING in tasks:
            solved(1.0)
        bars.update(waiting, visible=False)


def counted(items: Iterable[_Item], total: int, what: str, quiet: bool = False) -> Iterator[_Item]:
    """The items, with progress on stderr while they are taken."""
    if quiet:
        yield from items
        return
    if not sys.stderr.isatty():
        log = _ShareLines(what)
        for number, item in enumerate(items, 1):
            yield item
            log(number / max(total, number))
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=what, total=total, console=Console(stderr=True), transient=True)


@contextmanager
def share_done(what: str, quiet: bool = False) -> Iterator[Callable[[float], None] | None]:
    """A callback that takes the share done, from 0 to 1, and shows it on stderr."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield _ShareLines(what)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(what, total=1.0)
        yield lambda share: bars.update(task, completed=share)


class _ShareLines:
    """Where nobody watches: a line with the share done, if the work takes long at all.

    Unless it has `begun`, the work begins with the first call.
    """

    def __init__(self, what: str, begun: bool = True) -> None:
        self._what = what
        self._last = time.monotonic() if begun else None

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if self._last is None:
            self._last = now
        elif now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            sys.stderr.write(f"{self._what}: {share:.0%}\n")
            sys.stderr.flush()


class _LogLines:
    """Where nobody watches: one line an epoch, but not more often than a reader of the log would like."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, record: "EpochRecord", epochs: int) -> None:
        now = time.monotonic()
        if now - self._last < _SECONDS_BETWEEN_LINES and record.epoch not in (1, epochs):
            return
        self._last = now
        measures = _measures(record, epochs, speed=True)
        line = f"{_PHASES[record.phase]}: epoch {record.epoch} of at most {epochs}  {measures}"
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _measures(record: "EpochRecord", epochs: int, *, speed: bool) -> str:
    parts = [f"loss {record.loss:.4f}"]
    if record.validation_rmse is not None:
        parts.append(f"validation RMSE {record.validation_rmse:.4f}" if speed else f"RMSE {record.validation_rmse:.4f}")
    if speed:
        millions = record.ratings_per_second / 1e6
        parts.append(f"{millions:.2f} M ratings/s" if millions >= 0.1 else f"{millions * 1e3:.1f} k ratings/s")
    if record.epoch > 1:  # the first one may have compiled the kernels, and says nothing about the others
        parts.append(f"at most {_duration((epochs - record.epoch) * record.seconds)} left")
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )

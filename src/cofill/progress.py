"""Progress display: a live line on a terminal, occasional lines in a log.

Long work calls a `Progress` with a `Step`, and knows nothing of terminals. `shown` makes one that prints.
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import TaskID

_Item = TypeVar("_Item")

_SECONDS_BETWEEN_LINES = 2.0
_WIDE = 116  # columns of a terminal that has room for a bar and the speed


@dataclass(frozen=True)
class Step:
    """How far a piece of work has got."""

    what: str
    """What is being done, such as "training"."""
    done: float
    total: float
    share: float
    """How much of the whole task is done, from 0 to 1, where this is one part of several."""
    unit: str = ""
    """What is counted, such as "epoch". Without it the share of `total` is shown."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """What has been measured: loss, validation_rmse, ratings_per_second; of several workers: workers, exchanging."""
    seconds: float = 0.0
    """What the last unit took."""
    note: str = ""
    """Something that happened on the way and is told on a line of its own."""


Progress = Callable[[Step], None]
"""Called whenever there is something to tell."""


def unseen(step: Step) -> None:
    """A Progress that shows nothing."""


@contextmanager
def shown(quiet: bool = False, *, transient: bool = False) -> Iterator[Progress]:
    """A Progress on stderr, with one line for each `what`; `transient`: cleared at the end."""
    if quiet:
        yield unseen
        return
    if not sys.stderr.isatty():
        yield _LogLines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    wide = console.width >= _WIDE
    columns = (
        TextColumn("[bold]{task.description:<19}"),
        *([BarColumn(bar_width=16)] if wide else []),
        TextColumn("{task.fields[measures]}"),
    )
    with Bars(*columns, console=console, transient=transient) as bars:
        waiting = bars.add_task("preparing", total=None, measures="")  # the first step may take a while
        tasks: dict[str, TaskID] = {}

        def show(step: Step) -> None:
            bars.update(waiting, visible=False)
            if step.note:
                console.print(step.note, markup=False, highlight=False)
                return
            if step.what not in tasks:
                tasks[step.what] = bars.add_task(step.what, total=step.total, measures="")
            if step.unit:
                text = f"{step.unit} {step.done:g}/{step.total:g}  {_measured(step, short=not wide)}"
            else:
                text = f"{step.done / step.total:.0%}"
            bars.update(tasks[step.what], total=step.total, completed=step.done, measures=text)

        yield show
        bars.update(waiting, visible=False)


@contextmanager
def share_done(what: str, quiet: bool = False) -> Iterator[Callable[[float], None] | None]:
    """A callback that shows the share done (0 to 1) on stderr; None if `quiet`."""
    with shown(quiet, transient=True) as progress:
        progress(Step(what, 0.0, 1.0, 0.0))
        yield None if quiet else lambda share: progress(Step(what, share, 1.0, share))


def counted(items: Iterable[_Item], total: int, what: str, quiet: bool = False) -> Iterator[_Item]:
    """Iterate over the items, with progress on stderr."""
    with share_done(what, quiet) as show:
        for number, item in enumerate(items, 1):
            yield item
            if show is not None:
                show(number / max(total, number))


class _LogLines:
    """Progress in a log: occasional lines, if the work takes long at all.

    For counted work the first and the last step are logged too, so that the log shows the outcome.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def __call__(self, step: Step) -> None:
        if step.note:
            _write(f"{step.what}: {step.note}")
            return
        now = time.monotonic()
        last = self._last.setdefault(step.what, now)
        told = step.unit and step.done in (1, step.total)
        if not told and (now - last < _SECONDS_BETWEEN_LINES or last == now):
            return
        self._last[step.what] = now
        if step.unit:
            line = f"{step.what}: {step.unit} {step.done:g} of at most {step.total:g}  {_measured(step)}"
        else:
            line = f"{step.what}: {step.done / step.total:.0%}"
        _write(line)


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _measured(step: Step, *, short: bool = False) -> str:
    found = step.measures
    parts = []
    if "loss" in found:
        parts.append(f"loss {found['loss']:.4f}")
    if "validation_rmse" in found:
        parts.append(f"{'RMSE' if short else 'validation RMSE'} {found['validation_rmse']:.4f}")
    if "ratings_per_second" in found and not short:
        millions = found["ratings_per_second"] / 1e6
        parts.append(f"{millions:.2f} M ratings/s" if millions >= 0.1 else f"{millions * 1e3:.1f} k ratings/s")
    if "workers" in found:
        parts.append(f"{found['workers']:g} workers" + ("" if short else f", {found['exchanging']:.0%} in exchange"))
    if step.done > 1:  # the first one may have compiled the kernels, and says nothing about the others
        parts.append(f"at most {duration((step.total - step.done) * step.seconds)} left")
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """As people say it: 40 s, 3 min 05 s, 2 h 10 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )

"""Progress display: a live line on a terminal, occasional lines in a log.

Long work calls a `Progress` with a `Step`, and knows nothing of terminals. `shown` makes one that prints.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import TaskID

_SECONDS_BETWEEN_LINES = 2.0
_SECONDS_BETWEEN_TEXTS = 15.0
_NAME = 23  # columns that the name of a phase has, at least
_BAR = 16
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
    text: str = ""
    """How things stand in words, which are shown instead of numbers."""
    logged: bool = False
    """Whether a log has the text at once; else now and then."""


Progress = Callable[[Step], None]
"""Called whenever there is something to tell."""


Done = Callable[[float], None]
"""Called with the share done."""


def unseen(step: object) -> None:
    """A Progress, or a Done, that shows nothing."""


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
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    wide = console.width >= _WIDE
    columns = (
        TextColumn(f"[bold]{{task.description:<{_NAME}}}"),
        *([BarColumn(bar_width=_BAR)] if wide else []),
        TextColumn("{task.fields[measures]}"),
        TimeRemainingColumn(compact=True),
    )
    with Bars(*columns, console=console, transient=transient) as bars:
        whole = bars.add_task("preparing", total=None, measures="")  # the first step may take a while
        tasks: dict[str, TaskID] = {}

        def show(step: Step) -> None:
            if step.note:
                console.print(step.note, markup=False, highlight=False)
                return
            one_of_several = bool(tasks) and step.what not in tasks
            bars.update(whole, description="in all", total=1.0, completed=step.share, measures=f"{step.share:.0%}")
            if step.what not in tasks:
                bars.update(whole, visible=one_of_several or step.share != step.done / step.total)
                tasks[step.what] = bars.add_task(step.what, total=step.total, measures="")
            parts = "  ".join(_parts(step, "/", short=not wide))
            bars.update(tasks[step.what], total=step.total, completed=step.done, measures=parts)

        yield show
        if not tasks:
            bars.update(whole, visible=False)


@contextmanager
def share_done(what: str, quiet: bool = False) -> Iterator[Callable[[float], None] | None]:
    """A callback that shows the share done (0 to 1) on stderr; None if `quiet`."""
    with shown(quiet, transient=True) as progress:
        progress(Step(what, 0.0, 1.0, 0.0))
        yield None if quiet else lambda share: progress(Step(what, share, 1.0, share))


class _LogLines:
    """Progress in a log: occasional lines, if the work takes long at all.

    For counted work the first and the last step are logged too, so that the log shows the outcome.
    """

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._first: tuple[float, float] | None = None  # when, and the share that was done by then

    def __call__(self, step: Step) -> None:
        if step.note:
            _write(f"{step.what}: {step.note}")
            return
        now = time.monotonic()
        self._first = self._first or (now, step.share)
        last = self._last.setdefault(step.what, now)
        told = step.logged or (step.unit and step.done in (1, step.total))
        pause = _SECONDS_BETWEEN_TEXTS if step.text else _SECONDS_BETWEEN_LINES
        if not told and (now - last < pause or last == now):
            return
        self._last[step.what] = now
        _write(f"{step.what}: {'  '.join([*_parts(step, ' of '), *self._left(step, now)])}")

    def _left(self, step: Step, now: float) -> list[str]:
        """How long the whole task will still take. The first step is not measured: it may have compiled kernels."""
        assert self._first is not None
        began, done = self._first
        left = (now - began) / (step.share - done) * (1 - step.share) if step.share > done else 0.0
        return [f"about {duration(left)} left"] if left >= 1 else []


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _parts(step: Step, between: str, *, short: bool = False) -> list[str]:
    """How far it is, and what has been measured."""
    if not step.unit:
        return [step.text or f"{step.done / step.total:.0%}"]
    found = step.measures
    parts = [f"{step.unit} {step.done:g}{between}{step.total:g}"]
    if "validation_rmse" in found:
        parts.append(f"{'RMSE' if short else 'validation RMSE'} {found['validation_rmse']:.4f}")
    if "loss" in found:
        parts.append(f"loss {found['loss']:.4f}")
    if "ratings_per_second" in found and not short:
        millions = found["ratings_per_second"] / 1e6
        parts.append(f"{millions:.2f} M ratings/s" if millions >= 0.1 else f"{millions * 1e3:.1f} k ratings/s")
    if "workers" in found:
        parts.append(f"{found['workers']:g} workers" + ("" if short else f", {found['exchanging']:.0%} in exchange"))
    return parts


def duration(seconds: float) -> str:
    """As people say it: 0.4 s, 40 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 0.95:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return (
        f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    )

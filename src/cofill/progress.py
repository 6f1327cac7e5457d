"""Progress display: a live line on a terminal, occasional lines in a log.

Long work calls a `Progress` with a `Step`, and knows nothing of terminals. `shown` makes one that prints.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.progress import TaskID

_SECONDS_BETWEEN_LINES = 2.0
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
    left: float | None = None
    """Seconds that the whole task will still take, as a `Forecast` expects."""
    at_most: bool = False
    """Whether it may also end sooner."""
    note: str = ""
    """Something that happened on the way and is told on a line of its own."""


Progress = Callable[[Step], None]
"""Called whenever there is something to tell."""


def unseen(step: Step) -> None:
    """A Progress that shows nothing."""


class Phase(NamedTuple):
    """A part of a long task: the name of its steps, and what each of its units costs beside those of other phases."""

    what: str
    cost: float
    units: float = 1.0
    """How many there will be, at most; once it has begun, its steps say so themselves."""
    may_be_fewer: bool = False


class Forecast:
    """A Progress that adds how long the whole task will still take, all its phases told, to what passes through it.

    What has been done of it tells how long a unit of cost takes here; the costs, how much there is to come. A phase
    that has begun is measured by itself, and one that is over costs nothing more, however early it ended.
    """

    def __init__(
        self, progress: Progress, phases: Sequence[Phase], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._progress, self._phases, self._clock = progress, phases, clock
        self._seconds, self._cost = 0.0, 0.0  # of all that was measured
        self._own_seconds, self._own_cost = 0.0, 0.0  # of the phase that is under way
        self._what, self._last, self._done = "", 0.0, 0.0

    def __call__(self, step: Step) -> None:
        at = next((number for number, phase in enumerate(self._phases) if phase.what == step.what), None)
        if at is None or step.note:
            self._progress(step)
            return
        phase, now = self._phases[at], self._clock()
        cost = phase.cost if step.unit else phase.cost * phase.units / max(step.total, 1e-9)
        # The first step of a phase is not measured: it may have compiled kernels, or be where another run stopped.
        if step.what == self._what and step.done > self._done:
            taken = now - self._last, cost * (step.done - self._done)
            self._own_seconds, self._own_cost = self._own_seconds + taken[0], self._own_cost + taken[1]
            self._seconds, self._cost = self._seconds + taken[0], self._cost + taken[1]
        elif step.what != self._what:
            self._own_seconds = self._own_cost = 0.0
        self._what, self._last, self._done = step.what, now, step.done
        unsure = [*self._phases[at + 1 :], *([phase] if step.total == phase.units else [])]
        step = replace(step, at_most=any(other.may_be_fewer for other in unsure))
        if not self._cost:
            self._progress(step)
            return
        usual = self._seconds / self._cost
        own = self._own_seconds / self._own_cost if self._own_cost else usual
        later = sum(other.cost * other.units for other in self._phases[at + 1 :])
        left = own * cost * max(step.total - step.done, 0.0) + usual * later
        self._progress(replace(step, left=left))


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
        TextColumn(f"[bold]{{task.description:<{_NAME}}}"),
        *([BarColumn(bar_width=_BAR)] if wide else []),
        TextColumn("{task.fields[measures]}"),
    )
    with Bars(*columns, console=console, transient=transient) as bars:
        waiting = bars.add_task("preparing", total=None, measures="")  # the first step may take a while
        tasks: dict[str, TaskID] = {}
        before = [""]  # what was told last, of the phase that is under way, without the time left

        def show(step: Step) -> None:
            bars.update(waiting, visible=False)
            if step.note:
                console.print(step.note, markup=False, highlight=False)
                return
            if step.what not in tasks:
                if tasks:
                    bars.update(list(tasks.values())[-1], measures=before[0])  # what was left then is past
                tasks[step.what] = bars.add_task(step.what, total=step.total, measures="")
            if step.unit:
                parts = [f"{step.unit} {step.done:g}/{step.total:g}", *_measured(step, short=not wide)]
            else:
                parts = [f"{step.done / step.total:.0%}"]
            room = console.width - max(_NAME, len(step.what)) - 1 - (_BAR + 1 if wide else 0)
            text, before[0] = _within([*parts, *_left(step)], room), _within([*parts, ""], room).rstrip()
            bars.update(tasks[step.what], total=step.total, completed=step.done, measures=text)

        yield show
        bars.update(waiting, visible=False)


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
            parts = [
                f"{step.unit} {step.done:g} of {'at most ' if step.at_most else ''}{step.total:g}",
                *_measured(step),
            ]
        else:
            parts = [f"{step.done / step.total:.0%}"]
        _write(f"{step.what}: {'  '.join([*parts, *_left(step)])}")


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _within(parts: list[str], room: int) -> str:
    """The first of the parts and the last, which tell most, and of the others what there is room for."""
    kept = list(parts)
    while len(kept) > 2 and len("  ".join(kept)) > room:
        del kept[-2]
    return "  ".join(kept)


def _measured(step: Step, *, short: bool = False) -> list[str]:
    found = step.measures
    parts = []
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


def _left(step: Step) -> list[str]:
    """Of the whole task, where a forecast knows."""
    if not step.left:
        return []
    return [f"{'at most' if step.at_most else 'about'} {duration(step.left)} left"]


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

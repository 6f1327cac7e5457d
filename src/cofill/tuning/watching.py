"""What a person sees while a search runs: trials done, the best so far, the time left; on stderr."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cofill.tuning.running import Standing, Watch

_SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def search_progress(quiet: bool = False) -> Iterator[Watch | None]:
    """A live line on a terminal, a line now and then in a log."""
    if quiet:
        yield None
        return
    clock = _Clock()
    if not sys.stderr.isatty():
        yield _Lines(clock)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("[bold]searching"), BarColumn(bar_width=24), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("", total=None, told="starting the workers")

        def show(standing: Standing) -> None:
            told = _told(standing, clock.left(standing))
            bars.update(task, total=standing.trials, completed=standing.finished, told=told)

        yield show


class _Clock:
    """From the trials since the first one that ended here, the time that the others will take."""

    def __init__(self) -> None:
        self._before: int | None = None
        self._first: tuple[float, int] | None = None

    def left(self, standing: Standing) -> float | None:
        """Seconds; None where nothing can be said yet."""
        if self._before is None:
            self._before = standing.finished
        if self._first is None and standing.finished > self._before:  # what came before was the start of the workers
            self._first = time.monotonic(), standing.finished
        if self._first is None or standing.finished == self._first[1]:
            return None
        each = (time.monotonic() - self._first[0]) / (standing.finished - self._first[1])
        return each * (standing.trials - standing.finished)


class _Lines:
    def __init__(self, clock: _Clock) -> None:
        self._clock = clock
        self._last_time, self._last_told = 0.0, -1

    def __call__(self, standing: Standing) -> None:
        left = self._clock.left(standing)
        now, over = time.monotonic(), standing.finished >= standing.trials
        if standing.finished == self._last_told or (now - self._last_time < _SECONDS_BETWEEN_LINES and not over):
            return
        self._last_time, self._last_told = now, standing.finished
        sys.stderr.write(f"searching: {_told(standing, left)}\n")
        sys.stderr.flush()


def _told(standing: Standing, left: float | None) -> str:
    parts = [f"{standing.finished} of {standing.trials} trials"]
    if standing.best is not None:
        parts.append(f"best validation RMSE {standing.best:.4f}")
    if left:
        parts.append(f"{left / 60:.0f} min left" if left >= 90 else f"{left:.0f} s left")
    return "  ".join(parts)

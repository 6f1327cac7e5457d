"""How far a download is, on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[int, int | None], None]  # (bytes so far, bytes in all)


@contextmanager
def show_progress(name: str, *, quiet: bool) -> Iterator[Report]:
    """A bar on a terminal, a line at each fifth elsewhere, nothing if quiet."""
    if quiet:
        yield lambda done, total: None
        return
    if not sys.stderr.isatty():
        yield _plain_lines(name)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _plain_lines(name: str) -> Report:
    told = -1

    def report(done: int, total: int | None) -> None:
        nonlocal told
        fifths = 5 * done // total if total else 0
        if fifths > told:
            told = fifths
            of = f" of {total / 1e6:,.1f} MB" if total else ""
            sys.stderr.write(f"{name}: {done / 1e6:,.1f}{of}\n")

    return report

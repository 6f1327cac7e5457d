"""Ctrl-C ends the process of a command, whatever it is doing.

Python raises `KeyboardInterrupt` in the main thread, between two of its instructions. That alone is not enough. A
callback from C and a destructor swallow the exception, and an import may turn it into another. C code may not return
for minutes, and the end of a pool of threads is waited for. So a thread watches what becomes of an interrupt. A process
that has not ended after 1.5 s, as where the exception was swallowed, is ended hard: no `finally` runs any more, and
unfinished files are removed. A second Ctrl-C ends it at once. A block of `orderly_end` has ten seconds.
"""

# Nothing else is imported here: an interrupt before there is a watch is Python's.
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS_BETWEEN_LOOKS = 0.05
_LOOKS_BEFORE_THE_END = 30
_LOOKS_AT_AN_ORDERLY_END = 200
_EXIT_CODE = 128 + signal.SIGINT
_LAST_WORDS = "cofill: stopped\n"
_CURSOR = "\x1b[?25h"  # which a bar of progress hides

_unfinished: "set[Path]" = set()
_orderly = 0
_watch: "Watch | None" = None


class Watch:
    """Watches over SIGINT from `begin`, which the main thread of a command calls, to the end of the process."""

    def __init__(self) -> None:
        self.raised = False
        self._last_words = threading.Lock()  # its holder prints them

    def begin(self) -> None:
        global _watch
        if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return  # a shell starts a command in the background with SIGINT ignored
        _watch = self
        signal.signal(signal.SIGINT, self._raise)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._print_others
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)  # written to at once, also where C code is running
        threading.Thread(target=self._look, args=(reading,), name="interrupts", daemon=True).start()

    def obeyed(self) -> NoReturn:
        """The command has been ended by an interrupt: say so, and end the process."""
        self.raised = True
        _remove_unfinished()
        if self._last_words.acquire(blocking=False):
            sys.stderr.write(_LAST_WORDS)
            sys.stderr.flush()
        atexit._run_exitfuncs()
        # Python's own end waits for threads, and dies of SIGINT where the exception came through C that runs Python.
        os._exit(_EXIT_CODE)

    def done(self) -> None:
        """The command has ended by itself: an interrupt would come too late."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _raise(self, *_: object) -> None:
        if self.raised:
            self._end()  # Ctrl-C was pressed a second time
        self.raised = True
        raise KeyboardInterrupt

    def _print_others(self, unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._unraisable(unraisable)

    def _look(self, reading: int) -> None:
        while True:
            if signal.SIGINT in os.read(reading, 1):
                self._see_to_it()

    def _see_to_it(self) -> None:
        """Returns only where the command has ended by itself or has a handler of its own, as a server does."""
        looks = orderly = 0
        while looks < _LOOKS_BEFORE_THE_END and orderly < _LOOKS_AT_AN_ORDERLY_END:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            if signal.getsignal(signal.SIGINT) != self._raise:
                return
            looks, orderly = (0, orderly + 1) if _orderly else (looks + 1, orderly)
        self._end()

    def _end(self) -> NoReturn:
        _remove_unfinished()
        if self._last_words.acquire(blocking=False):
            words = f"{_CURSOR}\n{_LAST_WORDS}" if os.isatty(2) else _LAST_WORDS
            os.write(2, words.encode())  # the main thread may hold the lock of sys.stderr
        os._exit(_EXIT_CODE)


def was_interrupted(error: BaseException) -> bool:
    """Whether an error is what became of an interrupt."""
    return is_interrupt(error) or (_watch is not None and _watch.raised)


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is an interrupt, or came of one or while one was dealt with."""
    seen = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, KeyboardInterrupt):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


@contextmanager
def orderly_end() -> Iterator[None]:
    """An interrupt of this block may take up to ten seconds, because it stops other processes."""
    global _orderly
    _orderly += 1
    try:
        yield
    finally:
        _orderly -= 1


@contextmanager
def unfinished(path: "Path") -> Iterator[None]:
    """Remove a file or folder unless this block ends well, also where an interrupt ends the process in it."""
    _unfinished.add(path)
    try:
        yield
    except BaseException:
        _remove(path)
        raise
    finally:
        _unfinished.discard(path)


def _remove_unfinished() -> None:
    for path in list(_unfinished):
        _remove(path)


def _remove(path: "Path") -> None:
    try:
        if path.is_dir():
            from shutil import rmtree

            rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        pass  # what went wrong before is what matters

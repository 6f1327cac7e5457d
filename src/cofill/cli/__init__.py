"""The command line: `cofill COMMAND`. Each command is a module that is imported only when it is asked for."""

# Nothing else is imported here: the process of a command first sees to it that Ctrl-C ends it.
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for an error during the run, 2 for wrong arguments.

    Without arguments, this process is the command: Ctrl-C ends it at any moment, and it ends with that exit code.
    """
    if arguments is None:
        _be_the_command()
    try:
        return _run(arguments)
    except KeyboardInterrupt:
        sys.stderr.write("cofill: stopped\n")
        return 130


def _be_the_command() -> NoReturn:
    from cofill.interrupts import Watch, was_interrupted

    watch = Watch()
    code: Any
    try:
        try:
            watch.begin()
            code = _run(sys.argv[1:])
        except SystemExit as ended:
            code = ended.code
        watch.done()
    except BaseException as error:
        if not was_interrupted(error):
            raise
        try:
            sys.stdout.flush()
        except OSError:
            _let_go_of_output()
        watch.obeyed()
    sys.exit(code)


def _run(words: Sequence[str]) -> int:
    """As `main`, but an interrupt is raised."""
    import shlex
    import warnings

    from cofill.cli.parser import parser_for
    from cofill.errors import CofillError, show_warning

    if sys.stdout is None:  # closed by the caller, who wants none
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if hasattr(sys.stdout, "reconfigure"):  # a title that the terminal cannot show is no reason to stop
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            options = parser_for(words).parse_args(words)
            options.words, options.call = words, shlex.join(["cofill", *words])
            code: int = options.run(options)
            sys.stdout.flush()  # here, where a reader that has gone or a full disk can still be dealt with
            return code
    except CofillError as error:
        return _failed(error, str(error))
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does; that is no error.
        _let_go_of_output()
        return 0
    except OSError as error:
        _let_go_of_output()
        what = f"{error.filename}: " if error.filename is not None else ""
        why = error.strerror or error
        return _failed(error, f"{what}{why}; check the path, its permissions and the space on the disk")
    except MemoryError as error:
        return _failed(error, f"not enough memory ({error}); use fewer ratings or a smaller --hidden")
    except Exception as error:
        if os.environ.get("COFILL_TRACE"):
            raise
        return _failed(error, f"{type(error).__name__}: {error}; COFILL_TRACE=1 in the environment shows where")


def _failed(error: Exception, message: str) -> int:
    from cofill.cli.output import note
    from cofill.interrupts import was_interrupted

    if was_interrupted(error):
        raise KeyboardInterrupt from error
    note(f"cofill: {' '.join(message.split())}")
    return 1


def _let_go_of_output() -> None:
    """Send remaining output to /dev/null, so that the flush at exit does not fail."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError, AttributeError):
        pass  # an output without a file behind it

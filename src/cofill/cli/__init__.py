"""The command line: `cofill COMMAND`. Each command is a module that is imported only when it is asked for."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from cofill import __version__
from cofill.errors import CofillError

_COMMANDS = {
    "train": "train a model on a ratings file or a data set",
    "evaluate": "measure a model on ratings it has not seen",
    "predict": "predict the ratings of pairs of user and item",
    "recommend": "recommend items to a user, to somebody new, or to everybody",
    "similar": "list the items most like one",
    "split": "cut a ratings file into a training and a test part",
    "datasets": "list, fetch or make data sets",
    "benchmark": "measure speed and memory on this machine",
    "demo": "make a world of films, train on it, and write a report",
}

_EPILOG = """\
first steps:
  cofill train ratings.csv --out model        learn from a file with user, item, rating
  cofill recommend model --user 42            what would user 42 like?
  cofill demo --out demo                      no file at hand? see it all on generated films

cofill COMMAND --help tells the options of a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0, 1 for what went wrong in a run, 2 for a wrong call."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser(words)
    options = parser.parse_args(words)
    try:
        code: int = options.run(options)
        return code
    except CofillError as error:
        sys.stderr.write(f"cofill: {error}\n")
        return 1
    except BrokenPipeError:
        # Whoever read our output has gone, as `head` does; that is no error. Silence the flush at exit.
        sys.stdout = None
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("cofill: stopped\n")
        return 130


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """All commands by name; only the one that is called has its options, because they need heavy imports."""
    parser = argparse.ArgumentParser(
        prog="cofill",
        description="Collaborative filtering with autoencoders: from a ratings file to recommendations.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cofill {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    called = next((word for word in words if not word.startswith("-")), None)
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == called:
            module = import_module(f"cofill.cli.{name}")
            module.add_options(command)
            command.set_defaults(run=module.run)
    return parser

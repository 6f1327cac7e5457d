"""The commands, and the parser of their options."""

import argparse
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from cofill import __version__

COMMANDS = {
    "train": "train a model on a ratings file or a data set",
    "evaluate": "measure a model on ratings it has not seen",
    "predict": "predict the ratings of pairs of user and item",
    "recommend": "recommend items to a user, a new user, or all users",
    "similar": "list the items most like one",
    "explain": "show which ratings and features move a list score, or a predicted rating",
    "features": "show how a file of side information is read, or what a model learned from it",
    "partition": "cut ratings that may be larger than memory into buckets, for training on many machines",
    "split": "cut a ratings file into a training and a test part",
    "datasets": "list, fetch or make data sets",
    "tune": "search for the best settings on validation data",
    "reproduce": "run an experiment of the paper: tables and pictures, ours beside theirs",
    "serve": "serve a model over HTTP, with a page, and follow new ratings at once",
    "export": "write all that a server has stored, for the next training: ratings, events, descriptions, deletions",
    "keys": "make, list or remove the keys that open a server",
    "report": "write a page about a model: data, curves, measures, a map of its items",
    "doctor": "check that cofill works here, and show versions, cores and memory for a bug report",
    "demo": "make a world of films, train on it, and write a report",
}

_HOMES = {"recommend": "ask", "similar": "ask", "predict": "ask", "explain": "ask", "export": "serve", "keys": "serve"}
_HOMES |= {"split": "datasets", "partition": "datasets", "report": "evaluate", "features": "side_information"}
"""The modules of commands that share one. Each has functions add_COMMAND and run_COMMAND."""

_EPILOG = """\
first steps:
  cofill train ratings.csv --out model        learn from a file with user, item, rating
  cofill recommend model --user 42            what would user 42 like?
  cofill features movies.csv                  how would this table of items or users be read?
  cofill demo --out demo                      no file at hand? see it all on generated films

cofill COMMAND --help shows the options of a command, --help-all those that few people need."""


_RARE = ("side information", "rules", "settings", "reading", "reading of side information", "cluster", "more")
"""Groups of options that --help leaves to --help-all, unless the module of a command names one in its COMMON."""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        return f"{action.metavar} ..." if action.nargs == "+" else super()._format_args(action, default_metavar)


class _Parser(argparse.ArgumentParser):
    """A parser with one-line errors and without abbreviated options: --user does not mean --user-column."""

    def __init__(self, **settings: Any) -> None:
        usual: dict[str, Any] = {"allow_abbrev": False, "formatter_class": _Formatter}
        super().__init__(**usual | settings)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` tells how\n")

    def parse_known_args(self, *words: Any, **more: Any) -> tuple[Any, list[str]]:
        """Refuse unknown options here, where the command's own options can be listed."""
        options, unknown = super().parse_known_args(*words, **more)
        if unknown and unknown[0].startswith("-"):
            flag = unknown[0].partition("=")[0]
            near = _nearest(flag, self._option_string_actions)
            self.error(f"there is no option {flag}" + (f" (did you mean {near}?)" if near else ""))
        if unknown:
            self.error(f"unexpected argument {unknown[0]!r}")
        return options, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a choice that does not exist, with the one that is probably meant instead of all."""
        if action.choices is not None and value not in action.choices:
            near = _nearest(str(value), action.choices)
            hint = f"did you mean {near}?" if near else f"choose from {', '.join(map(str, action.choices))}"
            raise argparse.ArgumentError(action, f"invalid choice: {value!r} ({hint})")


def _nearest(word: str, known: Iterable[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, 1)), None)


def _offer_short_help(parser: argparse.ArgumentParser, common: Sequence[str], *, asked: bool) -> None:
    """Let --help fit on one screen, if it is `asked` for: without rare options, and of the others the first clause."""
    groups = [group for group in parser._action_groups if group.title in _RARE]
    rare = [one for group in groups for one in group._group_actions if one.option_strings[0] not in common]
    if not rare:
        return
    parser.add_argument("--help-all", action="help", help=f"show {len(rare)} more options")
    if not asked:
        return
    needed = [
        f"{one.option_strings[0]} {one.metavar}" for one in parser._actions if one.required and one.option_strings
    ]
    positional = [str(one.metavar) for one in parser._actions if not one.option_strings]
    parser.usage = " ".join([parser.prog, *positional, *needed, "[options]"])
    for action in parser._actions:
        action.help = argparse.SUPPRESS if action in rare else _first_clause(action.help)
    for group in groups:
        group.description = None


def _first_clause(text: str | None) -> str | None:
    """A help text up to its first semicolon, with the default that stands at its end."""
    if text is None or ";" not in text:
        return text
    default = text[text.rindex("(default") :] if text.endswith(")") and "(default" in text else ""
    first = text.partition(";")[0]
    return first if default in first else f"{first} {default}"


def parser_for(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser of all commands; only the called one gets its options, because they need heavy imports."""
    parser = _Parser(
        prog="cofill",
        description="Collaborative filtering with autoencoders: from a ratings file to recommendations.",
        epilog=_EPILOG,
    )
    parser.add_argument("-V", "--version", action="version", version=f"cofill {__version__}", help="show the version")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    called = next((word for word in words if not word.startswith("-")), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == called:
            module = import_module(f"cofill.cli.{_HOMES.get(name, name)}")
            getattr(module, f"add_{name}")(command)
            _offer_short_help(command, getattr(module, "COMMON", ()), asked=bool({"-h", "--help"} & {*words}))
            command.set_defaults(run=getattr(module, f"run_{name}"))
    return parser

"""A call of a command, written such that a shell takes it."""

import argparse
from collections.abc import Callable, Mapping
from shlex import quote


def command_line(
    command: str, add_options: Callable[[argparse.ArgumentParser], None], values: Mapping[str, object]
) -> str:
    """`cofill COMMAND` with these values of its options, by the names that argparse gives them.

    None, and False where no flag says so, are left out; a 0 is not. What is no option of the command is left out too,
    so that the options of one command can be handed on to another.
    """
    parser = argparse.ArgumentParser(add_help=False)
    add_options(parser)
    options = sorted(parser._actions, key=lambda option: bool(option.option_strings))  # a list would swallow the others
    words = ["cofill", command]
    for option in options:
        value = values.get(option.dest)
        if value is not None:
            words += _words(option, value)
    return " ".join(quote(word) for word in words)


def _words(option: argparse.Action, value: object) -> list[str]:
    several = list(value) if isinstance(value, list) else [value]
    if not option.option_strings:
        return [_word(one) for one in several]
    flag = option.option_strings[0]
    if isinstance(value, bool):
        if isinstance(option, argparse.BooleanOptionalAction):
            return [flag if value else f"--no-{flag.removeprefix('--')}"]
        return [flag] if value else []
    if option.nargs is not None:
        return [flag, *map(_word, several)] if several else []
    if isinstance(value, list):  # the flag once for each; what it was read into was written NAME=VALUE
        return [word for one in several for word in (flag, "=".join(one) if isinstance(one, tuple) else _word(one))]
    word = _word(value)
    return [f"{flag}={word}"] if word.startswith("-") else [flag, word]


def _word(value: object) -> str:
    """With every digit."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

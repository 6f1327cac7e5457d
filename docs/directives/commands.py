"""`{commands}`: every command and every flag, from the parsers of the command line."""

import argparse
import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from cofill.cli.parser import COMMANDS, parser_for
from directives import page_nodes


class Commands(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        return [_command(_subparsers(parser_for([name])).choices[name]) for name in COMMANDS]


def _subparsers(parser: argparse.ArgumentParser) -> Any:
    return next((one for one in parser._actions if isinstance(one, argparse._SubParsersAction)), None)


def _command(parser: argparse.ArgumentParser) -> nodes.section:
    page = page_nodes.section(parser.prog)
    if parser.description:
        page += page_nodes.paragraph(_code_of_flags(parser.description))
    inner = _subparsers(parser)
    if inner is not None:
        page += [_command(one) for one in inner.choices.values()]
        return page
    page += page_nodes.code(_synopsis(parser))
    for group in parser._action_groups:
        actions = [one for one in group._group_actions if not isinstance(one, argparse._HelpAction)]
        if not actions:
            continue
        if group.title == "settings" and len(actions) > 20:  # the same in every command that trains
            actions = [one for one in actions if one.dest in ("config", "preset")]
            heading = "Settings: these two, and a flag for each of the settings of the network and the lists"
        else:
            heading = {"positional arguments": "Arguments", "options": "Options"}.get(
                str(group.title), str(group.title).capitalize()
            )
        page += nodes.rubric("", "", *page_nodes.inline(heading))
        if group.description:
            page += page_nodes.paragraph(_code_of_flags(group.description))
        page += page_nodes.definitions([_entry(parser, action) for action in actions])
    if parser.epilog:
        page += page_nodes.code(parser.epilog, "none")
    return page


def _synopsis(parser: argparse.ArgumentParser) -> str:
    """The command with what it cannot do without."""
    words = [parser.prog]
    for action in parser._actions:
        if not action.option_strings:
            value = _value(action) or action.dest.upper()
            words.append(f"[{value}]" if action.nargs in ("?", "*") else value)
        elif action.required:
            words.append(f"{action.option_strings[-1]} {_value(action)}")
    return " ".join([*words, "[options]"])


def _entry(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str, str]:
    flags = ", ".join(action.option_strings)
    term = f"{flags} {_value(action)}".strip()
    formatter = argparse.HelpFormatter(parser.prog)
    meaning = formatter._expand_help(action) if action.help and action.help != argparse.SUPPRESS else ""
    if action.required and action.option_strings:
        meaning = f"{meaning} (required)"
    anchor = page_nodes.slug(f"{parser.prog} {action.option_strings[-1] if flags else action.dest}")
    return anchor, term, _code_of_flags(meaning)


def _value(action: argparse.Action) -> str:
    """What stands behind a flag, as `--help` has it."""
    if action.nargs == 0:
        return ""
    if action.choices is not None and action.metavar is None:
        name: Any = "{" + ",".join(map(str, action.choices)) + "}"
    else:
        name = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    if isinstance(name, tuple):
        return " ".join(name)
    if action.nargs in ("+", "*"):
        return f"{name} ..."
    return f"{name} {name}" if action.nargs == 2 else str(name)


def _code_of_flags(text: str) -> str:
    """Flags in a sentence as code, but for those between backticks already."""
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        parts[at] = re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r"`\1`", parts[at])
    return "`".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}

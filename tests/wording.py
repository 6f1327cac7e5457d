"""The words of README, docs and help texts: `make check` counts what the house does not write, and where.

Two rules: no somebody, nobody, anybody, whoever, whom; no sentence of more than 35 words. A block of code counts as
nothing, `code` as one word, a link as its text. In help texts a semicolon ends a sentence.
"""

import re
import sys
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
BANNED = re.compile(r"\b(?:some|no|any)body\b|\bwho(?:ever|m)\b", re.IGNORECASE)
MOST_WORDS = 35
ALLOWED: frozenset[str] = frozenset()
"""Texts that may stay, as they are printed."""

_UNREAD = re.compile(
    r"^(?:```|:::).*?^(?:```|:::+)[^\S\n]*$|^(?:    .*\n)+|<!--.*?-->|\A---\n.*?\n---\n", re.MULTILINE | re.DOTALL
)
_ENDS = re.compile(r"(?<=[.?!:])[*\"')]*\s+(?=[\"'(*`\[]*[A-Z`*\[])|\n\s*\n|\n(?=\s*(?:[-#>|]|\d+\.|:?:?:))|(?<=\|)")


class Finding(NamedTuple):
    place: str
    what: str
    text: str


def findings() -> list[Finding]:
    """All that is written otherwise, in README, docs, help texts and messages."""
    pages = [
        ROOT / "README.md",
        ROOT / "SECURITY.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
    texts = [(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8")) for page in pages]
    texts = [(place, text) for place, text in texts if not place.startswith("docs/_build/")]
    found = [one for place, text in [*texts, *help_texts()] for one in judged(place, text)]
    messages = (ROOT / "tests" / "messages.md").read_text(encoding="utf-8")  # one line each, however many clauses
    found += [one for one in judged("tests/messages.md", messages) if one.what.startswith("says")]
    return [one for one in found if one.text not in ALLOWED]


def judged(place: str, text: str) -> Iterator[Finding]:
    for match in BANNED.finditer(text):
        line = text[: match.start()].count("\n") + 1
        yield Finding(f"{place}:{line}", f"says {match[0]}", text.splitlines()[line - 1].strip())
    for sentence in _ENDS.split(_seen(text) if place.endswith(".md") else text.replace("; ", "\n\n")):
        if (words := len(re.findall(r"[^\W_][\w'.,%-]*", sentence))) > MOST_WORDS:
            yield Finding(place, f"has a sentence of {words} words", " ".join(sentence.split()))


def _seen(text: str) -> str:
    """The prose of a page of Markdown."""
    text = re.sub(r"`[^`\n]+`", "`code`", _UNREAD.sub("\n\n", text + "\n"))
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def help_texts() -> Iterator[tuple[str, str]]:
    """(where, what): of every command and option, and of every route and field of the server."""
    from cofill.cli.parser import COMMANDS, parser_for
    from cofill.serving.api.openapi import published
    from cofill.serving.app import add_routes, new_api
    from cofill.serving.settings import ServingSettings

    for name in COMMANDS:
        for parser in _parsers(_inner(parser_for([name]))[name]):
            yield f"{parser.prog} --help", parser.description or ""
            for action in parser._actions:
                yield f"{parser.prog} {'/'.join(action.option_strings) or action.dest}", str(action.help or "")
    api, nothing = new_api(), Any
    add_routes(api, nothing, nothing, nothing, ServingSettings(model=Path("model")))  # type: ignore[arg-type]
    yield from _descriptions("/openapi.json", published(api, keys=False))


def options() -> set[str]:
    """Every flag of every command."""
    from cofill.cli.parser import COMMANDS, parser_for

    parsers = (parser for name in COMMANDS for parser in _parsers(_inner(parser_for([name]))[name]))
    return {flag for parser in parsers for action in parser._actions for flag in action.option_strings}


def _inner(parser: ArgumentParser) -> Mapping[str, ArgumentParser]:
    return next((one.choices for one in parser._actions if isinstance(one, _SubParsersAction)), {})


def _parsers(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    yield parser
    for one in _inner(parser).values():
        yield from _parsers(one)


def _descriptions(place: str, part: object) -> Iterator[tuple[str, str]]:
    """Of a JSON document, every text that is called a description or a summary."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ("description", "summary") and isinstance(value, str):
                yield place, value
            else:
                yield from _descriptions(f"{place} {name}", value)
    elif isinstance(part, list):
        for value in part:
            yield from _descriptions(place, value)


def main() -> int:
    found = findings()
    for one in found:
        sys.stdout.write(f"{one.place}: {one.what}: {one.text}\n")
    sys.stdout.write(f"wording: {len(found)} findings in README, docs and help texts\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

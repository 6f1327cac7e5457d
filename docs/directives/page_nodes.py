"""The few pieces that generated pages are made of."""

import re
from collections.abc import Sequence

from docutils import nodes


def slug(text: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def section(title: str, anchor: str = "") -> nodes.section:
    anchor = anchor or slug(title)
    made = nodes.section(ids=[anchor], names=[anchor])
    made += nodes.title("", "", *inline(title))
    return made


def paragraph(text: str) -> nodes.paragraph:
    return nodes.paragraph("", "", *inline(text))


def inline(text: str) -> list[nodes.Node]:
    """Text in which code stands between backticks."""
    parts = text.split("`")
    return [nodes.literal(part, part) if at % 2 else nodes.Text(part) for at, part in enumerate(parts) if part]


def code(text: str, language: str = "sh") -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language)


def definitions(entries: Sequence[tuple[str, str, str]]) -> nodes.definition_list:
    """Of each entry an anchor, a term, and what it means."""
    listed = nodes.definition_list()
    for anchor, term, meaning in entries:
        what = nodes.term("", "", nodes.literal(term, term), ids=[anchor] if anchor else [])
        listed += nodes.definition_list_item("", what, nodes.definition("", paragraph(meaning)))
    return listed


def table(head: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> nodes.table:
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=width) for width in widths]
    group += nodes.thead("", _row(head))
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.table("", group)


def _row(cells: Sequence[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", paragraph(cell)) for cell in cells))

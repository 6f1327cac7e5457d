"""The parts that a page is made of (sections, figures, tables), and its look.

It is that of the server's page: the same colours and typefaces (`cofill.charts.design`), headings, cards and tables.
Light or dark as the reader's system says, one column on a telephone, plain in print.
"""

from collections.abc import Sequence
from importlib.resources import files

from cofill.charts.design import LIGHT, TOKENS
from cofill.charts.graphs import STYLE
from cofill.charts.markup import Amount, Markup, element, shown

_SHORT = 14  # characters of a cell that is not worth breaking


def paragraph(*children: str) -> Markup:
    return element("p", *children)


def code(words: str) -> Markup:
    return element("code", words)


def section(name: str, heading: str, *children: str) -> Markup:
    """A section that the table of contents links to."""
    return element("section", element("h2", heading, id=name), *children, aria_labelledby=name)


def figure(picture: Markup, caption: str, *, wide: bool = False) -> Markup:
    """A picture and what it shows."""
    return element("figure", picture, element("figcaption", caption), class_="wide" if wide else None)


def figures(*pictures: Markup) -> Markup:
    """Figures side by side, where there is room."""
    return element("div", *pictures, class_="figures")


def beside(*parts: Markup) -> Markup:
    """Tables side by side, where there is room."""
    return element("div", *parts, class_="columns")


def unfolded(summary: str, *children: str) -> Markup:
    """What few want to read: shown when asked for."""
    return element("details", element("summary", summary), *children)


def card(name: str, value: str, *beside: str, warning: bool = False) -> Markup:
    """A figure in large, what it is, and what it is to be compared with."""
    parts = [element("dt", name), element("dd", value), *(element("dd", words, class_="beside") for words in beside)]
    return element("div", *parts, class_="warning" if warning else None)


def cards(*several: Markup) -> Markup:
    return element("dl", *several, class_="cards")


def brand() -> Markup:
    """The name with the star of the server's page, one half of it filled."""
    halves = [
        element("path", d="M12 1.6L8.9 8.4l-7.4.8 5.5 5-1.5 7.3 6.5-3.7z", class_="filled"),
        element("path", d="M12 1.6l3.1 6.8 7.4.8-5.5 5 1.5 7.3-6.5-3.7z", class_="empty"),
    ]
    return element(
        "span",
        element("svg", *halves, viewBox="0 0 24 24", aria_hidden="true", class_="brand-mark"),
        "cofill",
        class_="brand",
    )


def with_figure(words: Markup, picture: Markup) -> Markup:
    """A table and its figure side by side, where there is room."""
    return element("div", words, picture, class_="with-figure")


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, own: int | None = None) -> Markup:
    """A table with numbers to the right and None as a dash. A wide table scrolls by itself.

    `own` is the row of the model itself, beside what it is compared with.
    """
    numeric = [all(isinstance(row[at], int | float | Amount | None) for row in rows) for at in range(len(columns))]
    classes = ["number" if right else None for right in numeric]
    head = [
        element("th", name, scope="col", class_=" ".join(filter(None, (kind, "short" if len(name) <= _SHORT else ""))))
        for name, kind in zip(columns, classes, strict=True)
    ]
    body = []
    for number, row in enumerate(rows):
        cells = [(shown(value), kind) for value, kind in zip(row, classes, strict=True)]
        short = [(words, kind or ("short" if len(words) <= _SHORT else None)) for words, kind in cells]
        tds = (element("td", words, class_=kind) for words, kind in short)
        body.append(element("tr", *tds, class_="own" if number == own else None))
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


_RULES = (files("cofill.report") / "report.css").read_text(encoding="utf-8")
_PRINTED = "".join(f"--{name}:{value};" for name, value in (LIGHT | {"ink": "#000", "muted": "#444"}).items())

CSS = f"{TOKENS}{_RULES}{STYLE}@media print{{:root{{{_PRINTED}}}}}\n"
"""Everything that gives the page its look."""

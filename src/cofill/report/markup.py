"""HTML and SVG out of elements. A plain string is always text: titles and ids cannot become markup."""

from collections.abc import Sequence
from html import escape

_SHORT = 14  # characters of a cell that is not worth breaking
_EMPTY = frozenset({"meta", "circle", "rect", "line", "path"})


class Markup(str):
    """What is HTML already. Only this module makes it."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: str | float | bool | None) -> Markup:
    """<tag attributes>children</tag>; strings are escaped unless they are Markup, None is left out.

    An attribute's name ends in _ where Python needs it (class_), and has - for _ (aria_label, stroke_width).
    """
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for name, value in attributes.items()
        if value is not None and value is not False
    )
    if tag in _EMPTY and not children:
        return Markup(f"<{tag}{named}>" if tag == "meta" else f"<{tag}{named}/>")
    return Markup(f"<{tag}{named}>{together(*children)}</{tag}>")


def together(*parts: str | None) -> Markup:
    """One after the other."""
    return Markup("".join(part if isinstance(part, Markup) else text(part) for part in parts if part is not None))


def text(words: str) -> Markup:
    """Escaped, without the characters that a page cannot show: controls, half characters, changes of direction."""
    return Markup(escape("".join(c if c.isprintable() or c == "\n" else " " for c in words)))


def style(rules: str) -> Markup:
    """CSS of our own, which is no text."""
    return Markup(f"<style>{rules}</style>")


def document(*children: str, language: str = "en") -> Markup:
    return Markup("<!doctype html>\n" + element("html", *children, lang=language) + "\n")


def paragraph(*children: str) -> Markup:
    return element("p", *children)


def code(words: str) -> Markup:
    return element("code", words)


def section(name: str, heading: str, *children: str) -> Markup:
    """A part of the page that its contents lead to."""
    return element("section", element("h2", heading, id=name), *children, aria_labelledby=name)


def figure(picture: Markup, caption: str, *, wide: bool = False) -> Markup:
    return element("figure", picture, element("figcaption", caption), class_="wide" if wide else None)


def figures(*pictures: Markup) -> Markup:
    """Side by side where there is room."""
    return element("div", *pictures, class_="figures")


def beside(*parts: Markup) -> Markup:
    """Tables next to each other where there is room."""
    return element("div", *parts, class_="columns")


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    """Numbers to the right; a cell of None is a dash. A table that is too wide for the page scrolls by itself."""
    numeric = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))]
    classes = ["number" if right else None for right in numeric]
    head = [element("th", name, scope="col", class_=kind) for name, kind in zip(columns, classes, strict=True)]
    body = []
    for row in rows:
        cells = [(cell(value), kind) for value, kind in zip(row, classes, strict=True)]
        short = [(words, kind or ("short" if len(words) <= _SHORT else None)) for words, kind in cells]
        body.append(element("tr", *(element("td", words, class_=kind) for words, kind in short)))
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def cell(value: object) -> str:
    """Whole numbers with separators, others with four digits, nothing as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}"
    return value if isinstance(value, Markup) else str(value)


def shortened(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def _attribute(value: str | float | bool) -> str:
    if value is True:
        return ""
    if isinstance(value, float):
        return decimal(value)
    return text(str(value)).replace("\n", " ")


def decimal(value: float) -> str:
    """With one digit after the point at most: a tenth of a pixel."""
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")

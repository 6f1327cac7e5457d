"""HTML and SVG out of elements. A plain string is always text: titles and ids cannot become markup."""

from html import escape

_EMPTY = frozenset({"meta", "circle", "rect", "line", "path"})


class Markup(str):
    """What is HTML or SVG already. Only this module makes it."""

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
    """Concatenate markup."""
    return Markup("".join(part if isinstance(part, Markup) else text(part) for part in parts if part is not None))


def text(words: str) -> Markup:
    """Escaped text, without control characters, lone surrogates and changes of direction."""
    return Markup(escape("".join(c if c.isprintable() or c == "\n" else " " for c in words)))


def style(rules: str) -> Markup:
    """A style element with our own CSS, which is not escaped."""
    return Markup(f"<style>{rules}</style>")


def document(*children: str, language: str = "en") -> Markup:
    return Markup("<!doctype html>\n" + element("html", *children, lang=language) + "\n")


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


class Amount(str):
    """A number as it is written, such as 4.5 or 1 min 20 s, which stands where numbers do."""

    __slots__ = ()


class Stars(float):
    """A predicted rating: two digits are more than a user can tell apart."""


def shown(cell: object) -> str:
    """A cell of a table: integers with separators, ratings with two digits, other numbers with four, None as a dash.

    A number that rounds to nothing is 0.0000 (`z`): its sign is chance, and differs between processors.
    """
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:z.2f}" if isinstance(cell, Stars) else f"{cell:z.4f}"
    return cell if isinstance(cell, str) else str(cell)

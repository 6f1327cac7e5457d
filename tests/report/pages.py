"""What a page holds, read as a browser would: elements, texts, tables, and everything that points elsewhere."""

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser

_WITHOUT_END = {"meta"}
# Attributes through which a page could fetch something or run something.
_POINTING = {"href", "src", "srcset", "xlink:href", "data", "action", "poster", "background"}


@dataclass
class Page:
    """A page that was found to be well formed."""

    tags: Counter[str] = field(default_factory=Counter)
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    handlers: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    styles: str = ""
    labels: list[str] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    """By caption: rows of cells, the header first."""
    pictures_without_label: int = 0

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self.open: list[str] = []
        self._caption = ""
        self._rows: list[list[str]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._see(tag, attributes)
        if tag not in _WITHOUT_END:
            self.open.append(tag)
        if tag == "table":
            self._caption, self._rows = "", []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._see(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"
        if tag == "table":
            assert self._caption, "a table without a caption"
            assert self._caption not in self.page.tables, f"two tables are called {self._caption!r}"
            self.page.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "style":
            self.page.styles += data
            return
        self.page.texts.append(data)
        if "caption" in self.open:
            self._caption += data
        elif "td" in self.open or "th" in self.open:
            self._rows[-1][-1] += data

    def _see(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        given = dict(attributes)
        self.page.tags[tag] += 1
        self.page.links += [value or "" for name, value in attributes if name in _POINTING]
        self.page.handlers += [name for name in names if name.startswith("on")]
        if given.get("id"):
            self.page.ids.append(given["id"] or "")
        if given.get("aria-label"):
            self.page.labels.append(given["aria-label"] or "")
        elif tag == "svg" and given.get("aria-hidden") != "true":
            self.page.pictures_without_label += 1


def read(html: str) -> Page:
    """The page; AssertionError where it is not well formed."""
    assert html.startswith("<!doctype html>\n<html")
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return reader.page


def check(html: str) -> Page:
    """The page, which is whole in itself and can be read without eyes or a script."""
    page = read(html)
    assert page.tags["script"] == page.tags["link"] == page.tags["iframe"] == page.tags["img"] == 0
    assert page.handlers == []
    assert all(link.startswith("#") for link in page.links), page.links
    assert sorted(link[1:] for link in page.links) == sorted(page.ids)
    assert len(page.ids) == len(set(page.ids))
    assert "url(" not in page.styles
    assert "@import" not in page.styles
    assert page.pictures_without_label == 0
    assert page.tags["h1"] == page.tags["main"] == page.tags["nav"] == 1
    return page

"""The report page: its sections in order, and its file."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cofill import __version__
from cofill.charts.markup import Markup, document, element, style
from cofill.errors import DataError
from cofill.files import replacing
from cofill.report.page_parts import CSS
from cofill.report.sections.about import (
    features_section,
    model_section,
    reproduction_section,
    settings_section,
    training_section,
)
from cofill.report.sections.distributions import data_section
from cofill.report.sections.examples import examples_section
from cofill.report.sections.items import items_section
from cofill.report.sections.measures import errors_section, measures_section
from cofill.report.subject import Subject

_CONTENTS = {
    "model": ("The model", model_section),
    "measures": ("Measures", measures_section),
    "errors": ("Errors", errors_section),
    "examples": ("Examples", examples_section),
    "items": ("Map of the items", items_section),
    "data": ("The data", data_section),
    "training": ("Training", training_section),
    "features": ("Side information", features_section),
    "settings": ("Settings", settings_section),
    "again": ("How to make this again", reproduction_section),
}


class Part(NamedTuple):
    """A section of the page, and its name in the table of contents."""

    name: str
    title: str
    section: Markup


def report_page(subject: Subject, first: Sequence[Part] = ()) -> str:
    """The whole page as HTML. The same subject gives the same page: nothing of it comes from a clock or from chance.

    `first` are parts that stand before those about the model.
    """
    made = ((name, title, make(subject)) for name, (title, make) in _CONTENTS.items())
    parts = [*first, *(Part(name, title, part) for name, title, part in made if part is not None)]
    links = [element("li", element("a", part.title, href=f"#{part.name}")) for part in parts]
    return document(
        element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="generator", content=f"cofill {__version__}"),
            element("title", f"{subject.name}: a cofill model"),
            style(CSS),
        ),
        element(
            "body",
            element("header", element("h1", subject.name), element("p", _lead(subject), class_="lead")),
            element("nav", element("ul", *links), aria_label="Contents"),
            element("main", *(part.section for part in parts)),
            element("footer", f"Written by cofill {__version__}. Everything on this page is in this one file."),
        ),
    )


def write_report(subject: Subject, path: Path, first: Sequence[Part] = ()) -> int:
    """Write the page of `report_page`, whole or not at all; returns its length in bytes."""
    check_report_file(path)
    page = report_page(subject, first).encode()
    with replacing(path, DataError) as draft:
        draft.write_bytes(page)
    return len(page)


def check_report_file(path: Path) -> None:
    """Check before the work starts that a page can be written there."""
    if path.is_dir():
        raise DataError(f"{path}: this is a folder; name a file, such as {path / 'report.html'}")
    if path.suffix.lower() not in (".html", ".htm"):
        raise DataError(f"{path}: a report is an HTML page; let its name end in .html")


def _lead(subject: Subject) -> str:
    model = subject.model
    ratings = int(model.item_counts().sum())
    learned = f"learned from {ratings:,} ratings of {len(model.items):,} items by {len(model.users):,} users"
    if subject.test is None:
        return f"A model of the kind {model.kind}, {learned}."
    return f"A model of the kind {model.kind}, {learned}, measured on {len(subject.tested):,} ratings."

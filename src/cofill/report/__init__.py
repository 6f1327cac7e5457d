"""A page about a model: one self-contained HTML file, charts included, that loads nothing from the network.

Here are its sections in order, and its file.

subject.py     what is reported on: the model, its ratings, the test part, what it is compared with, the verdict
about.py       sections about the data, the model and its settings
measured.py    predictions and lists
items.py       a map of the items, and examples
page_parts.py  sections, figures and tables; report.css the look of the page; pictures are made by `cofill.charts`
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cofill import __version__
from cofill.charts.markup import Markup, document, element, style
from cofill.errors import DataError
from cofill.files import replacing
from cofill.report.about import data_section, features_section, model_section, settings_section
from cofill.report.items import examples_section, items_section
from cofill.report.measured import lists_section, predictions_section
from cofill.report.page_parts import CSS, brand, card, cards
from cofill.report.subject import Subject, verdict_on

__all__ = ["Part", "Subject", "check_report_file", "report_page", "write_report"]

_CONTENTS = {
    "predictions": ("Predictions", predictions_section),
    "lists": ("Lists", lists_section),
    "examples": ("Examples", examples_section),
    "items": ("Map", items_section),
    "data": ("Data", data_section),
    "model": ("Model", model_section),
    "features": ("Side information", features_section),
    "settings": ("Settings", settings_section),
}


_MOST_CARDS = 4  # of measures; a model of which there are fewer tells how much it knows


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
            element("header", brand(), element("nav", element("ul", *links), aria_label="Contents"), class_="top"),
            element(
                "main",
                element("h1", subject.name),
                element("p", _lead(subject), class_="lead"),
                _verdict(subject),
                cards(*_cards(subject)),
                *(part.section for part in parts),
            ),
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
    what = "ratings" if model.rated else "interactions"
    learned = f"learned from {len(subject.known):,} {what} of {len(model.items):,} items by {len(model.users):,} users"
    if subject.test is None:
        return f"A model of the kind {model.kind}, {learned}."
    return f"A model of the kind {model.kind}, {learned}, measured on {len(subject.tested):,} {what}."


def _verdict(subject: Subject) -> Markup:
    found = verdict_on(subject)
    kind = {True: "good", False: "bad", None: "unknown"}[found.good]
    return element("p", found.sentence, class_=f"verdict {kind}")


def _cards(subject: Subject) -> list[Markup]:
    """The figures that count, beside what needs no model; of a model that was not measured, how much it knows."""
    model, found = subject.model, []
    if subject.test is not None and subject.rated:
        value, biases = f"{subject.evaluation.rmse:.4f}", f"biases {subject.biases_evaluation.rmse:.4f}"
        if not subject.trained_on:
            found.append(card("test RMSE", value, biases))
        else:
            part = "" if subject.trained_on == len(subject.tested) else "partly "
            found.append(card(f"RMSE, {part}on training ratings", value, biases, warning=True))
    elif (validation := model.measures.get("validation_rmse")) is not None:
        found.append(card("validation RMSE", f"{validation:.4f}", "which chose the number of epochs"))
    lists = None if subject.test is None else subject.ranking
    if lists is not None and not isinstance(lists, DataError):
        ease = subject.ease_ranking
        for name, measure in (("NDCG", "ndcg"), ("recall", "recall")):
            others = [f"popularity {getattr(lists.popularity, measure):.4f}"]
            if ease is not None:
                others.append(f"EASE {getattr(ease, measure):.4f}")
            found.append(card(f"{name}@{lists.n}", f"{getattr(lists, measure):.4f}", " · ".join(others)))
    low, high = model.scale
    scale = f"from {low:g} to {high:g}" if model.rated else f"weights up to {high:g}"
    found.append(card("ratings" if model.rated else "interactions", f"{len(subject.known):,}", scale))
    if len(found) < _MOST_CARDS:
        counts = [("users", len(model.users)), ("items", len(model.items))]
        found += [card(name, f"{count:,}") for name, count in counts]
    return found

"""How good the lists are, beside popularity and EASE."""

from cofill.charts.graphs import bars
from cofill.charts.markup import Markup
from cofill.errors import DataError
from cofill.evaluation import MeasuredLists
from cofill.report.baselines import MOST_ITEMS_OF_EASE
from cofill.report.page_parts import figure, paragraph, section, table, with_figure
from cofill.report.subject import Subject

_TITLE = "Lists"

_MEASURES = (
    ("NDCG", "ndcg", "how near a list comes to the best possible one; high places count more"),
    ("recall", "recall", "share of what is relevant that is in the list"),
    ("precision", "precision", "share of the list that is relevant"),
    ("MRR", "mrr", "1 / the place of the first relevant item among all"),
    ("coverage", "coverage", "share of all items that is in at least one list"),
    ("novelty", "novelty", "how rarely rated what is recommended is, in bits"),
)


def lists_section(subject: Subject) -> Markup | None:
    """None without a test part, which the section about predictions mentions."""
    if subject.test is None:
        return None
    found = subject.ranking
    if isinstance(found, DataError):
        return section("lists", _TITLE, paragraph(f"Lists of recommendations were not measured: {found}."))
    whose: dict[str, MeasuredLists] = {"this model": found, "popularity": found.popularity}
    if subject.ease_ranking is not None:
        whose["EASE"] = subject.ease_ranking
    rows = [
        (name, *(getattr(lists, measure) for lists in whose.values()), meaning) for name, measure, meaning in _MEASURES
    ]
    relevant = (
        f"Relevant is every interaction of the test part: {found.ratings:,}."
        if found.relevant is None
        else f"Relevant is what a user gave {found.relevant:g} or more in the test part: {found.ratings:,} ratings."
    )
    return section(
        "lists",
        _TITLE,
        paragraph(
            f"{relevant} What a user has not rated counts as not relevant, also where they would have liked it. "
            f"Popularity is the most rated items, the same for everybody{_about_ease(subject)}."
        ),
        with_figure(
            table(f"Lists of {found.n} for {found.users:,} users", ("measure", *whose, "what it says"), rows),
            _by_popularity(whose),
        ),
    )


def _about_ease(subject: Subject) -> str:
    if subject.ease_ranking is not None:
        return "; EASE is a linear autoencoder, fitted to the ratings that the model knows for this page"
    if len(subject.model.items) > MOST_ITEMS_OF_EASE:
        return f"; EASE, which is fitted beside it for up to {MOST_ITEMS_OF_EASE:,} items, was left out"
    return ""


def _by_popularity(whose: dict[str, MeasuredLists]) -> Markup:
    model, popularity = whose["this model"], whose["popularity"]
    groups = model.clusters
    shares = [group.recall for group in groups]
    picture = bars(
        f"Recall of lists of {model.n} by number of training ratings of the item, from the least to the most rated.",
        [f"{100 * group.share_from:.0f}-{group.share_to:.0%}" for group in groups],
        shares,
        x="items, from the least rated to the most",
        y=f"recall@{model.n}",
        written=["" if share is None else f"{share:.2f}" for share in shares],
        name="this model",
        other=("popularity", [group.recall for group in popularity.clusters]),
    )
    return figure(
        picture,
        "How much of what is relevant lists find, in five groups of as many items each. Popularity finds "
        "nothing but what everybody knows.",
    )

"""Sections about what was measured on the test part: predictions and lists."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.charts.graphs import Line, bars, curves, histogram
from cofill.charts.markup import Markup, element
from cofill.errors import DataError
from cofill.evaluation import Cluster, Evaluation, MeasuredLists, UserCluster
from cofill.report.about import round_edges, value_groups
from cofill.report.page_parts import beside, code, figure, figures, paragraph, section, table, unfolded, with_figure
from cofill.report.subject import MOST_ITEMS_OF_EASE, Subject

_TITLE = "Predictions"
_HELD = "within 90 % interval"
_OURS, _BIASES = "this model", "biases"


def predictions_section(subject: Subject) -> Markup:
    """How far off predictions are, beside the biases; how to measure it where nothing was."""
    if subject.test is None:
        return section("predictions", _TITLE, _without_test())
    if not subject.rated:
        told = paragraph("There are no ratings to compare predictions with: lists alone are measured.")
        return section("predictions", _TITLE, *_warnings(subject), told)
    found, biases = subject.evaluation, subject.biases_evaluation
    held = () if found.within_interval is None else (found.within_interval,)
    names, group = value_groups(subject.tested.values)
    rows = _by_true_rating(subject, names, group)
    return section(
        "predictions",
        _TITLE,
        *_warnings(subject),
        paragraph(
            "How far off predictions are, in points of the rating scale; less is better. The biases are the overall "
            "mean, what this user gives above it, and what this item gets above it"
            f"{', and what the side information adds to that' if subject.described else ''}."
        ),
        table(
            f"On {subject.test_name or 'the test part'}",
            ("model", "RMSE", "MAE", *(_HELD for _ in held), "ratings", "of these cold"),
            [
                (_OURS, found.rmse, found.mae, *held, found.ratings, found.cold),
                (_BIASES, biases.rmse, biases.mae, *(None for _ in held), biases.ratings, biases.cold),
            ],
            own=0,
        ),
        *_remarks(found),
        figures(
            _cluster_figure(found.clusters, biases.clusters, "item"),
            _cluster_figure(found.user_clusters, biases.user_clusters, "user"),
            _spread(subject),
        ),
        unfolded(
            "The numbers behind these figures",
            beside(
                _cluster_table(found.clusters, biases.clusters, "item"),
                _cluster_table(found.user_clusters, biases.user_clusters, "user"),
            ),
            with_figure(
                table(
                    "By the rating that was given",
                    ("rating", "test ratings", "mean prediction", "RMSE", "mean of the biases", "RMSE of the biases"),
                    [
                        (row.name, row.ratings, row.mean, row.rmse, row.mean_of_biases, row.rmse_of_biases)
                        for row in rows
                    ],
                ),
                _drawn_to_the_middle(rows),
            ),
        ),
    )


def _without_test() -> Markup:
    return element(
        "p",
        "Nothing was measured: a model can only be judged on ratings that it has not seen. ",
        code("cofill report MODEL --test RATINGS"),
        " measures it on some, and shows how it errs; ",
        code("cofill split"),
        " cuts them off before the training.",
        class_="note",
    )


def _remarks(found: Evaluation) -> list[Markup]:
    """About columns of the table that do not explain themselves."""
    words = []
    if found.within_interval is not None:
        words.append(f"Nine tenths of the ratings should lie within their interval; {found.within_interval:.1%} do.")
    if found.cold:
        words.append("Cold ratings, whose user or item the model has no rating of, count like all others.")
    return [paragraph(" ".join(words))] if words else []


def _warnings(subject: Subject) -> list[Markup]:
    warnings = []
    count = len(subject.tested)
    if subject.trained_on:
        warnings.append(
            f"The model was trained on {subject.trained_on:,} of these {count:,} ratings, so they say little about new "
            "ones. Cut the data before the training."
        )
    low, high = subject.model.scale
    outside = int(((subject.tested.values < low) | (subject.tested.values > high)).sum())
    if outside and subject.rated:
        warnings.append(
            f"{outside:,} of these {count:,} ratings are outside the scale {low:g} to {high:g} of the training data, "
            "where no prediction reaches."
        )
    return [element("p", warning, class_="note warning") for warning in warnings]


def _cluster_figure(
    clusters: Sequence[Cluster | UserCluster], biases: Sequence[Cluster | UserCluster], side: str
) -> Markup:
    picture = bars(
        f"RMSE by number of training ratings of the {side}, from the least to the most rated fifth.",
        [f"{100 * c.share_from:.0f}-{c.share_to:.0%}" for c in clusters],
        [cluster.rmse for cluster in clusters],
        x=f"{side}s, from the least rated to the most",
        y="RMSE",
        written=["" if cluster.rmse is None else f"{cluster.rmse:.2f}" for cluster in clusters],
        name=_OURS,
        other=(_BIASES, [cluster.rmse for cluster in biases]),
    )
    return figure(picture, f"In five groups of as many {side}s each, by the number of their training ratings.")


def _cluster_table(
    clusters: Sequence[Cluster | UserCluster], biases: Sequence[Cluster | UserCluster], side: str
) -> Markup:
    intervals = any(c.within_interval is not None for c in clusters)
    rows = [
        (
            *(f"{c.share_from:.0%} to {c.share_to:.0%}", c.most_training_ratings, c.ratings, c.rmse, other.rmse),
            *((c.within_interval,) if intervals else ()),
        )
        for c, other in zip(clusters, biases, strict=True)
    ]
    held = (_HELD,) if intervals else ()
    columns = (f"{side}s", "training ratings up to", "test ratings", "RMSE", "RMSE of the biases", *held)
    return table(f"By number of training ratings of the {side}", columns, rows)


def _spread(subject: Subject) -> Markup:
    ours, theirs = (
        said.astype(np.float64) - subject.tested.values for said in (subject.predictions, subject.biases_said)
    )
    edges = round_edges(float(min(ours.min(), theirs.min())), float(max(ours.max(), theirs.max())), 40)
    counts, others = (np.histogram(errors, edges)[0].tolist() for errors in (ours, theirs))
    picture = histogram(
        f"Histogram of the errors: mean {ours.mean():z.3f}, standard deviation {ours.std():.3f}.",
        edges,
        counts,
        x="prediction - rating (points)",
        y="test ratings",
        name=_OURS,
        other=(_BIASES, others),
    )
    half = float((np.abs(ours) <= 0.5).mean())
    return figure(
        picture,
        f"How predictions err: by {ours.mean():+z.2f} on average; {half:.0%} are at most half a point off. Right of "
        "zero they are too high.",
    )


class _Row(NamedTuple):
    """What is predicted where a rating was given."""

    name: str
    given: float
    ratings: int
    mean: float
    rmse: float
    mean_of_biases: float
    rmse_of_biases: float


def _by_true_rating(subject: Subject, names: list[str], group: npt.NDArray[np.int64]) -> list[_Row]:
    rows = []
    for number, name in enumerate(names):
        inside = group == number
        if not inside.any():
            continue
        given = subject.tested.values[inside].astype(np.float64)
        measured = []
        for said in (subject.predictions, subject.biases_said):
            predicted = said[inside].astype(np.float64)
            measured += [float(predicted.mean()), float(np.sqrt(np.mean((predicted - given) ** 2)))]
        rows.append(_Row(name, float(given.mean()), len(given), *measured))
    return rows


def _drawn_to_the_middle(rows: Sequence[_Row]) -> Markup:
    places = [row.given for row in rows]
    picture = curves(
        "Mean prediction by true rating, beside the biases and the diagonal of a model that never errs.",
        [
            Line(_OURS, places, [row.mean for row in rows]),
            Line(_BIASES, places, [row.mean_of_biases for row in rows]),
            Line("without any error", places, places),
        ],
        x="rating that was given",
        y="mean prediction (points)",
    )
    return figure(
        picture,
        "What is predicted where a rating was given. Errors are drawn towards the middle: too high for low "
        "ratings, too low for high ones.",
    )


_TITLE_OF_LISTS = "Lists"

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
        return section("lists", _TITLE_OF_LISTS, paragraph(f"Lists of recommendations were not measured: {found}."))
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
        _TITLE_OF_LISTS,
        paragraph(
            f"{relevant} What a user has not rated counts as not relevant, also where they would have liked it. "
            f"Popularity is the most rated items, the same for all users{_about_ease(subject)}."
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
        "nothing but the most rated items.",
    )

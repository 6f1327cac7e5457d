"""How good predictions are on ratings that the model has not seen, for whom, and how they err."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cofill.charts.graphs import Series, bars, curves, histogram
from cofill.charts.markup import Markup, element, together
from cofill.errors import DataError
from cofill.evaluation import Cluster, Evaluation, RankingEvaluation, UserCluster
from cofill.report.page_parts import beside, code, figure, figures, paragraph, section, table
from cofill.report.sections.distributions import round_edges, value_groups
from cofill.report.subject import Subject

_HELD = "within 90 % interval"


def measures_section(subject: Subject) -> Markup:
    validation = subject.model.measures.get("validation_rmse")
    chosen = (
        paragraph(
            f"On the validation part of the training data the RMSE was {validation:.4f}. It chose the number of "
            "epochs, so it may flatter the model."
        )
        if validation is not None
        else ""
    )
    if subject.test is None:
        return section("measures", "Measures", _without_test(), chosen)
    if not subject.rated:
        told = paragraph("There are no ratings to compare predictions with: lists alone are measured.")
        return section("measures", "Measures", *_warnings(subject), told, _ranking(subject.ranking))
    found = subject.evaluation
    held = () if found.within_interval is None else (found.within_interval,)
    summary = table(
        f"On {subject.test_name or 'the test part'}",
        ("RMSE", "MAE", *(_HELD for _ in held), "ratings", "of these cold"),
        [(found.rmse, found.mae, *held, found.ratings, found.cold)],
    )
    parts: list[str] = [
        *_warnings(subject),
        paragraph(
            "How far off predictions are on the test part, in points of the rating scale; less is better. Cold ratings "
            "are those whose user or item the model has no rating of: they count like all others."
        ),
        summary,
        *_intervals(found),
        chosen,
        figures(_cluster_figure(found.clusters, "item"), _cluster_figure(found.user_clusters, "user")),
        beside(_cluster_table(found.clusters, "item"), _cluster_table(found.user_clusters, "user")),
        _ranking(subject.ranking),
    ]
    return section("measures", "Measures", *parts)


def errors_section(subject: Subject) -> Markup | None:
    """How predictions err; None without a test part or without ratings, which the measures section mentions."""
    if subject.test is None or not subject.rated:
        return None
    predicted, given = subject.predictions.astype(np.float64), subject.tested.values
    errors = predicted - given
    half = float((np.abs(errors) <= 0.5).mean())
    names, group = value_groups(given)
    rows, means = _by_true_rating(names, group, predicted, given)
    return section(
        "errors",
        "Errors",
        paragraph(
            f"An error is the prediction less the rating. On average it is {errors.mean():+.4f}, with a standard "
            f"deviation of {errors.std():.4f}; {half:.0%} of the predictions are at most half a point off."
        ),
        figures(
            figure(_spread(errors), "How often predictions err by how much; right of zero they are too high."),
            figure(
                means,
                "What is predicted on average where a rating was given. A model that errs is drawn towards the middle: "
                "too high for low ratings, too low for high ones.",
            ),
        ),
        table(
            "By the rating that was given", ("rating", "test ratings", "mean prediction", "mean error", "RMSE"), rows
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


def _intervals(found: Evaluation) -> list[Markup]:
    if found.within_interval is None:
        return []
    return [
        paragraph(
            "Around every prediction the model has an interval in which nine tenths of the true ratings are expected. "
            f"It held {found.within_interval:.1%} of the ratings of the test part."
        )
    ]


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


def _ranking(found: RankingEvaluation | DataError) -> Markup:
    """How good the lists are, in the words of `evaluation.ranking`."""
    if isinstance(found, DataError):
        return paragraph(f"Lists of recommendations were not measured: {found}.")
    ours, popular = found, found.popularity
    rows: list[tuple[str, object, object, str]] = [
        ("NDCG", ours.ndcg, popular.ndcg, "how near the list comes to the best possible one; high places count more"),
        ("precision", ours.precision, popular.precision, "share of the list that is relevant"),
        ("recall", ours.recall, popular.recall, "share of what is relevant that is in the list"),
        ("F1", ours.f1, popular.f1, "the harmonic mean of these two"),
        ("MRR", ours.mrr, popular.mrr, "1 / the place of the first relevant item among all"),
        ("coverage", ours.coverage, popular.coverage, "share of all items that is in at least one list"),
        ("novelty", ours.novelty, popular.novelty, "how rarely rated what is recommended is, in bits"),
    ]
    relevant = (
        f"Relevant is every interaction of the test part: {found.ratings:,}. "
        if found.relevant is None
        else f"Relevant is what a user gave {found.relevant:g} or more in the test part: {found.ratings:,} ratings. "
    )
    columns = ("measure", "value", "popularity", "what it says")
    return together(
        table(f"Lists of {found.n} for {found.users:,} users", columns, rows),
        paragraph(
            f"{relevant}What a user has not rated counts as not relevant, also where they would have liked it. Beside "
            "the lists of the model stand the most popular items, the same for everybody."
        ),
    )


def _cluster_figure(clusters: Sequence[Cluster | UserCluster], side: str) -> Markup:
    names = [f"{100 * c.share_from:.0f}-{c.share_to:.0%}" for c in clusters]
    picture = bars(
        f"RMSE by number of training ratings of the {side}, from the least to the most rated fifth.",
        names,
        [cluster.rmse for cluster in clusters],
        x=f"{side}s, from the fewest training ratings to the most",
        y="RMSE (points of the rating scale)",
        written=["" if cluster.rmse is None else f"{cluster.rmse:.3f}" for cluster in clusters],
    )
    return figure(picture, f"RMSE in five groups of as many {side}s each, by the number of their training ratings.")


def _cluster_table(clusters: Sequence[Cluster | UserCluster], side: str) -> Markup:
    intervals = any(c.within_interval is not None for c in clusters)
    rows = [
        (
            *(f"{c.share_from:.0%} to {c.share_to:.0%}", c.most_training_ratings, c.ratings, c.rmse, c.mae),
            *((c.within_interval,) if intervals else ()),
        )
        for c in clusters
    ]
    columns = (f"{side}s", "training ratings up to", "test ratings", "RMSE", "MAE", *((_HELD,) if intervals else ()))
    return table(f"By number of training ratings of the {side}", columns, rows)


def _spread(errors: npt.NDArray[np.float64]) -> Markup:
    edges = round_edges(float(errors.min()), float(errors.max()), 50)
    counts = np.histogram(errors, edges)[0].tolist()
    about = f"Histogram of the errors: mean {errors.mean():.3f}, standard deviation {errors.std():.3f}."
    return histogram(about, edges, counts, x="prediction - rating (points)", y="test ratings")


def _by_true_rating(
    names: list[str],
    group: npt.NDArray[np.int64],
    predicted: npt.NDArray[np.float64],
    given: npt.NDArray[np.float32],
) -> tuple[list[tuple[object, ...]], Markup]:
    rows: list[tuple[object, ...]] = []
    places, means = [], []
    for number, name in enumerate(names):
        inside = group == number
        if not inside.any():
            continue
        errors = predicted[inside] - given[inside]
        rmse = float(np.sqrt(np.mean(errors**2)))
        rows.append((name, int(inside.sum()), float(predicted[inside].mean()), float(errors.mean()), rmse))
        places.append(float(given[inside].mean(dtype=np.float64)))
        means.append(float(predicted[inside].mean()))
    picture = curves(
        "Mean prediction by true rating, beside the diagonal of a model that never errs.",
        [Series("mean prediction", places, means), Series("without any error", places, places)],
        x="rating that was given",
        y="mean prediction (points)",
    )
    return rows, picture

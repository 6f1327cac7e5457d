"""What the demo shows at its end, on the terminal and in its report."""

from dataclasses import dataclass
from typing import Any

from cofill.evaluation.ratings import Cluster
from cofill.report import Part
from cofill.report.markup import beside, paragraph, section, table

Recommended = tuple[str, float, float]
"""A title, the predicted rating, and the truth."""

MEASURED = ("who predicts", "known films", "rarest fifth", "new films", "new people")


@dataclass(frozen=True)
class Described:
    """Somebody of whom nothing but features is known, and what they would like."""

    who: str
    features: dict[str, str | int]
    recommendations: list[Recommended]


@dataclass(frozen=True)
class DemoResult:
    """What the demo shows at its end."""

    summary: dict[str, Any]
    held_out: dict[str, int]
    measures: list[tuple[str, float, float | None, float | None, float | None]]
    """RMSE in the columns of MEASURED; None where nothing was held out."""
    clusters: list[tuple[Cluster, float | None]]
    """Of the model on ratings alone, rows are items, and the RMSE with side information."""
    somebody: list[tuple[str, float]]
    recommendations: list[Recommended]
    """Beside the truth of a like-minded person."""
    described: list[Described]
    """Beside the mean truth of people of that age and occupation."""
    curve: list[tuple[int, float, float]]
    epochs: float | int | None


def cluster_rows(result: DemoResult) -> list[tuple[str, int, int, float | None, float | None]]:
    """Rows of the table by popularity: films, training ratings, test ratings, RMSE without and with features."""
    return [
        (f"{c.share_from:.0%} to {c.share_to:.0%}", c.most_training_ratings, c.ratings, c.rmse, told)
        for c, told in result.clusters
    ]


CLUSTER_COLUMNS = ("films", "training ratings up to", "test ratings", "ratings alone", "with side information")


def demo_parts(result: DemoResult) -> list[Part]:
    """What stands in the demo's report before the parts about its model."""
    summary, held_out = result.summary, result.held_out
    measured = section(
        "demo",
        "The demo",
        paragraph(
            f"{summary['ratings']:,} ratings of {summary['items']:,} generated films by {summary['users']:,} people. "
            f"Held out to measure on: {held_out['ratings']:,} ratings of known films by known people, all "
            f"{held_out['new films']:,} ratings of some films and all {held_out['new people']:,} by some people. "
            "Side information is what the world tells about films (year, genres, tags) and people (age, occupation, "
            "friends)."
        ),
        table("How far off predictions are", MEASURED, result.measures),
        paragraph("RMSE, where less is better. Of new films and people no rating was trained on."),
        table("By number of training ratings of the film (rows are items)", CLUSTER_COLUMNS, cluster_rows(result)),
    )
    columns = ("film", "predicted", "truth")
    rated = [(film, f"{rating:g}") for film, rating in result.somebody]
    people = [
        beside(
            table("Somebody new, who rated three films", ("film", "rating"), rated),
            table("What they would like", columns, result.recommendations),
        ),
        paragraph("Beside the prediction stands the truth of the person in this world who agrees most with them."),
        beside(
            *(
                table(f"Somebody new, who rated nothing: {described.who}", columns, described.recommendations)
                for described in result.described
            )
        ),
        paragraph("Beside the prediction stands the mean truth of the people in this world who are like that."),
    ]
    return [
        Part("demo", "The demo", measured),
        Part("new-people", "New people", section("new-people", "New people", *people)),
    ]

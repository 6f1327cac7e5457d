"""What the demo shows at its end, and its report in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cofill.cli.output import shown
from cofill.evaluation.ratings import Cluster

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


def markdown(result: DemoResult) -> str:
    """The report."""
    summary, held_out = result.summary, result.held_out
    parts = [
        "# cofill demo",
        f"{summary['ratings']:,} ratings of {summary['items']:,} generated films by {summary['users']:,} people. "
        f"Held out to measure on: {held_out['ratings']:,} ratings of known films by known people, all "
        f"{held_out['new films']:,} ratings of some films and all {held_out['new people']:,} by some people. "
        "Side information is what the world tells about films (year, genres, tags) and people (age, occupation, "
        "friends).",
        "## How far off predictions are",
        "RMSE, where less is better. Of new films and people no rating was trained on.",
        _table(MEASURED, result.measures),
        "## By number of training ratings of the film (rows are items)",
        _table(CLUSTER_COLUMNS, cluster_rows(result)),
        "## Somebody new, who rated three films",
        _table(("film", "rating"), result.somebody),
        "## What they would like",
        "Beside the prediction stands the truth of the person in this world who agrees most with those ratings.",
        _table(("film", "predicted", "truth"), result.recommendations),
    ]
    for described in result.described:
        parts += [
            f"## Somebody new, who rated nothing: {described.who}",
            "Beside the prediction stands the mean truth of the people in this world who are like that.",
            _table(("film", "predicted", "truth"), described.recommendations),
        ]
    parts += [
        f"## How the number of epochs was chosen ({result.epochs}, rows are items, with side information)",
        _table(("epoch", "loss", "validation RMSE"), result.curve),
    ]
    return "\n\n".join(parts) + "\n"


def _table(columns: tuple[str, ...], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *(tuple(shown(cell) for cell in row) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

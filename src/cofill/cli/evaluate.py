"""cofill evaluate MODEL RATINGS [--ranking]"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cofill.cli.options import add_json, add_reading, count, load_ratings
from cofill.cli.output import note, print_json, print_table
from cofill.progress import share_done

if TYPE_CHECKING:
    from cofill.data.ratings import Ratings
    from cofill.evaluation import Evaluation, RankingEvaluation
    from cofill.models.recommender import Recommender


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")
    parser.add_argument("ratings", metavar="RATINGS", help="test ratings: a file, or a data set's name")
    parser.add_argument(
        "--by",
        choices=("items", "users"),
        default="items",
        help="show errors by popularity of items or of users; --json has both (default items)",
    )
    parser.add_argument("--ranking", action="store_true", help="also measure the recommended lists (top-N metrics)")
    parser.add_argument("--top", type=count, metavar="N", help="with --ranking: length of a list (default 10)")
    parser.add_argument(
        "--relevant",
        type=float,
        metavar="RATING",
        help="with --ranking: ratings from this one on are relevant (default: the upper quarter of the scale)",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)
    add_reading(parser)
    parser.set_defaults(refuse=parser.error)


def run(options: argparse.Namespace) -> int:
    from cofill.evaluation import evaluate
    from cofill.models.recommender import Recommender

    for name in ("top", "relevant"):
        if getattr(options, name) is not None and not options.ranking:
            options.refuse(f"--{name} says how to measure lists; add --ranking")
    model = Recommender.load(options.model)
    test = load_ratings(options.ratings, options)
    seen = warn_of_data(model, test, left_out=options.ranking)
    result = evaluate(model, test)
    ranking = _ranking(model, test, options) if options.ranking else None
    if options.json:
        lists = {"ranking": ranking.as_json()} if ranking else {}
        print_json({**result.as_json(), "trained_on": seen, **lists})
        return 0
    _print_ratings(result, options)
    if ranking:
        _print_ranking(ranking)
    return 0


def _ranking(model: "Recommender", test: "Ratings", options: argparse.Namespace) -> "RankingEvaluation":
    from cofill.evaluation import evaluate_ranking

    with share_done("ranking", options.quiet) as report:
        return evaluate_ranking(model, test, n=options.top or 10, relevant=options.relevant, report=report)


def _print_ratings(result: "Evaluation", options: argparse.Namespace) -> None:
    print_table(
        f"{options.model} on {options.ratings}",
        ("RMSE", "MAE", "ratings", "of these cold"),
        [(result.rmse, result.mae, result.ratings, result.cold)],
    )
    groups = result.clusters if options.by == "items" else result.user_clusters
    rows = [
        (f"{c.share_from:.0%} to {c.share_to:.0%}", c.most_training_ratings, c.ratings, c.rmse, c.mae) for c in groups
    ]
    print_table(
        f"By number of training ratings of the {options.by.removesuffix('s')}",
        (options.by, "training ratings up to", "test ratings", "RMSE", "MAE"),
        rows,
    )


def _print_ranking(found: "RankingEvaluation") -> None:
    print_table(
        f"Lists of {found.n} for {found.users:,} users, out of all items they had not rated; relevant from "
        f"{found.relevant:g}: {found.ratings:,} ratings",
        ("NDCG", "precision", "recall", "F1", "MRR", "coverage", "novelty"),
        [(found.ndcg, found.precision, found.recall, found.f1, found.mrr, found.coverage, found.novelty)],
    )
    if found.unknown_items:
        note(f"{found.unknown_items:,} of the relevant ratings are of items that the model does not know: missed")


def warn_of_data(model: "Recommender", test: "Ratings", *, left_out: bool) -> int:
    """Count the test ratings that the model was trained on; warn about these, and about ratings outside the scale."""
    seen = model.known_pairs(test)
    if seen:
        note(
            f"warning: the model was trained on {seen:,} of these {len(test):,} ratings, so they say little about "
            f"new ones{' (lists are measured without them)' if left_out else ''}; "
            f"cut the data with `cofill split` first"
        )
    low, high = model.scale
    outside = int(((test.values < low) | (test.values > high)).sum())
    if outside:
        note(
            f"warning: {outside:,} of these {len(test):,} ratings are outside the scale {low:g} to {high:g} "
            f"of the training data, where no prediction reaches; check that they are of the same kind"
        )
    return seen

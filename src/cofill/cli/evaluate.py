"""cofill evaluate MODEL RATINGS"""

import argparse
from pathlib import Path

from cofill.cli.options import add_json, add_reading, load_ratings
from cofill.cli.output import note, print_json, print_table


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")
    parser.add_argument("ratings", metavar="RATINGS", help="test ratings: a file, or a data set's name")
    add_json(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.evaluation import evaluate
    from cofill.recommender import CFN

    model = CFN.load(options.model)
    test = load_ratings(options.ratings, options)
    seen = model.known_pairs(test)
    if seen:
        note(
            f"warning: the model was trained on {seen:,} of these {len(test):,} ratings, so they say little about "
            f"new ones; cut the data with `cofill split` first"
        )
    low, high = model.scale
    outside = int(((test.values < low) | (test.values > high)).sum())
    if outside:
        note(
            f"warning: {outside:,} of these {len(test):,} ratings are outside the scale {low:g} to {high:g} "
            f"of the training data, where no prediction reaches; check that they are of the same kind"
        )
    result = evaluate(model, test)
    if options.json:
        print_json({**result.as_json(), "trained_on": seen})
        return 0
    print_table(
        f"{options.model} on {options.ratings}",
        ("RMSE", "MAE", "ratings", "of these cold"),
        [(result.rmse, result.mae, result.ratings, result.cold)],
    )
    print_table(
        "By number of training ratings of the item",
        ("items", "training ratings up to", "test ratings", "RMSE"),
        [
            (f"{c.share_from:.0%} to {c.share_to:.0%}", c.most_training_ratings, c.ratings, c.rmse)
            for c in result.clusters
        ],
    )
    return 0

"""How good are predictions for users the model has never seen, after their first few ratings?

    COFILL_DATA=folder python benchmarks/fold_in.py

A tenth of the users of MovieLens-1M is kept out of the training altogether. Each then gives a few ratings, which are
added to the model without training, and the rest of their ratings are predicted.
"""

import argparse
import copy

import numpy as np

from cofill import CFN, Evaluation, Ratings, evaluate, load_dataset, split
from cofill.cli.options import name_and_value


def first_ratings(ratings: Ratings, count: int, seed: int) -> tuple[Ratings, Ratings]:
    """Of each user `count` ratings at random, and the others."""
    order = np.random.default_rng(seed).permutation(len(ratings))
    by_user = order[np.argsort(ratings.user_index[order], kind="stable")]
    starts = np.searchsorted(ratings.user_index[by_user], ratings.user_index[by_user])
    chosen = np.zeros(len(ratings), np.bool_)
    chosen[by_user[np.arange(len(ratings)) - starts < count]] = True
    return ratings.select(chosen), ratings.select(~chosen)


def means(train: Ratings, given: Ratings, asked: Ratings, damping: float = 5.0) -> float:
    """RMSE of the damped mean of the item plus the damped deviation of the user."""
    overall = float(train.values.mean())
    items = len(train.items)
    counts = np.bincount(train.item_index, minlength=items)
    item = np.bincount(train.item_index, weights=train.values - overall, minlength=items) / (counts + damping)
    left = given.values - overall - item[given.item_index]
    users = len(train.users)
    user = np.bincount(given.user_index, weights=left, minlength=users) / (
        np.bincount(given.user_index, minlength=users) + damping
    )
    predicted = np.clip(overall + item[asked.item_index] + user[asked.user_index], *train.scale)
    return float(np.sqrt(np.mean((predicted - asked.values) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", type=name_and_value, default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    train, test = split(load_dataset("ml-1m", quiet=True), "cold-users", 0.9, options.seed)
    models = {o: CFN(orientation=o, seed=options.seed, **dict(options.set)).fit(train) for o in ("item", "user")}
    for count in (1, 5, 10, 20):
        given, asked = first_ratings(test, count, options.seed)
        figures: dict[str, float] = {"means": means(train, given, asked)}
        for orientation, model in models.items():
            warm: Evaluation = evaluate(_with(model, given), asked)
            figures[f"rows are {orientation}s"] = warm.rmse
        print(f"{count:3} ratings: " + "  ".join(f"{name} {value:.4f}" for name, value in figures.items()), flush=True)


def _with(model: CFN, ratings: Ratings) -> CFN:
    """A copy of the model that knows these ratings too."""
    return copy.deepcopy(model).add_ratings(ratings)


if __name__ == "__main__":
    main()

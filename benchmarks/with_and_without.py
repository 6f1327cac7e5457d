"""A data set by name without and with the side information that it brings.

    COFILL_DATA=folder python benchmarks/with_and_without.py monti-douban      its published split, seeds 0 to 4
    COFILL_DATA=folder python benchmarks/with_and_without.py monti-flixster    the same (or monti-yahoo-music)
    COFILL_DATA=folder python benchmarks/with_and_without.py movietweetings    random 90/10, splits 0 to 4

Every test rating counts, and no test part chooses anything.
"""

import argparse
import warnings
from collections.abc import Iterator

from cofill import CFN, Ratings, evaluate, load_dataset, load_side_information, split
from cofill.cli.options import name_and_value
from cofill.data.datasets import UnpublishedFileWarning, dataset, published_folds
from cofill.evaluation import Interval


def parts(name: str, seeds: int) -> Iterator[tuple[int, Ratings, Ratings]]:
    """Seed, training part, test part."""
    if dataset(name).folds:
        ((train, test),) = published_folds(name, quiet=True)
        for seed in range(seeds):
            yield seed, train, test
        return
    ratings = load_dataset(name, quiet=True)
    for seed in range(seeds):
        yield seed, *split(ratings, "random", 0.9, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=("monti-douban", "monti-flixster", "monti-yahoo-music", "movietweetings"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", action="append", type=name_and_value, default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    settings = dict(options.set)
    side = load_side_information(options.dataset, quiet=True)
    print("| rows | plain | with side information | improvement |")
    print("|---|---|---|---|")
    for orientation in ("item", "user"):
        pairs = []
        for seed, train, test in parts(options.dataset, options.seeds):
            plain = CFN(orientation=orientation, seed=seed, **settings).fit(train)
            hybrid = CFN(orientation=orientation, seed=seed, **settings).fit(
                train, item_features=side.items, user_features=side.users
            )
            pairs.append((evaluate(plain, test).rmse, evaluate(hybrid, test).rmse))
        before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        gain = Interval.of([(1 - b / a) * 100 for a, b in pairs]).text(2, " %")
        print(f"| {orientation}s | {Interval.of(before)} | {Interval.of(after)} | {gain} |", flush=True)


if __name__ == "__main__":
    main()

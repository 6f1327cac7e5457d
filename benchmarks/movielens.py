"""RMSE on MovieLens, honestly: settings and epochs come from validation data, never from a test part.

    COFILL_DATA=folder python benchmarks/movielens.py ml-1m                 random 90/10, seeds 0 to 4
    COFILL_DATA=folder python benchmarks/movielens.py ml-100k               the published folds u1 to u5

Every test rating counts, cold ones too. With --json the figures of every run are printed as one document.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator

from cofill import CFN, Ratings, evaluate, load_dataset, split
from cofill.data.datasets import UnpublishedFileWarning, published_folds
from cofill.evaluation import Interval


def parts(dataset: str, seeds: int) -> Iterator[tuple[int, Ratings, Ratings]]:
    """Seed, training part, test part."""
    if dataset == "ml-100k":
        for seed, (train, test) in enumerate(published_folds(dataset, quiet=True)):
            yield seed, train, test
        return
    ratings = load_dataset(dataset, quiet=True)
    for seed in range(seeds):
        yield seed, *split(ratings, "random", 0.9, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=("ml-1m", "ml-100k"))
    parser.add_argument("--orientation", choices=("item", "user"), action="append")
    parser.add_argument("--seeds", type=int, default=5, help="splits of ml-1m (default 5)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    document = []
    for orientation in options.orientation or ["item", "user"]:
        runs = []
        for seed, train, test in parts(options.dataset, options.seeds):
            started = time.perf_counter()
            model = CFN(orientation=orientation, seed=seed).fit(train)
            seconds = time.perf_counter() - started
            result = evaluate(model, test)
            runs.append({"seed": seed, "rmse": result.rmse, "mae": result.mae, **model.measures, "seconds": seconds})
            if not options.json:
                print(
                    f"{options.dataset} {orientation} {seed}: RMSE {result.rmse:.4f}  MAE {result.mae:.4f}  "
                    f"validation {model.measures['validation_rmse']:.4f}  epochs {model.measures['epochs']}  "
                    f"{seconds:.1f} s",
                    flush=True,
                )
        found = Interval.of([float(run["rmse"] or 0) for run in runs])
        document.append({"orientation": orientation, "rmse": found.mean, "interval95": found.half_width, "runs": runs})
        if not options.json:
            print(f"{options.dataset} {orientation}: RMSE {found} (95 %)", flush=True)
    if options.json:
        print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()

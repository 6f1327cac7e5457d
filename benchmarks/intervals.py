"""Do 90 % intervals hold 90 % of unseen ratings, and is the validation RMSE that of a test?

    python benchmarks/intervals.py [SET ...] [--seeds N] [--json]

A tenth of each set is left out at random, and a model with the defaults is trained on the rest. Shown are the share of
the tenth that intervals hold, overall and in fifths of the items by popularity; the validation RMSE beside the RMSE of
the tenth; and how long predicting the tenth with intervals takes beside the training. With several seeds the mean
difference of both RMSEs stands below, with its standard error: that of one split is mostly chance.
"""

import argparse
import json
import time
from collections.abc import Iterator
from statistics import mean, stdev

from any_data_sets import at_hand, loaded
from cofill import CFN, evaluate, split

SETS = ("ml-100k", "ml-1m", "movietweetings", "monti-douban")


def measure(name: str, seed: int) -> dict[str, object]:
    train, test = split(loaded(name), "random", 0.9, seed)
    started = time.perf_counter(), time.process_time()
    model = CFN(seed=seed).fit(train)
    trained = time.perf_counter(), time.process_time()
    found = evaluate(model, test, intervals=True)
    ended = time.perf_counter(), time.process_time()
    validation = model.measures["validation_rmse"]
    assert isinstance(validation, float)
    fifths = [cluster for cluster in found.clusters if cluster.ratings]
    return {
        "set": name,
        "seed": seed,
        "within": found.within_interval,
        "fifths": [cluster.within_interval for cluster in fifths],
        "ratings": [cluster.ratings for cluster in fifths],
        "rmse": found.rmse,
        "validation_rmse": validation,
        "off": validation / found.rmse - 1,
        "train_seconds": trained[0] - started[0],
        "evaluate_to_train": (ended[0] - trained[0]) / (trained[0] - started[0]),
        "evaluate_to_train_processor": (ended[1] - trained[1]) / (trained[1] - started[1]),
    }


def measured(sets: list[str], seeds: int) -> Iterator[dict[str, object]]:
    for name in sets:
        for seed in range(seeds):
            if at_hand(name):
                yield measure(name, seed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS, metavar="SET", help=f"of {', '.join(SETS)}")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="splits of each set")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each split")
    options = parser.parse_args()
    if not options.json:
        print("set             seed  within  by fifths of popularity          RMSE    validation  off      evaluate")
    differences: dict[str, list[float]] = {}
    for found in measured(list(options.sets), options.seeds):
        if options.json:
            print(json.dumps(found), flush=True)
            continue
        assert isinstance(found["off"], float)
        differences.setdefault(str(found["set"]), []).append(found["off"])
        fifths = found["fifths"]
        assert isinstance(fifths, list)
        print(
            f"{found['set']:<15} {found['seed']:>4}  {found['within']:.2%}  "
            f"{' '.join(f'{share:.1%}' for share in fifths):<31}  {found['rmse']:.4f}  "
            f"{found['validation_rmse']:.4f}      {found['off']:+.2%}   "
            f"{found['evaluate_to_train']:.2f} of the training",
            flush=True,
        )
    for name, off in differences.items():
        if len(off) > 1:
            print(f"{name:<15} mean  validation off by {mean(off):+.2%} ± {stdev(off) / len(off) ** 0.5:.2%}")


if __name__ == "__main__":
    main()

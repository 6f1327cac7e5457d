"""What users do next: NDCG@10 and HR@10 of lists that know order and time, beside those that do not.

    COFILL_DATA=folder python benchmarks/next_items.py ml-100k ml-1m movietweetings beauty --json

Every rating is an interaction. Users and items with fewer than five of them are left out, again and again (5-core);
equal times keep the order of the file.

last      the last interaction of each user is the test
time      all interactions after the 90 % quantile of time: the next item of returning users, all their later items, and
          the last item of everybody, with what they did before it folded in
random    a tenth of the interactions, drawn at random: lists must be those without order
shuffled  as last, with the times of each user shuffled: order tells nothing

A name is that of a data set, or of a file with the columns user, item and time, or a folder in COFILL_DATA that has
`interactions.csv` or `ratings.dat`. Intervals are 95 % over users. No test part chooses anything.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cofill import Interactions, algorithm, evaluate_ranking, load_dataset, split
from cofill.data.datasets import UnpublishedFileWarning, catalogue
from cofill.data.ratings import Ratings
from cofill.data.splits import leave_last_out_split, time_split
from cofill.evaluation import MeasuredLists, evaluate_next
from cofill.evaluation.next_items import fitted_beside
from cofill.models.recommender import Recommender

PROTOCOLS = ("last", "time", "random", "shuffled")


def interactions_of(name: str) -> Ratings:
    folder = Path(os.environ.get("COFILL_DATA", ".")) / name
    if (folder / "interactions.csv").exists():
        found: Ratings = Interactions.read(folder / "interactions.csv", time="order")
    elif name in catalogue() or (folder / "ratings.dat").exists():
        rated = load_dataset(name, quiet=True) if name in catalogue() else Ratings.read(folder / "ratings.dat")
        found = replace(Interactions.read(rated.to_polars().select("user", "item", "time")), order=rated.order)
    else:
        found = Interactions.read(name)
    found = replace(found, values=np.ones(len(found), np.float32))
    while True:  # 5-core
        few = [np.bincount(index)[index] < 5 for index in (found.user_index, found.item_index)]
        if not (few[0] | few[1]).any():
            return replace(Interactions.read(found.to_polars()), order=found.order)
        found = found.select(~few[0])
        found = found.select(np.bincount(found.item_index)[found.item_index] >= 5)


def shuffled(ratings: Ratings, seed: int) -> Ratings:
    """The same with the times of each user in random order."""
    assert ratings.times is not None
    rng, times = np.random.default_rng(seed), ratings.times.copy()
    ends = np.searchsorted(ratings.user_index, np.arange(len(ratings.users) + 1))
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        times[first:last] = rng.permutation(times[first:last])
    return replace(ratings, times=times, order=rng.permutation(len(ratings)))


def measures(found: MeasuredLists) -> dict[str, float]:
    of_users = found.of_users[f"ndcg@{found.n}"]
    return {
        "ndcg": found.ndcg,
        "ndcg_interval": 1.96 * float(of_users.std(ddof=1)) / np.sqrt(len(of_users)),
        "hit_rate": found.recall,
        "users": float(len(of_users)),
    }


def tell(text: str, quiet: bool) -> None:
    if not quiet:
        print(text, file=sys.stderr, flush=True)


def fitted(train: Ratings, beside: bool, quiet: bool) -> Iterator[tuple[str, Recommender, float]]:
    begin = time.perf_counter()
    model = algorithm("lists")().fit(train)
    seconds = time.perf_counter() - begin
    tell(f"  {model.data_summary.get('lists', 'lists without order')} [{seconds:.0f} s]", quiet)
    yield "cofill", model, seconds
    if beside:
        for name, other in fitted_beside(train).items():
            tell(f"  fitted {name}", quiet)
            yield name, other, 0.0


def measured(data: Ratings, protocol: str, beside: bool, quiet: bool) -> dict[str, dict[str, Any]]:
    if protocol == "time":
        train, test = time_split(data)
    elif protocol == "random":
        train, test = split(data, "random", 0.9, 0)
    else:
        train, test = leave_last_out_split(shuffled(data, 0) if protocol == "shuffled" else data)
    questions = {"time": ("next", "all", "last"), "random": ("random",)}.get(protocol, ("next",))
    result: dict[str, dict[str, Any]] = {}
    for name, model, seconds in fitted(train, beside, quiet):
        for question in questions:
            if question == "random":
                found = evaluate_ranking(model, test)
            else:
                found = evaluate_next(model, test, question=question)  # type: ignore[arg-type]
            result.setdefault(name, {})[question] = measures(found)
        if seconds:
            result[name]["seconds"] = seconds
            result[name]["lists"] = model.data_summary.get("lists")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=PROTOCOLS)
    parser.add_argument("--alone", action="store_true", help="without the baselines")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    report: dict[str, dict[str, Any]] = {}
    for name in options.sets:
        data = interactions_of(name)
        dated = data.times is not None and float(data.times.max()) >= 1e8
        for protocol in options.protocols:
            if protocol == "time" and not dated:
                continue
            tell(f"{name}, {protocol}: {data!r}", options.quiet)
            found = measured(data, protocol, not options.alone, options.quiet)
            report.setdefault(name, {})[protocol] = found
            if not options.json:
                for model, own in found.items():
                    shown = [
                        f"{q} {one['ndcg']:.4f} +- {one['ndcg_interval']:.4f}, HR {one['hit_rate']:.4f}"
                        for q, one in own.items()
                        if isinstance(one, dict)
                    ]
                    print(f"{name:16} {protocol:9} {model:18} " + "   ".join(shown), flush=True)
    if options.json:
        print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()

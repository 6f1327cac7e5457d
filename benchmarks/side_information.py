"""What side information changes on MovieLens-1M: random splits by popularity of the films, new films, new people.

    COFILL_DATA=folder python benchmarks/side_information.py              everything: about an hour on two cores
    COFILL_DATA=folder python benchmarks/side_information.py random half  only these

random, half   train on 90 % or 50 % of the ratings, without and with side information
cold-items     all ratings of a tenth of the films are held out
cold-users     all ratings of a tenth of the users are held out
five           as cold-items, and half of the other films keep only five ratings each; what they lost is a second test

Side information: users.dat and movies.dat, and from the same folder the tags of MovieLens-10M (ml-10m-side/tags.dat)
and movie-texts.csv. Splits have the seeds 0 to 4. Every run is appended to --keep, and what is there is not run again.
Every test rating counts, and no test part chooses anything.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cofill import CFN, Ratings, evaluate, load_dataset, split
from cofill.cli.options import name_and_value
from cofill.data.datasets import UnpublishedFileWarning, side_information
from cofill.data.features import Features
from cofill.evaluation import Evaluation, Interval
from cofill.models.biases import Biases

EXPERIMENTS = ("random", "half", "cold-items", "cold-users", "five")
ORIENTATIONS = ("item", "user")
Parts = dict[str, Ratings]


@cache
def features() -> tuple[Features, Features]:
    """Of items and of users."""
    own = side_information("ml-1m", quiet=True)
    folder = Path(os.environ["COFILL_DATA"])
    tags = Features.read(folder / "ml-10m-side" / "tags.dat", kind="tags")
    texts = Features.read(folder / "ml-1m" / "movie-texts.csv")
    assert own.items is not None
    assert own.users is not None
    return Features.join([own.items, tags, texts]), own.users


@cache
def all_ratings() -> Ratings:
    return load_dataset("ml-1m", quiet=True)


def parts(experiment: str, seed: int) -> tuple[Ratings, Parts]:
    """The training part, and each test part by its name."""
    ratings = all_ratings()
    if experiment in ("random", "half"):
        train, test = split(ratings, "random", 0.9 if experiment == "random" else 0.5, seed)
        return train, {"test": test}
    if experiment == "cold-users":
        train, test = split(ratings, "cold-users", 0.9, seed)
        return train, {"cold users": test}
    train, test = split(ratings, "cold-items", 0.9, seed)
    if experiment == "cold-items":
        return train, {"cold films": test}
    kept = five_each(train, np.random.default_rng(seed))
    return train.select(kept), {"cold films": test, "films with five ratings": train.select(~kept)}


def five_each(ratings: Ratings, rng: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """(n,): all ratings of one half of the films, and five of each film of the other half."""
    cut = rng.permutation(len(ratings.items))[: len(ratings.items) // 2]
    order = rng.permutation(len(ratings))
    order = order[np.argsort(ratings.item_index[order], kind="stable")]  # by film, in random order within one
    films = ratings.item_index[order]
    place = np.arange(len(order)) - np.searchsorted(films, films)  # among the ratings of its film
    kept = np.zeros(len(ratings), np.bool_)
    kept[order] = ~np.isin(films, cut) | (place < 5)
    return kept


def runs(chosen: list[str], seeds: int) -> Iterator[dict[str, Any]]:
    for experiment in chosen:
        variants = ("plain", "side") if experiment in ("random", "half") else ("means", "side")
        for seed in range(seeds):
            for variant in variants:
                for orientation in ORIENTATIONS if variant != "means" else ("item",):
                    yield {"experiment": experiment, "seed": seed, "variant": variant, "orientation": orientation}


def measured(run: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """RMSE of one run on each of its test parts."""
    train, tests = parts(run["experiment"], run["seed"])
    started = time.perf_counter()
    if run["variant"] == "means":
        results = {name: _rmse_of_means(train, test) for name, test in tests.items()}
        overall = float(train.values.mean())
        everybody = {name: float(np.sqrt(np.mean((test.values - overall) ** 2))) for name, test in tests.items()}
        return run | {"rmse": results, "everybody": everybody}
    items, users = features() if run["variant"] == "side" else (None, None)
    model = CFN(orientation=run["orientation"], seed=run["seed"], **settings)
    model.fit(train, item_features=items, user_features=users)
    seconds = time.perf_counter() - started
    found: dict[str, Evaluation] = {name: evaluate(model, test) for name, test in tests.items()}
    return run | {
        "rmse": {name: result.rmse for name, result in found.items()},
        "clusters": {name: [cluster.rmse for cluster in result.clusters] for name, result in found.items()},
        "seconds": seconds,
        **model.measures,
    }


def _rmse_of_means(train: Ratings, test: Ratings) -> float:
    rows, columns = train.rows("item"), train.rows("user")
    no_rows, no_columns = (np.zeros((count, 0), np.float32) for count in (rows.rows, rows.columns))
    means = Biases(rows, columns, 7.0, row_features=no_rows, column_features=no_columns)
    predicted = means.overall + means.row[test.item_index] + means.column[test.user_index]
    return float(np.sqrt(np.mean((np.clip(predicted, *train.scale) - test.values) ** 2)))


def table(results: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of Markdown."""

    def of(experiment: str, variant: str, orientation: str) -> list[dict[str, Any]]:
        wanted = (experiment, variant, orientation)
        found = [r for r in results if (r["experiment"], r["variant"], r["orientation"]) == wanted]
        return sorted(found, key=lambda r: int(r["seed"]))

    def shown(values: list[float], digits: int = 4, unit: str = "") -> str:
        return Interval.of(values).text(digits, unit)

    for experiment, share in (("random", "90/10"), ("half", "50/50")):
        for orientation in ORIENTATIONS:
            plain, side = of(experiment, "plain", orientation), of(experiment, "side", orientation)
            if not plain or len(plain) != len(side):
                continue
            yield f"\n{share}, rows are {orientation}s, {len(plain)} splits\n"
            yield "| films, from the least rated | plain | with side information | improvement |"
            yield "|---|---|---|---|"
            for cluster in (None, *range(5)):
                pairs = [
                    (p["rmse"]["test"], s["rmse"]["test"])
                    if cluster is None
                    else (p["clusters"]["test"][cluster], s["clusters"]["test"][cluster])
                    for p, s in zip(plain, side, strict=True)
                ]
                name = "all" if cluster is None else f"{cluster * 20} to {cluster * 20 + 20} %"
                gains = [(1 - s / p) * 100 for p, s in pairs]
                yield (
                    f"| {name} | {shown([p for p, _ in pairs])} | {shown([s for _, s in pairs])} "
                    f"| {shown(gains, 2, ' %')} |"
                )
    cold = [(e, name) for e in EXPERIMENTS[2:] for name in (of(e, "means", "item") or [{"rmse": {}}])[0]["rmse"]]
    if cold:
        yield "\n| | everybody's mean | fitted means | rows are items | rows are users | better than the means |"
        yield "|---|---|---|---|---|---|"
    for experiment, name in cold:
        means = of(experiment, "means", "item")
        sides = {o: [r["rmse"][name] for r in of(experiment, "side", o)] for o in ORIENTATIONS}
        if any(len(values) != len(means) for values in sides.values()):
            continue
        fitted, everybody = [r["rmse"][name] for r in means], [r["everybody"][name] for r in means]
        gains = [
            shown([(1 - s / m) * 100 for s, m in zip(sides[o], fitted, strict=True)], 1, " %") for o in ORIENTATIONS
        ]
        label = f"{name}, half of the others with five" if experiment == "five" and name == "cold films" else name
        yield (
            f"| {label} | {shown(everybody)} | {shown(fitted)} "
            f"| {shown(sides['item'])} | {shown(sides['user'])} | {gains[0]} and {gains[1]} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="*", choices=EXPERIMENTS, default=EXPERIMENTS, metavar="EXPERIMENT")
    parser.add_argument("--seeds", type=int, default=5, help="splits of each experiment (default 5)")
    parser.add_argument("--keep", type=Path, default=Path("side-information.jsonl"), help="finished runs, a line each")
    parser.add_argument("--set", action="append", type=name_and_value, default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    keys = ("experiment", "seed", "variant", "orientation")
    lines = options.keep.read_text(encoding="utf-8").splitlines() if options.keep.exists() else []
    results = [json.loads(line) for line in lines]
    todo = list(runs(list(options.experiments), options.seeds))
    for number, run in enumerate(todo, 1):
        if any(all(done[key] == run[key] for key in keys) for done in results):
            continue
        result = measured(run, dict(options.set))
        results.append(result)
        with options.keep.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        print(f"{number} of {len(todo)}: {' '.join(str(run[key]) for key in keys)}: {result['rmse']}", flush=True)
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()

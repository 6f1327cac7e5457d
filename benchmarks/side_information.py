"""What side information changes: warm, cold and both, with and without it, beside myFM with the same features.

    COFILL_DATA=folder python benchmarks/side_information.py                           everything: hours
    COFILL_DATA=folder python benchmarks/side_information.py --sets ml-100k --splits cold-items --models item item+f

Sets: ml-100k, ml-1m and ml-1m-300k (300,000 of its ratings) with genres, year, age, sex and occupation; ml-1m-texts
also with people, country, language and plot (movie-texts.csv) and tags (ml-10m-side/tags.dat) from the folder; demo,
the world of `cofill demo`, and demo-wide, also with its tags and friends; featured, a world whose tastes follow
features; if they are named, monti-douban, monti-flixster, monti-yahoo-music and movietweetings with what they bring.
Splits: random 90/10 (of monti-... the published one, where seeds are of the model alone); half; cold-items and
cold-users, all ratings of a tenth of them; cold-both, ratings of those users of those items; five, as cold-items with
five ratings of each item of half of the others, which are the test part.
Models: means; item, user and both, a CFN of that orientation; myfm (rank 12, 200 rounds; 8 and 120 from 200,000 ratings
on). +f: with side information.

Splits have the seeds 0 to --seeds - 1. Every run is appended to --keep, and what is there is not run again. Every test
rating counts, and no test part chooses anything. The fifth of the items with the fewest ratings is measured, too.
"""

import argparse
import contextlib
import io
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from any_data_sets import featured
from cofill import CFN, Ratings, load_dataset, split
from cofill.cli.options import name_and_value
from cofill.data.datasets import UnpublishedFileWarning, published_folds, side_information
from cofill.data.datasets.world import make_world
from cofill.data.features import Features
from cofill.evaluation import Interval
from cofill.models.bias_models import Means

SETS = ("ml-100k", "ml-1m-300k", "ml-1m", "ml-1m-texts", "demo", "demo-wide", "featured")
FURTHER = ("monti-douban", "monti-flixster", "monti-yahoo-music", "movietweetings")
SPLITS = ("random", "half", "cold-items", "cold-users", "cold-both", "five")
MODELS = ("means", "means+f", "item", "item+f", "user", "user+f", "both", "both+f", "myfm", "myfm+f")
Doubles = npt.NDArray[np.float64]
Described = tuple[Ratings, Features | None, Features | None]
"""Ratings, and features of users and of items."""


@cache
def described(name: str) -> Described:
    if name.startswith("demo"):
        return demo(wide=name == "demo-wide")
    if name in FURTHER:
        brought = side_information(name, quiet=True)
        return load_dataset(name, quiet=True), brought.users, brought.items
    own = side_information("ml-100k" if name == "ml-100k" else "ml-1m", quiet=True)
    ratings = load_dataset("ml-100k" if name == "ml-100k" else "ml-1m", quiet=True)
    if name == "ml-1m-300k":
        ratings = ratings.select(np.random.default_rng(0).permutation(len(ratings)) < 300_000)
    if name != "ml-1m-texts":
        return ratings, own.users, own.items
    folder = Path(os.environ["COFILL_DATA"])
    tags = Features.read(folder / "ml-10m-side" / "tags.dat", kind="tags")
    texts = Features.read(folder / "ml-1m" / "movie-texts.csv")
    assert own.items is not None
    return ratings, own.users, Features.join([own.items, tags, texts])


def demo(*, wide: bool) -> Described:
    made = make_world(users=1500, items=800, ratings=150_000, seed=0)
    with tempfile.TemporaryDirectory() as name:
        folder = made.write(Path(name) / "world")
        items, users = (
            [Features.read(folder / "movies.csv", columns={"title": "skip"})],
            [Features.read(folder / "users.csv")],
        )
        if wide:
            items.append(Features.read(folder / "tags.csv"))
            users.append(Features.read(folder / "friends.csv", kind="links", name="friends"))
    return made.ratings, Features.join(users), Features.join(items)


@cache
def parts(name: str, kind: str, seed: int) -> tuple[Ratings, Ratings, Features | None, Features | None]:
    """Training and test part, and features of users and of items."""
    if name == "featured":
        made = featured(False, seed)
        return made.train, made.test, made.user_features, made.item_features
    ratings, users, items = described(name)
    if kind == "random" and name.startswith("monti"):
        ((train, test),) = published_folds(name, quiet=True)
    elif kind in ("random", "half"):
        train, test = split(ratings, "random", 0.9 if kind == "random" else 0.5, seed)
    elif kind == "five":
        train, test = five_each(split(ratings, "cold-items", 0.9, seed)[0], np.random.default_rng(seed))
    elif kind == "cold-both":
        rng = np.random.default_rng(seed)
        user, item = (rng.random(len(ids)) < 0.1 for ids in (ratings.users, ratings.items))
        of_user, of_item = user[ratings.user_index], item[ratings.item_index]
        train, test = ratings.select(~of_user & ~of_item), ratings.select(of_user & of_item)
    else:
        train, test = split(ratings, "cold-items" if kind == "cold-items" else "cold-users", 0.9, seed)
    return train, test, users, items


def five_each(ratings: Ratings, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
    """All ratings of one half of the items and five of each item of the other half; and what these lost."""
    cut = rng.permutation(len(ratings.items))[: len(ratings.items) // 2]
    order = rng.permutation(len(ratings))
    order = order[np.argsort(ratings.item_index[order], kind="stable")]  # by item, in random order within one
    items = ratings.item_index[order]
    place = np.arange(len(order)) - np.searchsorted(items, items)  # among the ratings of its item
    kept = np.zeros(len(ratings), np.bool_)
    kept[order] = ~np.isin(items, cut) | (place < 5)
    return ratings.select(kept), ratings.select(~kept)


def pairs(ratings: Ratings) -> list[tuple[Any, Any]]:
    users, items = ratings.users.array()[ratings.user_index], ratings.items.array()[ratings.item_index]
    return list(zip(users.tolist(), items.tolist(), strict=True))


def measured(run: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """RMSE of one run."""
    train, test, users, items = parts(run["set"], run["split"], run["seed"])
    name, seed = run["model"].removesuffix("+f"), run["seed"]
    if not run["model"].endswith("+f"):
        users = items = None
    started, used = time.perf_counter(), time.process_time()
    if name == "myfm":
        predicted: npt.NDArray[np.floating] = by_myfm(train, test, users, items, seed)
    else:
        model = Means() if name == "means" else CFN(orientation=name, seed=seed, **settings)
        model.fit(train, user_features=users, item_features=items)
        predicted = model.predict(pairs(test))
    errors = np.clip(predicted, *train.scale) - test.values
    counts = np.bincount(train.item_index, minlength=len(train.items))
    asked = train.items.find(test.items.array())[test.item_index]
    rare = np.where(asked >= 0, counts[asked], 0) <= np.quantile(counts[counts > 0], 0.2)
    return run | {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "rarest fifth": float(np.sqrt(np.mean(errors[rare] ** 2))) if rare.any() else None,
        "ratings": len(train),
        "seconds": time.perf_counter() - started,
        "processor seconds": time.process_time() - used,
    }


def by_myfm(train: Ratings, test: Ratings, users: Features | None, items: Features | None, seed: int) -> Doubles:
    """Ids, where they have ratings, and features, where they are known, of either side as relation blocks."""
    from scipy import sparse

    from peer_libraries.with_myfm import imported

    library = imported()
    blocks: list[tuple[Any, ...]] = []
    groups: list[int] = []
    for side, features in (("user", users), ("item", items)):
        ids = getattr(train, f"{side}s")
        index = getattr(train, f"{side}_index")
        asked = ids.find(getattr(test, f"{side}s").array())
        known = np.isin(np.arange(len(ids)), index)
        eye = sparse.diags(known.astype(np.float64), format="csr")
        of_test = sparse.vstack([eye, sparse.csr_matrix((1, len(ids)))], format="csr")[asked]
        parts: list[tuple[Any, ...]] = [(eye, of_test)]
        groups.append(len(ids))
        if features is not None:
            parts.append(
                tuple(
                    sparse.csr_matrix(features.aligned(some), dtype=np.float64)
                    for some in (ids, getattr(test, f"{side}s"))
                )
            )
            groups.append(features.width)
        blocks.append(
            tuple(
                library.RelationBlock(
                    places.astype(np.int64), sparse.hstack([part[at] for part in parts], format="csr")
                )
                for at, places in enumerate((index, getattr(test, f"{side}_index")))
            )
        )
    rank, rounds = (8, 120) if len(train) > 200_000 else (12, 200)
    model = library.MyFMRegressor(rank=rank, random_seed=seed)
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
        model.fit(
            None, train.values.astype(np.float64), X_rel=[block[0] for block in blocks], group_shapes=groups,
            n_iter=rounds, n_kept_samples=rounds - 5,
        )  # fmt: skip
    found: Doubles = model.predict(None, [block[1] for block in blocks])
    return found


def table(results: list[dict[str, Any]], models: list[str]) -> Iterator[str]:
    """Lines of Markdown: the mean over the splits that all of a row's models have, and the best one's name."""
    yield "| set | split | splits | " + " | ".join(models) + " |"
    yield "|---" * (len(models) + 3) + "|"
    for name in (*SETS, *FURTHER):
        for kind in SPLITS:
            rows = {
                model: {
                    r["seed"]: r["rmse"] for r in results if (r["set"], r["split"], r["model"]) == (name, kind, model)
                }
                for model in models
            }
            seeds = sorted(set.intersection(*(set(row) for row in rows.values() if row))) if any(rows.values()) else []
            if seeds:
                cells = [Interval.of([row[seed] for seed in seeds]).text() if row else "" for row in rows.values()]
                yield f"| {name} | {kind} | {len(seeds)} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=(*SETS, *FURTHER), default=list(SETS), metavar="SET")
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=list(SPLITS), metavar="SPLIT")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL")
    parser.add_argument("--seeds", type=int, default=3, help="splits of each kind (default 3)")
    parser.add_argument("--keep", type=Path, default=Path("side-information.jsonl"), help="finished runs, a line each")
    parser.add_argument("--json", action="store_true", help="print all runs as JSON instead of a table")
    parser.add_argument(
        "--set", action="append", type=name_and_value, default=[], metavar="NAME=VALUE", help="of a CFN"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    keys = ("set", "split", "seed", "model")
    lines = options.keep.read_text(encoding="utf-8").splitlines() if options.keep.exists() else []
    results = [json.loads(line) for line in lines]
    models = list(options.models)
    if find_spec("myfm") is None and any(model.startswith("myfm") for model in models):
        print("myfm is not installed: it is missing in the table", file=sys.stderr)
        models = [model for model in models if not model.startswith("myfm")]
    todo = [
        dict(zip(keys, (name, kind, seed, model), strict=True))
        for name in options.sets
        for kind in options.splits
        if name != "featured" or kind == "random"
        for seed in range(options.seeds)
        for model in models
    ]
    for number, run in enumerate(todo, 1):
        if any(all(done[key] == run[key] for key in keys) for done in results):
            continue
        result = measured(run, dict(options.set))
        results.append(result)
        with options.keep.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        told = f"{number} of {len(todo)}: {' '.join(str(run[key]) for key in keys)}: {result['rmse']:.4f}"
        print(told, file=sys.stderr, flush=True)
    print(json.dumps(results, indent=1) if options.json else "\n".join(table(results, models)))


if __name__ == "__main__":
    main()

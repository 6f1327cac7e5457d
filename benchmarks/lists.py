"""What lists are worth beyond `cofill reproduce ranking`, on any data set by its name.

    COFILL_DATA=folder python benchmarks/lists.py cold-items newcomers interactions diversity similar slots
    COFILL_DATA=folder python benchmarks/lists.py cold-items --dataset ml-100k --splits 2

cold-items     all ratings of a tenth of the items are held out; lists among these alone, by features and by popularity
cold-users     all ratings of a tenth of the users are held out; their lists, by features and by popularity
newcomers      a tenth of the users is folded in with 5, 10 and 20 ratings, beside the same people as trained users
interactions   ratings dropped to pairs: recall@20 and NDCG@100 of cofill, EASE, iALS and popularity
diversity      what `diversity` costs in NDCG, and how much less alike the items of a list are
similar        do people who liked A choose B? held-out liking of the ten items most similar to one that was liked
slots          shares of the places of lists by how often the item was rated, by list and by rating

Splits have the seeds 0 to 4, and no test part chooses anything. movie-texts.csv beside MovieLens-1M is used if it is
there. `--dataset beauty` is for cold-items: interactions.csv (user, item) and item-tags.csv (item, tag) in its folder.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cofill import Interactions, Ratings, algorithm, evaluate_ranking, load_dataset, split
from cofill.data.datasets import UnpublishedFileWarning, side_information
from cofill.data.features import Features
from cofill.data.splits import at_most_each, strong_generalisation_split
from cofill.evaluation import Interval, evaluate_newcomers
from cofill.models.bias_models import ListModel
from cofill.models.recommender import Recommender

Row = tuple[str, dict[str, float]]


@cache
def ratings_of(dataset: str) -> Ratings:
    if dataset == "beauty":
        return Interactions.read(Path(os.environ["COFILL_DATA"]) / dataset / "interactions.csv")
    return load_dataset(dataset, quiet=True)


@cache
def item_features(dataset: str) -> tuple[tuple[str, Features], ...]:
    """Features of items, from little to much."""
    if dataset == "beauty":
        return (("tags", Features.read(Path(os.environ["COFILL_DATA"]) / dataset / "item-tags.csv")),)
    own = side_information(dataset, quiet=True).items
    found: list[tuple[str, Features]] = []
    if own is not None:
        found.append(("the data set's own features", own))
        texts = Path(os.environ.get("COFILL_DATA", ".")) / dataset / "movie-texts.csv"
        if texts.exists():
            found.append(("with people, country, plot", Features.join([own, Features.read(texts)])))
            wider = Features.join([own, Features.read(texts, reduce_to=200)])
            found.append(("the same, reduced to 200 columns", wider))
    return tuple(found)


def cold_items(dataset: str, seed: int) -> list[Row]:
    train, test = split(ratings_of(dataset), "cold-items", 0.9, seed)
    cold = np.unique(test.item_index)
    flags = np.zeros(len(test.items), np.bool_)
    flags[cold] = True
    rows: list[Row] = []
    rng = np.random.default_rng(seed)
    for name, features in item_features(dataset):
        model = ListModel().fit(train, item_features=features)
        rows.append((name, {"NDCG@10": _among(model, test, flags, model.user_scores)}))
    popular = ListModel().fit(train)
    chance = rng.random(len(test.items))
    rows.append(("random", {"NDCG@10": _among(popular, test, flags, lambda users: np.tile(chance, (len(users), 1)))}))
    if item_features(dataset):
        of_kind = _popularity_of_kinds(item_features(dataset)[0][1], train)
        rows.append(
            (
                "popularity of their features",
                {"NDCG@10": _among(popular, test, flags, lambda users: np.tile(of_kind, (len(users), 1)))},
            )
        )
    return rows


def _popularity_of_kinds(features: Features, train: Ratings) -> npt.NDArray[np.float64]:
    """(items,): the mean, over the genres or tags of an item, of how many ratings a rated item with these has."""
    from scipy.sparse import csr_array

    cells = [
        (item, kind)
        for name, column in features.readable_of(train.items).items()
        if column.kind in ("several", "flag")
        for item, own in enumerate(column.cells.to_list())
        for kind in (own if isinstance(own, list) else [name] if own else ())
    ]
    items, kinds = zip(*cells, strict=True)
    known, place = np.unique(kinds, return_inverse=True)
    has = csr_array((np.ones(len(cells)), (items, place)), shape=(len(train.items), len(known)))
    counts = np.bincount(train.item_index, minlength=len(train.items))
    of_kind = (has.T @ counts) / np.maximum(has.T @ (counts > 0), 1)
    found: npt.NDArray[np.float64] = (has @ of_kind) / np.maximum(has.sum(1), 1)
    return found


def _among(model: Recommender, test: Ratings, flags: np.ndarray, scores: Callable[[np.ndarray], np.ndarray]) -> float:
    """NDCG@10 of lists among some items alone."""
    low, high = test.scale
    rows, found = test.rows("user"), []
    users = model.users.find(test.users.ids)
    discount = 1 / np.log2(np.arange(2, 12))
    for first in range(0, rows.rows, 256):
        chunk = np.arange(first, min(first + 256, rows.rows))
        chunk = chunk[(users[chunk] >= 0) & (rows.counts()[chunk] > 0)]
        if not len(chunk):
            continue
        block = scores(users[chunk].astype(np.int64)).astype(np.float64)
        order = model.items.find(test.items.ids)
        for person, own in zip(chunk.tolist(), block, strict=True):
            items, values = rows.row(person)
            gain = np.zeros(len(flags))
            liked = values >= low + 0.75 * (high - low)
            if not liked.any():
                continue
            gain[items[liked]] = values[liked] - low
            ranked = np.where(flags, np.where(order >= 0, own[order], -np.inf), -np.inf)
            best = np.argsort(-ranked, kind="stable")[:10]
            found.append(float(gain[best] @ discount / (np.sort(gain)[::-1][:10] @ discount)))
    return float(np.mean(found))


def cold_users(dataset: str, seed: int) -> list[Row]:
    train, test = split(ratings_of(dataset), "cold-users", 0.9, seed)
    users = side_information(dataset, quiet=True).users
    model = ListModel(list_goal="any").fit(train, user_features=users)  # a random split has no present
    everything, counts = np.ones(len(test.items), np.bool_), model.item_counts()
    return [
        ("their features", {"NDCG@10": _among(model, test, everything, model.user_scores)}),
        (
            "popularity",
            {"NDCG@10": _among(model, test, everything, lambda users: np.tile(counts, (len(users), 1)))},
        ),
    ]


def newcomers(dataset: str, seed: int) -> list[Row]:
    train, fold_in, test = strong_generalisation_split(ratings_of(dataset), seed=seed)
    model = ListModel().fit(train)
    rows: list[Row] = []
    for most in (5, 10, 20):
        told = at_most_each(fold_in, most=most, seed=seed)
        trained = ListModel().fit(train.merge(told))
        known = evaluate_ranking(trained, test)
        new = evaluate_newcomers(model, told, test)
        rows.append((f"{most} ratings, folded in", {"NDCG@10": new.ndcg, "recall@20": new.at(20).recall_capped}))
        rows.append((f"{most} ratings, trained on", {"NDCG@10": known.ndcg, "recall@20": known.at(20).recall_capped}))
        rows.append((f"{most} ratings, popularity", {"NDCG@10": new.popularity.ndcg}))
        rows.append((f"{most} ratings, folded in / trained on", {"NDCG@10": new.ndcg / known.ndcg}))
    return rows


def interactions(dataset: str, seed: int) -> list[Row]:
    pairs = Interactions.read(ratings_of(dataset).to_polars().select("user", "item"))
    train, test = split(pairs, "random", 0.9, seed)
    rows: list[Row] = []
    for name in ("popularity", "item-knn", "ease", "ials", "lists"):
        found = evaluate_ranking(algorithm(name)().fit(train), test)
        rows.append(
            (
                "cofill" if name == "lists" else name,
                {"recall@20": found.at(20).recall_capped, "NDCG@100": found.at(100).ndcg, "NDCG@10": found.ndcg},
            )
        )
    return rows


def diversity(dataset: str, seed: int) -> list[Row]:
    train, test = split(ratings_of(dataset), "random", 0.9, seed)
    model = ListModel().fit(train)
    vectors = model.scorer.item_vectors()
    assert vectors is not None
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    low, high = test.scale
    rows = test.rows("user")
    people = [u for u in range(rows.rows) if (rows.row(u)[1] >= low + 0.75 * (high - low)).any()]
    people = people[:: max(1, len(people) // 1000)]
    discount = 1 / np.log2(np.arange(2, 12))
    found: list[Row] = []
    for amount in (0.0, 0.1, 0.2, 0.3, 0.5):
        ndcg, alike = [], []
        for person, entries in model.recommend_many([test.users.id(u) for u in people], 10, diversity=amount):
            items, values = rows.row(test.users.index(person))
            gain = np.zeros(len(test.items))
            liked = values >= low + 0.75 * (high - low)
            gain[items[liked]] = values[liked] - low
            best = [model.items.index(entry.item) for entry in entries]
            ndcg.append(float(gain[best] @ discount[: len(best)] / (np.sort(gain)[::-1][:10] @ discount)))
            likeness = unit[best] @ unit[best].T
            alike.append(float((likeness.sum() - len(best)) / max(1, len(best) * (len(best) - 1))))
        found.append((f"diversity {amount:g}", {"NDCG@10": float(np.mean(ndcg)), "similarity": float(np.mean(alike))}))
    return found


def similar(dataset: str, seed: int) -> list[Row]:
    """Of pairs (A liked in training, any liked in test) of a person: how often B is among the ten most similar to A."""
    train, test = split(ratings_of(dataset), "random", 0.9, seed)
    model = ListModel().fit(train)
    least = train.scale.low + 0.75 * (train.scale.high - train.scale.low)
    liked, found = (part.select(part.values >= least).rows("user") for part in (train, test))
    counts = model.item_counts()
    popular = np.argsort(-counts, kind="stable")[:11]
    chosen = [item for item in np.argsort(-counts)[:1000].tolist() if counts[item] > 0]
    near = {
        item: {model.items.index(entry.item) for entry in model.similar(model.items.id(item), 10)} for item in chosen
    }
    hits = {"similar items": 0.0, "the most popular": 0.0}
    pairs = 0
    for person in range(liked.rows):
        wanted = set(found.row(person)[0].tolist())
        known = set(liked.row(person)[0].tolist())
        if not wanted:
            continue
        for item in known & near.keys():
            pairs += len(wanted)
            hits["similar items"] += len(wanted & near[item])
            hits["the most popular"] += len(wanted & set(popular[popular != item][:10].tolist()))
    return [(name, {"found": count / max(pairs, 1)}) for name, count in hits.items()]


def slots(dataset: str, seed: int) -> list[Row]:
    train, test = split(ratings_of(dataset), "random", 0.9, seed)
    model = algorithm("cfn")(seed=seed).fit(train)
    rows: list[Row] = []
    for by in ("list", "rating"):
        found = evaluate_ranking(model, test, by=by)
        shares = {"no rating": found.slots.unrated, "1 to 5": found.slots.few, "more": found.slots.more}
        rows.append((f"by {by}", shares | {"NDCG@10": found.ndcg}))
    return rows


EXPERIMENTS: dict[str, Callable[[str, int], list[Row]]] = {
    "cold-items": cold_items,
    "cold-users": cold_users,
    "newcomers": newcomers,
    "interactions": interactions,
    "diversity": diversity,
    "similar": similar,
    "slots": slots,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", choices=tuple(EXPERIMENTS))
    parser.add_argument("--dataset", default="ml-1m")
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    for name in options.experiments:
        print(f"\n{name}, {options.dataset}, {options.splits} splits")
        found: dict[str, dict[str, list[float]]] = {}
        for seed in range(options.splits):
            for label, measures in EXPERIMENTS[name](options.dataset, seed):
                for measure, value in measures.items():
                    found.setdefault(label, {}).setdefault(measure, []).append(value)
        for label, values in found.items():
            told = "  ".join(f"{measure} {Interval.of(several).text()}" for measure, several in values.items())
            print(f"  {label:42} {told}", flush=True)


if __name__ == "__main__":
    main()

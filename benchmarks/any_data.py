"""Are the defaults good on anybody's data? Every algorithm on every set of ratings at hand, and on made ones.

    COFILL_DATA=folder python benchmarks/any_data.py                     everything: hours
    COFILL_DATA=folder python benchmarks/any_data.py --only ml-100k tiny --algorithms biases bpmf cfn-item
    COFILL_DATA=folder python benchmarks/any_data.py --newcomers --only ml-1m

Published sets have their published split, or else a random 90/10; so have MovieLens-1M of which only some percent of
the ratings are kept (users and items that have none left drop out), ratings on other scales, and six worlds. Every
algorithm has its defaults. The features of the world "featured" are given to all that take some.

Ratios of RMSE are those of cofill to the best of the others and to the biases on the same test ratings, with 95 %
intervals over users (`paired_ratio` of their squared errors). What fails on a set has lost there.

--newcomers: a tenth of the users with 30 ratings or more, at most 500, is kept out of the training; each is folded in
with 1, 3, 5, 10 and 20 ratings, and what they rated beyond their 20 is predicted, beside the biases folded in likewise.
Cold items, cold users and films with five ratings are measured by side_information.py.
"""

import argparse
import contextlib
import copy
import io
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from any_data_sets import SETS, Doubles, Make, Part, at_hand, plain_world
from cofill import Ratings, Recommender, algorithm
from cofill.config import Networks, preset_values
from cofill.data.datasets import UnpublishedFileWarning
from cofill.data.splits import at_most_each
from cofill.evaluation import paired_ratio
from peer_libraries.with_myfm import imported as imported_myfm

NEAR = 1.005  # times the best RMSE
GIVEN = (1, 3, 5, 10, 20)
LEAST_OF_NEWCOMERS, MOST_NEWCOMERS = 30, 500
MYFM_RANK, MYFM_TURNS = 10, 200


# Algorithms: each predicts the test ratings


def of_the_house(name: str, settings: Mapping[str, Any], part: Part, seed: int) -> Doubles:
    model = fitted(name, settings, part, seed)
    predicted: Doubles = model.predict_indices(*indices(model, part.test)).astype(np.float64)
    return predicted


def fitted(name: str, settings: Mapping[str, Any], part: Part, seed: int) -> Recommender:
    kind = algorithm(name)
    seeded: dict[str, Any] = {"seed": seed} if "seed" in kind.settings_class.model_fields else {}
    model = kind(**seeded, **settings)
    if not kind.takes_features:
        return model.fit(part.train)
    return model.fit(part.train, user_features=part.user_features, item_features=part.item_features)


def indices(model: Recommender, test: Ratings) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    return model.users.find(test.users.ids)[test.user_index], model.items.find(test.items.ids)[test.item_index]


def surprise_svd(part: Part, seed: int) -> Doubles:
    surprise: Any = import_module("surprise")
    frame = part.train.to_polars().select("user", "item", "rating").to_pandas()
    reader = surprise.Reader(rating_scale=tuple(part.train.scale))
    model = surprise.SVD(random_state=seed).fit(surprise.Dataset.load_from_df(frame, reader).build_full_trainset())
    asked = part.test.to_polars().select("user", "item").iter_rows()
    return np.array([model.predict(user, item).est for user, item in asked])


def myfm(part: Part, seed: int) -> Doubles:
    """Bayesian factorisation machine on the ids, and on features where there are any."""
    from scipy import sparse

    def table(ratings: Ratings) -> Any:
        blocks = []
        sides = ((ratings.users, ratings.user_index, part.user_features),
                 (ratings.items, ratings.item_index, part.item_features))  # fmt: skip
        for ids, index, features in sides:
            blocks.append(sparse.eye(len(ids), format="csr")[index])
            if features is not None:
                blocks.append(sparse.csr_matrix(features.aligned(ids).astype(np.float64))[index])
        return sparse.hstack(blocks, format="csr")

    library: Any = imported_myfm()
    model = library.MyFMRegressor(rank=MYFM_RANK, random_seed=seed)
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar
        model.fit(table(part.train), part.train.values.astype(np.float64), n_iter=MYFM_TURNS)
    predicted: Doubles = model.predict(table(part.test))
    return predicted


ORIENTATIONS: tuple[str, ...] = get_args(Networks)
BIASES = "biases"
Predict = Callable[[Part, int], Doubles]
OTHERS: Mapping[str, Predict] = {
    BIASES: partial(of_the_house, "means", {}),
    "damped-means": partial(of_the_house, "means", {"mean_damping": 7.0}),
    "bpmf": partial(of_the_house, "bpmf", {}),
    "als-wr": partial(of_the_house, "als-wr", {}),
    "myfm": myfm,
    "surprise-svd": surprise_svd,
}
COFILL: Mapping[str, Predict] = {
    f"cfn-{orientation}": partial(of_the_house, "cfn", {"orientation": orientation}) for orientation in ORIENTATIONS
}
FAST: Mapping[str, Predict] = {"cfn-fast": partial(of_the_house, "cfn", preset_values("fast"))}
ALGORITHMS: Mapping[str, Predict] = {**OTHERS, **COFILL, **FAST}


# Measures


@dataclass
class Found:
    """One algorithm on one set, split by split."""

    rmse: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    squares: list[Doubles] = field(default_factory=list)  # summed by user
    failed: str | None = None

    @property
    def mean(self) -> float:
        return float("inf") if self.failed else float(np.mean(self.rmse))

    def take(self, predicted: Doubles, part: Part, seconds: float) -> None:
        if not np.isfinite(predicted).all():
            raise ArithmeticError(f"{int((~np.isfinite(predicted)).sum()):,} predictions are no finite numbers")
        squares = squared_errors(predicted, part.test)
        self.rmse.append(float(np.sqrt(squares.sum() / len(part.test))))
        self.seconds.append(seconds)
        self.squares.append(squares)

    def as_json(self) -> dict[str, Any]:
        return {"rmse": self.rmse, "mean": None if self.failed else self.mean, "seconds": self.seconds,
                "failed": self.failed}  # fmt: skip


def squared_errors(predicted: Doubles, test: Ratings) -> Doubles:
    """Summed by user, of those who are tested; no prediction is outside the scale."""
    squares = (np.clip(predicted, *test.scale) - test.values) ** 2
    tested = np.unique(test.user_index, return_inverse=True)[1]
    summed: Doubles = np.bincount(tested, weights=squares).astype(np.float64)
    return summed


@dataclass(frozen=True)
class Ratio:
    """Of two RMSEs, with its 95 % interval."""

    ratio: float
    half_width: float
    to: str

    @classmethod
    def of(cls, one: Sequence[Doubles], other: Sequence[Doubles], to: str) -> "Ratio":
        squares = paired_ratio(np.concatenate(one), np.concatenate(other))
        ratio = float(np.sqrt(squares.ratio))
        # d sqrt(x) = dx / (2 sqrt(x)); of one user alone nothing is known
        return cls(ratio, float("inf") if squares.half_width is None else squares.half_width / (2 * ratio), to)

    @property
    def worse(self) -> bool:
        return self.ratio - 1 > self.half_width

    def __str__(self) -> str:
        return f"{self.ratio:.4f} ± {self.half_width:.4f} of {self.to}"

    def as_json(self) -> dict[str, Any]:
        return {"ratio": self.ratio, "half_width": self.half_width, "to": self.to}


@dataclass(frozen=True)
class Standing:
    """One of cofill's on one set; a ratio is None where either of the two failed or was not run."""

    failed: bool
    to_best: Ratio | None
    to_biases: Ratio | None

    def verdict(self) -> dict[str, bool]:
        """What fails is neither first nor near, and worse than the biases."""
        beaten = self.failed or (self.to_best is not None and self.to_best.ratio >= 1)
        far = self.failed or (self.to_best is not None and self.to_best.ratio > NEAR)
        worse = self.failed or (self.to_biases is not None and self.to_biases.worse)
        return {"first": not beaten, "near": not far, "worse than the biases": worse}

    def as_json(self) -> dict[str, Any]:
        ratios = {"to_best": self.to_best, "to_biases": self.to_biases}
        return {name: ratio and ratio.as_json() for name, ratio in ratios.items()}


def standing(name: str, found: Mapping[str, Found]) -> Standing:
    failed = found[name].failed is not None
    others = {other: found[other] for other in OTHERS if other in found and not found[other].failed}
    if failed or not others:
        return Standing(failed, None, None)
    best = min(others, key=lambda other: others[other].mean)
    own = found[name].squares
    return Standing(
        failed,
        Ratio.of(own, others[best].squares, best),
        Ratio.of(own, others[BIASES].squares, BIASES) if BIASES in others else None,
    )


# Runs


def run_set(
    make: Make, algorithms: Sequence[str], splits: int, quick: bool, told: Callable[[str], None]
) -> dict[str, Any]:
    """Every algorithm on the same splits of one set."""
    found = {name: Found() for name in algorithms}
    shape: dict[str, int] = {}
    for seed in range(splits):
        part = make(quick, seed)
        shape = {
            "users": len(np.unique(part.train.user_index)), "items": len(np.unique(part.train.item_index)),
            "train": len(part.train), "test": len(part.test),
        }  # fmt: skip
        for name in algorithms:
            if found[name].failed:
                continue
            told(f"{name}, split {seed}")
            begun = time.perf_counter()
            try:
                predicted = ALGORITHMS[name](part, seed)
                found[name].take(predicted, part, time.perf_counter() - begun)
            except Exception as error:  # of any library: what fails has lost, and the others go on
                found[name].failed = reason(error)
    standings = {name: standing(name, found) for name in algorithms if name in COFILL}
    return {
        "shape": shape,
        "algorithms": {name: of.as_json() for name, of in found.items()},
        "cofill": {name: of.as_json() for name, of in standings.items()},
        "verdicts": {name: of.verdict() for name, of in standings.items()},
    }


def reason(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def show_set(name: str, result: Mapping[str, Any]) -> None:
    shape = result["shape"]
    print(
        f"\n{name}: {shape['users']:,} users, {shape['items']:,} items, {shape['train']:,} + {shape['test']:,} ratings"
    )
    for algorithm_name, of in result["algorithms"].items():
        if of["failed"]:
            print(f"  {algorithm_name:14} failed: {of['failed']}")
            continue
        line = f"  {algorithm_name:14} {of['mean']:8.4f} {np.mean(of['seconds']):8.1f} s"
        for ratio in result["cofill"].get(algorithm_name, {}).values():
            line += f"   {Ratio(**ratio)}" if ratio else ""
        print(line)
    sys.stdout.flush()


def show_summary(results: Mapping[str, Mapping[str, Any]], algorithms: Sequence[str]) -> dict[str, dict[str, int]]:
    print("\n| set | " + " | ".join(algorithms) + " |")
    print("|---|" + "---|" * len(algorithms))
    for name, result in results.items():
        means = [result["algorithms"][one]["mean"] for one in algorithms]
        best = min((mean for mean in means if mean is not None), default=None)
        cells = ["failed" if m is None else f"**{m:.4f}**" if m == best else f"{m:.4f}" for m in means]
        print(f"| {name} | " + " | ".join(cells) + " |")
    summary: dict[str, dict[str, int]] = {}
    if not any(name in OTHERS for name in algorithms):
        return summary
    for name in algorithms:
        if name not in COFILL:
            continue
        verdicts = [result["verdicts"][name] for result in results.values()]
        summary[name] = {"sets": len(verdicts)} | {
            key: sum(bool(of[key]) for of in verdicts) for key in ("first", "near", "worse than the biases")
        }
        counts = summary[name]
        print(
            f"\n{name}: first on {counts['first']} of {counts['sets']} sets, within 0.5 % of the best on "
            f"{counts['near']}, worse than the biases beyond noise on {counts['worse than the biases']}"
        )
    return summary


def newcomers(make: Make, algorithms: Sequence[str], quick: bool, seed: int) -> list[dict[str, Any]]:
    """Folded in with a few ratings, beside the biases with the same."""
    part = make(quick, seed)
    ratings = part.train.merge(part.test)
    counts = np.bincount(ratings.user_index, minlength=len(ratings.users))
    several = np.flatnonzero(counts >= LEAST_OF_NEWCOMERS)
    chosen = np.random.default_rng(seed).permutation(several)[: min(MOST_NEWCOMERS, -(-len(several) // 10))]
    new = np.isin(ratings.user_index, chosen)
    if not new.any() or new.all():
        print(f"  too few users with {LEAST_OF_NEWCOMERS} ratings or more")
        return []
    theirs = ratings.select(new)
    given = {count: at_most_each(theirs, most=count, seed=seed) for count in GIVEN}
    asked = theirs.select(~np.isin(pairs(theirs), pairs(given[GIVEN[-1]])))
    known = replace(part, train=ratings.select(~new), test=asked)
    models = {BIASES: fitted("means", {}, known, seed)}
    for name in algorithms:
        if name in COFILL:
            try:
                models[name] = fitted("cfn", {"orientation": name.removeprefix("cfn-")}, known, seed)
            except Exception as error:  # as above
                print(f"  {name} failed: {reason(error)}")
    rows = []
    for count, told in given.items():
        squares = {name: newcomer_errors(model, told, asked) for name, model in models.items()}
        row: dict[str, Any] = {"given": count, "people": len(chosen), "asked": len(asked)}
        line = f"  {count:2} ratings:"
        for name, of in squares.items():
            row[name] = {"rmse": float(np.sqrt(of.sum() / len(asked)))}
            line += f"  {name} {row[name]['rmse']:.4f}"
            if name != BIASES:
                ratio = Ratio.of([of], [squares[BIASES]], BIASES)
                row[name] |= ratio.as_json()
                line += f" ({ratio.ratio:.4f} ± {ratio.half_width:.4f})"
        print(line, flush=True)
        rows.append(row)
    return rows


def pairs(ratings: Ratings) -> npt.NDArray[np.int64]:
    return ratings.user_index.astype(np.int64) * len(ratings.items) + ratings.item_index


def newcomer_errors(model: Recommender, told: Ratings, asked: Ratings) -> Doubles:
    """Of a copy of the model that knows these ratings too."""
    warm = copy.deepcopy(model).add_ratings(told)
    return squared_errors(warm.predict_indices(*indices(warm, asked)).astype(np.float64), asked)


def warm_up(algorithms: Sequence[str]) -> None:
    """Importing and compiling are nobody's seconds."""
    part = plain_world(60, 40, 300, False, 0)
    for name in algorithms:
        with contextlib.suppress(Exception):  # said when it is measured
            ALGORITHMS[name](part, 0)


def on_stderr(name: str) -> Callable[[str], None]:
    def tell(what: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {name}: {what}", file=sys.stderr, flush=True)

    return tell


def wanted_sets(only: Sequence[str] | None) -> Iterator[str]:
    for name in only or SETS:
        if at_hand(name):
            yield name
        else:
            on_stderr(name)("is not at hand; name the folder of data sets in COFILL_DATA")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", choices=tuple(SETS), metavar="SET", help=", ".join(SETS).replace("%", "%%")
    )
    parser.add_argument("--algorithms", nargs="+", choices=tuple(ALGORITHMS), default=tuple(ALGORITHMS))
    parser.add_argument("--splits", type=int, default=1, help="published folds, or seeds of random splits")
    parser.add_argument("--json", type=Path, metavar="FILE", help="written after every set")
    parser.add_argument("--quick", action="store_true", help="a few ratings of each: to see how it looks")
    parser.add_argument("--newcomers", action="store_true", help="people who were not trained on, instead")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    results: dict[str, Any] = {}

    def keep(document: Mapping[str, Any]) -> None:
        if options.json:
            beside = options.json.with_name(f"{options.json.name}.part")
            beside.write_text(json.dumps(document, indent=1))
            beside.replace(options.json)

    if not options.newcomers:
        warm_up(options.algorithms)
    for name in wanted_sets(options.only):
        tell = on_stderr(name)
        if options.newcomers:
            tell("newcomers")
            print(f"\n{name}")
            results[name] = newcomers(SETS[name], options.algorithms, options.quick, 0)
            keep({"newcomers": results})
            continue
        results[name] = run_set(SETS[name], options.algorithms, options.splits, options.quick, tell)
        show_set(name, results[name])
        keep({"sets": results})
    if results and not options.newcomers:
        keep({"sets": results, "summary": show_summary(results, options.algorithms)})


if __name__ == "__main__":
    main()

"""Speed and memory of training, lists and fold-in, each beside something else measured in the same run.

    python benchmarks/speed.py speed [--like ml-10m] [--size 1]     everything about one shape
    python benchmarks/speed.py growth [--rounds 3]                  ratings per second, 20 million against 1 million

`speed` compares with densified torch, which must be installed. `--json` prints all that was measured.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from cofill.arrays import Floats
from cofill.cli.options import SHAPES
from cofill.compiling import compiled
from cofill.memory import data_size, peak_bytes
from own_process import in_own_process, make_ratings, percentiles, print_result

_EPOCHS = 2
_ROUNDS = 7
_FUSED_MINIBATCHES = 40
_DENSE_MINIBATCHES = 1
_REQUESTS = 300
_FEATURES = 70
_EPOCHS_OF_A_FIT = 10  # that the list scorer is compared with
_ITEMS = 10_000  # of fold-in, and of lists for everybody
_USERS = 2_048
_BLOCK = 256  # users at a time, as in lists for everybody


def train(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Read and train as a user would; seconds of each epoch, and the most memory that was ever in use."""
    from cofill.data.ratings import Ratings
    from cofill.models.cfn.model import CFN

    ratings = Ratings.read(Path(path))
    model = CFN(**settings).fit(ratings)
    return {
        "epoch_seconds": [record.seconds for record in model.history],
        "peak_bytes": peak_bytes(),
    }


def fit_lists(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Read, and fit the list scorer alone, as after the epochs of a network."""
    from cofill.data.ratings import Ratings
    from cofill.models.bias_models import ListModel

    ratings = Ratings.read(Path(path))
    before = peak_bytes()
    started = time.perf_counter()
    model = ListModel(**settings).fit(ratings)
    return {
        "seconds": time.perf_counter() - started,
        "rank": int(_list_matrix(model.scorer.arrays()).shape[1]),
        "read_bytes": before,
        "peak_bytes": peak_bytes(),
    }


def _list_matrix(arrays: dict[str, Any]) -> Floats:
    """(items, ...): the vectors of the list scorer, or its weights where these are exact."""
    matrix: Floats = arrays["weights" if "weights" in arrays else "directions"][:-1]
    return matrix


def list_everybody(items: int, users: int, rounds: int) -> dict[str, Any]:
    """Lists of ten for everybody, against the blocked product of their codes with the vectors of the items alone.

    Turn by turn; of each the least time, because others on the machine only ever add to it.
    """
    from cofill.data.datasets.world import make_world
    from cofill.models.cfn.model import CFN

    world = make_world(users=users, items=items, ratings=100 * users, seed=0)
    model = CFN(epochs=1, validation=0.0).fit(world.ratings)
    vectors = _list_matrix(model.scorer.arrays())
    codes = np.random.default_rng(0).standard_normal((_BLOCK, vectors.shape[1]), np.float32)
    ours, products, peaks = [], [], []
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in model.recommend_many(n=10):
            pass
        ours.append(time.perf_counter() - started)
        peaks.append(peak_bytes())
        started = time.perf_counter()
        for first in range(0, users, _BLOCK):
            codes[: users - first] @ vectors.T
        products.append(time.perf_counter() - started)
    return {
        "users": users,
        "matrix": list(vectors.shape),
        "users_per_second": users / min(ours),
        "share_of_product": min(products) / min(ours),
        "growth_bytes": max(peaks[-1] - peaks[0], 0),  # Linux counts pages of several threads to some dozens
    }


def compare(
    path: str,
    settings: dict[str, Any],
    rounds: int,
    fused_minibatches: int,
    dense_minibatches: int,
    features: int,
) -> Any:
    """The fused engine without and with side features, densified torch and a triad, turn by turn on the same cores."""
    from cofill.config import CFNSettings
    from cofill.data.ratings import Ratings
    from cofill.models.cfn.fit import make_engine, new_network, require_engine
    from cofill.models.cfn.scaling import ScaledRows, Scaling
    from cofill.models.cfn.sgd import EpochNoise, FusedEngine, lay_out, shard_count
    from cofill.models.rng import Portion

    config = CFNSettings.of(settings)
    of_torch = config.changed({"engine": "dense"})
    require_engine(of_torch)
    ratings = Ratings.read(Path(path))
    raw = ratings.rows("user" if config.orientation == "user" else "item")

    portion = Portion.of(raw)

    def scaled(width: int) -> ScaledRows:
        side = np.random.default_rng(config.seed).standard_normal((raw.rows, width), np.float32) / max(width, 1) ** 0.5
        return Scaling.fit(raw, None, ratings.scale, corruption, side, portion).down(raw, side, portion)

    corruption = config.changed({"cold_ratio": 0.0})
    rows, rows_with_features = scaled(0), scaled(features)
    rng = np.random.default_rng(config.seed)

    def dense_seconds(count: int) -> tuple[float, int]:
        """Seconds and rows, of steps alone."""
        order = rng.permutation(raw.rows)[: count * config.batch]
        noise = EpochNoise.drawn(rows, corruption, config.seed)
        (some,) = lay_out(rows, order, config.batch, noise, dense.cuts(rows))
        started = time.perf_counter()
        dense.train(some, config.learning_rate / 10)
        return time.perf_counter() - started, len(some.rows)

    def fused_seconds(engine: FusedEngine, read: ScaledRows, count: int, seed: int) -> tuple[float, int, int]:
        """With what is done before the steps, as in training: seconds, ratings, columns present."""
        order = np.random.default_rng(seed).permutation(raw.rows)[: count * config.batch]
        started = time.perf_counter()
        noise, seen = EpochNoise.drawn(read, corruption, seed), []
        for some in lay_out(read, order, config.batch, noise, engine.cuts(read)):
            engine.train(some, config.learning_rate / 10)
            seen.append(some)
        elapsed = time.perf_counter() - started
        columns = 0
        for shard in (shard for some in seen for shard in some.shards):
            number = np.repeat(np.arange(len(shard.starts) - 1), np.diff(shard.starts))
            columns += len(np.unique(number * raw.columns + shard.columns))
        return elapsed, sum(int(some.ratings.sum()) for some in seen), columns

    fused = FusedEngine(new_network(rows, config, "train"), config)
    hybrid = FusedEngine(new_network(rows_with_features, config, "train"), config)
    dense = make_engine(new_network(rows, config, "train"), of_torch)
    fused_seconds(fused, rows, 2, seed=0)  # compiled, and pages touched
    fused_seconds(hybrid, rows_with_features, 2, seed=0)
    dense_seconds(1)
    bytes_a_column = 2 * 2 * 4 * config.hidden[0]  # both matrices, read and written once, single precision
    turns = []
    for turn in range(rounds):
        bandwidth = triad_bandwidth(shard_count(config))
        elapsed, entries, columns = fused_seconds(fused, rows, fused_minibatches, seed=turn)
        # The same rows and the same noise.
        hybrid_elapsed, _, _ = fused_seconds(hybrid, rows_with_features, fused_minibatches, seed=turn)
        dense_elapsed, dense_rows = dense_seconds(dense_minibatches)
        turns.append(
            {
                "triad": bandwidth,
                "fused_ratings_per_second": entries / elapsed,
                "dense_rows_per_second": dense_rows / dense_elapsed,
                "fused_rows_per_second": min(fused_minibatches * config.batch, raw.rows) / elapsed,
                "fused_bandwidth": columns * bytes_a_column / elapsed,
                "seconds_with_features": hybrid_elapsed / elapsed,
            }
        )
    return {"turns": turns}


@compiled
def _triad(a: Floats, b: Floats, c: Floats, s: np.float32) -> None:
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


def _triad_on_threads(a: Floats, b: Floats, c: Floats, s: np.float32, threads: int) -> None:
    """The yardstick for memory: each thread has its own run of the arrays."""
    cuts = np.linspace(0, a.size, threads + 1).astype(np.int64)
    with ThreadPoolExecutor(threads) as pool:
        parts = [slice(low, high) for low, high in pairwise(cuts)]
        for done in [pool.submit(_triad, a[part], b[part], c[part], s) for part in parts]:
            done.result()


def triad_bandwidth(threads: int, repetitions: int = 5) -> float:
    """Bytes a second of a = b + s c over arrays far beyond any cache: the median."""
    a, b, c = (np.ones(40_000_000, np.float32) for _ in range(3))
    _triad_on_threads(a, b, c, np.float32(2), threads)
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        _triad_on_threads(a, b, c, np.float32(2), threads)
        times.append(time.perf_counter() - started)
    return 3 * a.nbytes / median(times)


def fold_in(hidden: int, items: int, ratings_each: int, requests: int, orientation: str) -> dict[str, Any]:
    """Top 10 of all items for somebody new, against one pass of numpy over the list scorer's matrix.

    Predicted ratings of the ten are part of it.
    """
    from cofill.data.datasets.world import make_world
    from cofill.models.cfn.model import CFN

    world = make_world(users=2_000, items=items, ratings=200_000, seed=0)
    model = CFN(orientation=orientation, hidden=hidden, epochs=1, validation=0.0).fit(world.ratings)
    matrix = np.array(_list_matrix(model.scorer.arrays()))
    vector = np.ones(matrix.shape[1], np.float32)
    rng = np.random.default_rng(0)
    ours, numpys = [], []
    for _ in range(requests):
        somebody = {int(item): float(rng.integers(1, 6)) for item in rng.choice(items, ratings_each, replace=False) + 1}
        started = time.perf_counter()
        model.recommend(somebody, 10)
        ours.append(time.perf_counter() - started)
        started = time.perf_counter()
        matrix @ vector
        numpys.append(time.perf_counter() - started)
    return {"ours": percentiles(ours), "numpy": percentiles(numpys), "matrix": list(matrix.shape)}


def measure_speed(like: str, settings: dict[str, Any], *, scale: float, seed: int) -> dict[str, Any]:
    """Everything about one shape, in one run."""
    with TemporaryDirectory() as folder:
        path = f"{folder}/ratings.parquet"
        _say(f"making ratings like {like}")
        shape = in_own_process(make_ratings, like=like, scale=scale, seed=seed, path=path)
        _say(f"training twice {_EPOCHS} epochs on {shape['ratings']:,} ratings")
        plain = {"epochs": _EPOCHS} | settings  # with validation and refit, as a user would
        trained = in_own_process(train, path=path, settings=plain)
        _say("fitting the list scorer")
        lists = in_own_process(fit_lists, path=path, settings={"seed": settings["seed"]})
        _say("fused kernels, densified torch and a triad, turn by turn")
        compared = in_own_process(
            compare,
            path=path,
            settings=settings,
            rounds=_ROUNDS,
            fused_minibatches=_FUSED_MINIBATCHES,
            dense_minibatches=_DENSE_MINIBATCHES,
            features=_FEATURES,
        )
    folded = {}
    for orientation in ("user", "item"):
        _say(f"folding in somebody new, rows are {orientation}s")
        folded[orientation] = in_own_process(
            fold_in,
            hidden=settings["hidden"],
            items=_ITEMS,
            ratings_each=20,
            requests=_REQUESTS,
            orientation=orientation,
        )
    _say(f"lists for {_USERS:,} users, and the matrix product alone")
    everybody = in_own_process(list_everybody, items=_ITEMS, users=_USERS, rounds=_ROUNDS)
    turns = compared["turns"]
    epochs = _EPOCHS_OF_A_FIT * median(trained["epoch_seconds"])
    return {
        "like": like,
        **shape,
        "settings": settings,
        "epoch_seconds": trained["epoch_seconds"],
        "peak_bytes": trained["peak_bytes"],
        "ratings_per_second": median(turn["fused_ratings_per_second"] for turn in turns),
        "times_densified_torch": median(
            turn["fused_rows_per_second"] / turn["dense_rows_per_second"] for turn in turns
        ),
        "triad_bandwidth": median(turn["triad"] for turn in turns),
        "share_of_triad": median(turn["fused_bandwidth"] / turn["triad"] for turn in turns),
        "features": _FEATURES,
        "times_seconds_with_features": median(turn["seconds_with_features"] for turn in turns),
        "fold_in": folded,
        "list_scorer": {**lists, "epochs": _EPOCHS_OF_A_FIT, "share_of_epochs": lists["seconds"] / epochs},
        "lists_for_everybody": everybody,
    }


def measure_growth(settings: dict[str, Any], *, rounds: int, seed: int) -> dict[str, Any]:
    """Ratings per second at the shapes of MovieLens-1M and 20M, turn by turn, with the same settings."""
    speeds: dict[str, list[float]] = {"ml-1m": [], "ml-20m": []}
    with TemporaryDirectory() as folder:
        shapes = {}
        for like in speeds:
            _say(f"making ratings like {like}")
            path = f"{folder}/{like}.parquet"
            shapes[like] = in_own_process(make_ratings, like=like, scale=1.0, seed=seed, path=path)
        peak = 0
        for turn in range(1, rounds + 1):
            for like, shape in shapes.items():
                _say(f"turn {turn} of {rounds}: training at the shape of {like}")
                epochs = 6 if like == "ml-1m" else 2  # the first one compiles and touches pages: not counted
                done = in_own_process(
                    train,
                    path=f"{folder}/{like}.parquet",
                    settings={"epochs": epochs, "validation": 0.0} | settings,
                )
                speeds[like].append(shape["ratings"] / median(done["epoch_seconds"][1:]))
                peak = max(peak, done["peak_bytes"])
    ratios = [large / small for small, large in zip(speeds["ml-1m"], speeds["ml-20m"], strict=True)]
    return {
        "settings": settings,
        "ratings_per_second": {like: median(values) for like, values in speeds.items()},
        "share_kept": median(ratios),
        "peak_bytes": peak,
    }


def speed_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("users x items, ratings", f"{result['users']:,} x {result['items']:,}, {result['ratings']:,}"),
        ("seconds an epoch", ", ".join(f"{seconds:.2f}" for seconds in result["epoch_seconds"])),
        ("ratings per second", f"{result['ratings_per_second']:,.0f}"),
        ("times the speed of densified torch", f"{result['times_densified_torch']:.1f}"),
        ("triad", f"{result['triad_bandwidth'] / 1e9:.1f} GB/s"),
        ("share of the triad's bandwidth", f"{result['share_of_triad']:.0%}"),
        (f"time of an epoch with {result['features']} features", f"{result['times_seconds_with_features']:.2f} times"),
        ("peak memory of training, all told", data_size(result["peak_bytes"])),
    ]
    lists, everybody = result["list_scorer"], result["lists_for_everybody"]
    rows += [
        (
            f"fit of the list scorer, rank {lists['rank']:,}",
            f"{lists['seconds']:.1f} s, {lists['share_of_epochs']:.2f} of the time of {lists['epochs']} epochs",
        ),
        ("peak memory of that fit, with the ratings", data_size(lists["peak_bytes"])),
        (
            f"lists for everybody, {everybody['matrix'][0]:,} items",
            f"{everybody['users_per_second']:,.0f} users per second, {everybody['share_of_product']:.0%} of the speed "
            f"of the matrix product alone; memory grew by {data_size(everybody['growth_bytes'])}",
        ),
    ]
    for orientation, found in result["fold_in"].items():
        ours, numpy = found["ours"], found["numpy"]
        rows.append(
            (
                f"fold-in and top 10 of {found['matrix'][0]:,}, {orientation} rows",
                f"p50 {ours['p50'] * 1e3:.2f} ms, p99 {ours['p99'] * 1e3:.2f} ms; numpy pass p50 "
                f"{numpy['p50'] * 1e3:.2f} ms, p99 {numpy['p99'] * 1e3:.2f} ms; "
                f"ratio {ours['p50'] / numpy['p50']:.1f} and {ours['p99'] / numpy['p99']:.1f}",
            )
        )
    return rows


def growth_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        *((f"ratings per second like {like}", f"{speed:,.0f}") for like, speed in result["ratings_per_second"].items()),
        ("share of the speed that is kept", f"{result['share_kept']:.0%}"),
        ("peak memory", data_size(result["peak_bytes"])),
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(metavar="WHAT", required=True, dest="what")
    speed = kinds.add_parser("speed", help="training speed, memory, lists and fold-in latency at one shape")
    speed.add_argument("--like", choices=SHAPES, default="ml-10m", help="shape of the generated ratings")
    speed.add_argument("--size", type=float, default=1.0, help="share of that shape's ratings")
    growth = kinds.add_parser("growth", help="ratings per second at 20 million ratings against 1 million")
    growth.add_argument("--rounds", type=int, default=3, help="how many times to measure each")
    for kind, hidden in ((speed, 770), (growth, 584)):
        kind.add_argument("--hidden", type=int, default=hidden, help="width of the hidden layer")
        kind.add_argument("--batch", type=int, default=35, help="rows in a minibatch")
        kind.add_argument("--orientation", choices=("user", "item"), default="item", help="what a row is")
        kind.add_argument("--threads", type=int, default=0, help="threads of the kernels; 0: one for each core")
        kind.add_argument("--seed", type=int, default=0)
        kind.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("hidden", "batch", "orientation", "threads", "seed")}
    if options.what == "growth":
        result = measure_growth(settings, rounds=options.rounds, seed=options.seed)
        print_result(result, growth_rows(result), options.json)
    else:
        result = measure_speed(options.like, settings, scale=options.size, seed=options.seed)
        print_result(result, speed_rows(result), options.json)


if __name__ == "__main__":
    main()

"""What `cofill benchmark speed` and `growth` do in processes of their own."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from cofill.arrays import Floats
from cofill.benchmark import answer_as_process, percentiles
from cofill.compiling import compiled
from cofill.memory import peak_bytes

_BLOCK = 256  # users at a time, as in lists for everybody


def make_ratings(like: str, scale: float, seed: int, path: str) -> dict[str, Any]:
    """Generate ratings of a published shape into a Parquet file."""
    from cofill.data.datasets.world import make_world_like

    ratings = make_world_like(like, scale, seed).ratings
    ratings.write(Path(path))
    return {"users": len(ratings.users), "items": len(ratings.items), "ratings": len(ratings)}


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


if __name__ == "__main__":
    answer_as_process(make_ratings, train, fit_lists, list_everybody, compare, fold_in)

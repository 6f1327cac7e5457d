"""How fast many machines would be: a model on paper, from constants that are measured when it is run.

    python benchmarks/cluster_model.py [--json] [--hidden 770] [--batch 35 350] [--machines 1 8 16 64 256]

Nobody here has such machines. A training is divided into what every machine does alone and what all wait for:

    seconds of a minibatch = work / machines + exchange

    work      entries of the minibatch x bytes of weights that an entry moves / memory bandwidth of a machine:
              each entry reads and writes a row of both weight matrices, unless it finds it in the cache
    exchange  two sums of a (batch, hidden) matrix over all machines, each in two steps of all to all:
              latency x steps + messages x software + bytes / bandwidth of the network

Measured here: how near the kernels come to the memory's bandwidth (their share of a triad), and what one all-reduce
between two processes costs in latency of software. Assumed, and to be replaced by your own: bandwidth of a machine's
memory and network, cores, and the shape of the data. What comes out is where more machines stop paying.
"""

import argparse
import json
import sys
import time
from typing import Any

import numpy as np

SHAPE = {"people": 100_000_000, "items": 1_000_000, "ratings": 10_000_000_000}
MACHINE = {"cores": 16, "memory_gigabytes_a_second": 100.0, "network_gigabits_a_second": 10.0}
MESSAGE_SECONDS = 1e-5  # of software, to send or to receive one message of a step
CACHED = 0.0  # share of entries whose weights are in the cache: none, with so many columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=770)
    parser.add_argument("--batch", type=int, nargs="+", default=[35, 350])
    parser.add_argument("--machines", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64, 128, 256])
    parser.add_argument("--share", type=float, help="of the memory's bandwidth that kernels reach (default: measured)")
    parser.add_argument("--latency", type=float, help="seconds of one step of an all-reduce (default: measured)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    share = options.share if options.share is not None else measured_share(options.hidden)
    latency = options.latency if options.latency is not None else measured_latency(options.hidden)
    rows: list[dict[str, Any]] = []
    for orientation in ("item", "user"):
        for batch in options.batch:
            alone = seconds_of_minibatch(orientation, batch, options.hidden, 1, share, latency)[0]
            for machines in options.machines:
                seconds, exchange = seconds_of_minibatch(orientation, batch, options.hidden, machines, share, latency)
                rows.append(
                    {
                        "rows": orientation,
                        "batch": batch,
                        "machines": machines,
                        "speed": alone / seconds,
                        "share_in_exchange": exchange / seconds,
                        "gigabytes_a_machine": gigabytes(orientation, options.hidden, machines),
                        "hours_an_epoch": seconds * SHAPE[f"{_rows(orientation)}"] / batch / 3600,
                    }
                )
    found = {"shape": SHAPE, "machine": MACHINE, "share_of_bandwidth": share, "latency": latency, "rows": rows}
    if options.json:
        json.dump(found, sys.stdout, indent=1)
        return
    print(f"measured: kernels reach {share:.0%} of the memory's bandwidth")
    print(f"          a step of an all-reduce takes {latency * 1e6:.0f} us")
    print(f"assumed:  {MACHINE}, {SHAPE}")
    print("rows     batch  machines  times one  in exchange  GB a machine  hours an epoch")
    for row in rows:
        print(
            f"{row['rows']:<8} {row['batch']:>5}  {row['machines']:>8}  {row['speed']:>9.1f}"
            f"  {row['share_in_exchange']:>10.0%}   {row['gigabytes_a_machine']:>11.0f}"
            f"  {row['hours_an_epoch']:>14.1f}"
        )


def _rows(orientation: str) -> str:
    return "items" if orientation == "item" else "people"


def seconds_of_minibatch(
    orientation: str, batch: int, hidden: int, machines: int, share: float, latency: float
) -> tuple[float, float]:
    """Seconds, and those of exchange among them."""
    entries = batch * SHAPE["ratings"] / SHAPE[_rows(orientation)]
    moved = 4 * 4 * hidden * (1 - CACHED)  # bytes: both matrices, read and written
    work = entries * moved / (MACHINE["memory_gigabytes_a_second"] * 1e9 * share)
    if machines == 1:
        return work, 0.0
    size, speed = 4 * batch * hidden, MACHINE["network_gigabits_a_second"] * 1e9 / 8
    messages = 2 * (machines - 1)  # of a step: to all others, and from them
    sum_of_all = 2 * (latency + messages * MESSAGE_SECONDS) + 2 * (machines - 1) / machines * size / speed
    return work / machines + 2 * sum_of_all, 2 * sum_of_all


def gigabytes(orientation: str, hidden: int, machines: int) -> float:
    """Of weights and ratings that each machine has, and of what all have of the rows."""
    columns, rows = (SHAPE["people"], SHAPE["items"]) if orientation == "item" else (SHAPE["items"], SHAPE["people"])
    own = (columns * 2 * 4 * hidden + SHAPE["ratings"] * 2 * 8) / machines
    return (own + rows * 3 * 4 * hidden) / 1e9


def measured_share(hidden: int) -> float:
    """Of a triad's bandwidth, what the fused kernels reach on columns that lie far apart; on one thread here."""
    from cofill.config import CFNSettings
    from cofill.data.sparse import SparseRows
    from cofill.models.cfn.fit import new_network
    from cofill.models.cfn.scaling import ScaledRows
    from cofill.models.cfn.sgd import EpochNoise, FusedEngine, lay_out
    from cofill.models.rng import Portion
    from speed import triad_bandwidth

    rng = np.random.default_rng(0)
    columns, rows, length, batch = 60_000, 350, 500, 35
    indices = np.sort(rng.integers(0, columns, (rows, length)), axis=1)
    unique = np.diff(indices, axis=1, prepend=-1) > 0
    counts = unique.sum(1)
    known = SparseRows(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        indices[unique].astype(np.int32),
        rng.normal(0, 0.4, int(counts.sum())).astype(np.float32),
        columns,
    )
    nothing, portion = np.zeros((rows, 0), np.float32), Portion.of(known)
    scaled = ScaledRows(known, np.ones(rows, np.float32), nothing, 0.0, False, known.counts(), portion, (-1.0, 1.0))
    settings = CFNSettings.of({"hidden": hidden, "threads": 1, "orientation": "item"})
    noise, shares = EpochNoise.drawn(scaled, settings.changed({"noise_ratio": 0.0}), 0), []
    engine = FusedEngine(new_network(scaled, settings, "train"), settings)
    for _ in range(5):
        bandwidth = triad_bandwidth(1, repetitions=3)
        (some,) = lay_out(scaled, np.arange(rows), batch, noise, engine.cuts(scaled))
        started = time.perf_counter()
        engine.train(some, 0.001)
        seconds = time.perf_counter() - started
        (entries,) = some.shards
        number = np.repeat(np.arange(len(some)), np.diff(entries.starts))
        present = len(np.unique(number * columns + entries.columns))
        shares.append(present * 16 * hidden / seconds / bandwidth)
    return float(np.median(shares[1:]))


def measured_latency(hidden: int) -> float:
    """Of one step of an all-reduce between two processes of this machine: half of what a sum of two takes."""
    from cofill.cluster.comm import run_team

    seconds = run_team("benchmarks.cluster_model:sum_often", {"hidden": hidden}, workers=2, address=None)[0]
    return float(seconds) / 2


def sum_often(exchange: Any, arguments: dict[str, Any], tell: Any) -> float:
    """The median seconds of a sum of (35, hidden) numbers."""
    array = np.ones((35, arguments["hidden"]), np.float32)
    times = []
    for _ in range(300):
        array[:] = 1
        started = time.perf_counter()
        exchange.all_reduce(array)
        times.append(time.perf_counter() - started)
    return float(np.median(times))


if __name__ == "__main__":
    main()

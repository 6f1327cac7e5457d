"""What it costs to train with several workers, and how long it takes to recover from one that was killed.

    python benchmarks/cluster_cost.py [--like ml-10m] [--workers 1 2 4] [--memory] [--ray ADDRESS] [--json]

On a machine with a few cores this shows no speed-up, and claims none: workers share the cores that one process has
alone. What it shows is how much more is computed, how much is sent, and how much memory each worker has.
"""

import argparse
import os
import resource
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from cofill.cli.options import SHAPES
from cofill.cluster.comm import run_team
from cofill.cluster.train import ShardedCheckpoint, shard_of, train_partition
from cofill.config import CFNSettings
from cofill.data.partition import Partition, write_partition
from cofill.data.sparse import KnownRatings
from cofill.exchange import Exchange
from cofill.memory import data_size, peak_bytes
from cofill.models.cfn.model import CFN
from cofill.models.cfn.scaling import Matrix
from cofill.models.rng import Portion
from cofill.progress import Progress, Step, unseen
from own_process import in_own_process, make_ratings, print_result

_PROGRAM = "cluster_cost:train_epochs"
_EPOCHS = 3  # the first one compiles and touches pages: not counted
_EPOCHS_OF_RECOVERY, _EPOCHS_BEFORE_DEATH = 6, 2


def measure_cluster(
    like: str,
    settings: dict[str, Any],
    *,
    scale: float,
    seed: int,
    workers: list[int],
    address: str | None,
    memory: bool,
) -> dict[str, Any]:
    """Epochs with each number of workers, a recovery, and on request the memory of whole trainings."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        path = folder / "ratings.parquet"
        _say(f"making ratings like {like}")
        shape = in_own_process(make_ratings, like=like, scale=scale, seed=seed, path=str(path))
        _say(f"cutting {shape['ratings']:,} ratings into buckets")
        started = time.perf_counter()
        partition = folder / "partition"
        write_partition(path, partition, orientation=settings["orientation"])
        cut = time.perf_counter() - started
        epochs = {"epochs": _EPOCHS, "validation": 0.0, "decoder": "network"} | settings
        found = {}
        for count in workers:
            _say(f"{_EPOCHS} epochs with {count} worker{'s' if count > 1 else ''}, and as many threads in one process")
            found[count] = _epochs(partition, epochs, count, settings["threads"], address)
            # Cores that read memory at the same time wait for it, in one process or in several.
            alone = found[count] if count == 1 else _epochs(partition, epochs, 1, count * settings["threads"], address)
            found[count]["processor_seconds_of_one"] = alone["processor_seconds"]
            found[count]["times_one"] = found[count]["processor_seconds"] / alone["processor_seconds"]
        _say("killing a worker in the middle of an epoch")
        recovery = _recover(partition, folder / "killed", epochs, address, max(2, min(workers)))
        trained: dict[int, dict[str, Any]] = {}
        for count in (min(workers), max(workers)) if memory else ():
            _say(f"a whole training with {count} worker{'s' if count > 1 else ''}, for its memory")
            whole = CFNSettings.of({"epochs": 1, "refit": False} | settings)
            done = train_partition(partition, folder / f"model-{count}", whole, workers=count, address=address)
            trained[count] = {"peak_bytes": done.peak_bytes}
    if trained:
        of_one = max(trained[min(trained)]["peak_bytes"])
        for peaks in trained.values():
            peaks["of_one"] = max(peaks["peak_bytes"]) / of_one
    return {
        "like": like,
        **shape,
        "settings": settings,
        "partition_seconds": cut,
        "workers": found,
        "recovery": recovery,
        "memory": trained,
    }


def _epochs(
    partition: Path, settings: dict[str, Any], workers: int, threads: int, address: str | None
) -> dict[str, Any]:
    arguments = {"partition": str(partition), "settings": settings | {"threads": threads}}
    return _costs(run_team(_PROGRAM, arguments, workers=workers, address=address, threads=threads), workers)


def _costs(results: list[dict[str, Any]], count: int) -> dict[str, Any]:
    """Of one epoch: the median over those after the first, summed or averaged over the workers."""
    processor, seconds, exchanging, sent = [], [], [], []
    for number in range(1, _EPOCHS):
        after = [result["epochs"][number] for result in results]
        before = [result["epochs"][number - 1] for result in results]
        pairs = list(zip(before, after, strict=True))
        processor.append(sum(b["processor"] - a["processor"] for a, b in pairs))
        seconds.append(max(b["seconds"] for _, b in pairs))
        exchanging.append(sum(b["exchanging"] - a["exchanging"] for a, b in pairs) / count / seconds[-1])
        sent.append((after[0]["sent"] - before[0]["sent"]) / results[0]["minibatches"])
    return {
        "processor_seconds": median(processor),
        "epoch_seconds": median(seconds),
        "share_in_exchange": median(exchanging),
        "bytes_a_minibatch": median(sent),
        "peak_bytes": [result["peak_bytes"] for result in results],
    }


def _recover(
    partition: Path, folder: Path, epochs: dict[str, Any], address: str | None, workers: int
) -> dict[str, float]:
    """Seconds from a kill -9 of the last worker to the end of the next epoch, and what one epoch takes undisturbed."""
    folder.mkdir()
    arguments = {
        "partition": str(partition),
        "settings": epochs | {"epochs": _EPOCHS_OF_RECOVERY},
        "log": str(folder),
        "dies_after": _EPOCHS_BEFORE_DEATH,
    }
    run_team(_PROGRAM, arguments, workers=workers, address=address, threads=epochs["threads"], progress=unseen)
    ends = [line.split() for line in (folder / f"worker-{workers - 1}").read_text().splitlines()]
    killed = [float(at) for at, attempt, _ in ends if attempt == "1"][-1]
    again = [float(at) for at, attempt, _ in ends if attempt != "1"]
    return {"seconds": again[0] - killed, "epoch_seconds": again[-1] - again[-2]}


# What a worker does


def train_epochs(exchange: Exchange, arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    """Epochs of the network alone. After each: processor seconds of all threads, bytes sent, seconds of exchanging.

    With a folder of checkpoints, it tells there when each epoch ended, and the last worker of the first attempt is
    killed after so many.
    """
    settings = CFNSettings.of(arguments["settings"])
    if not settings.threads:
        settings = settings.changed({"threads": arguments["threads"]})
    partition = Partition.open(Path(arguments["partition"]))
    shard, own = shard_of(partition, exchange)
    columns = int(partition.columns_by_bucket.sum())
    portion = Portion(partition.rows.keys(), shard.columns.keys(), columns, exchange)
    known = KnownRatings(shard.by_row, shard.by_column)
    spent: list[dict[str, float]] = []
    log = Path(arguments["log"]) if arguments.get("log") else None

    def heard(step: Step) -> None:
        if step.unit != "epoch":
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent.append(
            {
                "processor": used.ru_utime + used.ru_stime,
                "seconds": step.seconds,
                "sent": exchange.sent,
                "exchanging": exchange.seconds,
            }
        )
        tell(step)
        if log is not None:
            with (log / f"worker-{exchange.rank}").open("a") as file:
                file.write(f"{time.time()} {arguments['attempt']} {step.done:g}\n")
            dies = arguments["attempt"] == 1 and exchange.rank == exchange.size - 1
            if dies and step.done >= arguments["dies_after"]:
                os.kill(os.getpid(), signal.SIGKILL)

    checkpoint = None
    if log is not None:
        checkpoint = ShardedCheckpoint(
            log / "checkpoint",
            run="benchmark",
            seconds=0.0,
            columns=own,
            exchange=exchange,
        )
    model = CFN(settings)
    about = partition.row_features(), shard.column_features
    matrix = Matrix(known, partition.scale, *about, portion)
    model.learn_portion(matrix, heard, checkpoint, resume=bool(arguments["resume"]))
    minibatches = -(-int((portion.row_counts(shard.by_row) > 0).sum()) // settings.batch)
    return {"epochs": spent, "minibatches": minibatches, "peak_bytes": peak_bytes()}


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def rows_of(result: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("users, items, ratings", f"{result['users']:,}, {result['items']:,}, {result['ratings']:,}")]
    for workers, costs in result["workers"].items():
        rows.append(
            (
                f"an epoch with {workers} workers",
                f"{costs['processor_seconds']:.1f} processor seconds, {costs['times_one']:.2f} times the "
                f"{costs['processor_seconds_of_one']:.1f} of one process with as many threads; "
                f"{costs['bytes_a_minibatch'] / 1e3:,.0f} kB sent for a minibatch by a worker, "
                f"{costs['share_in_exchange']:.0%} of the time in exchange; a worker has "
                f"{data_size(max(costs['peak_bytes']))}",
            )
        )
    recovery = result["recovery"]
    rows.append(("cutting the ratings into buckets", f"{result['partition_seconds']:.1f} s"))
    rows.append(
        (
            "from kill -9 of a worker to the end of the next epoch",
            f"{recovery['seconds']:.1f} s; an epoch takes {recovery['epoch_seconds']:.1f} s",
        )
    )
    for workers, peaks in result["memory"].items():
        peak = data_size(max(peaks["peak_bytes"]))
        rows.append((f"memory of a whole training, a worker of {workers}", f"{peak}, {peaks['of_one']:.2f} of one"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--like", choices=SHAPES, default="ml-10m", help="shape of the ratings")
    parser.add_argument("--size", type=float, default=1.0, help="share of that shape's ratings")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4], help="numbers of workers to compare")
    parser.add_argument("--hidden", type=int, default=770, help="width of the hidden layer")
    parser.add_argument("--batch", type=int, default=35, help="rows in a minibatch")
    parser.add_argument("--threads", type=int, default=1, help="threads of each worker")
    parser.add_argument("--memory", action="store_true", help="also train whole models: slow")
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster (default: this machine)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = {name: getattr(options, name) for name in ("hidden", "batch", "threads", "seed")}
    result = measure_cluster(
        options.like,
        settings | {"orientation": "item"},
        scale=options.size,
        seed=options.seed,
        workers=sorted(set(options.workers)),
        address=options.ray,
        memory=options.memory,
    )
    print_result(result, rows_of(result), options.json)


if __name__ == "__main__":
    main()

"""`cofill benchmark cluster`: what it costs to train with several workers, and how long it takes to recover from one
that was killed.

On a machine with a few cores this shows no speed-up, and claims none: workers share the cores that one process has
alone. What can be told here is how much more is computed, how much is sent, and how much memory each worker has.
"""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from cofill.benchmark import measure
from cofill.cluster.comm import run_team
from cofill.cluster.train import train_partition
from cofill.config import CFNSettings
from cofill.data.partition import write_partition
from cofill.files import temporary_folder
from cofill.progress import unseen

Say = Callable[[str], None]

_TASKS = "cofill.benchmark.speed_tasks"
_PROGRAM = "cofill.benchmark.cluster_tasks:train_epochs"
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
    say: Say,
) -> dict[str, Any]:
    """Epochs with each number of workers, a recovery, and on request the memory of whole trainings."""
    with temporary_folder("cofill-benchmark") as folder:
        path = folder / "ratings.parquet"
        say(f"making ratings like {like}")
        shape = measure(_TASKS, "make_ratings", like=like, scale=scale, seed=seed, path=str(path))
        say(f"cutting {shape['ratings']:,} ratings into buckets")
        started = time.perf_counter()
        partition = folder / "partition"
        write_partition(path, partition, orientation=settings["orientation"])
        cut = time.perf_counter() - started
        epochs = {"epochs": _EPOCHS, "validation": 0.0, "decoder": "network"} | settings
        found = {}
        for count in workers:
            say(f"{_EPOCHS} epochs with {count} worker{'s' if count > 1 else ''}, and as many threads in one process")
            found[count] = _epochs(partition, epochs, count, settings["threads"], address)
            # Cores that read memory at the same time wait for it, in one process or in several.
            alone = found[count] if count == 1 else _epochs(partition, epochs, 1, count * settings["threads"], address)
            found[count]["processor_seconds_of_one"] = alone["processor_seconds"]
            found[count]["times_one"] = found[count]["processor_seconds"] / alone["processor_seconds"]
        say("killing a worker in the middle of an epoch")
        recovery = _recover(partition, folder / "killed", epochs, address, max(2, min(workers)))
        trained: dict[int, dict[str, Any]] = {}
        for count in (min(workers), max(workers)) if memory else ():
            say(f"a whole training with {count} worker{'s' if count > 1 else ''}, for its memory")
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

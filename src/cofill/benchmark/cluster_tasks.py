"""What a worker of `cofill benchmark cluster` does: epochs, and what they cost it."""

import os
import resource
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cofill.cluster.checkpoint import ShardedCheckpoint
from cofill.cluster.train import shard_of
from cofill.config import CFNSettings
from cofill.data.partition import Partition
from cofill.exchange import Exchange
from cofill.memory import peak_bytes
from cofill.models.cfn.model import CFN
from cofill.models.cfn.scaling import Matrix
from cofill.models.observed import KnownRatings
from cofill.models.rng import Portion
from cofill.progress import Progress, Step


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

"""A training on several workers: what the driver does, and what each worker does.

A worker reads its share of the columns, trains together with the others, and writes its shards of the model. When all
shards are there, the driver writes the card that makes a model of them. Everything lies in folders that all machines
see: the partition, the checkpoint, the model.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from cofill.cluster.checkpoint import ShardedCheckpoint
from cofill.cluster.joint_training import ColumnShare, fit_together
from cofill.cluster.ray_session import LOCAL, require_ray
from cofill.cluster.team import run_team
from cofill.config import CFNSettings, Orientation
from cofill.data.attributes import Attributes
from cofill.data.partition import Partition, is_partition, write_partition
from cofill.data.ratings import Ratings
from cofill.errors import DataError, SettingsError
from cofill.exchange import Exchange
from cofill.files import temporary_folder
from cofill.memory import peak_bytes
from cofill.models.cfn.model import CFN
from cofill.models.persistence import ShardCard, SharedCard
from cofill.models.shards import cut_by_size, divided, finish, write_shard, write_shared
from cofill.progress import Progress, Step, unseen

# Bytes of a shard of the model: a part of it is loaded by somebody with little memory, too.
_SHARD_BYTES = 512_000_000
PROGRAM = "cofill.cluster.training:train_portion"
CHECKPOINT = "checkpoint"
"""The folder inside the model's folder in which a training is kept while it runs."""


@dataclass(frozen=True)
class Trained:
    """What a training on several workers leaves behind, beside the model on disk."""

    measures: dict[str, Any]
    data_summary: dict[str, Any]
    workers: int
    sent: int
    """Bytes that the first worker has sent to the others."""
    exchanging: float
    """Seconds that it has spent on that."""
    peak_bytes: list[int]
    """The most memory that each worker ever had."""


def train_partition(
    partition: Path,
    out: Path,
    settings: CFNSettings,
    *,
    workers: int,
    address: str | None = None,
    progress: Progress = unseen,
    resume: bool = False,
) -> Trained:
    """Train on a partition with so many workers, and write the model in shards.

    A run that was killed goes on with `resume`. `address` is that of a Ray cluster; without one, Ray is started here.
    """
    check_settings(settings, Partition.open(partition))
    if not resume:  # of an earlier run: a second team of this one would take it for its own
        shutil.rmtree(out / CHECKPOINT, ignore_errors=True)
    arguments = {
        "partition": str(partition.resolve()),
        "out": str(out.resolve()),
        "settings": {name: settings.model_dump(mode="json")[name] for name in sorted(settings.model_fields_set)},
        "resume": resume,
    }
    results = run_team(
        PROGRAM,
        arguments,
        workers=workers,
        address=address,
        threads=settings.threads,
        progress=progress,
    )
    first = results[0]
    shards = [ShardCard.model_validate(card) for result in results for card in result["shards"]]
    finish(out, SharedCard.model_validate(first["shared"]), shards)
    shutil.rmtree(out / CHECKPOINT, ignore_errors=True)
    return Trained(
        first["measures"],
        first["data_summary"],
        workers,
        first["sent"],
        first["exchanging"],
        [result["peak_bytes"] for result in results],
    )


@dataclass(frozen=True)
class Cluster:
    """Where to train with several workers: `CFN().fit(ratings, cluster=Cluster(4, "host:6379", folder="/shared/run"))`.

    `address` is that of a Ray cluster, None: processes on this machine. `folder` is where the ratings are cut for the
    workers and the model is written, one that all machines see; without it, one that is removed afterwards.
    """

    workers: int
    address: str | None = None
    folder: Path | str | None = None

    def fit(
        self,
        model: CFN,
        ratings: object,
        *,
        user_features: object,
        item_features: object,
        progress: Progress,
        resume: bool,
    ) -> CFN:
        """The fitted model, loaded whole; what a `Recommender` calls."""
        if self.folder is not None:
            return self._fit_in(Path(self.folder), model, ratings, user_features, item_features, progress, resume)
        if self.address not in (None, LOCAL):
            raise SettingsError(
                "workers on several machines need a folder that all of them see; give Cluster(..., folder=...)"
            )
        if resume:
            raise SettingsError("resume needs the folder of the run to go on with; give Cluster(..., folder=...)")
        with temporary_folder("cofill-cluster") as folder:
            return self._fit_in(folder, model, ratings, user_features, item_features, progress, resume)

    def _fit_in(
        self,
        folder: Path,
        model: CFN,
        ratings: object,
        user_features: object,
        item_features: object,
        progress: Progress,
        resume: bool,
    ) -> CFN:
        require_ray()  # before the ratings are cut
        partition, out = folder / "partition", folder / "model"
        if isinstance(ratings, str | PathLike) and is_partition(Path(ratings)):
            if user_features is not None or item_features is not None:
                raise DataError("the features of a partition are in it; leave out item_features and user_features")
            partition = Path(ratings)
        else:  # also to go on with a run: whether it was about the same ratings is told by what is cut
            side: Orientation = "user" if model.orientation == "user" else "item"
            source = ratings if isinstance(ratings, Ratings | str | PathLike) else Ratings.read(ratings)
            write_partition(
                source,
                partition,
                orientation=side,
                user_features=user_features,
                item_features=item_features,
                progress=progress,
            )
        train_partition(
            partition, out, model.settings, workers=self.workers, address=self.address, progress=progress, resume=resume
        )
        return type(model).load(out)


def check_settings(settings: CFNSettings, partition: Partition) -> None:
    """Refuse, before anything is started, what several workers cannot do."""
    if settings.orientation == "both":
        raise SettingsError(
            "several workers train one network: of two, the columns of one are the rows of the other; "
            "set orientation to item or user, or train on one machine"
        )
    if settings.orientation != partition.orientation:
        raise SettingsError(
            f"{partition.folder} was cut for a network whose rows are {partition.orientation}s, and the setting "
            f"'orientation' is {settings.orientation!r}; cut the ratings again with cofill partition --orientation "
            f"{settings.orientation}, or set orientation to {partition.orientation}"
        )
    if not partition.rated:
        raise SettingsError(
            f"{partition.folder} holds interactions, and several workers train on ratings; train on one machine"
        )
    if settings.half_life and not partition.timed:
        raise SettingsError(
            f"the setting 'half_life' needs the times of ratings, and {partition.folder} has none; leave it out"
        )
    if not settings.on_cpu or settings.engine not in ("auto", "fused"):
        raise SettingsError(
            f"several workers train with the engine fused, on CPUs. Got engine {settings.engine!r} and device "
            f"{settings.device!r}; leave both out"
        )


def train_portion(exchange: Exchange, arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    """The program of one worker; returns what the driver needs for the card."""
    settings = CFNSettings.of(arguments["settings"])
    if not settings.threads:
        settings = settings.changed({"threads": arguments["threads"]})
    partition, folder = Partition.open(Path(arguments["partition"])), Path(arguments["out"])
    tell(Step("reading the partition", 0.0, 1.0, 0.0))
    share = share_of(partition, exchange)
    run = _run_name(partition, settings)
    counts = np.concatenate(exchange.gather(np.array([len(share.columns)], np.int64)))
    first = int(counts[: exchange.rank].sum())
    checkpoint = ShardedCheckpoint(
        folder / CHECKPOINT,
        run=run,
        seconds=settings.checkpoint_seconds,
        columns=range(first, first + len(share.columns)),
        exchange=exchange,
    )
    model = fit_together(
        CFN(settings), share, exchange, checkpoint=checkpoint, resume=bool(arguments["resume"]), progress=tell
    )
    tell(Step("writing the model", 0.0, 1.0, 1.0))
    parts = divided(model)
    ranges = cut_by_size(parts, _SHARD_BYTES) if parts.columns else []
    found: dict[str, Any] = {
        "shards": [write_shard(folder, parts, columns, run=run).model_dump(mode="json") for columns in ranges],
        "sent": exchange.sent,
        "exchanging": exchange.seconds,
        "peak_bytes": peak_bytes(),
    }
    if exchange.rank == 0:
        found |= {
            "shared": write_shared(folder, parts, run=run).model_dump(mode="json", exclude_unset=True),
            "measures": model.measures,
            "data_summary": model.data_summary,
        }
    return found


def share_of(partition: Partition, exchange: Exchange) -> ColumnShare:
    """What one worker has of a partition."""
    shard = partition.read(*partition.cut(exchange.size)[exchange.rank])
    return ColumnShare(
        orientation=partition.orientation,
        scale=partition.scale,
        rows=partition.rows,
        columns=shard.columns,
        by_row=shard.by_row,
        by_column=shard.by_column,
        row_features=partition.row_features(),
        column_features=shard.column_features,
        about_rows=partition.about_rows,
        about_columns=partition.about_columns,
        attributes=_attributes_of_columns(partition),
        titles=partition.titles,
        summary=partition.summary,
        times=shard.times,
    )


def _attributes_of_columns(partition: Partition) -> Attributes | None:
    """What all items are in words, where the columns are items; where the rows are, everybody has them."""
    if partition.orientation == "item":
        return None
    return Attributes.of_features(partition.read(0, partition.buckets).columns, partition.read_features()[1])


def _run_name(partition: Partition, settings: CFNSettings) -> str:
    """A name for data and settings together; neither how often to save counts, nor how many threads there are."""
    relevant = settings.model_dump(mode="json", exclude={"checkpoint_seconds", "threads"})
    return hashlib.sha256(json.dumps([partition.digest, relevant], sort_keys=True).encode()).hexdigest()

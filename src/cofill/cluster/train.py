"""A training on several workers: what the driver does, and what each worker does.

A worker reads its share of the columns, trains together with the others, and writes its shards of the model. When all
shards are there, the driver writes the card that makes a model of them. Everything lies in folders that all machines
see: the partition, the checkpoint, the model.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import safetensors

from cofill.arrays import Floats
from cofill.cluster.comm import run_team
from cofill.cluster.session import LOCAL, require_ray
from cofill.config import CFNSettings
from cofill.data.attributes import Attributes
from cofill.data.described import SideFeatures
from cofill.data.partition import Partition, Shard, is_partition, write_partition
from cofill.data.ratings import Ratings
from cofill.data.sparse import AllColumns, KnownRatings
from cofill.errors import CheckpointError, DataError, SettingsError, train_anew
from cofill.exchange import Exchange, total
from cofill.files import json_of, replacing, temporary_folder
from cofill.memory import peak_bytes
from cofill.models.cfn.checkpoint import Checkpoint
from cofill.models.cfn.model import CFN
from cofill.models.cfn.network import BY_COLUMN, Weights
from cofill.models.cfn.scaling import Matrix
from cofill.models.lists.feedback import time_decay
from cofill.models.lists.scorer import KeysOfSides, Sides
from cofill.models.persistence import (
    Card,
    ShardCard,
    cut_evenly,
    divided,
    finish,
    write_lists,
    write_shard,
    write_shared,
)
from cofill.models.predictor import Predictor
from cofill.models.rng import Portion
from cofill.progress import Progress, Step, unseen

# Bytes of a shard of the model, about, so that a part of it can be loaded with little memory.
_SHARD_BYTES = 512_000_000
PROGRAM = "cofill.cluster.train:train_portion"
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
        PROGRAM, arguments, workers=workers, address=address, threads=settings.threads, progress=progress
    )
    first = results[0]
    shards = [ShardCard.model_validate(card) for result in results for card in result["shards"]]
    finish(out, Card.model_validate(first["shared"]), shards)
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
        require_ray()  # before the ratings are cut
        if self.folder is None and self.address not in (None, LOCAL):
            raise SettingsError(
                "workers on several machines need a folder that all of them see; give Cluster(..., folder=...)"
            )
        if self.folder is None and resume:
            raise SettingsError("resume needs the folder of the run to go on with; give Cluster(..., folder=...)")
        with temporary_folder("cofill-cluster") if self.folder is None else nullcontext(Path(self.folder)) as folder:
            partition, out = folder / "partition", folder / "model"
            if isinstance(ratings, str | PathLike) and is_partition(Path(ratings)):
                if user_features is not None or item_features is not None:
                    raise DataError("the features of a partition are in it; leave out item_features and user_features")
                partition = Path(ratings)
            else:  # also to go on with a run: whether it was about the same ratings is told by what is cut
                write_partition(
                    ratings if isinstance(ratings, Ratings | str | PathLike) else Ratings.read(ratings),
                    partition,
                    orientation="user" if model.orientation == "user" else "item",
                    user_features=user_features,
                    item_features=item_features,
                    progress=progress,
                )
            where: dict[str, Any] = {"workers": self.workers, "address": self.address}
            train_partition(partition, out, model.settings, **where, progress=progress, resume=resume)
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
    if settings.half_life and not partition.timed:
        raise SettingsError(
            f"the setting 'half_life' needs the times of ratings, and {partition.folder} has none; leave it out"
        )
    if settings.list_goal == "next":
        raise SettingsError(
            "several workers fit lists without order and time, and the setting 'list_goal' is 'next'; "
            "leave it out, or train on one machine"
        )
    if not settings.on_cpu or settings.engine not in ("auto", "fused"):
        raise SettingsError(
            f"several workers train with the engine fused, on CPUs. Got engine {settings.engine!r} and device "
            f"{settings.device!r}; leave both out"
        )


def train_portion(exchange: Exchange, arguments: Mapping[str, Any], tell: Progress) -> dict[str, Any]:
    """The program of one worker: fit the model on its columns while the others do so on theirs, and write its shards.

    All workers come to the same weights, to rounding, as one process that has all columns. Returns what the driver
    needs for the card.
    """
    settings = CFNSettings.of(arguments["settings"])
    if not settings.threads:
        settings = settings.changed({"threads": arguments["threads"]})
    partition, folder = Partition.open(Path(arguments["partition"])), Path(arguments["out"])
    tell(Step("reading the partition", 0.0, 1.0, 0.0))
    model = CFN(settings)
    shard, own = shard_of(partition, exchange, times=settings.half_life > 0 and partition.orientation == "item")
    rows, columns = partition.rows, shard.columns
    portion = Portion(rows.keys(), columns.keys(), int(partition.columns_by_bucket.sum()), exchange)
    model.titles, model.data_summary = dict(partition.titles), dict(partition.summary)
    if partition.orientation == "item":
        model.users, model.items = columns, rows
        model.user_features, model.item_features = partition.about_columns, partition.about_rows
        model.item_attributes = Attributes.of_features(rows, partition.about_rows)
    else:
        model.users, model.items = rows, columns
        model.user_features, model.item_features = partition.about_rows, partition.about_columns
        model.item_attributes = Attributes(columns)
    known = KnownRatings(shard.by_row, shard.by_column, _of_all_columns(shard, portion))
    model.learn_portion(
        Matrix(known, partition.scale, partition.row_features(), shard.column_features, portion),
        tell,
        ShardedCheckpoint(
            folder / CHECKPOINT,
            run=_run_name(partition, settings),
            seconds=settings.checkpoint_seconds,
            columns=own,
            exchange=exchange,
        ),
        resume=bool(arguments["resume"]),
    )
    decay = None
    if partition.orientation == "item":
        decay = _decay(shard, settings.half_life, exchange)
        if decay is not None:
            decay = decay[np.argsort(shard.by_row.indices, kind="stable")]
    model.trained = datetime.now(UTC)
    # The network is written before the lists are fitted: codes of all rows and their neighbours need not stay.
    parts = divided(model, {} if decay is None else {"decay": decay})
    ranges = cut_evenly(parts, 1 + int(parts.sizes().sum()) // _SHARD_BYTES) if parts.columns else []
    shards = [write_shard(folder, parts, columns).model_dump(mode="json") for columns in ranges]
    shared = write_shared(folder, parts) if exchange.rank == 0 else None
    learned = model.predictor
    model._predictor = Predictor(
        learned.known, learned.scale, learned.means, learned.user_features, learned.item_features
    )
    del parts, learned
    if partition.orientation == "item":
        model.fit_lists(decay, tell, exchange=exchange)
    else:
        decay = _fit_lists_by_rows(model, partition, portion, tell)
        if decay is not None:  # that of all people is in the shared file
            decay = np.concatenate(exchange.gather(decay))
    tell(Step("writing the model", 0.0, 1.0, 1.0))
    found: dict[str, Any] = {
        "shards": shards,
        "sent": exchange.sent,
        "exchanging": exchange.seconds,
        "peak_bytes": peak_bytes(),
    }
    if shared is not None:
        of_users = {"decay": decay} if decay is not None and partition.orientation == "user" else {}
        shared.files |= write_lists(folder, model, of_users)
        found |= {
            "shared": shared.model_dump(mode="json", exclude_unset=True),
            "measures": model.measures,
            "data_summary": model.data_summary,
        }
    return found


def shard_of(partition: Partition, exchange: Exchange, *, times: bool = False) -> tuple[Shard, range]:
    """The columns of one worker, which is all that it reads of the ratings; and where they stand among those of all."""
    first, last = partition.cut(exchange.size)[exchange.rank]
    ends = np.concatenate([[0], np.cumsum(partition.columns_by_bucket)])
    return partition.read(first, last, times=times), range(int(ends[first]), int(ends[last]))


def _of_all_columns(shard: Shard, portion: Portion) -> AllColumns:
    values = shard.by_row.values.astype(np.float64)
    count, summed = total(portion.exchange, len(values), values.sum())
    mean = summed / max(count, 1)
    squares = total(portion.exchange, float(((values - mean) ** 2).sum()))[0]
    return AllColumns(portion.row_counts(shard.by_row), float(np.sqrt(squares / max(count, 1))))


def _decay(shard: Shard, half_life: float, exchange: Exchange) -> Floats | None:
    """(n,): what time has left of each rating, row by row; None where it takes nothing off."""
    if not half_life:
        return None
    if shard.times is None:
        raise DataError("half_life needs to know when people rated, and there are no times", "leave it out")
    own = float(shard.times.max()) if len(shard.times) else -np.inf
    return time_decay(shard.times, half_life, float(exchange.max_(np.array([own], np.float64))[0]))


def _fit_lists_by_rows(model: CFN, partition: Partition, portion: Portion, progress: Progress) -> Floats | None:
    """Where the rows are users: the list scorer adds up over people, so each worker reads all ratings of some.

    Returns what time has left of each of these.
    """
    exchange, users = portion.exchange, partition.row_features()
    ends = np.linspace(0, len(partition.rows), exchange.size + 1).astype(np.int64).tolist()
    mine = slice(*ends[exchange.rank : exchange.rank + 2])
    half_life = model.settings.half_life
    own = partition.read(0, partition.buckets, times=half_life > 0, rows=range(mine.start, mine.stop))
    if exchange.rank == 0 and partition.about_columns is not None:  # the first worker writes what all items are
        words, described = partition.words_of_columns()
        about = replace(partition.about_columns, ids=described).with_words(words)
        model.item_attributes = Attributes.of_features(own.columns, about)
    decay = _decay(own, half_life, exchange)
    model.fit_lists(
        decay,
        progress,
        known=KnownRatings(own.by_row, own.by_column),
        sides=Sides(SideFeatures(users.trained[mine], users.trained_described[mine]), own.column_features),
        keys=KeysOfSides(portion.row_keys[mine], own.columns.keys()),
        exchange=exchange,
    )
    return decay


def _run_name(partition: Partition, settings: CFNSettings) -> str:
    """A name for data and settings together; neither how often to save counts, nor how many threads there are."""
    relevant = settings.model_dump(mode="json", exclude={"checkpoint_seconds", "threads"})
    return hashlib.sha256(json.dumps([partition.digest, relevant], sort_keys=True).encode()).hexdigest()


class ShardedCheckpoint(Checkpoint):
    """A folder that all workers save and load together; `columns` are those of this worker among all.

        checkpoint.json               the manifest: which of them, and the columns of each
        000012/<worker>.safetensors   what a worker has: the weights of its columns, and those that all have

    Every worker writes its file into a new folder. The manifest is written when all of them are on disk, and the older
    folders go after that: whenever workers are killed, there is a whole checkpoint, the last one or the one before.
    Another number of workers can go on from it, each from the columns that it has now.
    """

    def __init__(self, folder: Path, *, run: str, seconds: float, columns: range, exchange: Exchange) -> None:
        super().__init__(folder / "checkpoint.json", run=run, seconds=seconds)
        self.folder, self._columns, self._exchange = folder, columns, exchange
        self._number = 0
        self._shards: list[tuple[int, int]] = []  # of each worker whose weights were loaded: the first column, how many

    def due(self) -> bool:
        """Whether the last one is at least `seconds` old, by the clock of the first worker."""
        due = self._exchange.rank == 0 and super().due()
        return bool(self._exchange.max_(np.array([due], np.uint8))[0])

    def save(self, weights: Weights, best: Weights | None, state: dict[str, Any]) -> None:
        self._number += 1
        self._shard(self._exchange.rank).save(weights, best, state)
        # Only when every worker has come here are all files on disk.
        shards = self._exchange.gather(np.array([[self._columns.start, len(self._columns)]], np.int64))
        self._saved_at = time.monotonic()
        if self._exchange.rank == 0:
            manifest = {"number": self._number, "shards": np.concatenate(shards).tolist()}
            with replacing(self.path, CheckpointError) as draft:
                draft.write_text(json.dumps(manifest), encoding="utf-8")
            for path in self.folder.iterdir():  # that of the next number stays: others may be writing it already
                if path.name.isdecimal() and int(path.name) < self._number:
                    shutil.rmtree(path, ignore_errors=True)

    def load(self) -> tuple[Weights, dict[str, Any]] | None:
        """What this worker has of the last whole checkpoint, or None where there is nothing to resume."""
        if not self.path.exists():
            return None
        try:
            manifest = json_of(self.path.read_text(encoding="utf-8"))
            self._number, self._shards = manifest["number"], [(first, count) for first, count in manifest["shards"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from None
        own = self._shard(min(self._exchange.rank, len(self._shards) - 1)).load()  # is it of this run?
        if own is None:
            raise self._unreadable("a file is missing")
        state = own[1]
        del own  # before its weights are read again, with those of other columns
        return self._arrays("now."), state

    def best_weights(self) -> Weights | None:
        return (self._arrays("best.") or None) if self._shards else None

    def remove(self) -> None:
        if self._exchange.rank == 0:
            shutil.rmtree(self.folder, ignore_errors=True)
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise CheckpointError(
                    f"{self.folder}: no checkpoint can be written there: {problem.strerror}; choose another place"
                ) from None
        self._exchange.max_(np.zeros(1, np.uint8))  # no shard is written before the old ones are gone

    def _shard(self, rank: int) -> Checkpoint:
        path = self.folder / f"{self._number:06d}" / f"{rank}.safetensors"
        return Checkpoint(path, run=self._run, seconds=self._seconds)

    def _arrays(self, prefix: str) -> Weights:
        """The weights whose names begin so: those that all share, and the columns that this worker has now."""
        found: Weights = {}
        for rank, (start, count) in enumerate(self._shards):
            first, last = max(self._columns.start - start, 0), min(self._columns.stop - start, count)
            if found and first >= last:  # one is read in any case, for the shapes
                continue
            try:
                some = self._shard(rank)._arrays(prefix)
            except (OSError, safetensors.SafetensorError) as error:
                raise self._unreadable(error) from None
            for name in filter(some.__contains__, BY_COLUMN):
                if len(some[name]) != count:
                    raise self._unreadable(f"worker {rank + 1} has {len(some[name])} columns and not {count}")
                own = some[name][first : max(first, last)]
                some[name] = np.concatenate([found[name], own]) if found else own
            found |= some
        return found

    def _unreadable(self, problem: object) -> CheckpointError:
        return CheckpointError(f"{self.path}: the checkpoint cannot be read ({problem})", train_anew("remove it or "))

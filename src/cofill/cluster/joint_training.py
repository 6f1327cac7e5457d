"""One of several processes that train a CFN together: from its share of the columns to its part of the model."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from cofill.config import Orientation
from cofill.data.attributes import Attributes
from cofill.data.described import SideFeatures
from cofill.data.features import Features
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, SettingsError
from cofill.exchange import Exchange, total
from cofill.models.cfn.checkpoint import TrainingCheckpoint
from cofill.models.cfn.model import CFN
from cofill.models.lists.feedback import time_decay
from cofill.models.lists.scorer import KeysOfSides, Sides
from cofill.models.observed import AllColumns, KnownRatings
from cofill.models.portion import Portion
from cofill.progress import Forecast, Progress, unseen

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ColumnShare:
    """All rows of a data set, and the columns that one process has."""

    orientation: Orientation  # what the rows are
    scale: Scale
    rows: Vocabulary
    columns: Vocabulary
    by_row: SparseRows  # (rows, own columns)
    by_column: SparseRows
    row_features: SideFeatures
    column_features: SideFeatures
    about_rows: Features | None
    about_columns: Features | None
    attributes: Attributes | None  # of all items, where these are the columns
    titles: Mapping[Id, str]
    summary: Mapping[str, Any]
    times: npt.NDArray[Any] | None  # of the ratings, row by row


def fit_together(
    model: CFN,
    share: ColumnShare,
    exchange: Exchange,
    *,
    checkpoint: TrainingCheckpoint | None = None,
    resume: bool = False,
    progress: Progress = unseen,
) -> CFN:
    """Fit the model on this process's columns while the others do the same on theirs: then it is part of a whole.

    All processes come to the same weights, to rounding, as one process that has all columns.
    """
    if model.orientation != share.orientation:
        raise SettingsError(f"rows are {share.orientation}s here, and the model's are {model.orientation}s")
    columns = int(total(exchange, len(share.columns))[0])
    portion = Portion(share.rows.keys(), share.columns.keys(), columns, exchange)
    known = KnownRatings(share.by_row, share.by_column, _of_all_columns(share, portion))
    by_item = share.orientation == "item"
    model.users, model.items = (share.columns, share.rows) if by_item else (share.rows, share.columns)
    model.titles, model.data_summary = dict(share.titles), dict(share.summary)
    about = share.about_columns, share.about_rows
    model.user_features, model.item_features = about if by_item else (about[1], about[0])
    if share.attributes is None:
        model.item_attributes = Attributes.of_features(model.items, model.item_features)
    else:
        model.item_attributes = share.attributes
    features = share.row_features, share.column_features
    progress = Forecast(progress)
    model.learn_portion(known, share.scale, features, portion, progress, checkpoint, resume=resume)
    decay = _decay(share, model.settings.half_life, exchange)
    if by_item:
        model.fit_lists(decay, progress, exchange=exchange)
    else:
        # Each process has all people and some items: the scorer asks for all items, which every process gets.
        whole = _all_items(share, exchange)
        items = SideFeatures(
            *(np.concatenate(exchange.gather(part)) for part in (features[1].trained, features[1].trained_described))
        )
        keys = KeysOfSides(portion.row_keys, np.concatenate(exchange.gather(portion.column_keys)))
        order = None if decay is None else _decay_of_all(share, decay, exchange)
        model.fit_lists(order, progress, known=whole, sides=Sides(features[0], items), keys=keys)
    model.trained = datetime.now(UTC)
    return model


def _of_all_columns(share: ColumnShare, portion: Portion) -> AllColumns:
    values = share.by_row.values.astype(np.float64)
    count, summed = total(portion.exchange, len(values), values.sum())
    mean = summed / max(count, 1)
    squares = total(portion.exchange, float(((values - mean) ** 2).sum()))[0]
    return AllColumns(portion.row_counts(share.by_row), float(np.sqrt(squares / max(count, 1))))


def _decay(share: ColumnShare, half_life: float, exchange: Exchange) -> Floats | None:
    """(n,): what time has left of each rating, user by user; None where it takes nothing off."""
    if not half_life:
        return None
    if share.times is None:
        raise DataError("half_life needs to know when people rated, and there are no times", "leave it out")
    own = float(share.times.max()) if len(share.times) else -np.inf
    latest = exchange.max_(np.array([own], np.float64))[0]
    left = time_decay(share.times, half_life, float(latest))
    return left if share.orientation == "user" else left[np.argsort(share.by_row.indices, kind="stable")]


def _all_items(share: ColumnShare, exchange: Exchange) -> KnownRatings:
    """The ratings of all users and items, from what the processes have of each user."""
    by_item = share.by_column
    counts = np.concatenate(exchange.gather(by_item.counts()))
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices, values = (np.concatenate(exchange.gather(part)) for part in (by_item.indices, by_item.values))
    items = SparseRows(indptr, indices, values, share.by_row.rows)
    return KnownRatings(items.transpose(), items)


def _decay_of_all(share: ColumnShare, decay: Floats, exchange: Exchange) -> Floats:
    """The same for the ratings of all items, user by user."""
    by_item = decay[np.argsort(share.by_row.indices, kind="stable")]
    of_all, users = (np.concatenate(exchange.gather(part)) for part in (by_item, share.by_column.indices))
    in_order: Floats = of_all[np.argsort(users, kind="stable")]
    return in_order

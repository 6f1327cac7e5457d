"""What a prediction is made of: how far each rating and each feature of a row, or of a column, moves it.

    prediction = base + shares of the ratings + shares of the features + remainder

The base is the prediction for a row or column of which nothing is known, that of the fitted means. Everything else is a
blend, and its shares are blended as it is:

- The deviation of the fitted means is a sum over ratings and features already.
- The network's output is taken apart along a path (a row, `path_shares`) or in closed form (a column, `solved_shares`).
- That the network speaks at all, and not the means alone, is owed to all alike: what it says of a row or column of
  which nothing is known differs from the base, and ratings and features share the difference equally.

The remainder is rounding for a row and for a new column. For a column that was trained it is what training knows of it
beyond the closed form.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cofill.data.sparse import SparseRows
from cofill.models.cfn.completion import Completion
from cofill.models.cfn.feature_ridge import FeatureRegression
from cofill.models.cfn.path_shares import along_the_path
from cofill.models.cfn.solved_shares import of_closed_form

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int32]
Bools = npt.NDArray[np.bool_]


class Given(NamedTuple):
    """What is known of the row or column whose predictions are explained."""

    others: Ints  # (n,): the columns that a row has rated, or the rows that a column has
    ratings: Floats  # (n,)
    features: Floats | None  # (P,), None where nothing is known
    widths: tuple[int, ...]  # how many features each input column has: they are explained as one


class SharesOf(NamedTuple):
    """Of predictions at m columns or rows; (n,) and (P,) where they are the same for all."""

    ratings: Doubles  # (m, n)
    features: Doubles  # (m, P), or (m, input columns) in the end


def row_shares(completion: Completion, given: Given, columns: Ints) -> SharesOf:
    """Of the predictions at these columns for a row, known or new."""
    network, scaling, means = completion.network, completion.scaling, completion.means
    features = _or_zeros(given.features, completion.row_features.width)
    heard = given.others < network.columns
    row = SparseRows(np.array([0, heard.sum()]), given.others[heard], given.ratings[heard], network.columns)
    scaled = scaling.down_with(row, np.array([scaling.mean_of(given.ratings, features)]), features[None])
    weight, bias = completion.column_weights.now()
    path = along_the_path(
        network,
        scaled.known.indices,
        (scaled.known.values + np.float32(scaled.presence)) * scaled.loudness,
        features,
        scaled.features[0, len(features) :],
        weight[columns],
        bias[columns],
    )
    # The row's own mean comes back on top of what the network says.
    nobody = scaling.mean_of(given.ratings[:0], np.zeros_like(features))
    surplus = scaling.down_values(given.ratings, np.array(nobody))
    of_mean = _of_damped_mean(surplus, features, scaling.by_features, scaling.damping)
    by_rating = np.tile(of_mean.ratings, (len(columns), 1))
    by_rating[:, heard] += path.by_input

    usual = np.zeros(len(given.others), np.float32)
    usual[heard] = means.trained_column[given.others[heard]]
    surplus = given.ratings - means.overall - usual - means.row_of_nobody()
    base = means.overall + means.column[columns] + means.row_of_nobody()
    trust = completion.trust(np.array([heard.sum()]), np.array([given.features is not None]))
    return _blended(
        given,
        trust=trust * completion.column_known()[columns],
        of_means=_of_damped_mean(surplus, features, means.by_row_features, scaling.damping),
        of_network=_in_ratings(completion, by_rating, path.by_feature + of_mean.features),
        difference=scaling.unclipped(path.start, nobody) - base,
        heard=heard,
    )


def column_shares(completion: Completion, given: Given, rows: Ints) -> SharesOf:
    """Of the predictions at these rows for a column, known or new."""
    scaling, means, weights = completion.scaling, completion.means, completion.column_weights
    features = _or_zeros(given.features, completion.column_features.width)
    codes, seen_means = completion.codes.for_regression(given.others.astype(np.int64))
    asked, asked_means = completion.codes.now(rows.astype(np.int64))
    targets = scaling.down_values(given.ratings, seen_means)
    output = of_closed_form(weights.prior, codes, targets, features, asked, squash=completion.network.squash)

    usual = np.zeros(len(given.others), np.float32)
    old = given.others < len(means.trained_row)
    usual[old] = means.trained_row[given.others[old]]
    surplus = given.ratings - means.overall - usual - means.column_of_nothing()
    base = means.overall + means.row[rows] + means.column_of_nothing()
    known = len(given.ratings) > 0 or given.features is not None
    return _blended(
        given,
        trust=completion.row_trust()[rows] * np.float32(known),
        of_means=_of_damped_mean(surplus, features, means.by_column_features, scaling.damping),
        of_network=_in_ratings(completion, output.by_rating, output.by_feature),
        difference=scaling.unclipped(output.start.astype(np.float32), asked_means) - base,
        heard=np.ones(len(given.ratings), np.bool_),
    )


def _or_zeros(features: Floats | None, width: int) -> Floats:
    return np.zeros(width, np.float32) if features is None else features


def _of_damped_mean(surplus: Floats, features: Floats, by_features: FeatureRegression, damping: float) -> SharesOf:
    """Of a damped mean, as far as it differs from that of nobody, whom n ratings exceed by `surplus` (n,)."""
    total = len(surplus) + damping
    left = damping / total if total > 0 else 1.0
    by_rating = surplus.astype(np.float64) / max(total, 1)
    return SharesOf(by_rating, left * features.astype(np.float64) * by_features.slope[:-1, 0])


def _in_ratings(completion: Completion, by_rating: Doubles, by_feature: Doubles) -> SharesOf:
    low, high = completion.scale
    return SharesOf(by_rating * ((high - low) / 2), by_feature * ((high - low) / 2))


def _blended(
    given: Given, *, trust: Floats, of_means: SharesOf, of_network: SharesOf, difference: Floats, heard: Bools
) -> SharesOf:
    """The shares of the network and those of the means, weighed by the trust (m,) in the network.

    `difference` (m,) is what the network exceeds the base by where nothing is known. The ratings that are `heard` (n,)
    and the features that tell anything share it.
    """
    believed = trust.astype(np.float64)[:, None]
    ratings, features = (
        believed * network + (1 - believed) * means for network, means in zip(of_network, of_means, strict=True)
    )
    ends = np.cumsum(given.widths, dtype=np.int64)[:-1]
    columns = [part.sum(1) for part in np.split(features, ends, axis=1)] if given.widths else []
    told = np.zeros(len(columns), np.bool_)
    if given.features is not None and given.widths:
        told = np.array([bool(part.any()) for part in np.split(given.features, ends)])
    each = believed * difference[:, None] / max(int(heard.sum() + told.sum()), 1)
    together = np.array(columns).reshape(len(columns), len(trust)).T
    return SharesOf(ratings + each * heard, together + each * told)

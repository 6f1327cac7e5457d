"""What a network predicts for users, which are its rows or its columns, and why.

Attribution: how far each rating and each feature of a row, or of a column, moves a prediction.

    prediction = base + shares of the ratings + shares of the features + remainder

The base is the prediction for a row or column of which nothing is known, that of the fitted means. Everything else is a
blend, and its shares are blended as it is:

- The deviation of the fitted means is a sum over ratings and features already (`of_damped_mean`).
- The network's output for a row is taken apart by integrated gradients (`along_the_path`): inputs and features grow in
  step from nothing to what they are, and each is credited with its value times the slope that it meets on the way, on
  average. Together that is what the outputs have changed by, to the precision of the quadrature: the function along the
  way is smooth, and the points are those of Gauss and Legendre.
- The output for a column is linear in what its ratings exceed the expected ones by: exactly so, or with tanh at the
  output by the slope of the way (`secant`).
- That the network counts at all, and not the means alone, is owed to all alike: its output for a row or column of
  which nothing is known differs from the base, and ratings and features share the difference equally (`blended`).

The remainder is rounding for a row and for a new column. For a column that was trained, with the network's own output,
it is what training knows of it beyond the closed form.
"""

from typing import ClassVar, NamedTuple

import numpy as np

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.config import Orientation
from cofill.models.biases import Biases
from cofill.models.cfn.decoding import CFNPredictor
from cofill.models.cfn.gp import KernelInputs
from cofill.models.cfn.network import CFNetwork, activation_gradient, encode_rows
from cofill.models.predictor import or_zeros
from cofill.models.results import Given, Shares
from cofill.models.ridge import FeatureRegression

_NEVER_SEEN = np.array([-1], np.int32)
_ABSCISSAS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_PLACES: Floats = ((_ABSCISSAS + 1) / 2).astype(np.float32)  # on the way from 0 to 1
_SHARES: Floats = (_WEIGHTS / 2).astype(np.float32)


class UserRows(CFNPredictor):
    """Users are the rows of the network: the code of a user times the weights of all items."""

    rows_are: ClassVar[Orientation] = "user"

    def item_vectors(self) -> Floats:
        """(items, width): the weights of codes."""
        self._flush()
        return self._weights.linear[: self.known.columns, :-1] if self._tells_taste else super().item_vectors()

    def users(self, users: Longs) -> Floats:
        self._flush()
        now, items = self.codes.now(), self._weights.at(slice(self.known.columns))
        directions = now.directions[users]
        said = self._said(now.codes[users], directions, items)
        if self._local is not None:
            for place, user in enumerate(users.tolist()):
                said[place] += self._local.of_row(self._local.nearest(user), directions[place])
        shrinkage, deviations, means = (part[users][:, None] for part in (self._shrinkage(), self.means.row, now.means))
        bias = items.bias
        if (slopes := self.biases.slopes) is not None:
            bias = bias + np.transpose(self._interactions(slopes.rows.inputs[users], slopes.columns.inputs))
        return self._ratings(bias, said, shrinkage, deviations, means, self._column_known())

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self.new_user_at(items, ratings, features, slice(self.known.columns))

    def new_user_at(self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints | slice) -> Floats:
        self._flush()
        vector = or_zeros(features, self.row_features.width)
        code, mean = self.codes.of_ratings(items, ratings, vector)
        shrinkage, direction = self._shrinkage_of(items, features)[0], self._space.directions(code[None])
        weights = self._weights.at(asked)
        said = self._said(code[None], direction, weights)[0]
        if self._local is not None and shrinkage:
            said += self._local.of_row(self._local.nearest_to(direction[0]), direction[0])[asked]
        deviation, bias = self.biases.row_of(items, ratings, vector), weights.bias
        if (slopes := self.biases.slopes) is not None:
            together = self._interactions(slopes.rows.design(vector[None]), slopes.columns.inputs[asked])
            bias = bias + np.reshape(together, -1)
        return self._ratings(bias, said, shrinkage, deviation, mean, self._column_known()[asked])

    def _shrinkage_of(self, items: Ints, features: Floats | None) -> Floats:
        """(1,): in a user with ratings of these items."""
        return self._amplitudes.shrinkage(np.array([self._count_read(items)]), np.array([features is not None]))

    def quickest_order(self, users: Ints, items: Ints) -> Longs:
        return np.lexsort((users, items))  # column by column

    def new_user_interval_radius(
        self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        if self.decoder.spread is None:
            return None
        code, _ = self.codes.of_ratings(items, ratings, or_zeros(features, self.row_features.width))
        rated = [self.by_row.column(item)[0] for item in asked.tolist()]
        own = np.repeat(asked.astype(np.int64), [len(rows) for rows in rated])
        new = code, self._shrinkage_of(items, features)[0]
        posterior = self._variances(rated, own, [_NEVER_SEEN] * len(asked), new)
        read = np.full(len(asked), self._count_read(items))
        return self._in_ratings(self.decoder.spread, posterior, read, self.item_counts[asked], predicted)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Along the path from nothing to the user through the network, as far as the code is believed in the end."""
        self._flush()
        network, scaling, space, weights = self.network, self.scaling, self._space, self._weights.at(items)
        vector = or_zeros(given.features, self.row_features.width)
        read = given.others < network.columns
        row, _ = self.codes.as_read(given.others, given.ratings, vector)
        code = encode_rows(network, row)
        shrinkage = self._shrinkage_of(given.others, given.features)[0]
        weight, bias = weights.linear[:, :-1], weights.linear[:, -1]
        if weights.cosine.shape[1]:
            cosine: Floats = weights.cosine @ space.basis.T / space.lengths(code)
            weight, bias = weight + cosine, bias - cosine @ space.centre
        believed = np.float32(1) if self.own_output else shrinkage
        path = along_the_path(
            network,
            row.known.indices,
            (row.known.values + np.float32(row.presence)) * row.input_scale,
            vector,
            row.features[0, len(vector) :],
            believed * weight,
            believed * bias,
            squash=self._squashes,
        )
        # The mean of the user comes on top of what the decoder says.
        nobody = scaling.mean_of(given.others[:0], given.ratings[:0], np.zeros_like(vector))
        surplus = scaling.without_column(given.others, given.ratings) - nobody
        of_mean = of_damped_mean(surplus, vector, scaling.by_features, scaling.damping)
        by_rating = np.tile(of_mean.ratings, (len(items), 1))
        by_rating[:, read] += path.by_input
        by_feature = (path.by_feature + of_mean.features) * scaling.unit
        if (slopes := self.biases.slopes) is not None:
            together = slopes.columns.inputs[items, 1:] @ slopes.coefficients[1:, 1:]
            by_feature += slopes.rows.design.shares(vector, self._amplitudes.interactions * together)
        of_network = Shares(by_rating * scaling.unit, by_feature)
        if self.own_output:
            base = self.means.overall + np.float32(scaling.unit) * weights.bias + self.means.row_of_nobody()
            difference, believed = scaling.unclipped(path.start, nobody) - base, shrinkage * self._column_known()[items]
        else:
            said = path.start
            if self._local is not None and shrinkage:
                direction, local = space.directions(code)[0], self._local
                near = local.nearest(given.number) if given.number >= 0 else local.nearest_to(direction)
                said = said + shrinkage * local.of_row(near, direction)[items]
            difference, believed = np.float32(scaling.unit) * said, np.ones(len(items), np.float32)
        return blended(given, vector, self.means, of_network, shrinkage=believed, difference=difference, read=read)


class ItemRows(CFNPredictor):
    """Items are the rows of the network, and users its columns: the codes of all items times the weights of a user."""

    rows_are: ClassVar[Orientation] = "item"

    def item_vectors(self) -> Floats:
        """(items, width): the codes."""
        return self.codes.now().codes if self._tells_taste else super().item_vectors()

    def users(self, users: Longs) -> Floats:
        self._flush()
        now, weights = self.codes.now(), self._weights.at(users)
        said = np.ascontiguousarray(self._said(now.codes, now.directions, weights).T)
        if self._local is not None:
            for place, user in enumerate(users.tolist()):
                said[place] += self._local.of_column(*self._local.alpha_of(user))
        bias, known = weights.bias[:, None], self._column_known()[users][:, None]
        if (slopes := self.biases.slopes) is not None:
            bias = bias + self._interactions(slopes.rows.inputs, slopes.columns.inputs[users])
        return self._ratings(bias, said, self._shrinkage(), self.means.column, now.means, known)

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self.new_user_at(items, ratings, features, slice(None))

    def new_user_at(self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints | slice) -> Floats:
        vector = or_zeros(features, self.column_features.width)
        found = self._solved(items, ratings, vector, None)
        return self._column_at(found, items, vector, asked, known=len(ratings) > 0 or features is not None)

    def new_user_interval_radius(
        self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        if self.decoder.spread is None:
            return None
        posterior = self._variances([items], np.full(len(items), -1), [asked])
        counts = np.full(len(asked), len(items))
        return self._in_ratings(self.decoder.spread, posterior, self._read[asked], counts, predicted)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Exact: what the user says is a sum over the ratings, each times its gain."""
        self._flush()
        scaling, means, unit = self.scaling, self.means, self.scaling.unit
        vector = or_zeros(given.features, self.column_features.width)
        number = given.number if given.number >= 0 else None
        posterior, seen, targets = self._posterior(given.others, given.ratings, vector, number)
        now = self.codes.now()
        asked = self._space.seen(now.codes[items], self._shrinkage()[items])
        cut = None if self._local is None else self._local.between(items, asked.directions, given.others)
        gain = posterior.gain(asked, cut)
        nothing = self._expected(np.zeros_like(vector))

        def expected(at: KernelInputs, weights: Floats, bias: Floats) -> Floats:
            """(n, Q) or (n, 1): what weights (width + 1, Q) and biases (Q,) say of rows."""
            said = at.codes @ weights[:-1] + weights[-1]
            found: Floats = bias + np.float32(self._amplitudes.mean) * at.shrinkage[:, None] * said
            return found

        of_nothing = nothing.weights[:, None], np.array([nothing.bias], np.float32)
        start = expected(asked, *of_nothing)[:, 0].astype(np.float64)
        by_rating = gain * (targets - expected(seen, *of_nothing)[:, 0])
        # What the ratings tell is taken off what the features had led one to expect.
        of_bias = means.by_row_features.slope[:-1, 0] / np.float32(unit)
        slope = self._space.by_features.slope[:-1].T, np.zeros_like(of_bias) if self.own_output else of_bias
        by_feature = (expected(asked, *slope) - gain @ expected(seen, *slope)) * vector
        if (slopes := self.biases.slopes) is not None:
            share = self._amplitudes.interactions / unit * slopes.coefficients[1:, 1:].T
            of_asked, of_seen = (
                slopes.columns.design.shares(vector, inputs[:, 1:] @ share)
                for inputs in (slopes.rows.inputs[items], self._inputs_of(given.others))
            )
            by_feature = by_feature + of_asked - gain @ of_seen
        if self._squashes:
            steepness = secant(start, start + by_rating.sum(1) + by_feature.sum(1))[:, None]
            start, by_rating, by_feature = np.tanh(start), by_rating * steepness, by_feature * steepness
        shrinkage, difference = np.ones(len(items), np.float32), np.zeros(len(items), np.float32)
        if self.own_output:
            shrinkage = self._shrinkage()[items] * np.float32(len(given.ratings) > 0 or given.features is not None)
            base = means.overall + means.column[items] + means.row_of_nobody()
            difference = scaling.unclipped(start.astype(np.float32), now.means[items]) - base
        of_network, read = Shares(by_rating * unit, by_feature * unit), np.ones(len(given.ratings), np.bool_)
        return blended(given, vector, means, of_network, shrinkage=shrinkage, difference=difference, read=read)


class PathShares(NamedTuple):
    """Of outputs at m columns, in scaled ratings."""

    start: Floats  # (m,): outputs for a row of which nothing is known
    by_input: Floats  # (m, n)
    by_feature: Floats  # (m, P)


def along_the_path(
    network: CFNetwork,
    columns: Ints,
    inputs: Floats,
    features: Floats,
    mark: Floats,
    weight: Floats,
    bias: Floats,
    *,
    squash: bool,
) -> PathShares:
    """For inputs (n,) at columns (n,) and features (P,), seen through output weights (m, width) and biases (m,).

    `mark` (0 or 1 of them) are further features that stay as they are all the way. `squash`: tanh follows the output.
    """
    into = network.input.weight[columns]  # (n, k)
    side = network.input.side
    aside = np.zeros((len(features), into.shape[1]), np.float32) if side is None else side
    places: Floats = np.append(_PLACES, np.float32(0))[:, None]  # the last is the start
    beside = np.column_stack([places * features, np.tile(mark, (len(places), 1))])  # (places, P and mark)
    z = places * (inputs @ into) + beside @ aside + network.input.bias

    hidden = network.hidden(z, beside)  # of each layer (places, its width)
    outputs = np.column_stack([hidden[-1], beside]) @ weight.T + bias  # (places, m)

    slope = np.broadcast_to(weight, (len(_PLACES), *weight.shape))  # of the outputs by the code, (points, m, width)
    start = outputs[-1]
    if squash:
        start = np.tanh(start)
        slope = slope * (1 - np.tanh(outputs[:-1]) ** 2)[:, :, None]
    by_beside = np.zeros((len(weight), beside.shape[1]), np.float32)
    for at in range(len(hidden) - 1, -1, -1):
        width = hidden[at].shape[1]
        by_beside += np.tensordot(_SHARES, slope[:, :, width:], 1)
        slope = activation_gradient(slope[:, :, :width], hidden[at][:-1, None], network.activation)
        if at:
            slope = slope @ network.middle[at - 1].weight
    by_sum = np.tensordot(_SHARES, slope, 1)  # (m, k): the slope by what the input layer sums up, on average
    by_beside += by_sum @ aside.T
    return PathShares(start, (by_sum @ into.T) * inputs, by_beside[:, : len(features)] * features)


def secant(low: Doubles, high: Doubles) -> Doubles:
    """How steep tanh is between two points, on average."""
    apart = np.abs(high - low) > 1e-9
    rise = np.tanh(high) - np.tanh(low)
    steepness: Doubles = np.divide(rise, high - low, out=1 - np.tanh(low) ** 2, where=apart)
    return steepness


def of_damped_mean(surplus: Floats, features: Floats, by_features: FeatureRegression, damping: float) -> Shares:
    """Of a damped mean, as far as it differs from that without ratings, which these exceed by `surplus`: (n,), (P,)."""
    total = len(surplus) + damping
    left = damping / total if total > 0 else 1.0
    by_rating = surplus.astype(np.float64) / max(total, 1)
    return Shares(by_rating, left * features.astype(np.float64) * by_features.slope[:-1, 0])


def blended(
    given: Given,
    features: Floats,
    means: Biases,
    of_network: Shares,
    *,
    shrinkage: Floats,
    difference: Floats,
    read: Bools,
) -> Shares:
    """The shares of the network and those of the means, weighed by the shrinkage (m,) of the network.

    `difference` (m,) is what the network exceeds the base by where nothing is known. The ratings that are `read` (n,)
    and the features that tell anything share it.
    """
    usual = np.zeros(len(given.others), np.float32)
    old = given.others < len(means.trained_column)
    usual[old] = means.trained_column[given.others[old]]
    surplus = given.ratings - means.overall - usual - means.row_of_nobody()
    of_means = of_damped_mean(surplus, features, means.by_row_features, means.row_damping)
    weight = shrinkage.astype(np.float64)[:, None]
    by_rating, by_feature = (
        weight * network + (1 - weight) * mean for network, mean in zip(of_network, of_means, strict=True)
    )
    ends = np.cumsum(given.widths, dtype=np.int64)[:-1]
    columns = [part.sum(1) for part in np.split(by_feature, ends, axis=1)] if given.widths else []
    told = np.zeros(len(columns), np.bool_)
    if given.features is not None and given.widths:
        told = np.array([bool(part.any()) for part in np.split(given.features, ends)])
    each = weight * difference[:, None] / max(int(read.sum() + told.sum()), 1)
    together = np.array(columns).reshape(len(columns), len(shrinkage)).T
    return Shares(by_rating + each * read, together + each * told)

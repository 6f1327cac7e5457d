"""What a network predicts for users, which are its rows or its columns."""

import numpy as np

from cofill.arrays import Floats, Ints, Longs
from cofill.data.described import SideFeatures
from cofill.data.sparse import SparseRows
from cofill.models.biases import FittedMeans
from cofill.models.cfn.attribution import along_the_path, blended, of_damped_mean, secant
from cofill.models.cfn.decoding import CFNPredictor, transposed
from cofill.models.cfn.gp import Seen
from cofill.models.observed import KnownRatings
from cofill.models.predictor import or_zeros
from cofill.models.results import Given, Shares

_NEVER_SEEN = np.array([-1], np.int32)


class UserRows(CFNPredictor):
    """Users are the rows of the network: the code of a user times the weights of all items."""

    @staticmethod
    def _by_users(
        known: KnownRatings, biases: FittedMeans, row_features: SideFeatures, column_features: SideFeatures
    ) -> tuple[KnownRatings, FittedMeans, SideFeatures, SideFeatures]:
        return known, biases, row_features, column_features

    @property
    def _row_deviations(self) -> Floats:
        return self.means.row

    @property
    def _column_counts(self) -> Longs:
        return self.item_counts

    def _follow(self, users: list[int], items: list[int]) -> None:
        self._follow_rows(users, items)

    def item_vectors(self) -> Floats:
        """(items, width): the weights of codes."""
        self._settle()
        return self._linear[: self.known.columns, :-1] if self._tells_taste else super().item_vectors()

    def users(self, users: Longs) -> Floats:
        self._settle()
        codes, means = self.codes.now(users)
        directions, items = self._space.directions(codes), slice(self.known.columns)
        said = codes @ self._linear[items, :-1].T + self._linear[items, -1]
        if self._cosine.shape[1]:
            said += directions @ self._cosine[items].T
        if self._local is not None:
            for place, user in enumerate(users.tolist()):
                near = self._local.nearest(user, directions[place])
                said[place] += self._local.of_row(near, directions[place])
        trust, deviations = self._trust()[users][:, None], self.means.row[users][:, None]
        return self._ratings(self._bias[items], said, trust, deviations, means[:, None], self._column_known())

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self.new_user_at(items, ratings, features, slice(self.known.columns))

    def new_user_at(self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints | slice) -> Floats:
        self._settle()
        vector = or_zeros(features, self.row_features.width)
        code, mean = self.codes.of_ratings(items, ratings, vector)
        trust = self._trust_of(items, features)[0]
        said = self._linear[asked, :-1] @ code + self._linear[asked, -1]
        direction = self._space.directions(code[None])[0]
        if self._cosine.shape[1]:
            said += self._cosine[asked] @ direction
        if self._local is not None and trust:
            said += self._local.of_row(self._local.nearest_to(direction), direction)[asked]
        deviation = self.biases.row_of(items, ratings, vector)
        return self._ratings(self._bias[asked], said, trust, deviation, mean, self._column_known()[asked])

    def _trust_of(self, items: Ints, features: Floats | None) -> Floats:
        """(1,): in a user with ratings of these items."""
        return self._amplitudes.trust(np.array([self._count_read(items)]), np.array([features is not None]))

    def entries(self, users: Ints, items: Ints) -> Floats:
        return self._entries(users, items)

    def quickest_order(self, users: Ints, items: Ints) -> Longs:
        return np.lexsort((users, items))  # column by column

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        return self._radius(users, items, predicted)

    def new_user_interval_radius(
        self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints, predicted: Floats
    ) -> Floats | None:
        if self.decoder.spread is None:
            return None
        code, _ = self.codes.of_ratings(items, ratings, or_zeros(features, self.row_features.width))
        new = self._space.seen(code[None], self._trust_of(items, features))
        rated = [self.by_row.column(item)[0] for item in asked.tolist()]
        own = np.repeat(asked.astype(np.int64), [len(rows) for rows in rated])
        posterior = self._variances(rated, own, [_NEVER_SEEN] * len(asked), new)
        read = np.full(len(asked), self._count_read(items))
        return self._in_ratings(self.decoder.spread, posterior, read, self.item_counts[asked], predicted)

    def user_shares(self, given: Given, items: Ints) -> Shares:
        """Along the path from nothing to the user through the network, as far as the code is believed in the end."""
        self._settle()
        network, scaling, space, biases = self.network, self.scaling, self._space, self.biases
        vector = or_zeros(given.features, self.row_features.width)
        read = given.others < network.columns
        row = SparseRows(np.array([0, read.sum()]), given.others[read], given.ratings[read], network.columns)
        code, mean = self.codes.of_ratings(given.others, given.ratings, vector)
        scaled = scaling.down_with(row, np.array([mean]), vector[None])
        trust = self._trust_of(given.others, given.features)[0]
        weight, bias = self._linear[items, :-1], self._linear[items, -1]
        if self._cosine.shape[1]:
            cosine = self._cosine[items] / space.centred(code[None])[1][0]
            weight, bias = weight + cosine, bias - cosine @ space.centre
        believed = np.float32(1) if self._own_output else trust
        path = along_the_path(
            network,
            scaled.known.indices,
            (scaled.known.values + np.float32(scaled.presence)) * scaled.input_scale,
            vector,
            scaled.features[0, len(vector) :],
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
        of_network = Shares(by_rating * scaling.unit, (path.by_feature + of_mean.features) * scaling.unit)
        if self._own_output:
            usual = np.zeros(len(given.others), np.float32)
            usual[read] = biases.trained_column[given.others[read]]
            surplus = given.ratings - biases.overall - usual - biases.row_of_nobody()
            of_mean = of_damped_mean(surplus, vector, biases.by_row_features, biases.row_damping)
            base = biases.overall + np.float32(scaling.unit) * self._bias[items] + biases.row_of_nobody()
            difference, weights = scaling.unclipped(path.start, nobody) - base, trust * self._column_known()[items]
        else:
            said = path.start
            if self._local is not None and trust:
                direction, local = space.directions(code[None])[0], self._local
                near = local.nearest(given.number, direction) if given.number >= 0 else local.nearest_to(direction)
                said = said + trust * local.of_row(near, direction)[items]
            difference, weights = np.float32(scaling.unit) * said, np.ones(len(items), np.float32)
        return blended(given, trust=weights, of_means=of_mean, of_network=of_network, difference=difference, read=read)


class ItemRows(CFNPredictor):
    """Items are the rows of the network, and users its columns: the codes of all items times the weights of a user."""

    @staticmethod
    def _by_users(
        known: KnownRatings, biases: FittedMeans, row_features: SideFeatures, column_features: SideFeatures
    ) -> tuple[KnownRatings, FittedMeans, SideFeatures, SideFeatures]:
        return known.transposed(), transposed(biases), column_features, row_features

    @property
    def _row_deviations(self) -> Floats:
        return self.means.column

    @property
    def _column_counts(self) -> Longs:
        return self.user_counts

    def _follow(self, users: list[int], items: list[int]) -> None:
        self._follow_rows(items, users)

    def item_vectors(self) -> Floats:
        """(items, width): the codes."""
        return self.codes.all_now()[0] if self._tells_taste else super().item_vectors()

    def users(self, users: Longs) -> Floats:
        self._settle()
        codes, means = self.codes.all_now()
        said = self._linear[users, :-1] @ codes.T + self._linear[users, -1:]
        if self._cosine.shape[1]:
            cosine = self._cosine[users]
            said += (cosine @ codes.T - (cosine @ self._space.centre)[:, None]) / self._lengths()
        if self._local is not None:
            for place, user in enumerate(users.tolist()):
                said[place] += self._local.of_column(*self._local.alpha_of(user))
        bias, known = self._bias[users][:, None], self._column_known()[users][:, None]
        return self._ratings(bias, said, self._trust(), self.means.column, means, known)

    def new_user(self, items: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        return self.new_user_at(items, ratings, features, slice(None))

    def new_user_at(self, items: Ints, ratings: Floats, features: Floats | None, asked: Ints | slice) -> Floats:
        found = self._decoded(items, ratings, or_zeros(features, self.column_features.width), None)
        return self._column_at(found, items, asked, known=len(ratings) > 0 or features is not None)

    def entries(self, users: Ints, items: Ints) -> Floats:
        return self._entries(items, users)

    def interval_radius(self, users: Ints, items: Ints, predicted: Floats) -> Floats | None:
        return self._radius(items, users, predicted)

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
        self._settle()
        scaling, biases, unit = self.scaling, self.biases, self.scaling.unit
        vector = or_zeros(given.features, self.column_features.width)
        number = given.number if given.number >= 0 else None
        posterior, seen, targets = self._posterior(given.others, given.ratings, vector, number)
        codes, means = self.codes.now(items.astype(np.int64))
        asked = self._space.seen(codes, self._trust()[items])
        cut = None if self._local is None else self._local.between(items, asked.directions, given.others)
        gain = posterior.gain(asked, cut)
        nothing = self._expected(np.zeros_like(vector))

        def expected(at: Seen, weights: Floats, bias: Floats) -> Floats:
            """(n, Q) or (n, 1): what weights (width + 1, Q) and biases (Q,) say of rows."""
            said = at.codes @ weights[:-1] + weights[-1]
            found: Floats = bias + np.float32(self._amplitudes.mean) * at.trust[:, None] * said
            return found

        of_nothing = nothing.weights[:, None], np.array([nothing.bias], np.float32)
        start = expected(asked, *of_nothing)[:, 0].astype(np.float64)
        by_rating = gain * (targets - expected(seen, *of_nothing)[:, 0])
        # What the ratings tell is taken off what the features had led one to expect.
        of_bias = biases.by_column_features.slope[:-1, 0] / np.float32(unit)
        slope = self._space.by_features.slope[:-1].T, np.zeros_like(of_bias) if self._own_output else of_bias
        by_feature = (expected(asked, *slope) - gain @ expected(seen, *slope)) * vector
        if self._squashes:
            steepness = secant(start, start + by_rating.sum(1) + by_feature.sum(1))[:, None]
            start, by_rating, by_feature = np.tanh(start), by_rating * steepness, by_feature * steepness
        weights, difference = np.ones(len(items), np.float32), np.zeros(len(items), np.float32)
        if self._own_output:
            weights = self._trust()[items] * np.float32(len(given.ratings) > 0 or given.features is not None)
            base = biases.overall + self.means.column[items] + biases.column_of_nothing()
            difference = scaling.unclipped(start.astype(np.float32), means) - base
        usual = np.zeros(len(given.others), np.float32)
        old = given.others < len(biases.trained_row)
        usual[old] = biases.trained_row[given.others[old]]
        surplus = given.ratings - biases.overall - usual - biases.column_of_nothing()
        return blended(
            given,
            trust=weights,
            of_means=of_damped_mean(surplus, vector, biases.by_column_features, biases.column_damping),
            of_network=Shares(by_rating * unit, by_feature * unit),
            difference=difference,
            read=np.ones(len(given.ratings), np.bool_),
        )

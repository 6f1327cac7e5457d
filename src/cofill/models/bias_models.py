"""The algorithms that predict by biases alone: `means`, which others must beat, and `lists`, for interactions too."""

from typing import ClassVar

import numpy as np
from pydantic import Field

from cofill.config import ListSettings, Settings
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.ratings import Scale
from cofill.models.biases import FittedMeans
from cofill.models.known import KnownRatings, known_arrays, known_from
from cofill.models.matrix import FilledMatrix, Flags, Floats, Ints, Longs
from cofill.models.recommender import Fitting, Kept, Recommender


class MeansMatrix(FilledMatrix):
    """What the fitted means say of every user and item, and nothing beyond."""

    def __init__(
        self, known: KnownRatings, means: FittedMeans, scale: Scale, users: SideFeatures, items: SideFeatures
    ) -> None:
        super().__init__(known, means, users, items)
        self._scale = scale
        self._catch_up()

    @property
    def scale(self) -> Scale:
        return self._scale

    def row_known(self) -> Flags:
        return np.asarray((self.row_counts > 0) | self.row_features.described)

    def column_known(self) -> Flags:
        return np.asarray((self.column_counts > 0) | self.column_features.described)

    def row_vectors(self) -> Floats:
        return np.zeros((self.rows, 0), np.float32)

    def column_vectors(self) -> Floats:
        return np.zeros((self.columns, 0), np.float32)

    def row(self, row: int) -> Floats:
        found: Floats = self.means_of_rows(np.array([row]))[0]
        return found

    def column(self, column: int) -> Floats:
        found: Floats = self.means_of_columns(np.array([column]))[0]
        return found

    def new_row(self, columns: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        about = np.zeros(self.row_features.width, np.float32) if features is None else features
        found: Floats = self.means.overall + self.means.column + self.means.row_of(columns, ratings, about)
        return found

    def new_column(self, rows: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        about = np.zeros(self.column_features.width, np.float32) if features is None else features
        found: Floats = self.means.overall + self.means.row + self.means.column_of(rows, ratings, about)
        return found

    def many_rows(self, rows: Longs) -> Floats:
        return self.means_of_rows(rows)

    def many_columns(self, columns: Longs) -> Floats:
        return self.means_of_columns(columns)

    def _fill_entries(self, predicted: Floats, seen: Longs, rows: Ints, columns: Ints) -> None:
        """There is nothing to add."""

    def _make_room(self) -> None:
        """Nothing has an entry for each row or column but the means."""

    def _row_changed(self, row: int, columns: Ints, ratings: Floats) -> None:
        """The means are all there is."""

    def _column_changed(self, column: int, rows: Ints, ratings: Floats) -> None:
        """The means are all there is."""

    def _row_was_trained(self, row: int) -> bool:
        trained = self.known.trained
        return row < trained.rows and bool(trained.indptr[row + 1] > trained.indptr[row])


class BiasSettings(ListSettings):
    """What `means` is given by name."""

    mean_damping: float | None = Field(
        default=None,
        ge=0,
        description="ratings of average value added to the means that an unknown id is left to; unless given, it is "
        "learned from the data, apart for users and items (empirical Bayes, by EM)",
    )


class Means(Recommender):
    """rating = overall + deviation of the user + deviation of the item, fitted together, with learned variances.

    >>> Means().fit("ratings.csv").predict([(42, "Alien")])
    """

    kind = "means"
    settings_class: ClassVar[type[Settings]] = BiasSettings

    @property
    def _damping(self) -> float | None:
        damping: float | None = getattr(self._settings, "mean_damping", None)
        return damping

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> MeansMatrix:
        known = KnownRatings(data.ratings.rows("user"), data.ratings.rows("item"))
        means = FittedMeans(
            known.trained,
            known.trained_columns,
            self._damping,
            row_features=data.users.trained,
            column_features=data.items.trained,
        )
        return MeansMatrix(known, means, data.ratings.scale, data.users, data.items)

    def _kept(self) -> Kept:
        matrix = self.matrix
        assert isinstance(matrix, MeansMatrix)
        return Kept(matrix.means.arrays(), known_arrays(matrix.known))

    def _restored(
        self, kept: Kept, scale: Scale, users: SideFeatures | None, items: SideFeatures | None
    ) -> MeansMatrix:
        known = known_from(kept.ratings, scale, len(self.users), len(self.items))
        users = users or SideFeatures.none(known.trained.rows)
        items = items or SideFeatures.none(known.trained.columns)
        return MeansMatrix(known, FittedMeans.restored(kept.weights), scale, users, items)


class ListModel(Means):
    """A model of interactions, or of ratings of which only lists are wanted: it is fitted in seconds.

    >>> ListModel().fit(Interactions.read("clicks.csv")).recommend("ann")

    Trained on ratings, it predicts the fitted means; on interactions, there are no ratings to predict.
    """

    kind = "lists"
    settings_class: ClassVar[type[Settings]] = ListSettings
    takes_features: ClassVar[bool] = True
    follows_features: ClassVar[bool] = True
    takes_interactions: ClassVar[bool] = True

    def facts(self) -> list[tuple[str, str]]:
        return [("lists", f"a linear model of {len(self.items):,} items, without a network")]

"""Lists alone: the list scorer without a network, for people who clicked, played or bought, and rated nothing."""

from typing import ClassVar

import numpy as np

from cofill.config import ListSettings, Settings
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.ratings import Scale
from cofill.models.known import KnownRatings, known_arrays, known_from
from cofill.models.matrix import FilledMatrix, Flags, Floats, Ints, Longs, Matrix
from cofill.models.means import FittedMeans
from cofill.models.recommender import Fitting, Kept, Recommender


class ListModel(Recommender):
    """A model of interactions, or of ratings of which only lists are wanted: it is fitted in seconds.

    >>> ListModel().fit(Interactions.read("clicks.csv")).recommend("ann")

    Trained on ratings, it predicts the fitted means; on interactions, there are no ratings to predict.
    """

    kind = "lists"
    settings_class: ClassVar[type[Settings]] = ListSettings
    takes_features: ClassVar[bool] = True
    follows_features: ClassVar[bool] = True
    takes_interactions: ClassVar[bool] = True

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Matrix:
        known = KnownRatings(data.ratings.rows("user"), data.ratings.rows("item"))
        return MeansMatrix(known, data.ratings.scale, data.users, data.items)

    def facts(self) -> list[tuple[str, str]]:
        return [("lists", f"a linear model of {len(self.items):,} items, without a network")]

    def _kept(self) -> Kept:
        matrix = self.matrix
        assert isinstance(matrix, MeansMatrix)
        given = {} if matrix.damping is None else {"damping": np.array([matrix.damping], np.float32)}
        return Kept(given, known_arrays(matrix.known))

    def _restored(
        self, kept: Kept, scale: Scale, users: SideFeatures | None, items: SideFeatures | None
    ) -> "MeansMatrix":
        known = known_from(kept.ratings, scale, len(self.users), len(self.items))
        given = kept.weights.get("damping")  # up to format 6; what is learned comes out the same again
        return MeansMatrix(
            known,
            scale,
            users or SideFeatures.none(known.trained.rows),
            items or SideFeatures.none(known.trained.columns),
            None if given is None else float(given[0]),
        )


class MeansMatrix(FilledMatrix):
    """What the fitted means say of every user and item, and nothing beyond."""

    def __init__(
        self,
        known: KnownRatings,
        scale: Scale,
        users: SideFeatures,
        items: SideFeatures,
        damping: float | None = None,
    ) -> None:
        means = FittedMeans(
            known.trained, known.trained_columns, damping, row_features=users.trained, column_features=items.trained
        )
        self.damping = damping
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
        deviation = self.means.row_of(columns, ratings, about)
        found: Floats = (self.means.overall + self.means.column + deviation).astype(np.float32)
        return found

    def new_column(self, rows: Ints, ratings: Floats, features: Floats | None = None) -> Floats:
        about = np.zeros(self.column_features.width, np.float32) if features is None else features
        deviation = self.means.column_of(rows, ratings, about)
        found: Floats = (self.means.overall + self.means.row + deviation).astype(np.float32)
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

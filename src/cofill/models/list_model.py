"""Lists alone: the list scorer without a network, for people who clicked, played or bought, and rated nothing."""

from typing import ClassVar

import numpy as np

from cofill.config import ListSettings, Settings
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.ratings import Scale
from cofill.models.means import FittedMeans
from cofill.models.observed import KnownRatings, known_arrays, known_from
from cofill.models.predictor import Predictor
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

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Predictor:
        known = KnownRatings(data.ratings.rows("user"), data.ratings.rows("item"))
        return MeansMatrix(known, data.ratings.scale, data.users, data.items)

    def facts(self) -> list[tuple[str, str]]:
        return [("lists", f"a linear model of {len(self.items):,} items, without a network")]

    def _kept(self) -> Kept:
        predictor = self.predictor
        assert isinstance(predictor, MeansMatrix)
        given = {} if predictor.damping is None else {"damping": np.array([predictor.damping], np.float32)}
        return Kept(given, known_arrays(predictor.known))

    def _restored(
        self, kept: Kept, scale: Scale, users: SideFeatures | None, items: SideFeatures | None
    ) -> "MeansMatrix":
        known = known_from(kept.ratings, len(self.users), len(self.items))
        given = kept.weights.get("damping")  # up to format 6; what is learned comes out the same again
        return MeansMatrix(
            known,
            scale,
            users or SideFeatures.none(known.trained.rows),
            items or SideFeatures.none(known.trained.columns),
            None if given is None else float(given[0]),
        )


class MeansMatrix(Predictor):
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
        super().__init__(known, scale, means, users, items)
        self._catch_up()

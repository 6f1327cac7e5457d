"""The algorithms that predict by biases alone: `means`, which others must beat, and `lists`, for interactions too."""

from typing import ClassVar

from pydantic import Field

from cofill.arrays import Ints
from cofill.config import ListSettings, Settings
from cofill.data.described import DescribedRatings, SideFeatures
from cofill.data.ratings import Scale
from cofill.data.sparse import KnownRatings, known_arrays, known_from
from cofill.models.biases import Biases
from cofill.models.persistence import State
from cofill.models.predictor import Given, Predictor, Shares, by_input_column, or_zeros
from cofill.models.recommender import Fitting, Recommender


class BiasSettings(ListSettings):
    """What `means` is given by name."""

    mean_damping: float | None = Field(
        default=None,
        ge=0,
        description="ratings of average value added to the means that an unknown id is left to; unless given, it is "
        "learned from the data, apart for users and items (empirical Bayes, by EM)",
    )


class BiasPredictor(Predictor):
    """Biases alone: what every rating and feature adds is known exactly."""

    def user_shares(self, given: Given, items: Ints) -> Shares:
        vector = or_zeros(given.features, self.user_features.width)
        by_rating, by_feature = self.means.shares(given.others, given.ratings, vector, items)
        return Shares(by_rating, by_input_column(by_feature, given.widths))


class Means(Recommender):
    """rating = overall + deviation of the user + deviation of the item, fitted together, with learned variances.

    With side information it is a linear mixed model (`models/slopes.py`): features of either side, and both together,
    move what is expected, and users differ in what they make of the features of items.

    >>> Means().fit("ratings.csv").predict([(42, "Alien")])
    """

    kind = "means"
    settings_class: ClassVar[type[Settings]] = BiasSettings
    takes_features: ClassVar[bool] = True
    follows_features: ClassVar[bool] = True

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Predictor:
        known = KnownRatings(data.ratings.rows("user"), data.ratings.rows("item"))
        damping: float | None = getattr(self._settings, "mean_damping", None)
        of_users, of_items = data.users.trained, data.items.trained
        means = Biases.fit(
            known.trained, known.trained_columns, damping, row_features=of_users, column_features=of_items
        )
        return BiasPredictor(known, data.ratings.scale, means, data.users, data.items)

    def _state_dict(self) -> State:
        return State(self.predictor.means.arrays(), known_arrays(self.predictor.known))

    def _load_state_dict(
        self, state: State, scale: Scale, users: SideFeatures | None, items: SideFeatures | None
    ) -> Predictor:
        known = known_from(state.ratings, len(self.users), len(self.items))
        users = users or SideFeatures.none(known.trained.rows)
        items = items or SideFeatures.none(known.trained.columns)
        means = Biases.restored(state.weights, users.trained, items.trained)
        predictor = BiasPredictor(known, scale, means, users, items)
        predictor._apply_updates()
        return predictor


class ListModel(Means):
    """A model of interactions, or of ratings of which only lists are wanted: it is fitted in seconds.

    >>> ListModel().fit(Interactions.read("clicks.csv")).recommend("ann")

    Trained on ratings, it predicts the fitted means; on interactions, there are no ratings to predict.
    """

    kind = "lists"
    settings_class: ClassVar[type[Settings]] = ListSettings
    takes_interactions: ClassVar[bool] = True

    def facts(self) -> list[tuple[str, str]]:
        return [("lists", f"a linear model of {len(self.items):,} items, without a network")]

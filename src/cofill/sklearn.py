"""A scikit-learn estimator: rating prediction in pipelines, grid searches and cross-validation.

>>> from sklearn.model_selection import GridSearchCV
>>> from cofill import CFN
>>> from cofill.sklearn import RatingRegressor
>>> grid = {"recommender__hidden": [100, 300]}
>>> search = GridSearchCV(RatingRegressor(CFN()), grid, scoring="neg_root_mean_squared_error")
>>> search.fit(ratings[["user", "item"]], ratings["rating"])

It needs `pip install 'cofill[sklearn]'`.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cofill.data.pairs import read_pairs
from cofill.data.ratings import Ratings
from cofill.errors import DataError
from cofill.extras import require
from cofill.models.recommender import Recommender

require("cofill.sklearn", "sklearn", "sklearn")

from sklearn.base import BaseEstimator, RegressorMixin, clone  # noqa: E402  # after the command that installs it
from sklearn.utils import Tags  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402


class RatingRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A recommender that predicts ratings, as a scikit-learn regressor.

    X has a row for each rating: a frame with columns that are recognised as user and item (others are left alone), or
    an array with two columns. Ids are strings or integers. y are the ratings. `predict` takes pairs of unknown users
    and items too, and `score` is R², as of every regressor; `scoring="neg_root_mean_squared_error"` gives RMSE.

    `recommender` is any of cofill that learns from ratings: its settings are searched as `recommender__epochs` and so
    on. `scale` is the least and greatest rating; give it for cross-validation, where a fold may lack the extremes.
    `item_features` and `user_features` are what `fit` of a recommender takes; they are the same for every fold.

    After `fit`, `recommender_` is the fitted recommender, with its lists, explanations and files.

    More than half of the checks of `sklearn.utils.estimator_checks.check_estimator` fail, because they feed what makes
    no sense here and is refused: X with one column or more than two, ids that are real numbers, sparse or complex X.
    The wording of some errors is cofill's. There are no sample weights. Folds are random over ratings unless you say
    otherwise; `GroupKFold` by user or item measures cold starts.
    """

    def __init__(
        self,
        recommender: Recommender | None = None,
        *,
        scale: tuple[float, float] | None = None,
        item_features: object = None,
        user_features: object = None,
    ) -> None:
        self.recommender = recommender
        self.scale = scale
        self.item_features = item_features
        self.user_features = user_features

    def fit(self, X: object, y: object) -> Self:
        """Train a clone of `recommender`, or a CFN if there is none, on the ratings y of the pairs X."""
        if y is None:
            raise DataError("fit requires y to be passed, but the target y is None", "give the ratings of the pairs")
        users, items = read_pairs(X)
        ratings = np.asarray(y)
        if ratings.shape != (len(users),):
            raise DataError(
                f"X has {len(users)} pairs, and y the shape {ratings.shape}", "give one rating to each pair"
            )
        data = Ratings.read((list(users), list(items), ratings), scale=self.scale)
        features = {"item_features": self.item_features, "user_features": self.user_features}
        given: dict[str, Any] = {name: source for name, source in features.items() if source is not None}
        fresh: Recommender = _default() if self.recommender is None else clone(self.recommender)
        self.recommender_ = fresh.fit(data, **given)
        self.n_features_in_ = 2
        return self

    def predict(self, X: object) -> npt.NDArray[np.float64]:
        """(n,): predicted ratings."""
        check_is_fitted(self)
        return self.recommender_.predict(X).astype(np.float64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


def _default() -> Recommender:
    from cofill.models.cfn.model import CFN

    return CFN()

"""CFN, the autoencoder of the paper, as a recommender: fit on ratings and side information, describe, recommend."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings, Orientation, Settings
from cofill.data.attributes import Attributes
from cofill.data.described import DescribedRatings
from cofill.data.features.known import SideFeatures
from cofill.data.features.matching import warn_of_width
from cofill.data.features.readable import ReadableColumn
from cofill.data.known import KnownRatings
from cofill.data.ratings import Ratings, Scale
from cofill.data.sparse import SparseRows
from cofill.errors import DataError, SettingsError
from cofill.models.cfn.completion import Completion
from cofill.models.cfn.explaining import Given, column_shares, row_shares
from cofill.models.cfn.fitting import Fitted, fit_matrix
from cofill.models.cfn.training import Report
from cofill.models.explanation import Shares, Somebody
from cofill.models.parts import Parts
from cofill.models.recommender import Recommender

if TYPE_CHECKING:
    from cofill.data.features import Features

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int32]


class CFN(Recommender):
    """An autoencoder that reads the known ratings of a row and fills in the unknown ones.

    >>> model = CFN(orientation="item", epochs=30).fit(Ratings.read("ratings.csv"))
    >>> model.recommend(42, n=10)
    >>> model.recommend({"Alien": 5, "Notting Hill": 1})

    `orientation="item"`: a row is an item (V-CFN); `"user"`: a row is a user (U-CFN). Every field of
    `CFNSettings` can be given by name. Whatever the orientation, users and items that were never seen are folded
    in from their ratings, from what their side features tell, or from both; ids of which nothing is known get the
    fitted means.
    """

    kind = "cfn"
    settings_class: ClassVar[type[Settings]] = CFNSettings
    takes_features: ClassVar[bool] = True
    keeps_checkpoints: ClassVar[bool] = True

    def __init__(self, settings: CFNSettings | None = None, **changes: Any) -> None:
        super().__init__(settings, **changes)

    def __repr__(self) -> str:
        state = f"{len(self.users)} users, {len(self.items)} items" if self._filled else "not fitted"
        return f"{type(self).__name__}(orientation={self.orientation!r}; {state})"

    @property
    def settings(self) -> CFNSettings:
        assert isinstance(self._settings, CFNSettings)
        return self._settings

    @property
    def orientation(self) -> Orientation:
        return self.settings.orientation

    @property
    def completion(self) -> Completion:
        """The filled matrix, in rows and columns."""
        filled = self.filled
        assert isinstance(filled, Completion)
        return filled

    # Fitting

    def fit(
        self,
        ratings: object,
        *,
        item_features: object = None,
        user_features: object = None,
        checkpoint: Path | str | None = None,
        resume: bool = False,
        report: Report | None = None,
        solved: Callable[[float], None] | None = None,
    ) -> Self:
        """Train on ratings, or on anything that `Ratings.read` takes, and on side features where there are any.

        `item_features` and `user_features` are Features, or anything that `Features.read` takes without being told
        more. Ids with features and without a rating become known to the model: they are the cold ones.

        `checkpoint` names a file that lets a killed run go on with `resume=True`; remove it once the model is saved.
        `report` is called after every epoch with its record and the most epochs that the phase may take, `solved` with
        the share done while the columns are solved for at the end.
        """
        name = type(self).__name__
        if not self.takes_features and (item_features is not None or user_features is not None):
            raise DataError(f"{name} makes no use of side information; leave the features out")
        if not self.keeps_checkpoints and (checkpoint is not None or resume):
            raise SettingsError(f"{name} is trained in one go; leave out checkpoint and resume")
        if resume and checkpoint is None:
            raise SettingsError("resume needs the checkpoint of the run to go on with; give checkpoint=... too")
        data = DescribedRatings.of(ratings, user_features=user_features, item_features=item_features)
        by_user = self.orientation == "user"
        row_features, column_features = (data.users, data.items) if by_user else (data.items, data.users)
        rows = data.ratings.rows(self.orientation)
        warn_of_width(row_features.width, self.settings.hidden, rows.columns)
        fitted = self._trained(
            rows,
            data.ratings.scale,
            features=row_features.values,
            checkpoint_path=Path(checkpoint) if checkpoint else None,
            resume=resume,
            report=report,
        )
        columns = data.ratings.rows("item" if by_user else "user")
        self._take(fitted, data.ratings, KnownRatings(rows, columns), row_features, column_features)
        self.data_summary, self.user_features, self.item_features = data.summary, data.about_users, data.about_items
        self.item_attributes = Attributes.of_features(self.items, data.about_items)
        if self.settings.solve_columns:
            self.completion.column_weights.solve_trained(solved)
        return self

    def _trained(
        self,
        rows: SparseRows,
        scale: Scale,
        *,
        features: Floats,
        checkpoint_path: Path | None,
        resume: bool,
        report: Report | None,
    ) -> Fitted:
        """The network and its history; an autoencoder that trains in another way overrides this."""
        return fit_matrix(
            rows,
            scale,
            self.settings,
            features=features,
            checkpoint_path=checkpoint_path,
            resume=resume,
            report=report,
        )

    def _take(
        self,
        fitted: Fitted,
        ratings: Ratings,
        known: KnownRatings,
        row_features: SideFeatures,
        column_features: SideFeatures,
    ) -> None:
        self.history = fitted.history
        self.measures = {"epochs": fitted.epochs, "validation_rmse": fitted.validation_rmse}
        self.users, self.items = ratings.users.copy(), ratings.items.copy()
        self.titles = dict(ratings.titles)
        self._filled = Completion(
            fitted.network,
            fitted.scaling,
            known,
            self.settings,
            row_features=row_features,
            column_features=column_features,
        )

    # What the hybrid adds: users and items by their features

    def _scores_of_described(self, items: Ints, ratings: Floats, features: Mapping[str, object]) -> Floats:
        ask = self.completion.new_row if self.orientation == "user" else self.completion.new_column
        return ask(items, ratings, self._learned("user").encode(features))

    def _shares(self, somebody: Somebody, asked: Ints) -> Shares:
        by_user = self.orientation == "user"
        side = self.completion.row_features if by_user else self.completion.column_features
        vector: Floats | None = None
        if somebody.features is not None:
            vector = self._learned("user").encode(somebody.features)
        elif somebody.user is not None and side.described[somebody.user]:
            vector = side.values[somebody.user]
        sources = () if vector is None else self._learned("user").sources
        columns = [column for source in sources for column in source.widths()]
        given = Given(somebody.items, somebody.ratings, vector, tuple(width for _, width in columns))
        shares = (row_shares if by_user else column_shares)(self.completion, given, asked)
        return Shares(shares.ratings, shares.features, tuple(name for name, _ in columns))

    def _describe(self, side: Orientation, source: object) -> Self:
        completion, learned = self.completion, self._learned(side)
        vocabulary = self.users if side == "user" else self.items
        if isinstance(source, Mapping):
            ids: Iterable[Any] = list(source)
            vectors = np.array([learned.encode(about) for about in source.values()], np.float32)
            vectors = vectors.reshape(len(source), learned.width)
            words: Mapping[str, ReadableColumn] = learned.in_words(list(source.values()))
        else:
            described = learned.encode_table(source, unmentioned=np.nan)
            ids, vectors, words = described.ids.array(), described.values, described.readable
        known = vocabulary.find(ids)
        indices = vocabulary.add(ids)
        # A table may say nothing of tags, say: what is known of them stays, and of new ones nothing is known.
        features = completion.row_features if side == self.orientation else completion.column_features
        before = np.where((known >= 0)[:, None], features.values[known], np.float32(0)) if len(known) else vectors
        vectors = np.where(np.isnan(vectors), before, vectors)
        if side == self.orientation:
            completion.describe_rows(indices, vectors)
        else:
            completion.describe_columns(indices, vectors)
        if side == "item":
            self.item_attributes.describe(indices, words)
        return self

    # Keeping

    def taken_apart(self) -> Parts:
        from cofill.models.cfn.parts import parts_of

        return parts_of(self)

    def put_together(self, parts: Parts) -> None:
        from cofill.models.cfn.parts import restore

        self._filled = restore(self, parts)

    # How

    def _learned(self, side: Orientation) -> "Features":
        """What the model learned about the columns that describe its users or its items."""
        learned = self.user_features if side == "user" else self.item_features
        if learned is None:
            raise DataError(
                f"the model was trained without features of {side}s, so it cannot make use of any; "
                f"train it with {side}_features=..."
            )
        return learned

"""CFN, the autoencoder of the paper, as a recommender: how it is fitted, and what its model file keeps."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings, Networks, Orientation, Settings, settings_by_rows
from cofill.data.described import DescribedRatings, SideFeatures, warn_of_width
from cofill.data.ratings import Ratings, Scale
from cofill.errors import SettingsError
from cofill.exchange import ALONE, Exchange
from cofill.models.card import Sides
from cofill.models.cfn.both import BothMatrix, Gate, Judged
from cofill.models.cfn.checkpoint import TrainingCheckpoint
from cofill.models.cfn.fit import Fitted, fit_matrix, validation_entries
from cofill.models.cfn.judging import after_refit
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.oriented import (
    BY_COLUMN,
    BY_RATING,
    SHARE_OF_SOLVING,
    NetworkMatrix,
    filled_in,
    kept_of,
    restored,
    taken,
)
from cofill.models.cfn.training import TrainingEngine, make_engine
from cofill.models.file import Arrays
from cofill.models.history import LEARN, LISTS, SEARCH, TRAIN, EpochRecord, LoweredRate, Report, TellLowered
from cofill.models.keeping import all_columns
from cofill.models.known import KnownRatings, known_arrays, known_from
from cofill.models.lists.feedback import Feedback, GradedRatings
from cofill.models.lists.scorer import KeysOfSides
from cofill.models.lists.scorer import Sides as ListSides
from cofill.models.matrix import Floats, Matrix
from cofill.models.portion import Portion
from cofill.models.recommender import Fitting, Kept, Recommender
from cofill.models.shards import KeptByColumn
from cofill.progress import Forecast, Progress, Step

_ROWS: dict[Orientation, str] = {"item": "an item (V-CFN in the paper)", "user": "a user (U-CFN in the paper)"}
_SIDES: tuple[Orientation, Orientation] = ("item", "user")
_PHASES = {"pretrain": "pre-training", "search": SEARCH, "train": TRAIN}
_SHARE_OF_ITEMS = 0.4  # of the time of training both networks, roughly
_NO_CAP = 1e12

_Side = TypeVar("_Side")


class CFN(Recommender):
    """An autoencoder that reads the known ratings of a row and fills in the unknown ones.

    >>> model = CFN(orientation="item", epochs=30).fit(Ratings.read("ratings.csv"))
    >>> model.recommend(42, n=10)
    >>> model.recommend({"Alien": 5, "Notting Hill": 1})

    `orientation="item"`: a row is an item (V-CFN); `"user"`: a row is a user (U-CFN); `"both"`: a network of each
    kind, and a gate between them. Every field of `CFNSettings` can be given by name. Whatever the orientation, users
    and items that were never seen are folded in from their ratings, from what their side features tell, or from both;
    ids of which nothing is known get the fitted means.
    """

    kind = "cfn"
    settings_class: ClassVar[type[Settings]] = CFNSettings
    takes_features: ClassVar[bool] = True
    follows_features: ClassVar[bool] = True
    keeps_checkpoints: ClassVar[bool] = True
    fits_on_clusters: ClassVar[bool] = True

    def __init__(self, settings: CFNSettings | None = None, **changes: Any) -> None:
        super().__init__(settings, **changes)
        self._own_settings: Mapping[str, Mapping[str, Any]] = {}  # of two networks that a file kept

    @property
    def settings(self) -> CFNSettings:
        assert isinstance(self._settings, CFNSettings)
        return self._settings

    @property
    def orientation(self) -> Networks:
        return self.settings.orientation

    # The border: a network whose rows are items is seen from above as a transposed matrix

    @property
    def networks(self) -> dict[Orientation, NetworkMatrix]:
        """The matrices in rows and columns of the networks, by what their rows are."""
        matrix = self.matrix
        if isinstance(matrix, BothMatrix):
            found = {"item": matrix.by_item.transposed(), "user": matrix.by_user}
        elif isinstance(matrix, NetworkMatrix):
            found = {"user": matrix}
        else:
            found = {"item": matrix.transposed()}
        networks: dict[Orientation, NetworkMatrix] = {}
        for side in _SIDES:
            if side in found:
                network = found[side]
                assert isinstance(network, NetworkMatrix)
                networks[side] = network
        return networks

    @property
    def completion(self) -> NetworkMatrix:
        """The matrix in rows and columns of the network; where there are two, of the one that reads items."""
        return next(iter(self.networks.values()))

    # Fitting

    def _forecast(self, progress: Progress, data: DescribedRatings) -> Progress:
        return Forecast(progress)

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Matrix:
        self._own_settings = {}
        if self.orientation != "both":
            matrix, fitted = self._learn_one(data, fitting, self.orientation)
            self.history = fitted.history
            self.measures = {"epochs": fitted.epochs, "validation_rmse": fitted.validation_rmse}
            return _turned(matrix, self.orientation)
        # Both are judged by the same ratings.
        by_user = data.ratings.rows("user")
        flags = np.zeros(by_user.nnz, np.bool_)
        flags[validation_entries(by_user, self.settings, _portion("user", data.ratings))] = True
        held_out = {"user": flags, "item": flags[np.argsort(by_user.indices, kind="stable")]}
        matrices: dict[Orientation, Matrix] = {}
        fits: dict[Orientation, Fitted] = {}
        for side in _SIDES:
            # The file of the second network is not left behind: the first one's is what is resumed from.
            checkpoint = fitting.checkpoint
            if checkpoint is not None and side == "user":
                checkpoint = _second(checkpoint)
            part = fitting._replace(checkpoint=checkpoint, progress=_part_of(fitting.progress, side))
            matrix, fits[side] = self._learn_one(data, part, side, np.flatnonzero(held_out[side]))
            matrices[side] = _turned(matrix, side)
        if fitting.checkpoint is not None:
            _second(fitting.checkpoint).unlink(missing_ok=True)
        self.history = [replace(record, rows=side) for side in _SIDES for record in fits[side].history]
        return self._joined(matrices, fits, data)

    def _learn_one(
        self,
        data: DescribedRatings,
        fitting: Fitting,
        side: Orientation,
        held_out: npt.NDArray[np.int64] | None = None,
    ) -> tuple[NetworkMatrix, Fitted]:
        """A network whose rows are the users or the items. `held_out`: which of its ratings are for validation."""
        users, items = (data.users, data.items) if held_out is None else (data.users.copy(), data.items.copy())
        row_features, column_features = _rows_and_columns(side, users, items)
        rows, columns = _rows_and_columns(side, data.ratings.rows("user"), data.ratings.rows("item"))
        known, portion = KnownRatings(rows, columns), _portion(side, data.ratings)
        about = row_features, column_features
        return self._learn_portion(side, known, data.ratings.scale, about, portion, fitting, held_out=held_out)

    def _learn_portion(
        self,
        side: Orientation,
        known: KnownRatings,
        scale: Scale,
        about: tuple[SideFeatures, SideFeatures],
        portion: Portion,
        fitting: Fitting,
        *,
        held_out: npt.NDArray[np.int64] | None = None,
        checkpoint: TrainingCheckpoint | None = None,
    ) -> tuple[NetworkMatrix, Fitted]:
        """From the ratings of the columns that this process has, which may be all, and features of rows and columns.

        `checkpoint` stands in the place of that of the fitting.
        """
        settings = self._settings_of(side)
        row_features, column_features = about
        warn_of_width(row_features.width, settings.hidden, portion.columns)
        fitted = fit_matrix(
            known,
            scale,
            settings,
            row_features=row_features,
            column_features=column_features,
            portion=portion,
            held_out=held_out,
            checkpoint_path=fitting.checkpoint,
            checkpoint=checkpoint,
            resume=fitting.resume,
            report=_report(fitting.progress, settings),
            tell_lowered=_tell_lowered(fitting.progress),
            tell_decoder=_tell_decoder(fitting.progress, settings),
            new_engine=self.new_engine,
        )
        matrix = filled_in(
            fitted,
            known,
            settings,
            row_features=row_features,
            column_features=column_features,
            portion=portion,
            progress=fitting.progress,
        )
        return matrix, fitted

    def learn_portion(
        self,
        known: KnownRatings,
        scale: Scale,
        about: tuple[SideFeatures, SideFeatures],
        portion: Portion,
        progress: Progress,
        checkpoint: TrainingCheckpoint | None,
        *,
        resume: bool,
    ) -> None:
        """Learn the columns of this process while others learn theirs (`joint_training`)."""
        assert self.orientation != "both", "of two networks the columns of one are the rows of the other"
        fitting = Fitting(progress, None, resume)
        side = self.orientation
        matrix, fitted = self._learn_portion(side, known, scale, about, portion, fitting, checkpoint=checkpoint)
        self.history = fitted.history
        self.measures = {"epochs": fitted.epochs, "validation_rmse": fitted.validation_rmse}
        self._matrix, self._spread = _turned(matrix, side), None

    def fit_lists(
        self,
        decay: Floats | None,
        progress: Progress,
        *,
        known: KnownRatings | None = None,
        sides: ListSides | None = None,
        keys: KeysOfSides | None = None,
        exchange: Exchange = ALONE,
    ) -> None:
        """The list scorer of a model that was learned in portions; from what its own people did, or `known` ones."""
        grades = self._grades(self.scale, rated=True)
        feedback = Feedback(GradedRatings.of(known or self.matrix.known, grades, decay))

        def done(share: float) -> None:
            progress(Step(LISTS, share, 1.0, 1.0))

        self._scorer = self._linear_scorer(feedback, done, sides=sides, keys=keys, exchange=exchange)

    def _joined(
        self, matrices: dict[Orientation, Matrix], fits: dict[Orientation, Fitted], data: DescribedRatings
    ) -> Matrix:
        """Both networks and their gate, or the one that is better alone."""
        judged = {side: fits[side].judged for side in _SIDES}
        best: Orientation = "item"
        if judged["user"] is None or judged["item"] is None:  # no ratings to judge by: each counts half
            gate = Gate(np.array([0.5, 0.0, 0.0, 0.0]), np.zeros(2))
            self.measures = {"epochs": fits["item"].epochs, "validation_rmse": None}
            return BothMatrix(matrices["user"], matrices["item"], gate)
        found = Judged.of(judged["user"], judged["item"])
        keeps_user, keeps_item = found.keeps
        self.measures = {"epochs": fits["item"].epochs, "validation_rmse": after_refit(found.rmse, self.settings)}
        if keeps_user and keeps_item:
            return BothMatrix(matrices["user"], matrices["item"], found.gate)
        best = "user" if keeps_user else "item"
        return matrices[best]

    def _settings_of(self, side: Orientation) -> CFNSettings:
        """The settings of one network: where there are two, each has the defaults of its rows."""
        if self.orientation == side:
            return self.settings
        return self.settings.changed({"orientation": side, **self._own_settings.get(side, {})})

    @classmethod
    def new_engine(cls, network: CFNetwork, settings: CFNSettings, exchange: Exchange = ALONE) -> TrainingEngine:
        """What moves the weights; an autoencoder that trains in another way has another one."""
        return make_engine(network, settings, exchange)

    def facts(self) -> list[tuple[str, str]]:
        found = []
        for side, matrix in self.networks.items():
            settings = self._settings_of(side)
            layers = [matrix.columns, *settings.hidden, matrix.columns]
            width = matrix.row_features.width
            beside = f", and {width:,} feature columns at every layer" if width else ""
            found += [
                ("a row of the network is", _ROWS[side]),
                ("network", " → ".join(f"{units:,}" for units in layers) + f" units, output {settings.output}{beside}"),
            ]
        if self.orientation == "both" and len(self.networks) == 1:
            found.append(("other network", "was of no help by validation, and is not kept"))
        return found

    # Keeping

    def parameters(self) -> int:
        return sum(array.size for matrix in self.networks.values() for array in matrix.network.weights().values())

    def _kept(self) -> Kept:
        networks = self.networks
        if self.orientation != "both":
            weights, numbers = kept_of(self.completion)
            return Kept(weights, known_arrays(self.completion.known), numbers)
        arrays: Arrays = {}
        kept_numbers: dict[str, float] = {}
        # A file says them all: the defaults of a later version may be others.
        own = settings_by_rows(type(self.settings)) - self.settings.model_fields_set
        own_settings: dict[str, dict[str, Any]] = {}
        for side, matrix in networks.items():
            own_settings[side] = self._settings_of(side).model_dump(mode="json", include=own)
            weights, numbers = kept_of(matrix)
            arrays |= {f"{side}.{name}": array for name, array in weights.items()}
            kept_numbers |= {f"{side}.{name}": number for name, number in numbers.items()}
        if isinstance(self.matrix, BothMatrix):
            gate = self.matrix.gate
            arrays |= {"gate.coefficients": gate.coefficients, "gate.centres": gate.centres}
        return Kept(arrays, known_arrays(self.matrix.known), kept_numbers, own_settings)

    def _kept_by_column(self) -> KeptByColumn:
        if self.orientation == "both":
            raise SettingsError(
                "a model with orientation 'both' is saved in one piece, for what are columns to one of its networks "
                "are rows to the other; leave out shards"
            )
        matrix, known = self.completion, self.matrix.known
        weights, numbers = kept_of(matrix)

        def rows() -> Arrays:
            counts, spread = matrix.known.trained_counts(), known.spread()
            return matrix.read_rows().arrays() | {"counts": counts, "spread": np.array([spread])}

        kept = Kept(weights, known_arrays(matrix.known.transposed()), numbers, by_column=True)
        columns: Sides = "users" if self.orientation == "item" else "items"
        return KeptByColumn(kept, columns, BY_COLUMN, BY_RATING, int(matrix.known.trained_counts().sum()), rows)

    @classmethod
    def settings_of_format(cls, settings: Mapping[str, Any], version: int) -> dict[str, Any]:
        added: dict[str, Any] = {}
        if version < 3 and cls.kind == "cfn":
            added["presence"] = 0.0
        if version < 5:
            added["length_cap"] = _NO_CAP
        if version < 7 and cls.kind == "cfn":
            added["decoder"] = "network"
        return {**added, **settings}

    def _restored(self, kept: Kept, scale: Scale, users: SideFeatures | None, items: SideFeatures | None) -> Matrix:
        if self.orientation != "both":
            rows, columns = _rows_and_columns(self.orientation, len(self.users), len(self.items))
            read = kept.rows
            if kept.by_column:
                whole = None if read is None else all_columns(read)
                known = known_from(kept.ratings, scale, columns, rows, whole).transposed()
            else:
                known = known_from(kept.ratings, scale, rows, columns)
            return self._restored_one(
                self.orientation, dict(kept.weights), kept.numbers, known, scale, users, items, read
            )
        self._own_settings = kept.own_settings
        known = known_from(kept.ratings, scale, len(self.users), len(self.items))
        weights = dict(kept.weights)
        gate = taken(weights, "gate.")
        matrices: dict[Orientation, Matrix] = {}
        for side in _SIDES:
            own = taken(weights, f"{side}.")
            if not own:
                continue
            numbers = {
                name.removeprefix(f"{side}."): number
                for name, number in kept.numbers.items()
                if name.startswith(f"{side}.")
            }
            ratings = known if side == "user" else known.copied().transposed()
            of_users, of_items = ((features.copy() if features else None) for features in (users, items))
            matrices[side] = self._restored_one(side, own, numbers, ratings, scale, of_users, of_items)
        if len(matrices) == 2:
            coefficients, centres = gate["coefficients"], gate["centres"]
            if coefficients.shape != (4,) or centres.shape != (2,) or not np.isfinite(coefficients).all():
                raise ValueError("the gate between the networks is damaged")
            return BothMatrix(matrices["user"], matrices["item"], Gate(coefficients, centres))
        if not matrices:
            raise ValueError("there is no network inside")
        return next(iter(matrices.values()))

    def _restored_one(
        self,
        side: Orientation,
        weights: Arrays,
        numbers: Mapping[str, float],
        known: KnownRatings,
        scale: Scale,
        users: SideFeatures | None,
        items: SideFeatures | None,
        read: Arrays | None = None,
    ) -> Matrix:
        of_rows, of_columns = _rows_and_columns(side, users, items)
        matrix = restored(
            weights,
            numbers,
            known,
            scale,
            self._settings_of(side),
            row_features=of_rows or SideFeatures.none(known.trained.rows),
            column_features=of_columns or SideFeatures.none(known.trained.columns),
            read=read,
        )
        return _turned(matrix, side)


def _turned(matrix: Matrix, side: Orientation) -> Matrix:
    """Rows and columns of a network -> users x items."""
    return matrix if side == "user" else matrix.transposed()


def _rows_and_columns(side: Orientation, users: _Side, items: _Side) -> tuple[_Side, _Side]:
    return (users, items) if side == "user" else (items, users)


def _portion(side: Orientation, ratings: Ratings) -> Portion:
    """All of a matrix, with the keys of its users and items."""
    row_keys, column_keys = _rows_and_columns(side, ratings.users.keys(), ratings.items.keys())
    return Portion(row_keys, column_keys, len(column_keys))


def _second(checkpoint: Path) -> Path:
    """Where the training of the second network is kept while it runs."""
    return checkpoint.with_name(f".{checkpoint.stem}.second{checkpoint.suffix}")


def _part_of(progress: Progress, side: Orientation) -> Progress:
    """Of two networks, one: which it is, and what share of the whole it takes."""
    begin, length = (0.0, _SHARE_OF_ITEMS) if side == "item" else (_SHARE_OF_ITEMS, 1 - _SHARE_OF_ITEMS)

    def tell(step: Step) -> None:
        progress(replace(step, what=f"{step.what}, rows are {side}s", share=begin + length * step.share))

    return tell


def _report(progress: Progress, settings: CFNSettings) -> Report:
    """Tells how far the whole training is, too: with a refit, as much is to be done again as has been done."""
    solves = settings.decoder == "process" or settings.solve_columns
    last = 1 - SHARE_OF_SOLVING if solves else 1.0
    again = settings.refit and settings.validation > 0
    begin = {"pretrain": 0.0, "search": 0.0, "train": last / 2 if again else 0.0}
    length = {"pretrain": 0.0, "search": last / 2 if again else last, "train": last / 2 if again else last}

    def tell(record: EpochRecord, epochs: int) -> None:
        measures = {"loss": record.loss, "ratings_per_second": record.ratings_per_second}
        if record.validation_rmse is not None:
            measures["validation_rmse"] = record.validation_rmse
        if record.workers > 1:
            measures |= {"workers": record.workers, "exchanging": record.exchanging}
        share = begin[record.phase] + length[record.phase] * record.epoch / epochs
        progress(Step(_PHASES[record.phase], record.epoch, epochs, share, "epoch", measures, record.seconds))

    return tell


def _tell_decoder(progress: Progress, settings: CFNSettings) -> Callable[[float], None]:
    reached = (1 - SHARE_OF_SOLVING) / 2 if settings.refit else 1 - SHARE_OF_SOLVING

    return lambda share: progress(Step(LEARN, share, 1.0, reached))


def _tell_lowered(progress: Progress) -> TellLowered:
    def tell(lowered: LoweredRate) -> None:
        progress(Step(_PHASES[lowered.phase], 0, 1, 0.0, note=str(lowered)))

    return tell

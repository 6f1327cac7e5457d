"""CFN, the autoencoder of the paper, as a recommender: how it is fitted, and what its model file keeps."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cofill.arrays import Arrays, Floats, Longs
from cofill.config import CFNSettings, Networks, Orientation, Settings, settings_by_rows
from cofill.data.described import DescribedRatings, SideFeatures, warn_of_width
from cofill.data.ratings import Ratings, Scale
from cofill.data.sparse import KnownRatings, known_arrays, known_from
from cofill.exchange import ALONE, Exchange
from cofill.models.cfn.blend import Ensemble, Gated, Judged, StackingWeight
from cofill.models.cfn.checkpoint import Checkpoint
from cofill.models.cfn.codes import ReadRows
from cofill.models.cfn.fit import (
    SHARE_OF_SOLVING,
    SOLVE,
    FitResult,
    TrainingEngine,
    after_refit,
    fit_matrix,
    make_engine,
    validation_entries,
)
from cofill.models.cfn.gp import ColumnWeights, KernelParams
from cofill.models.cfn.gp_fit import DecoderFit
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.predictor import (
    BY_COLUMN,
    BY_RATING,
    CFNPredictor,
    Decoder,
    ItemRows,
    UserRows,
    rows_and_columns,
    taken,
)
from cofill.models.cfn.scaling import Matrix
from cofill.models.lists.feedback import Feedback, GradedRatings
from cofill.models.lists.scorer import KeysOfSides
from cofill.models.lists.scorer import Sides as ListSides
from cofill.models.persistence import Cut
from cofill.models.predictor import Predictor
from cofill.models.recommender import Fitting, Recommender, State
from cofill.models.rng import Portion
from cofill.progress import Progress, Step, unseen

_ROWS: dict[Orientation, str] = {"item": "an item (V-CFN in the paper)", "user": "a user (U-CFN in the paper)"}
_SIDES: tuple[Orientation, Orientation] = ("item", "user")
LISTS = "fitting the list scorer"
_SHARE_OF_ITEMS = 0.4  # of the time of training both networks, roughly
_PREDICTORS: dict[Orientation, type[CFNPredictor]] = {"user": UserRows, "item": ItemRows}


class CFN(Recommender):
    """An autoencoder that reads the known ratings of a row and fills in the unknown ones.

    >>> model = CFN(orientation="item", epochs=30).fit(Ratings.read("ratings.csv"))
    >>> model.recommend(42, n=10)
    >>> model.recommend({"Alien": 5, "Notting Hill": 1})

    `orientation="item"`: a row is an item (V-CFN); `"user"`: a row is a user (U-CFN); `"both"`: a network of each
    kind, and a weight between them. Every field of `CFNSettings` can be given by name. Whatever the orientation, users
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

    @property
    def networks(self) -> dict[Orientation, CFNPredictor]:
        """The predictors of the networks, by what their rows are."""
        return {part.rows_are: part for part in _networks_in(self._of_networks)}

    @property
    def _of_networks(self) -> Predictor:
        """What the networks predict, of one or of both."""
        return self.predictor.network if isinstance(self.predictor, Gated) else self.predictor

    @property
    def network_predictor(self) -> CFNPredictor:
        """The predictor of the network; where there are two, of the one that reads items."""
        return next(iter(self.networks.values()))

    # Fitting

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Predictor:
        self._own_settings = {}
        ratings, (progress, checkpoint, resume) = data.ratings, fitting
        known = KnownRatings(ratings.rows("user"), ratings.rows("item"))

        def learn(
            side: Orientation, progress: Progress, checkpoint: Path | None, held_out: Longs | None = None
        ) -> tuple[CFNPredictor, FitResult]:
            by_row, about = known if side == "user" else known.transposed(), (data.users, data.items)
            matrix = Matrix(by_row, ratings.scale, *rows_and_columns(side, *about), _portion(side, ratings))
            return self._learn_matrix(side, matrix, progress, checkpoint, resume=resume, held_out=held_out)

        if self.orientation != "both":
            predictor, fitted = learn(self.orientation, progress, checkpoint)
            self._take_measures(fitted)
            return gated(predictor)
        # Both are judged by the same ratings.
        by_user = known.trained
        flags = np.zeros(by_user.nnz, np.bool_)
        flags[validation_entries(by_user, self.settings, _portion("user", ratings))] = True
        of_items = np.flatnonzero(flags[np.argsort(by_user.indices, kind="stable")])
        # The file of the second network is not left behind: the first one's is what is resumed from.
        second = None if checkpoint is None else checkpoint.with_name(f".{checkpoint.stem}.second{checkpoint.suffix}")
        fits = {
            "item": learn("item", _part_of(progress, "item"), checkpoint, of_items),
            "user": learn("user", _part_of(progress, "user"), second, np.flatnonzero(flags)),
        }
        if second is not None:
            second.unlink(missing_ok=True)
        self.history = [replace(record, rows=side) for side, (_, fit) in fits.items() for record in fit.history]
        return gated(self._joined(*fits["user"], *fits["item"], np.flatnonzero(flags)))

    def _learn_matrix(
        self,
        side: Orientation,
        matrix: Matrix,
        progress: Progress,
        checkpoint: Path | Checkpoint | None,
        *,
        resume: bool,
        held_out: Longs | None = None,
    ) -> tuple[CFNPredictor, FitResult]:
        """Rows are the users or the items (`side`). `held_out`: which of its ratings are for validation."""
        settings = self._settings_of(side)
        warn_of_width(matrix.row_features.width, settings.hidden, matrix.portion.columns)
        fitted = fit_matrix(
            matrix, settings, held_out=held_out, checkpoint=checkpoint, resume=resume, progress=progress,
            new_engine=self.new_engine,
        )  # fmt: skip
        return fitted_predictor(side, fitted, progress), fitted

    def _take_measures(self, fitted: FitResult) -> None:
        self.history = fitted.history
        self.measures = {"epochs": fitted.epochs, "validation_rmse": fitted.validation_rmse}

    def learn_portion(self, matrix: Matrix, progress: Progress, checkpoint: Checkpoint | None, *, resume: bool) -> None:
        """Learn the columns of this process while others learn theirs (`cluster.train`)."""
        assert self.orientation != "both", "of two networks the columns of one are the rows of the other"
        predictor, fitted = self._learn_matrix(self.orientation, matrix, progress, checkpoint, resume=resume)
        self._predictor = gated(predictor)
        self._take_measures(fitted)

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
        feedback = Feedback(GradedRatings.of(known or self.predictor.known, grades, decay))

        def done(share: float) -> None:
            progress(Step(LISTS, share, 1.0, 1.0))

        self._scorer = self._linear_scorer(feedback, done, sides=sides, keys=keys, exchange=exchange)

    def _joined(
        self, by_user: CFNPredictor, user_fit: FitResult, by_item: CFNPredictor, item_fit: FitResult, held_out: Longs
    ) -> Predictor:
        """Both networks, weighted, or the one that is better alone, by ratings that were held out of rows of users."""
        self.measures = {"epochs": item_fit.epochs, "validation_rmse": None}
        if user_fit.judged is None or item_fit.judged is None:  # no ratings to judge by: each counts half
            return Ensemble(by_user, by_item, StackingWeight(np.array([0.5, 0.0, 0.0, 0.0]), np.zeros(2)))
        found = Judged.of(user_fit.judged, item_fit.judged, by_user.known.trained, held_out)
        self.measures["validation_rmse"] = after_refit(found.rmse, self.settings)
        keeps_user, keeps_item = found.keeps
        if keeps_user and keeps_item:
            return Ensemble(by_user, by_item, found.stacking)
        return by_user if keeps_user else by_item

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
        for side, predictor in self.networks.items():
            settings, columns = self._settings_of(side), predictor.by_row.columns
            layers = [columns, *settings.hidden, columns]
            width = predictor.row_features.width
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
        return sum(array.size for part in self.networks.values() for array in part.network.weights().values())

    def _state_dict(self) -> State:
        if self.orientation != "both":
            predictor = self.network_predictor
            by_row = predictor.by_row
            arrays, numbers = predictor.state()

            def rows() -> Arrays:
                counts, spread = by_row.trained_counts(), self.predictor.known.spread()
                return predictor.read_rows() | {"counts": counts, "spread": np.array([spread])}

            cut = Cut("users" if self.orientation == "item" else "items", BY_COLUMN, BY_RATING, rows)
            return State(arrays, known_arrays(by_row.transposed()), numbers, cut=cut)
        arrays, numbers = {}, {}
        # A file says them all: the defaults of a later version may be others.
        own = settings_by_rows(type(self.settings)) - self.settings.model_fields_set
        own_settings: dict[str, dict[str, Any]] = {}
        for side, part in self.networks.items():
            own_settings[side] = self._settings_of(side).model_dump(mode="json", include=own)
            of_part, numbers_of_part = part.state()
            arrays |= {f"{side}.{name}": array for name, array in of_part.items()}
            numbers |= {f"{side}.{name}": number for name, number in numbers_of_part.items()}
        if isinstance(self._of_networks, Ensemble):
            stacking = self._of_networks.stacking
            arrays |= {"stacking.coefficients": stacking.coefficients, "stacking.centres": stacking.centres}
        return State(arrays, known_arrays(self.predictor.known), numbers, own_settings)

    def _load_state_dict(
        self, state: State, scale: Scale, users: SideFeatures | None, items: SideFeatures | None
    ) -> Predictor:
        sizes = len(self.users), len(self.items)
        if self.orientation == "user":  # the ratings of one network are kept column by column
            known = known_from(state.ratings, *sizes[::-1], state.rows).transposed()
        else:
            known = known_from(state.ratings, *sizes, state.rows)
        users = users or SideFeatures.none(known.trained.rows)
        items = items or SideFeatures.none(known.trained.columns)

        def restored(side: Orientation, own: Arrays, numbers: Mapping[str, float]) -> CFNPredictor:
            by_row = known if side == "user" else known.transposed()
            matrix = Matrix(by_row, scale, *rows_and_columns(side, users, items))
            return _PREDICTORS[side].restored(own, numbers, matrix, self._settings_of(side), state.rows)

        if self.orientation != "both":
            return gated(restored(self.orientation, state.weights, state.numbers))
        self._own_settings, weights = state.networks, dict(state.weights)
        parts: dict[Orientation, CFNPredictor] = {}
        for side in _SIDES:
            if own := taken(weights, begin := f"{side}."):
                numbers = {name.removeprefix(begin): n for name, n in state.numbers.items() if name.startswith(begin)}
                parts[side] = restored(side, own, numbers)
        joined: Predictor = next(iter(parts.values()))
        if len(parts) == 2:
            joined = Ensemble(parts["user"], parts["item"], StackingWeight(**taken(weights, "stacking.")))
        return gated(joined)


def fitted_predictor(side: Orientation, fitted: FitResult, progress: Progress = unseen) -> CFNPredictor:
    """Of a network that has just been trained, with the weights of all columns solved for.

    Where other processes have other columns, it is part of a predictor.
    """
    network, part = fitted.network, fitted.part
    first = DecoderFit(network, part)

    def solved(share: float) -> None:
        progress(Step(SOLVE, share, 1.0, 1 - SHARE_OF_SOLVING * (1 - share)))

    if fitted.amplitudes is None:
        decoder = _own_output(first)
    else:
        near = first.neighbours(fitted.amplitudes)
        # The codes are read and the space is known: what is solved for takes the place of the output weights.
        network.output.weight = np.empty((0, network.width), np.float32)
        weights = first.solve(fitted.amplitudes, solved)
        decoder = Decoder(first.space, fitted.amplitudes, weights, fitted.spread, near)
        solved(1.0)
    read = ReadRows(first.codes, first.left_out) if part.matrix.portion.exchange.size > 1 else None
    return _PREDICTORS[side](network, part.matrix, part.biases, part.scaling, decoder, read)


def _networks_in(predictor: Predictor) -> list[CFNPredictor]:
    """The one or two networks that were kept."""
    parts = (predictor.by_item, predictor.by_user) if isinstance(predictor, Ensemble) else (predictor,)
    return [part for part in parts if isinstance(part, CFNPredictor)]


def gated(predictor: Predictor) -> Predictor:
    """With biases in the place of the networks where nothing is known; without slopes these say the same by then."""
    networks = _networks_in(predictor)
    if predictor.means.slopes is None or any(network.own_output for network in networks):
        return predictor
    halves = [
        rows_and_columns(network.rows_are, amplitudes.row_gate, amplitudes.column_gate)
        for network in networks
        for amplitudes in (network.decoder.amplitudes,)
    ]
    return Gated(predictor, (max(half[0] for half in halves), max(half[1] for half in halves)))


def _own_output(first: DecoderFit) -> Decoder:
    """The network's own output weights, and fixed kernel parameters to fold in by."""
    network, biases, space = first.network, first.biases, first.space
    noise = max(biases.noise / first.scaling.unit**2, 1e-4)
    amplitudes = KernelParams(noise, bias=0.0, taste=1.0, cosine=0.0, local=0.0, half=0.0, mean=1.0, features=1.0)
    linear = np.column_stack([network.output.weight, network.output.bias])
    cold = np.flatnonzero(first.by_column.counts() == 0)
    linear[cold] = space.expected(first.column_features.trained[cold])
    bias = biases.columns.trained / np.float32(first.scaling.unit)
    nothing = np.zeros((len(linear), 0), np.float32)
    return Decoder(space, amplitudes, ColumnWeights(linear, nothing, bias, nothing.ravel()), None, None)


def _portion(side: Orientation, ratings: Ratings) -> Portion:
    """All of a matrix, with the keys of its users and items."""
    row_keys, column_keys = rows_and_columns(side, ratings.users.keys(), ratings.items.keys())
    return Portion(row_keys, column_keys, len(column_keys))


def _part_of(progress: Progress, side: Orientation) -> Progress:
    """Of two networks, one: which it is, and what share of the whole it takes."""
    begin, length = (0.0, _SHARE_OF_ITEMS) if side == "item" else (_SHARE_OF_ITEMS, 1 - _SHARE_OF_ITEMS)

    def tell(step: Step) -> None:
        progress(replace(step, what=f"{step.what}, rows are {side}s", share=begin + length * step.share))

    return tell

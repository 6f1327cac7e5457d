"""CFN, the autoencoder of the paper, as a recommender: how it is fitted, and what its model file keeps."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch

from cofill.config import CFNSettings, Orientation, Settings
from cofill.data.described import DescribedRatings, SideFeatures, warn_of_width
from cofill.data.ratings import Scale
from cofill.models.cfn.completion import Completion
from cofill.models.cfn.decoded import DecodedMatrix, Decoder
from cofill.models.cfn.engines import TrainingEngine, make_engine
from cofill.models.cfn.first_decoder import FirstDecoder
from cofill.models.cfn.fitting import fit_matrix
from cofill.models.cfn.fold_in import ColumnPrior
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import Scaling
from cofill.models.feature_ridge import FeatureRegression
from cofill.models.file import Arrays
from cofill.models.history import EpochRecord, LoweredRate, Report, TellLowered
from cofill.models.known import KnownRatings, known_arrays, known_from
from cofill.models.matrix import Matrix
from cofill.models.means import FittedMeans
from cofill.models.recommender import Fitting, Kept, Recommender
from cofill.progress import Progress, Step

_ROWS: dict[Orientation, str] = {"item": "an item (V-CFN in the paper)", "user": "a user (U-CFN in the paper)"}
_PHASES = {"pretrain": "pre-training", "search": "finding the epochs", "train": "training"}
_SOLVING = "solving the columns"
_SHARE_OF_SOLVING = 0.1  # of the time of a training, roughly
_NO_CAP = 1e12

_Side = TypeVar("_Side")


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
    follows_features: ClassVar[bool] = True
    keeps_checkpoints: ClassVar[bool] = True

    def __init__(self, settings: CFNSettings | None = None, **changes: Any) -> None:
        super().__init__(settings, **changes)

    def __repr__(self) -> str:
        return super().__repr__().replace("(", f"(orientation={self.orientation!r}; ", 1)

    @property
    def settings(self) -> CFNSettings:
        assert isinstance(self._settings, CFNSettings)
        return self._settings

    @property
    def orientation(self) -> Orientation:
        return self.settings.orientation

    # The border: a network whose rows are items is seen from above as a transposed matrix

    @property
    def completion(self) -> Completion | DecodedMatrix:
        """The matrix in rows and columns of the network."""
        completion = self._turned(self.matrix)
        assert isinstance(completion, Completion | DecodedMatrix)
        return completion

    def _turned(self, matrix: Matrix) -> Matrix:
        """Rows and columns of the network -> users x items, and back."""
        return matrix if self.orientation == "user" else matrix.transposed()

    def _rows_and_columns(self, users: _Side, items: _Side) -> tuple[_Side, _Side]:
        return (users, items) if self.orientation == "user" else (items, users)

    # Fitting

    def _learn(self, data: DescribedRatings, fitting: Fitting) -> Matrix:
        row_features, column_features = self._rows_and_columns(data.users, data.items)
        rows, columns = self._rows_and_columns(data.ratings.rows("user"), data.ratings.rows("item"))
        warn_of_width(row_features.width, self.settings.hidden, rows.columns)
        known = KnownRatings(rows, columns)
        fitted = fit_matrix(
            known,
            data.ratings.scale,
            self.settings,
            row_features=row_features,
            column_features=column_features,
            checkpoint_path=fitting.checkpoint,
            resume=fitting.resume,
            report=_report(fitting.progress, self.settings),
            tell_lowered=_tell_lowered(fitting.progress),
            new_engine=self.new_engine,
        )
        self.history = fitted.history
        self.measures = {"epochs": fitted.epochs, "validation_rmse": fitted.validation_rmse}

        def solved(share: float) -> None:
            fitting.progress(Step(_SOLVING, share, 1.0, 1 - _SHARE_OF_SOLVING * (1 - share)))

        if fitted.biases is None or fitted.amplitudes is None:
            completion = Completion(
                fitted.network,
                fitted.scaling,
                known,
                self.settings,
                row_features=row_features,
                column_features=column_features,
            )
            if self.settings.solve_columns:
                completion.column_weights.solve_trained(solved)
                solved(1.0)
            return self._turned(completion)
        first = FirstDecoder(
            fitted.network, fitted.scaling, fitted.biases, rows, columns, row_features, column_features
        )
        decoder = Decoder(first.space, fitted.amplitudes, first.solve(fitted.amplitudes, solved))
        solved(1.0)
        return self._turned(
            DecodedMatrix(
                fitted.network,
                fitted.scaling,
                known,
                fitted.biases,
                decoder,
                self.settings,
                row_features=row_features,
                column_features=column_features,
            )
        )

    @classmethod
    def new_engine(cls, network: CFNetwork, settings: CFNSettings) -> TrainingEngine:
        """What moves the weights; an autoencoder that trains in another way has another one."""
        return make_engine(network, settings)

    def facts(self) -> list[tuple[str, str]]:
        settings, completion = self.settings, self.completion
        layers = [completion.columns, *settings.hidden, completion.columns]
        width = completion.row_features.width
        beside = f", and {width:,} feature columns at every layer" if width else ""
        return [
            ("a row of the network is", _ROWS[self.orientation]),
            ("network", " → ".join(f"{units:,}" for units in layers) + f" units, output {settings.output}{beside}"),
        ]

    # Keeping

    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.completion.network.parameters())

    def _kept(self) -> Kept:
        completion = self.completion
        scaling = completion.scaling
        weights: Arrays = {name: tensor.detach().numpy() for name, tensor in completion.network.state_dict().items()}
        numbers = {"typical_length": scaling.typical_length}
        if isinstance(completion, DecodedMatrix):
            weights |= {f"biases.{name}": array for name, array in completion.means.arrays().items()}
            weights |= {f"decoder.{name}": array for name, array in completion.decoder.arrays().items()}
            numbers |= {"unit": scaling.unit}
        else:
            prior = completion.column_weights.prior
            weights |= {
                "row_means": scaling.means,
                "mean_by_features": scaling.by_features.slope,
                "prior.mean": prior.mean,
                "prior.by_features": prior.by_features.slope,
                "prior.factor": prior.factor,
                "prior.pull": prior.precision,
                "prior.noise": np.array([prior.noise], np.float64),
            }
            numbers |= {"overall_mean": scaling.overall, "mean_damping": scaling.damping}
        return Kept(weights, known_arrays(completion.known), numbers)

    @classmethod
    def settings_of_format(cls, settings: Mapping[str, Any], version: int) -> dict[str, Any]:
        added: dict[str, Any] = {}
        if version < 3 and cls.kind == "cfn":
            added["presence"] = 0.0
        if version < 5:
            added["length_cap"] = _NO_CAP
        if version < 7:
            added["decoder"] = "network"
        return {**added, **settings}

    def _restored(self, kept: Kept, scale: Scale, users: SideFeatures | None, items: SideFeatures | None) -> Matrix:
        weights = dict(kept.weights)
        known = known_from(kept.ratings, scale, *self._rows_and_columns(len(self.users), len(self.items)))
        rows, columns = known.trained.rows, known.trained.columns
        if self.settings.hidden[0] != weights["input.weight"].shape[1]:
            raise ValueError("the network has another width than the settings say")
        if len(weights["input.weight"]) != columns or len(weights["output.weight"]) != columns:
            raise ValueError("the network has another number of columns than the ratings")
        of_rows, of_columns = self._rows_and_columns(users, items)
        row_features, column_features = of_rows or SideFeatures.none(rows), of_columns or SideFeatures.none(columns)
        if (len(row_features.trained), len(column_features.trained)) != (rows, columns):
            raise ValueError("the features do not fit the ratings")
        read = weights["input.side"].shape[0] if "input.side" in weights else 0
        if read not in (row_features.width, row_features.width + 1 if row_features.width else 0):
            raise ValueError("the network was made for another number of features")
        marks_empty = read > row_features.width  # formats 1 to 3 have no mark
        if self.settings.decoder == "process":
            biases = FittedMeans.restored(_taken(weights, "biases."))
            if (len(biases.trained_row), len(biases.trained_column)) != (rows, columns):
                raise ValueError("there is another number of biases than the ratings have rows and columns")
            decoder = Decoder.restored(_taken(weights, "decoder."), weights, known.trained.nnz)
            unit = kept.numbers["unit"]
            scaling = Scaling.of_biases_in(
                unit, kept.numbers["typical_length"], biases, scale, self.settings, marks_empty=marks_empty
            )
            network = CFNetwork.of({name: torch.from_numpy(array) for name, array in weights.items()}, self.settings)
            return self._turned(
                DecodedMatrix(
                    network,
                    scaling,
                    known,
                    biases,
                    decoder,
                    self.settings,
                    row_features=row_features,
                    column_features=column_features,
                )
            )
        if len(weights["row_means"]) != rows:
            raise ValueError("there is another number of row means than the ratings have rows")
        prior = ColumnPrior(
            mean=weights.pop("prior.mean"),
            by_features=_regression(weights, "prior.by_features", outputs=weights["output.weight"].shape[1] + 1),
            factor=weights.pop("prior.factor"),
            precision=weights.pop("prior.pull"),
            noise=float(weights.pop("prior.noise")[0]),
        )
        damping = kept.numbers.get("mean_damping", self.settings.mean_damping)
        if damping is None:
            raise ValueError("the damping of the means is missing")
        scaling = Scaling(
            scale=scale,
            centre=(scale.high + scale.low) / 2,
            unit=(scale.high - scale.low) / 2,
            damping=damping,
            length_power=self.settings.length_power,
            length_cap=self.settings.length_cap,
            presence=self.settings.presence,
            typical_length=kept.numbers["typical_length"],
            overall=kept.numbers["overall_mean"],
            by_features=_regression(weights, "mean_by_features", outputs=1),
            columns=np.zeros(columns, np.float32),
            means=weights.pop("row_means"),
            marks_empty=marks_empty,
        )
        network = CFNetwork.of({name: torch.from_numpy(array) for name, array in weights.items()}, self.settings)
        return self._turned(
            Completion(
                network,
                scaling,
                known,
                self.settings,
                row_features=row_features,
                column_features=column_features,
                prior=prior,
            )
        )


def _taken(weights: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin so, without that, taken out of the others."""
    names = [name for name in weights if name.startswith(prefix)]
    return {name.removeprefix(prefix): weights.pop(name) for name in names}


def _report(progress: Progress, settings: CFNSettings) -> Report:
    """Tells how far the whole training is, too: with a refit, as much is to be done again as has been done."""
    last = 1 - _SHARE_OF_SOLVING if settings.solve_columns else 1.0
    again = settings.refit and settings.validation > 0
    begin = {"pretrain": 0.0, "search": 0.0, "train": last / 2 if again else 0.0}
    length = {"pretrain": 0.0, "search": last / 2 if again else last, "train": last / 2 if again else last}

    def tell(record: EpochRecord, epochs: int) -> None:
        measures = {"loss": record.loss, "ratings_per_second": record.ratings_per_second}
        if record.validation_rmse is not None:
            measures["validation_rmse"] = record.validation_rmse
        share = begin[record.phase] + length[record.phase] * record.epoch / epochs
        progress(Step(_PHASES[record.phase], record.epoch, epochs, share, "epoch", measures, record.seconds))

    return tell


def _tell_lowered(progress: Progress) -> TellLowered:
    def tell(lowered: LoweredRate) -> None:
        progress(Step(_PHASES[lowered.phase], 0, 1, 0.0, note=str(lowered)))

    return tell


def _regression(weights: Arrays, name: str, outputs: int) -> FeatureRegression:
    """Format 1 has none."""
    slope = weights.pop(name, np.zeros((1, outputs), np.float32))
    if slope.ndim != 2 or slope.shape[1] != outputs:
        raise ValueError(f"{name} has shape {list(slope.shape)}, the network asks for {outputs} columns")
    return FeatureRegression(slope)

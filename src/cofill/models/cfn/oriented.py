"""One trained network and its decoder, in rows and columns: how it comes about, what a file keeps of it, and back."""

from collections.abc import Mapping

import numpy as np

from cofill.config import CFNSettings
from cofill.data.described import SideFeatures
from cofill.data.ratings import Scale
from cofill.models.cfn.completion import Completion
from cofill.models.cfn.decoded import DecodedMatrix, Decoder
from cofill.models.cfn.first_decoder import FirstDecoder, encode_trained
from cofill.models.cfn.fit import Fitted
from cofill.models.cfn.fold_in import ColumnPrior
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.row_codes import ReadRows
from cofill.models.cfn.scaling import Scaling
from cofill.models.feature_ridge import FeatureRegression
from cofill.models.file import Arrays
from cofill.models.history import SOLVE
from cofill.models.known import KnownRatings
from cofill.models.means import FittedMeans
from cofill.models.portion import Portion
from cofill.progress import Progress, Step

NetworkMatrix = Completion | DecodedMatrix

SHARE_OF_SOLVING = 0.1  # of the time of a training, roughly


def filled_in(
    fitted: Fitted,
    known: KnownRatings,
    settings: CFNSettings,
    *,
    row_features: SideFeatures,
    column_features: SideFeatures,
    portion: Portion | None = None,
    progress: Progress,
) -> NetworkMatrix:
    """The matrix that a trained network fills in, with the weights of all columns solved for.

    Where other processes have other columns, it is part of the matrix, and `known` tells what all columns have.
    """
    portion = Portion.of(known.trained) if portion is None else portion

    def solved(share: float) -> None:
        progress(Step(SOLVE, share, 1.0, 1 - SHARE_OF_SOLVING * (1 - share)))

    network, scaling = fitted.network, fitted.scaling
    in_part = portion.exchange.size > 1
    if fitted.biases is None or fitted.amplitudes is None:
        read = None
        if in_part:
            read = ReadRows(encode_trained(network, scaling, known.trained, row_features.trained, portion), None)
        completion = Completion(
            network,
            scaling,
            known,
            settings,
            row_features=row_features,
            column_features=column_features,
            portion=portion,
            read=read,
        )
        if settings.solve_columns:
            completion.column_weights.solve_trained(solved)
            solved(1.0)
        return completion
    first = FirstDecoder(
        network,
        scaling,
        fitted.biases,
        known.trained,
        known.trained_columns,
        row_features,
        column_features,
        portion,
    )
    near = first.neighbours(fitted.amplitudes, settings)
    # The codes are read and the space is known: what is solved for takes the place of the output weights.
    network.output.weight = np.empty((0, network.width), np.float32)
    decoder = Decoder(first.space, fitted.amplitudes, first.solve(fitted.amplitudes, solved), fitted.spread, near)
    solved(1.0)
    return DecodedMatrix(
        network,
        scaling,
        known,
        fitted.biases,
        decoder,
        settings,
        row_features=row_features,
        column_features=column_features,
        read=ReadRows(first.codes, first.left_out) if in_part else None,
    )


# Of what a file keeps, what has a place for each column, or for each rating column by column: shards cut it there.
BY_COLUMN = ("input.weight", "output.weight", "output.bias", "biases.columns", "decoder.turn", "decoder.bias")
BY_RATING = ("decoder.pull",)


def kept_of(matrix: NetworkMatrix) -> tuple[Arrays, dict[str, float]]:
    """What a file keeps of a network, apart from the ratings: arrays and numbers."""
    scaling = matrix.scaling
    weights: Arrays = matrix.network.weights() | {
        f"biases.{name}": array for name, array in matrix.means.arrays().items()
    }
    numbers = {"typical_length": scaling.typical_length}
    if isinstance(matrix, DecodedMatrix):
        weights |= {f"decoder.{name}": array for name, array in matrix.decoder.arrays().items()}
        return weights, numbers | {"unit": scaling.unit}
    prior = matrix.column_weights.prior
    weights |= {
        "row_means": scaling.means,
        "mean_by_features": scaling.by_features.slope,
        "prior.mean": prior.mean,
        "prior.by_features": prior.by_features.slope,
        "prior.factor": prior.factor,
        "prior.pull": prior.precision,
        "prior.noise": np.array([prior.noise], np.float64),
    }
    return weights, numbers | {"overall_mean": scaling.overall, "mean_damping": scaling.damping}


def restored(
    arrays: Arrays,
    numbers: Mapping[str, float],
    known: KnownRatings,
    scale: Scale,
    settings: CFNSettings,
    *,
    row_features: SideFeatures,
    column_features: SideFeatures,
    read: Arrays | None = None,
) -> NetworkMatrix:
    """From what a file kept; ValueError or KeyError where it does not fit together.

    `read`: what part of a model keeps of its rows as all columns read them.
    """
    weights = dict(arrays)
    rows, columns = known.trained.rows, known.trained.columns
    if settings.hidden[0] != weights["input.weight"].shape[1]:
        raise ValueError("the network has another width than the settings say")
    if len(weights["input.weight"]) != columns or len(weights["output.weight"]) != columns:
        raise ValueError("the network has another number of columns than the ratings")
    if (len(row_features.trained), len(column_features.trained)) != (rows, columns):
        raise ValueError("the features do not fit the ratings")
    side = weights["input.side"].shape[0] if "input.side" in weights else 0
    if side not in (row_features.width, row_features.width + 1 if row_features.width else 0):
        raise ValueError("the network was made for another number of features")
    marks_empty = side > row_features.width  # formats 1 to 3 have no mark
    biases = None
    if settings.decoder == "process" or "biases.rows" in weights:  # up to format 7 the other has to fit them again
        biases = FittedMeans.restored(taken(weights, "biases."))
        if (len(biases.trained_row), len(biases.trained_column)) != (rows, columns):
            raise ValueError("there is another number of biases than the ratings have rows and columns")
    if settings.decoder == "process":
        assert biases is not None
        decoder = Decoder.restored(taken(weights, "decoder."), weights, known.trained.nnz)
        unit = numbers["unit"]
        scaling = Scaling.of_biases_in(
            unit, numbers["typical_length"], biases, scale, settings, marks_empty=marks_empty
        )
        network = CFNetwork.of(weights, settings)
        return DecodedMatrix(
            network,
            scaling,
            known,
            biases,
            decoder,
            settings,
            row_features=row_features,
            column_features=column_features,
            read=None if read is None else ReadRows.restored(read, network, scaling, known, row_features, decoded=True),
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
    damping = numbers.get("mean_damping", settings.mean_damping)
    if damping is None:
        raise ValueError("the damping of the means is missing")
    scaling = Scaling(
        scale=scale,
        centre=(scale.high + scale.low) / 2,
        unit=(scale.high - scale.low) / 2,
        damping=damping,
        length_power=settings.length_power,
        length_cap=settings.length_cap,
        presence=settings.presence,
        typical_length=numbers["typical_length"],
        overall=numbers["overall_mean"],
        by_features=_regression(weights, "mean_by_features", outputs=1),
        columns=np.zeros(columns, np.float32),
        means=weights.pop("row_means"),
        marks_empty=marks_empty,
    )
    network = CFNetwork.of(weights, settings)
    return Completion(
        network,
        scaling,
        known,
        settings,
        row_features=row_features,
        column_features=column_features,
        prior=prior,
        means=biases,
        read=None if read is None else ReadRows.restored(read, network, scaling, known, row_features, decoded=False),
    )


def taken(weights: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin so, without that, taken out of the others."""
    names = [name for name in weights if name.startswith(prefix)]
    return {name.removeprefix(prefix): weights.pop(name) for name in names}


def _regression(weights: Arrays, name: str, outputs: int) -> FeatureRegression:
    """Format 1 has none."""
    slope = weights.pop(name, np.zeros((1, outputs), np.float32))
    if slope.ndim != 2 or slope.shape[1] != outputs:
        raise ValueError(f"{name} has shape {list(slope.shape)}, the network asks for {outputs} columns")
    return FeatureRegression(slope)

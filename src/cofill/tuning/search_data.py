"""The ratings of a search as one matrix with side features, and how they are sent to the workers."""

import hashlib
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from cofill.config import CFNSettings, Orientation
from cofill.data.described import SideFeatures, side_of
from cofill.data.features import Features
from cofill.data.ratings import Ratings, Scale
from cofill.data.sparse import SparseRows
from cofill.errors import DataError, SettingsError
from cofill.models.rng import Portion


@dataclass(frozen=True, eq=False)
class SearchData:
    """What every trial is trained and validated on."""

    rows: SparseRows
    row_features: SideFeatures
    column_features: SideFeatures
    scale: Scale
    portion: Portion
    """The keys by which a trial draws: those of a fit."""

    @property
    def features(self) -> npt.NDArray[np.float32]:
        """(rows, P): those that the network reads; P may be 0."""
        return self.row_features.trained

    @classmethod
    def of(
        cls, ratings: Ratings, orientation: Orientation, items: Features | None = None, users: Features | None = None
    ) -> Self:
        """The data of a search; ids with features but no rating are rows too, as in fitting."""
        ratings = ratings.including(users=users.ids if users else (), items=items.ids if items else ())
        sides = side_of(users, ratings.users), side_of(items, ratings.items)
        keys = ratings.users.keys(), ratings.items.keys()
        if orientation == "item":
            sides, keys = sides[::-1], keys[::-1]
        portion = Portion(*keys, columns=len(keys[1]))
        return cls(ratings.rows(orientation), *sides, ratings.scale, portion)

    def check(self, settings: CFNSettings) -> None:
        """Raise if there are no ratings to validate with."""
        if settings.validation == 0:
            raise SettingsError("a search scores its trials on validation ratings; set validation above 0, such as 0.1")
        if min(round(self.rows.nnz * settings.validation), self.rows.nnz - 1) < 1:
            raise DataError(
                f"{self.rows.nnz} ratings are too few to hold out a share of {settings.validation:g} for validation",
                "give more ratings, or a larger validation=...",
            )

    def fingerprint(self) -> str:
        """The same for the same ratings and features, whatever file they came from."""
        digest = hashlib.sha256(self.to_bytes())
        return digest.hexdigest()[:16]

    def to_bytes(self) -> bytes:
        from safetensors.numpy import save

        rows = self.rows
        arrays = {
            "indptr": rows.indptr, "indices": rows.indices, "values": rows.values,
            "features": self.row_features.trained, "described": self.row_features.trained_described,
            "column_features": self.column_features.trained,
            "columns_described": self.column_features.trained_described,
            "row_keys": self.portion.row_keys, "column_keys": self.portion.column_keys,
            "columns": np.array([rows.columns]), "scale": np.array(self.scale, np.float64),
        }  # fmt: skip
        return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        from safetensors.numpy import load

        arrays = load(data)
        rows = SparseRows(arrays["indptr"], arrays["indices"], arrays["values"], int(arrays["columns"][0]))
        row_features = SideFeatures(arrays["features"], arrays["described"])
        column_features = SideFeatures(arrays["column_features"], arrays["columns_described"])
        portion = Portion(arrays["row_keys"], arrays["column_keys"], rows.columns)
        return cls(rows, row_features, column_features, Scale(*arrays["scale"].tolist()), portion)

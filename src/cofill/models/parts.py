"""A fitted model in parts: what passes between a model and the files that keep it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cofill.data.ratings import Scale

Arrays = dict[str, np.ndarray[Any, np.dtype[Any]]]
FILE_KINDS = ("weights", "ratings", "features", "users", "items", "attributes")
"""What the files of a model's folder are called, beside its card; a model has some of them."""


@dataclass
class Parts:
    """A fitted model taken apart, apart from its settings and ids: what the files of its folder hold."""

    scale: Scale
    arrays: dict[str, Arrays]  # one file each: "weights", "ratings", "features"
    numbers: dict[str, float] = field(default_factory=dict)
    learned: dict[str, dict[str, Any]] = field(default_factory=dict)  # about the columns of features, ready for JSON

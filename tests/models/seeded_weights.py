"""The weights that a seed gives, by models that draw by ids, kept as text beside this file in `stored/seeds.json`.

Training is the same to the bit on one machine, so a change of what is drawn, or in which order, shows here.
Those of other algorithms have not changed since version 0.1.0: the models that it wrote tell (`stored_models.py`).

    python -m tests.models.seeded_weights write    # writes them again, with the cofill that is imported
"""

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file

from cofill import Recommender
from tests.models.stored_models import STORED, make

Arrays = dict[str, npt.NDArray[Any]]
NAMES = ("cfn-item", "cfn-user", "cfn-item-features", "cfn-user-features", "cfn-stack", "cfn-paper", "autorec")
_FILE = STORED / "seeds.json"


def weights_of(model: Recommender) -> Arrays:
    with tempfile.TemporaryDirectory() as place:
        model.save(place)
        return weights_in(Path(place))


def weights_in(folder: Path) -> Arrays:
    card = json.loads((folder / "model.json").read_text())
    return load_file(folder / card["files"]["weights"]["name"])


def stored_weights(name: str) -> Arrays:
    kept = json.loads(_FILE.read_text())[name]
    return {
        part: np.frombuffer(base64.b64decode(text), np.dtype(kind)).reshape(shape)
        for part, (kind, shape, text) in kept.items()
    }


def write() -> None:
    document = {
        name: {
            part: [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]
            for part, array in sorted(weights_of(make(name)).items())
        }
        for name in NAMES
    }
    _FILE.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        raise SystemExit(__doc__)
    write()

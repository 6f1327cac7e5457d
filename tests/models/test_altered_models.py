"""Models whose arrays were altered by somebody who made all checksums right again: refused, not believed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from cofill import Recommender, algorithm
from cofill.errors import ModelFileError
from cofill.models import persistence
from cofill.models.persistence import Card
from tests.models.contract import cells, small_cells

Arrays = dict[str, Any]
Change = Callable[[Arrays], object]

_SMALL: dict[str, dict[str, Any]] = {
    "cfn": {"hidden": 5, "epochs": 2, "threads": 1},
    "als-wr": {"rank": 3, "iterations": 2},
    "means": {},
}


def altered(folder: Path, kind: str, change: Change) -> None:
    """Change the arrays of one file, and sign it all again."""
    card = folder / "model.json"
    document = json.loads(card.read_text())
    old = folder / document["files"][kind]["name"]
    arrays = safetensors.numpy.load_file(old)
    change(arrays)
    new = folder / "changed"
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, new)
    digest = persistence.sha256_of(new)
    target = new.rename(folder / f"{kind}-{digest[:12]}.safetensors")
    document["files"][kind] = {"name": target.name, "bytes": target.stat().st_size, "sha256": digest}
    document["sha256"] = Card.model_validate(document).digest()
    card.write_text(json.dumps(document))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    def save(name: str) -> Path:
        kind = algorithm(name)
        model = kind(**_SMALL[name]).fit(cells(small_cells()))
        model.add_ratings(cells([(3, 77, 4.0), (99, 2, 2.0)])).save(tmp_path / name)
        assert type(Recommender.load(tmp_path / name)) is kind
        return tmp_path / name

    return save


def _set(name: str, value: Any) -> Change:
    return lambda arrays: arrays.update({name: value})


def _poke(name: str, value: float) -> Change:
    def change(arrays: Arrays) -> None:
        arrays[name].flat[0] = value

    return change


RATINGS: dict[str, Change] = {
    "a column that does not exist": _poke("indices", 2**20),
    "a later row that does not exist": _poke("later.rows", 2**30),
    "a later column that does not exist": _poke("later.columns", -1),
    "ends beyond the entries": _poke("indptr", 1),
    "another shape": _set("shape", np.array([999, 11])),
    "no values": lambda arrays: arrays.pop("values"),
}


@pytest.mark.parametrize("name", ["cfn", "als-wr"])
@pytest.mark.parametrize("change", RATINGS.values(), ids=RATINGS)
def test_ratings_that_lead_nowhere(saved: Callable[[str], Path], name: str, change: Change) -> None:
    """Compiled loops go by these indices, and who wrote a folder must not be able to run code (SECURITY.md)."""
    folder = saved(name)
    altered(folder, "ratings", change)
    with pytest.raises(
        ModelFileError, match=r"the parts of this model do not fit together .*; train it again"
    ) as caught:
        Recommender.load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(("name", "weights"), [("cfn", "input.weight"), ("als-wr", "users"), ("means", "rows")])
def test_missing_weights(saved: Callable[[str], Path], name: str, weights: str) -> None:
    folder = saved(name)
    altered(folder, "weights", lambda arrays: arrays.pop(weights))
    with pytest.raises(ModelFileError, match="the parts of this model do not fit together"):
        Recommender.load(folder)


HEADERS = {
    "not JSON": b"{nonsense",
    "another type": b'{"a": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}',
    "beyond the end": b'{"a": {"dtype": "F32", "shape": [99], "data_offsets": [0, 396]}}',
    "the wrong way round": b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
    "another size": b'{"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 4]}}',
    "no shape": b'{"a": {"dtype": "F32", "data_offsets": [0, 4]}}',
    "no objects": b"[1, 2]",
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_file_that_is_no_safetensors(header: bytes, tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    for content in (len(header).to_bytes(8, "little") + header + b"\0" * 4, (1 << 62).to_bytes(8, "little") + header):
        path.write_bytes(content)
        with pytest.raises(ModelFileError, match=r"weights\.safetensors: not a safetensors file .*; copy or train"):
            persistence.mapped(path)


def test_a_kind_that_nobody_knows(saved: Callable[[str], Path]) -> None:
    folder = saved("als-wr")
    document = json.loads((folder / "model.json").read_text())
    document["kind"] = "magic"
    document["sha256"] = Card.model_validate(document).digest()
    (folder / "model.json").write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match=r"no algorithm 'magic'.*load a model of your own class with that"):
        Recommender.load(folder)


def test_another_class_than_the_model_has(saved: Callable[[str], Path]) -> None:
    folder = saved("als-wr")
    with pytest.raises(ModelFileError, match=r"of the algorithm 'als-wr', not a CFN; load it with ALSWR\.load"):
        algorithm("cfn").load(folder)

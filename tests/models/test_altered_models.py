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
from cofill.models import file as model_file
from cofill.models.card import Card
from tests.models.contract import cells, small_cells

Arrays = dict[str, Any]
Change = Callable[[Arrays], object]

_SMALL: dict[str, dict[str, Any]] = {
    "cfn": {"hidden": 5, "epochs": 2, "threads": 1},
    "former cfn": {"hidden": 5, "epochs": 2, "threads": 1, "decoder": "network"},
    "als-wr": {"rank": 3, "iterations": 2},
    "llorma": {"rank": 2, "anchors": 3, "iterations": 2},
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
    digest = model_file._sha256(new)
    target = new.rename(folder / f"{kind}-{digest[:12]}.safetensors")
    document["files"][kind] = {"name": target.name, "bytes": target.stat().st_size, "sha256": digest}
    document["sha256"] = Card.model_validate(document).digest()
    card.write_text(json.dumps(document))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    def save(name: str) -> Path:
        kind = algorithm(name.removeprefix("former "))
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


def _narrower(arrays: Arrays) -> None:
    arrays["users"] = arrays["users"][:, :-1]


RATINGS: list[tuple[Change, str]] = [
    (_poke("values", np.nan), "values has a number that is none"),
]


@pytest.mark.parametrize("name", ["cfn", "als-wr"])
@pytest.mark.parametrize(("change", "words"), RATINGS, ids=[words for _, words in RATINGS])
def test_ratings(saved: Callable[[str], Path], name: str, change: Change, words: str) -> None:
    folder = saved(name)
    altered(folder, "ratings", change)
    with pytest.raises(ModelFileError, match=words):
        Recommender.load(folder)


WEIGHTS: list[tuple[str, Change, str]] = [
    ("cfn", _poke("output.weight", np.nan), "output.weight has a number that is none"),
    ("cfn", _poke("biases.rows", np.inf), "biases.rows has a number that is none"),
    ("cfn", _poke("decoder.amplitudes", -1.0), "the amplitudes of the decoder are damaged"),
    ("cfn", _set("decoder.amplitudes", np.empty(0)), "do not fit together"),
    ("former cfn", _poke("row_means", np.inf), "row_means has a number that is none"),
    ("als-wr", _poke("users", np.nan), "users has a number that is none"),
    ("als-wr", _narrower, "the vectors of users and items differ in width"),
    ("als-wr", _set("described.users", np.array([True])), "whether it has features"),
    ("als-wr", _set("described.items", np.zeros(11, np.int64)), "whether it has features"),
    ("llorma", _poke("anchor_users", np.nan), "anchor_users has a number that is none"),
]


@pytest.mark.parametrize(("name", "change", "words"), WEIGHTS, ids=[f"{name}: {words}" for name, _, words in WEIGHTS])
def test_weights(saved: Callable[[str], Path], name: str, change: Change, words: str) -> None:
    folder = saved(name)
    altered(folder, "weights", change)
    with pytest.raises(ModelFileError, match=words):
        Recommender.load(folder)


def test_a_width_that_the_weights_do_not_have(saved: Callable[[str], Path]) -> None:
    folder = saved("cfn")
    document = json.loads((folder / "model.json").read_text())
    document["settings"]["hidden"] = [4_000_000_000]
    document["sha256"] = Card.model_validate(document).digest()
    (folder / "model.json").write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match=r"input\.weight has shape"):
        Recommender.load(folder)


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

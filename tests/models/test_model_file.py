"""A model on disk: whole or refused, readable, and never a pickle."""

import errno
import json
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError
from safetensors.numpy import load_file, save_file

import cofill
from cofill import CFN, Recommender, algorithm, files
from cofill.errors import ModelFileError
from cofill.manifest import FileCard, sha256_of
from cofill.models import persistence
from cofill.models.bias_models import Means
from cofill.models.persistence import Card, State
from cofill.models.predictor import Predictor
from tests.models.contract import all_pairs, assert_same_recommendations, cells, predict, small_cells

Arrays = dict[str, Any]
Change = Callable[[Arrays], object]

QUICK: dict[str, Any] = {"hidden": 5, "epochs": 2, "threads": 1}
KINDS = ("weights", "ratings", "lists", "users", "items")


@pytest.fixture(scope="module")
def model() -> CFN:
    return CFN(**QUICK).fit(cells(small_cells()))


@pytest.fixture(scope="module")
def other() -> CFN:
    """Another model of the same shape."""
    return CFN(**QUICK, seed=9).fit(cells([(u, i, 6 - r) for u, i, r in small_cells()]))


@pytest.fixture
def folder(model: CFN, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def path_of(folder: Path, kind: str) -> Path:
    if kind == "card":
        return folder / "model.json"
    return folder / str(card_of(folder)["files"][kind]["name"])


def refused(folder: Path, named: Path, words: str | None = None) -> str:
    """The message with which the folder is refused: one line that names the file."""
    with pytest.raises(ModelFileError, match=words) as caught:
        CFN.load(folder)
    message = str(caught.value)
    assert str(named) in message
    assert "\n" not in message
    return message


def card_of(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "model.json").read_text())
    return document


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object], *, sign: bool = False) -> None:
    """Change what model.json says; `sign`: with a checksum that is right again."""
    document = card_of(folder)
    change(document)
    with suppress(ValidationError):
        document["sha256"] = Card.model_validate(document).digest() if sign else document.get("sha256")
    (folder / "model.json").write_text(json.dumps(document))


def alter(folder: Path, kind: str, change: Change, shard: int | None = None) -> None:
    """Change the arrays of one file, and sign it all again."""

    def files(card: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = (card if shard is None else card["shards"][shard])["files"]
        return found

    arrays = load_file(folder / files(card_of(folder))[kind]["name"])
    change(arrays)
    new = folder / "changed"
    save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, new)
    digest = sha256_of(new)
    target = new.rename(folder / f"{kind}-{digest[:12]}.safetensors")
    named = {"name": target.name, "bytes": target.stat().st_size, "sha256": digest}
    rewrite(folder, lambda card: files(card).update({kind: named}), sign=True)


def poke(name: str, value: float) -> Change:
    """Another first entry of an array."""

    def change(arrays: Arrays) -> None:
        arrays[name].flat[0] = value

    return change


# Round trip


@pytest.mark.parametrize(("orientation", "hidden"), [("user", (5, 3, 5)), ("item", 5)])
def test_round_trip(tmp_path: Path, orientation: str, hidden: Any) -> None:
    frame = cells(small_cells()).to_polars()
    frame = frame.with_columns(title="Film " + frame["item"].cast(pl.String))
    frame = frame.with_columns(title=pl.when(pl.col("item") > 2).then(pl.col("title")))
    model = CFN(**QUICK | {"orientation": orientation, "hidden": hidden}).fit(cofill.Ratings.read(frame))
    model.save(tmp_path / "a" / "b")
    loaded = CFN.load(str(tmp_path / "a" / "b"))
    assert loaded.settings == model.settings
    assert loaded.history == model.history
    assert loaded.measures == model.measures
    assert loaded.data_summary == model.data_summary
    assert loaded.titles == model.titles == {n: f"Film {n}" for n in range(3, 11)}
    assert loaded.scale == model.scale
    np.testing.assert_array_equal(predict(loaded, all_pairs(model)), predict(model, all_pairs(model)))
    assert loaded.similar(5) == model.similar(5)
    assert_same_recommendations(loaded.recommend({3: 5.0, 4: 1.0}), model.recommend({3: 5.0, 4: 1.0}))
    loaded.save(tmp_path / "again")
    assert names(tmp_path / "again") == names(tmp_path / "a" / "b")  # their names are their content


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_card_is_for_people(folder: Path) -> None:
    text = (folder / "model.json").read_text(encoding="utf-8")
    card = json.loads(text)
    assert len(text.splitlines()) > 20
    assert card["format"] == "cofill-model"
    assert card["format_version"] == 1
    assert card["cofill_version"] == cofill.__version__
    assert card["settings"]["hidden"] == [5]
    assert card["settings"]["mean_damping"] is None
    scaling = CFN.load(folder).network_predictor.scaling
    assert scaling.damping != 7
    assert card["numbers"]["unit"] == scaling.unit
    assert card["data"]["users"] == 14
    assert card["scale"] == [1, 5]
    assert card["history"][0]["epoch"] == 1
    assert set(card["files"]) == set(KINDS)


def test_a_folder_that_was_moved(folder: Path, model: CFN, tmp_path: Path) -> None:
    folder.rename(tmp_path / "elsewhere [1] *")
    loaded = CFN.load(tmp_path / "elsewhere [1] *")
    np.testing.assert_array_equal(predict(loaded, [(1, 1)]), predict(model, [(1, 1)]))


# Damage


def flipped(content: bytes, place: float) -> bytes:
    at = int(len(content) * place)
    return content[:at] + bytes([content[at] ^ 4]) + content[at + 1 :]


def turned_into_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "empty": (lambda path: path.write_bytes(b""), "truncated or altered"),
    "truncated": (lambda path: path.write_bytes(path.read_bytes()[:-8]), "truncated or altered"),
    "first bits": (lambda path: path.write_bytes(flipped(path.read_bytes(), 0.0)), "altered since it was written"),
    "a bit inside": (lambda path: path.write_bytes(flipped(path.read_bytes(), 0.5)), "altered since it was written"),
    "missing": (lambda path: path.unlink(), "missing"),
    "a folder": (turned_into_a_folder, None),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_any_file_that_is_damaged(described: Path, damage: str, tmp_path: Path) -> None:
    act, words = DAMAGES[damage]
    for kind in (*KINDS, "attributes", "features"):
        shutil.copytree(described, tmp_path / kind)
        path = path_of(tmp_path / kind, kind)
        act(path)
        refused(tmp_path / kind, path, words)


@pytest.mark.parametrize("place", [0.0, 0.4, 0.8])
def test_a_flipped_bit_in_the_card(folder: Path, place: float) -> None:
    path = folder / "model.json"
    content = bytearray(path.read_bytes().rstrip())
    said = json.loads(content)
    at = int(len(content) * place)
    while True:
        altered = content.copy()
        altered[at] ^= 1
        try:
            # White space, or the last digit of 17, means nothing; when it was trained is no part of what it is.
            if json.loads(altered) | {"trained": said["trained"]} != said:
                break
        except ValueError:
            break
        at += 1
    path.write_bytes(altered)
    with pytest.raises(ModelFileError, match=re.escape(str(folder))):
        CFN.load(folder)


@pytest.mark.parametrize("kind", ["weights", "ratings"])
def test_swapped_with_another_models(folder: Path, other: CFN, tmp_path: Path, kind: str) -> None:
    other.save(tmp_path / "other")
    shutil.copy(path_of(tmp_path / "other", kind), path_of(folder, kind))
    refused(folder, path_of(folder, kind), "altered")


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["settings"].update(epochs=99),
        lambda card: card["settings"].update(orientation="user"),
        lambda card: card.update(scale=[0, 5]),
        lambda card: card["numbers"].update(unit=0.5),
        lambda card: card["files"]["weights"].update(sha256="0" * 64),
        lambda card: card["files"]["weights"].update(name="../weights"),
        lambda card: card.update(sha256="0" * 64),
        lambda card: card.pop("scale"),
        lambda card: card.pop("files"),
        lambda card: card.update(more=1),
        lambda card: card.update(scale="wide"),
    ],
)
def test_a_changed_card(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    rewrite(folder, change)
    refused(folder, folder / "model.json", "altered")


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["settings"].update(orientation="user"),
        lambda card: card["settings"].update(hidden=[6]),
        lambda card: card["settings"].update(epochs=-1),
        lambda card: card["settings"].update(colour="red"),
        lambda card: card["numbers"].pop("unit"),
        lambda card: card["files"].pop("users"),
        lambda card: card["files"].update(weights=card["files"]["ratings"]),
        lambda card: card["files"].update(ratings=card["files"]["weights"]),
        lambda card: card["files"].update(users=card["files"]["weights"]),
        lambda card: card["files"].update(weights=card["files"]["users"]),
        lambda card: card["files"].update(users=card["files"]["items"]),
        lambda card: card.update(history=[{"epoch": 1}]),
        lambda card: card.update(scale=[5, 1]),
        lambda card: card.update(scale=[3, 3]),
        lambda card: card.update(kind="svd"),
    ],
)
def test_a_card_that_was_made_to_fit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Somebody altered it and its checksum: what does not fit together is still refused."""
    rewrite(folder, change, sign=True)
    refused(folder, folder)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/../../b", "..", "."])
def test_a_name_that_leads_out_of_the_folder(folder: Path, name: str) -> None:
    (folder.parent / "secret").write_text("not yours")
    rewrite(folder, lambda card: card["files"]["users"].update(name=name), sign=True)
    refused(folder, folder)


@pytest.mark.parametrize("version", [2, 999, "2", None, 1.5])
def test_a_newer_format(folder: Path, version: Any) -> None:
    rewrite(folder, lambda card: card.update(format_version=version))
    message = refused(folder, folder / "model.json")
    assert f"format {version}" in message
    assert "upgrade cofill" in message


@pytest.mark.parametrize(
    "content", [b"", b"{", b"not JSON", b"[]", b"3", b'{"format": "onnx"}', b"\0" * 9, b"\xff\xfe{}"]
)
def test_a_card_that_is_none(folder: Path, content: bytes) -> None:
    (folder / "model.json").write_bytes(content)
    refused(folder, folder / "model.json")


@pytest.mark.parametrize("deep", [150, 900, 200_000])
def test_a_card_that_is_nested_without_end(folder: Path, deep: int) -> None:
    text = (folder / "model.json").read_text()
    nested = text.replace('"data": {', '"data": {"deep": ' + "[" * deep + "]" * deep + ", ", 1)
    assert nested != text
    (folder / "model.json").write_text(nested)
    refused(folder, folder / "model.json", "nested too deep")


def test_a_model_says_when_it_was_trained(folder: Path, tmp_path: Path) -> None:
    model = CFN.load(folder)
    assert model.trained is not None
    assert timedelta(0) < datetime.now(UTC) - model.trained < timedelta(days=1)
    model.save(tmp_path / "again")
    assert CFN.load(tmp_path / "again").trained == model.trained
    # The same training at another time is the same model.
    rewrite(folder, lambda card: card.update(trained="2020-02-02T02:02:02+00:00"))
    assert CFN.load(folder).trained == datetime(2020, 2, 2, 2, 2, 2, tzinfo=UTC)
    rewrite(folder, lambda card: card.update(trained="yesterday"))
    refused(folder, folder / "model.json", "trained")


def test_all_files_can_be_read_as_any_other(folder: Path) -> None:
    (folder / "any other").touch()
    assert {path.stat().st_mode for path in folder.iterdir()} == {(folder / "any other").stat().st_mode}


def test_no_model_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("not a folder")
    for place in ("empty", "file", "missing"):
        refused(tmp_path / place, tmp_path / place, "not a model")


# Altered, and all checksums made right again

_SMALL: dict[str, dict[str, Any]] = {"cfn": QUICK, "als-wr": {"rank": 3, "iterations": 2}, "means": {}}


@cache
def changed_model(name: str) -> Recommender:
    model = algorithm(name)(**_SMALL[name]).fit(cells(small_cells()))
    return model.add_ratings(cells([(3, 77, 4.0), (99, 2, 2.0)]))


@pytest.fixture
def saved(tmp_path: Path) -> Callable[[str], Path]:
    def save(name: str) -> Path:
        changed_model(name).save(tmp_path / name)
        return tmp_path / name

    return save


@pytest.mark.parametrize("name", _SMALL)
def test_any_model_is_loaded_as_what_it_is(saved: Callable[[str], Path], name: str) -> None:
    assert type(Recommender.load(saved(name))) is algorithm(name)


RATINGS: dict[str, Change] = {
    "a column that does not exist": poke("indices", 2**20),
    "a later row that does not exist": poke("later.rows", 2**30),
    "a later column that does not exist": poke("later.columns", -1),
    "ends beyond the entries": poke("indptr", 1),
    "another shape": lambda arrays: arrays.update(shape=np.array([999, 11])),
    "no values": lambda arrays: arrays.pop("values"),
}


@pytest.mark.parametrize("name", ["cfn", "als-wr"])
@pytest.mark.parametrize("change", RATINGS.values(), ids=RATINGS)
def test_ratings_that_lead_nowhere(saved: Callable[[str], Path], name: str, change: Change) -> None:
    """Compiled loops go by these indices, and who wrote a folder must not be able to run code (SECURITY.md)."""
    folder = saved(name)
    alter(folder, "ratings", change)
    with pytest.raises(
        ModelFileError, match=r"the parts of this model do not fit together .*; train it again"
    ) as caught:
        Recommender.load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(("name", "weights"), [("cfn", "input.weight"), ("als-wr", "users"), ("means", "rows")])
def test_missing_weights(saved: Callable[[str], Path], name: str, weights: str) -> None:
    folder = saved(name)
    alter(folder, "weights", lambda arrays: arrays.pop(weights))
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
            Card.mapped(tmp_path, FileCard(name=path.name, bytes=0, sha256=""))


def test_another_class_than_the_model_has(saved: Callable[[str], Path]) -> None:
    folder = saved("als-wr")
    path_of(folder, "weights").unlink()  # nothing is read for that
    with pytest.raises(ModelFileError, match=r"of the algorithm 'als-wr', not a CFN; load it with ALSWR\.load"):
        algorithm("cfn").load(folder)


# What items are in words

FILMS = pl.DataFrame(
    {
        "item": [1, 2, 3, 99],
        "year": [1979, None, 1995, 2001],
        "genres": ["Horror|Drama", "Drama", None, "Comedy|War"],
        "studio": ["Fox", "Fox", "MGM", "Fox"],
    }
)


@pytest.fixture(scope="module")
def of_films() -> CFN:
    """Trained with a table of films, one of them without a rating."""
    return CFN(**QUICK | {"hidden": 9}).fit(cells(small_cells()), item_features=FILMS)


@pytest.fixture
def described(of_films: CFN, tmp_path: Path) -> Path:
    of_films.save(tmp_path / "described")
    return tmp_path / "described"


def test_attributes_come_back_as_they_were(described: Path, tmp_path: Path) -> None:
    model = CFN.load(described)
    model.add_ratings(cells([(1, 500, 3.0)]))
    model.save(tmp_path / "a")
    loaded = CFN.load(tmp_path / "a")
    assert loaded.item_attributes.of(1) == {"year": 1979, "genres": ["Horror", "Drama"], "studio": "Fox"}
    assert loaded.item_attributes.of(99) == {"year": 2001, "genres": ["Comedy", "War"], "studio": "Fox"}
    assert loaded.item_attributes.of(500) == {"year": None, "genres": None, "studio": None}
    assert [loaded.item_attributes.of(item) for item in loaded.items] == [
        model.item_attributes.of(item) for item in model.items
    ]
    assert loaded.item_attributes.columns() == model.item_attributes.columns()
    wanted: dict[str, Any] = {"year": {"min": 1979}, "studio": ["Fox"]}
    np.testing.assert_array_equal(loaded.item_attributes.matching(wanted), model.item_attributes.matching(wanted))
    loaded.save(tmp_path / "again")
    assert names(tmp_path / "again") == names(tmp_path / "a")


def test_the_file_of_attributes_is_for_people(described: Path) -> None:
    frame = pl.read_parquet(path_of(described, "attributes"))
    assert frame.columns == ["number:year", "several:genres", "category:studio"]
    assert frame.height == pl.read_parquet(path_of(described, "items")).height


def test_a_model_without_attributes_has_none(described: Path) -> None:
    before = CFN.load(described)
    path_of(described, "attributes").unlink()
    rewrite(described, lambda card: card["files"].pop("attributes"), sign=True)
    loaded = CFN.load(described)
    assert loaded.item_attributes.columns() == []
    assert loaded.item_attributes.of(1) == {}
    np.testing.assert_array_equal(predict(loaded, [(1, 1), (1, 99)]), predict(before, [(1, 1), (1, 99)]))
    loaded.describe_items({98: {"year": 2000, "genres": "Drama", "studio": None}})
    assert loaded.item_attributes.of(98) == {}


def test_a_model_without_features_has_no_file_of_attributes(described: Path, model: CFN) -> None:
    assert model.item_attributes.columns() == []
    model.save(described)
    assert not [name for name in names(described) if name.startswith("attributes")]  # the older one is gone
    assert CFN.load(described).item_attributes.columns() == []


# Saving


def test_an_older_model_is_replaced(folder: Path, other: CFN) -> None:
    before = names(folder)
    (folder / "notes.txt").write_text("mine")
    other.save(folder)
    assert len(names(folder)) == 7
    assert path_of(folder, "weights").name not in before
    assert (folder / "notes.txt").exists()
    np.testing.assert_array_equal(predict(CFN.load(folder), [(1, 1), (2, 5)]), predict(other, [(1, 1), (2, 5)]))


def test_saving_twice_changes_nothing(folder: Path, model: CFN) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    model.save(folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_drafts_of_a_killed_writer_are_removed(folder: Path, model: CFN) -> None:
    (folder / "..weights.safetensors.4711.part").write_bytes(b"half")
    (folder / ".weights.safetensors").write_bytes(b"half")
    (folder / ".model.json.4711.part").write_bytes(b"half")
    model.save(folder)
    assert len(names(folder)) == 6, names(folder)


@pytest.mark.parametrize("failing", [1, 4, 6])
def test_a_full_disk_leaves_the_old_model(
    folder: Path, model: CFN, other: CFN, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Whichever of the six files could not be written: the first, one between, the card."""
    real, count = files.replacing, 0

    def replacing(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == failing:
            monkeypatch.setattr("cofill.files.put_in_place", no_space)
            monkeypatch.setattr(Path, "replace", no_space)
        return real(*arguments)

    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(persistence, "replacing", replacing)
        with pytest.raises(ModelFileError, match="the disk is full") as caught:
            other.save(folder)
        monkeypatch.undo()
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(predict(CFN.load(folder), [(1, 1), (2, 5)]), predict(model, [(1, 1), (2, 5)]))
    other.save(folder)
    assert len(names(folder)) == 6
    np.testing.assert_array_equal(predict(CFN.load(folder), [(1, 1), (2, 5)]), predict(other, [(1, 1), (2, 5)]))


@pytest.mark.parametrize("writer", ["cofill.models.persistence._save_arrays", "polars.DataFrame.write_parquet"])
def test_a_writer_that_fails_leaves_the_old_model(
    folder: Path, model: CFN, other: CFN, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    def half(_: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(writer, half)
        with pytest.raises(ModelFileError, match="the disk is full"):
            other.save(folder)
    np.testing.assert_array_equal(predict(CFN.load(folder), [(1, 1), (2, 5)]), predict(model, [(1, 1), (2, 5)]))
    assert not [name for name in names(folder) if name.endswith(".part")]


def test_a_file_in_the_way(model: CFN, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a file")
    for place in (tmp_path / "model", tmp_path / "model" / "below"):
        with pytest.raises(ModelFileError, match=re.escape(str(place))):
            model.save(place)
    assert (tmp_path / "model").read_text() == "a file"


# Memory


class Wide(Means):
    """Means that keep a large array beside them."""

    kind = "wide"
    wide = np.arange(16_000_000, dtype=np.float32)  # 64 MB

    def _state_dict(self) -> State:
        state = super()._state_dict()
        return state._replace(weights={**state.weights, "wide": self.wide})

    def _load_state_dict(self, state: State, scale: Any, users: Any, items: Any) -> Predictor:
        self.wide = state.weights["wide"]
        return super()._load_state_dict(state, scale, users, items)


def private_bytes() -> int:
    """What this process has written to, and shares with none."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty:"))


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the system does not tell who shares memory")
def test_processes_share_what_they_load(tmp_path: Path) -> None:
    Wide().fit(cells(small_cells())).save(tmp_path)
    Wide.load(tmp_path)  # whatever is imported when a model is first loaded
    before = private_bytes()
    loaded = Wide.load(tmp_path)
    assert loaded.wide.sum(dtype=np.float64) == Wide.wide.sum(dtype=np.float64)  # all of it was looked at
    assert private_bytes() - before < Wide.wide.nbytes / 4
    loaded.wide[:] = 1
    assert private_bytes() - before > Wide.wide.nbytes / 2
    np.testing.assert_array_equal(Wide.load(tmp_path).wide, Wide.wide)  # what was written stayed with this process


def test_a_model_that_is_replaced_while_it_is_in_use_goes_on(folder: Path, model: CFN, other: CFN) -> None:
    loaded = CFN.load(folder)
    other.save(folder)
    shutil.rmtree(folder)
    np.testing.assert_array_equal(predict(loaded, all_pairs(model)), predict(model, all_pairs(model)))


# No pickle


def test_nothing_in_the_source_unpickles() -> None:
    source = Path(cofill.__file__).parent
    modules = "pickle|cPickle|dill|joblib|cloudpickle|shelve|marshal"
    calls = r"torch\.(load|save)\(|allow_pickle=True|np\.load\((?!.*allow_pickle=False)|\beval\(|\bexec\("
    found = re.compile(rf"\b(import|from) ({modules})\b|{calls}")
    files = list(source.rglob("*.py"))
    assert len(files) > 30
    for path in files:
        assert not found.search(path.read_text(encoding="utf-8")), path.name

"""Data sets that are one MATLAB file: small ones made here, and the real ones where they are."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from cofill.data.datasets import dataset, fetch, load, matlab, published_folds
from cofill.data.datasets.matlab import Link, read_links
from cofill.data.ratings import Ratings
from cofill.errors import CofillError, DatasetError
from tests.data.dataset_files import FLIXSTER, MATRICES, YAHOO_MUSIC, put_matlab, shrink

REAL = Path(os.environ.get("COFILL_DATA") or Path(__file__).parents[3] / "shared" / "data")
Matrix = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
ADVICE = r"It has no address of its own; .*COFILL_DATA\."


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A COFILL_DATA of this test, and a catalogue in which a set has three ratings."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COFILL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path / "cache"))
    shrink(monkeypatch)
    return tmp_path


def test_the_ratings(own_folder: Path) -> None:
    put_matlab(own_folder, MATRICES)
    ratings = load("monti-douban")
    rated = ratings.to_polars().select("user", "item", "rating").rows()
    assert rated == [(1, 1, 3.0), (1, 2, 5.0), (2, 1, 1.0)]  # rows are users, numbers begin with 1
    assert tuple(ratings.scale) == (1.0, 5.0)
    assert ratings.times is None
    assert ratings.titles == {}


def test_the_given_split(own_folder: Path) -> None:
    put_matlab(own_folder, MATRICES)
    ((train, test),) = published_folds("monti-douban")
    assert train.to_polars().rows() == [(1, 1, 3.0), (2, 1, 1.0)]
    assert test.to_polars().rows() == [(1, 2, 5.0)]
    assert train.users == test.users
    assert train.items == test.items


@pytest.mark.parametrize(
    ("name", "matrices", "scale"),
    [("monti-flixster", FLIXSTER, (0.5, 5.0)), ("monti-yahoo-music", YAHOO_MUSIC, (1.0, 100.0))],
)
def test_the_others_of_the_same_paper(
    own_folder: Path, name: str, matrices: dict[str, Matrix], scale: tuple[float, float]
) -> None:
    ratings = np.array([[3.0, scale[1]], [scale[0], 0.0], [0.0, 0.0]])
    path = put_matlab(own_folder, matrices | {"M": ratings}, name)
    ((train, test),) = published_folds(name)
    assert train.to_polars().rows() == [(1, 1, 3.0), (2, 1, scale[0])]
    assert test.to_polars().rows() == [(1, 2, scale[1])]
    assert tuple(train.scale) == scale
    ratings[0, 1] += 0.5
    put_matlab(own_folder, matrices | {"M": ratings}, name)
    with pytest.raises(DatasetError, match=rf"^{path}: M: the arrays, row 2, the ratings: .*{ADVICE}$"):
        load(name)


def test_the_links_have_their_weights(own_folder: Path) -> None:
    links = np.array([[0.0, 0.5, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    path = put_matlab(own_folder, MATRICES | {"W_users": links})
    assert read_links(dataset("monti-douban"), path, "W_users") == [(1, 2, 0.5), (2, 3, 2.0)]


@pytest.mark.parametrize(
    ("name", "matrix", "message"),
    [
        ("M", None, "there is no matrix M"),
        ("Otest", None, "there is no matrix Otest"),
        ("M", [3.0, 5.0], "there is no matrix M"),
        ("M", [[3.0, 5.0], [1.0, 0.0]], "Otraining has no 0 or 1 for each cell of M"),
        ("M", [[3.0, 6.0], [1.0, 0.0], [0.0, 0.0]], r"M: the arrays, row 2, the ratings: .*6"),
        ("M", [[3.0, np.nan], [1.0, 0.0], [0.0, 0.0]], r"M: the arrays, row 2, the ratings: .*"),
        ("Otest", [[0.0, 2.0], [0.0, 0.0], [0.0, 0.0]], "Otest has no 0 or 1 for each cell"),
        ("Otest", [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]], "Otraining and Otest mark no rating, or one of them twice"),
        ("Otest", [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]], "it has 2 ratings instead of 3; it is not monti-douban, or"),
    ],
)
def test_wrong_matrices(own_folder: Path, name: str, matrix: list[object] | None, message: str) -> None:
    there = {key: one for key, one in MATRICES.items() if key != name}
    path = put_matlab(own_folder, there if matrix is None else MATRICES | {name: np.array(matrix, np.float64)})
    with pytest.raises(DatasetError, match=rf"^{path}: {message}.*{ADVICE}$"):
        load("monti-douban")


@pytest.mark.parametrize("links", [np.ones((3, 2)), np.array([[0.0, np.inf], [0.0, 0.0]])])
def test_wrong_links(own_folder: Path, links: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    path = put_matlab(own_folder, MATRICES | {"W_users": links})
    with pytest.raises(DatasetError, match=rf"^{path}: W_users is no square of numbers\. {ADVICE}$"):
        read_links(dataset("monti-douban"), path, "W_users")


@pytest.mark.parametrize("damage", ["cut", "text"])
def test_a_damaged_file_is_refused(own_folder: Path, damage: str) -> None:
    path = put_matlab(own_folder, MATRICES)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if damage == "cut" else b"<html>404</html>")
    with pytest.raises(DatasetError, match=rf"^{path}: truncated or damaged.*\(.*\)\. {ADVICE}$"):
        load("monti-douban")


def test_a_matrix_that_would_fill_the_memory(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_matlab(own_folder, MATRICES)
    monkeypatch.setattr(matlab, "MOST_CELLS", 5)
    with pytest.raises(DatasetError, match="there is no matrix M of the usual size"):
        load("monti-douban")


def test_without_h5py_the_error_says_what_to_install(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_folder / "data" / "monti-douban.mat").touch()
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(CofillError, match=r"pip install 'cofill\[hdf5\]'"):
        fetch("monti-douban")


def real_parts(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Ratings, Ratings, Path]:
    """The published training and test part, and the file."""
    pytest.importorskip("h5py", reason="h5py is not installed; pip install 'cofill[hdf5]'")
    path = next(REAL.glob(f"**/{name}/training_test_dataset.mat"), None)
    if path is None:
        pytest.skip(f"{name}/training_test_dataset.mat is not in {REAL}; name its folder in COFILL_DATA")
    monkeypatch.undo()
    monkeypatch.setenv("COFILL_DATA", str(REAL))
    entry = dataset(name)
    ((train, test),) = published_folds(name)
    assert (len(train.users), len(train.items)) == (entry.users, entry.items)
    assert len(train) + len(test) == entry.ratings
    whole = load(name)
    assert train.values.sum() + test.values.sum() == whole.values.sum()
    return train, test, path


def alike(train: Ratings, test: Ratings, links: list[Link], side: str) -> float:
    """How much what is linked was rated by the same people, or people who are linked rated the same."""
    seen = np.zeros((3_001, 3_001), np.float32)
    for part in (train, test):
        frame = part.to_polars()
        seen[frame["user"].to_numpy(), frame["item"].to_numpy()] = 1.0
    rows = seen if side == "users" else seen.T
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    ones, others = (np.array(end) for end in list(zip(*links, strict=True))[:2])
    return float((rows[ones] * rows[others]).sum(axis=1).mean())


@pytest.mark.real_data
def test_the_real_douban(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test, path = real_parts("monti-douban", monkeypatch)
    assert (len(train), len(test)) == (123_202, 13_689)
    assert 2_998 not in train.users  # the one who rates nothing
    # Friends watch the same films, so the axis that the links agree with is that of the users.
    links = read_links(dataset("monti-douban"), path, "W_users")
    assert len(links) == 2_690
    assert alike(train, test, links, "users") > 1.5 * alike(train, test, links, "items")

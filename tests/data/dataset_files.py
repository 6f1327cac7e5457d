"""Small data sets for tests, in the layouts of their publishers."""

import dataclasses
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cofill.data import datasets
from cofill.data.datasets import dataset
from cofill.data.datasets.catalogue import CATALOGUE, Dataset

LATIN = "Misérables, Les (1995)"
WIDE = "Fantômas 終 (1913)"

# What the members of each set look like, in the layout of its publisher.
RATINGS = {
    "ml-100k": "1\t10\t3\t881250949\n1\t20\t5\t881250950\n2\t10\t1\t881250951\n",
    "ml-1m": "1::10::3::978300760\n1::20::5::978300761\n2::10::1::978300762\n",
    "ml-10m": "1::10::3.5::838985046\n1::20::5::838985047\n2::10::0.5::838985048\n",
    "ml-20m": "userId,movieId,rating,timestamp\n1,10,3.5,1112486\n1,20,5.0,1112487\n2,10,0.5,1112488\n",
    "douban": "1 10 3\n1 20 5\n2 10 1\n",
    "movietweetings": "1::0000010::3::1381620027\n1::1000020::10::1381620028\n2::0000010::0::1381620029\n",
}
_FLAGS = "0|" * 8
TITLES = {
    "ml-100k": (
        f"10|{LATIN}|01-Jan-1995||http://x|{_FLAGS}1|0|0|0|1|0|0|0|0|0|0\n"
        f"20|Quiet (1996)|14-Feb-1996||http://x|{_FLAGS}1|0|0|0|0|0|0|0|0|0|0\n"
        f"30|unknown||||1|{_FLAGS}0|0|0|0|0|0|0|0|0|0\n"
    ),
    "ml-1m": f"10::{LATIN}::Drama|Musical\n20::Quiet (1996)::Drama\n30::Unseen (1999)::War\n",
    "ml-10m": f"10::{LATIN}::Drama|Musical\n20::Quiet (1996)::Drama\n30::Unseen (1999)::War\n",
    "ml-20m": f'movieId,title,genres\n10,"{LATIN}",Drama|Musical\n20,Quiet (1996),Drama\n30,Unseen (1999),War\n',
    "movietweetings": f"0000010::{WIDE}::Drama|Musical\n1000020::Quiet (1996)::Drama\n0000030::Unseen (1999)::War\n",
}
USERS = {
    "ml-100k": "1|24|M|technician|85711\n2|53|F|other|T8H1N\n3|30|F|other|94043\n",
    "ml-1m": "1::F::1::10::48067\n2::M::56::16::70072\n3::M::25::10::55117\n",
}
TAGS = {
    "ml-10m": "15::10::Sad::1215184630\n15::20::sad::1215184631\n16::20::slow::1215184632\n16::10::slow::1215184633\n",
    "ml-20m": 'userId,movieId,tag,timestamp\n15,10,Sad,1\n15,20,sad,2\n16,20,"slow, long",3\n16,10,"slow, long",4\n',
}
FRIENDS = "1 2\n2 3\n"
KINDS = {"ml-25m": "ml-20m", "ml-32m": "ml-20m", "ml-latest-small": "ml-20m"}
"""Which sets are laid out as another one is."""

# The MATLAB sets, users by items: user 3 of Douban rates nothing, but has a friend.
MATRICES = {
    "M": np.array([[3.0, 5.0], [1.0, 0.0], [0.0, 0.0]]),
    "Otraining": np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]]),
    "Otest": np.array([[0.0, 1.0], [0.0, 0.0], [0.0, 0.0]]),
    "W_users": np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]),
}
FLIXSTER = MATRICES | {"W_movies": np.array([[0.0, 1.0], [1.0, 0.0]])}
YAHOO_MUSIC = {name: FLIXSTER[name] for name in ("M", "Otraining", "Otest")} | {"W_tracks": FLIXSTER["W_movies"]}


def members(entry: Dataset) -> dict[str, bytes]:
    """Three ratings in the format of the set, and what it tells about users and items."""
    kind = KINDS.get(entry.name, entry.name)
    made = {entry.ratings_member: RATINGS[kind].encode()}
    if entry.titles_member:
        made[entry.titles_member] = TITLES[kind].encode(entry.encoding)
    first, *others = RATINGS[kind].splitlines(keepends=True)
    for train, test in entry.folds:
        made |= {train: "".join(others).encode(), test: first.encode()}
    for source in (*entry.about_users, *entry.about_items):
        if source.member not in made:
            text = FRIENDS if source.kind == "links" else (TAGS if source.kind == "tags" else USERS)[kind]
            made[source.member] = text.encode(source.encoding)
    return made


def packed(content: dict[str, bytes]) -> bytes:
    """A zip of it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def put(folder: Path, name: str, content: dict[str, bytes] | None = None) -> Path:
    """The zip of a set in the folder `data`."""
    path = folder / "data" / f"{name}.zip"
    path.write_bytes(packed(members(dataset(name)) if content is None else content))
    return path


def put_in_the_open(folder: Path, name: str, content: dict[str, bytes] | None = None) -> Path:
    """The files of a set in a folder of its name; the path is that of its ratings."""
    entry = dataset(name)
    own = folder / "data" / name
    own.mkdir(exist_ok=True)
    for member, data in (members(entry) if content is None else content).items():
        (own / member).write_bytes(data)
    return own / entry.ratings_member


def put_matlab(
    folder: Path, matrices: dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]], name: str = "monti-douban"
) -> Path:
    """A file such as MATLAB writes, which holds every matrix transposed."""
    h5py = pytest.importorskip("h5py", reason="h5py is not installed; pip install 'cofill[hdf5]'")
    path = folder / "data" / name / "training_test_dataset.mat"
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w", userblock_size=512) as file:
        for member, matrix in matrices.items():
            file.create_dataset(member, data=matrix.T, compression="gzip" if matrix.size else None)
    return path


def shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue with three ratings a set."""
    shrunk = {name: dataclasses.replace(entry, ratings=3) for name, entry in CATALOGUE.items()}
    monkeypatch.setattr(datasets, "CATALOGUE", shrunk)

"""What the data sets tell about users and items: small ones made here, and real ones where they are."""

import os
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cofill.data.attributes import Attributes
from cofill.data.datasets import SideInformation, UnpublishedFileWarning, dataset, load, side_information
from cofill.data.datasets.catalogue import CATALOGUE
from cofill.data.features import Features
from cofill.errors import DatasetError
from tests.data.dataset_files import (
    MATRICES,
    RATINGS,
    members,
    put,
    put_in_the_open,
    put_matlab,
    shrink,
)

REAL = Path(os.environ.get("COFILL_DATA") or Path(__file__).parents[3] / "shared" / "data")
CSV = ["ml-20m", "ml-25m", "ml-32m", "ml-latest-small"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A COFILL_DATA of this test, and a catalogue in which a set has three ratings."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COFILL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path / "cache"))
    shrink(monkeypatch)
    return tmp_path


def told(name: str) -> SideInformation:
    """Side information of a set that was packed here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnpublishedFileWarning)
        return side_information(name)


def row(features: Features | None, id: int | str) -> dict[str, float]:
    """What is known about one id: the columns that are not zero."""
    assert features is not None
    values = features.values[features.ids.index(id)]
    return {name: float(value) for name, value in zip(features.names, values, strict=True) if value}


def standard(numbers: Sequence[float], position: int) -> float:
    return float((numbers[position] - np.mean(numbers)) / np.std(numbers))


def test_100k(own_folder: Path) -> None:
    put(own_folder, "ml-100k")
    users, items = told("ml-100k")
    assert users is not None
    assert users.names == ("age", "gender=F", "gender=M", "occupation=other", "occupation=technician")
    ages = [24, 53, 30]
    assert row(users, 1) == pytest.approx({"age": standard(ages, 0), "gender=M": 1, "occupation=technician": 1})
    assert row(users, 3) == pytest.approx({"age": standard(ages, 2), "gender=F": 1, "occupation=other": 1})
    assert items is not None
    assert items.width == 20  # a date and 19 genres
    dates = [1995, 1996 + 44 / 366]
    assert row(items, 10) == pytest.approx({"release date": standard(dates, 0), "Drama": 1, "Musical": 1})
    assert row(items, 20) == pytest.approx({"release date": standard(dates, 1), "Drama": 1})
    assert row(items, 30) == {"unknown genre": 1}  # an empty cell is not a date


def test_1m(own_folder: Path) -> None:
    put(own_folder, "ml-1m")
    users, items = told("ml-1m")
    assert users is not None
    kinds = ("gender=F", "gender=M", "age=1", "age=25", "age=56", "occupation=10", "occupation=16")
    assert users.names == kinds
    assert row(users, 1) == {"gender=F": 1, "age=1": 1, "occupation=10": 1}
    assert row(users, 2) == {"gender=M": 1, "age=56": 1, "occupation=16": 1}
    check_movies(items, [10, 20, 30])
    assert items is not None
    assert items.width == 4


def check_movies(items: Features | None, ids: Sequence[int | str]) -> None:
    """The movies of 1995, 1996 and 1999, the last of which nobody has rated."""
    assert items is not None
    assert list(items.ids)[:3] == list(ids)
    years, genres = [1995, 1996, 1999], [("Drama", "Musical"), ("Drama",), ("War",)]
    for position, id in enumerate(ids):
        known = {name: value for name, value in row(items, id).items() if not name.startswith("tags")}
        hot = {f"genres={genre}": 1.0 for genre in genres[position]}
        assert known == pytest.approx({"title": standard(years, position)} | hot)


@pytest.mark.parametrize("name", ["ml-10m", *CSV])
def test_movies_and_their_tags(own_folder: Path, name: str) -> None:
    put(own_folder, name)
    users, items = told(name)
    assert users is None
    check_movies(items, [10, 20, 30])
    assert items is not None
    tags = [at for at, column in enumerate(items.names) if column.startswith("tags[")]
    assert tags
    first, second, untagged = items.values[:, tags]
    np.testing.assert_allclose(first, second, atol=1e-6)  # the same two tags, whatever their case
    assert np.linalg.norm(first) > 0.5
    assert not untagged.any()
    slow = "slow" if name == "ml-10m" else "slow, long"
    described = {"title": "Quiet (1996)", "genres": "Drama", "tags": ["SAD", slow]}
    np.testing.assert_allclose(items.encode(described), items.values[1], atol=1e-4)


def test_a_tagged_movie_that_is_in_no_list(own_folder: Path) -> None:
    content = members(dataset("ml-10m"))
    content["ml-10M100K/tags.dat"] += b"17::40::sad::1215184634\n"
    put(own_folder, "ml-10m", content)
    items = told("ml-10m").items
    assert items is not None
    assert list(items.ids) == [10, 20, 30, 40]
    assert all(name.startswith("tags[") for name in row(items, 40))


@pytest.mark.parametrize("between", [" ", ","])
@pytest.mark.parametrize("as_zip", [True, False])
def test_douban(own_folder: Path, between: str, as_zip: bool) -> None:
    content = members(dataset("douban"))
    content["social.index"] = f"1{between}2\n2{between}3\n7{between}1\n".encode()
    (put if as_zip else put_in_the_open)(own_folder, "douban", content)
    users, items = told("douban")
    assert items is None
    assert users is not None
    assert sorted(users.ids.ids, key=str) == [1, 2, 3, 7]
    assert users.names[0] == "friends[0]"
    np.testing.assert_allclose(users.encode({"friends": [1, 3]}), users.values[users.ids.index(2)], atol=1e-4)


def test_douban_without_its_friends(own_folder: Path) -> None:
    content = members(dataset("douban"))
    del content["social.index"]
    path = put_in_the_open(own_folder, "douban", content)
    assert len(load("douban")) == 3
    with pytest.raises(DatasetError, match=rf"^{path}: there is no social\.index beside it\. .*two users a line"):
        side_information("douban")


def test_monti_douban(own_folder: Path) -> None:
    path = put_matlab(own_folder, MATRICES)
    users, items = side_information("monti-douban")
    assert items is None
    assert users is not None
    assert sorted(users.ids.ids, key=str) == [1, 2, 3]
    assert 3 not in load("monti-douban").users  # and yet it has a friend
    first, second, third = (users.values[users.ids.index(id)] for id in (1, 2, 3))
    np.testing.assert_allclose(first, third, atol=1e-6)  # they have the same friend
    assert abs(float(first @ second)) < 1e-6
    put_matlab(own_folder, {name: matrix for name, matrix in MATRICES.items() if name != "W_users"})
    with pytest.raises(DatasetError, match=rf"^{path}: there is no matrix W_users .*inside\. It has no address"):
        side_information("monti-douban")
    put_matlab(own_folder, MATRICES | {"W_users": np.zeros((3, 3))})
    with pytest.raises(DatasetError, match=rf"^{path}, W_users: .*It has no address"):
        side_information("monti-douban")


def test_movietweetings(own_folder: Path) -> None:
    put_in_the_open(own_folder, "movietweetings")
    users, items = side_information("movietweetings")
    assert users is None
    assert items is not None
    assert list(items.ids) == ["0000010", "1000020", "0000030"]
    years = [1913, 1996, 1999]
    expected = {"title": standard(years, 0), "genres=Drama": 1, "genres=Musical": 1}
    assert row(items, "0000010") == pytest.approx(expected)
    assert items.described(load("movietweetings").items).all()


@pytest.mark.parametrize("name", [name for name in CATALOGUE if name in RATINGS])
def test_features_find_the_ids_of_the_ratings(own_folder: Path, name: str) -> None:
    (put_in_the_open if name in ("douban", "movietweetings") else put)(own_folder, name)
    users, items = told(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnpublishedFileWarning)
        ratings = load(name)
    assert users is not None or items is not None
    for features, ids in ((users, ratings.users), (items, ratings.items)):
        if features is not None:
            assert features.described(ids).all()
            assert np.isfinite(features.values).all()


@pytest.mark.parametrize("member", ["users.dat", "movies.dat"])
def test_a_missing_member(own_folder: Path, member: str) -> None:
    content = members(dataset("ml-1m"))
    del content[f"ml-1m/{member}"]
    path = put(own_folder, "ml-1m", content)
    with pytest.raises(DatasetError, match=rf"^{path}: there is no ml-1m/{member} inside\. Get ml-1m\.zip anew from"):
        told("ml-1m")


def test_a_member_that_is_damaged(own_folder: Path) -> None:
    path = put(own_folder, "ml-1m")
    with zipfile.ZipFile(path) as archive:
        begin = archive.getinfo("ml-1m/users.dat").header_offset
    data = bytearray(path.read_bytes())
    data[begin + 30 + len("ml-1m/users.dat") + 5] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(DatasetError, match=rf"^{path}: truncated or damaged \(.*Get ml-1m\.zip anew"):
        told("ml-1m")


def real(file: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """That file, in the folder that COFILL_DATA now names, with the catalogue as it is."""
    found = next(REAL.glob(f"**/{file}"), None)
    if found is None:
        pytest.skip(f"{file} is not in {REAL}; name its folder in COFILL_DATA")
    monkeypatch.undo()
    monkeypatch.setenv("COFILL_DATA", str(REAL))
    return found


@pytest.mark.real_data
def test_the_real_100k(monkeypatch: pytest.MonkeyPatch) -> None:
    real("ml-100k.zip", monkeypatch)
    users, items = told("ml-100k")
    assert users is not None
    assert (len(users.ids), users.width) == (943, 1 + 2 + 21)
    first = row(users, 1)
    assert first.pop("age") < 0  # 24 is young there
    assert first == {"gender=M": 1, "occupation=technician": 1}
    assert items is not None
    assert (len(items.ids), items.width) == (1_682, 20)
    toy_story = row(items, 1)
    assert toy_story.pop("release date") > 0
    assert toy_story == {"Animation": 1, "Children's": 1, "Comedy": 1}
    assert row(items, 267) == {"unknown genre": 1}


@pytest.mark.real_data
def test_the_real_1m(monkeypatch: pytest.MonkeyPatch) -> None:
    real("ml-1m.zip", monkeypatch)
    users, items = side_information("ml-1m")
    ratings = load("ml-1m")
    assert users is not None
    assert (len(users.ids), users.width) == (6_040, 2 + 7 + 21)
    assert row(users, 1) == {"gender=F": 1, "age=1": 1, "occupation=10": 1}
    assert (users.values.sum(axis=1) == 3).all()
    assert items is not None
    assert (len(items.ids), items.width) == (3_883, 1 + 18)
    assert len(ratings.items) == 3_706
    assert items.described(ratings.items).all()
    about = Attributes.of_features(ratings.items, items)
    assert [(column.name, column.low, column.high) for column in about.columns()] == [
        ("genres", None, None),
        ("year", 1919, 2000),
    ]
    nineties = about.found({"year": {"min": 1990, "max": 1999}})
    assert nineties.sum() == sum("(199" in ratings.titles[item] for item in ratings.items)
    toy_story = row(items, 1)
    years = [int(title.rstrip()[-5:-1]) for title in ratings.titles.values()]
    assert len(years) == 3_883
    expected = {"title": (1995 - np.mean(years)) / np.std(years)}
    genres = ("Animation", "Children's", "Comedy")
    assert toy_story == pytest.approx(expected | {f"genres={genre}": 1 for genre in genres}, abs=1e-5)
    described = {"title": "Toy Story (1995)", "genres": list(genres)}
    np.testing.assert_allclose(items.encode(described), items.values[items.ids.index(1)], atol=1e-5)


@pytest.mark.real_data
def test_the_real_movies_and_tags_of_10m(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ratings are made up, as only what it tells about the movies is at hand."""
    folder = real("ml-10m-side/tags.dat", monkeypatch).parent
    shrink(monkeypatch)
    monkeypatch.setenv("COFILL_DATA", str(own_folder / "data"))
    content = members(dataset("ml-10m"))
    content |= {f"ml-10M100K/{file}": (folder / file).read_bytes() for file in ("movies.dat", "tags.dat")}
    put(own_folder, "ml-10m", content)
    items = told("ml-10m").items
    assert items is not None
    assert (len(items.ids), items.width) == (10_681, 1 + 19 + 50)
    toy_story = row(items, 1)
    assert {"genres=Animation", "genres=Fantasy", "tags[0]"} <= set(toy_story)
    known = {"title": "Toy Story (1995)", "genres": "Adventure|Animation|Children|Comedy|Fantasy", "tags": None}
    untagged = items.encode(known)
    np.testing.assert_allclose(untagged[:20], items.values[items.ids.index(1)][:20], atol=1e-5)
    assert not untagged[20:].any()


@pytest.mark.real_data
def test_the_real_movietweetings(monkeypatch: pytest.MonkeyPatch) -> None:
    real("movietweetings/movies.dat", monkeypatch)
    users, items = side_information("movietweetings")
    assert users is None
    assert items is not None
    assert (len(items.ids), items.width) == (12_611, 1 + 25)
    fantomas = row(items, "0002844")
    assert fantomas.pop("title") < -3  # 1913
    assert fantomas == {"genres=Crime": 1, "genres=Drama": 1}
    assert items.described(load("movietweetings").items).all()

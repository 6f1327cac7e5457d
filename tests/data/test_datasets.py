"""Finding, checking and loading the public data sets: small ones made here, and real ones where they are."""

import dataclasses
import os
import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from cofill.data import datasets
from cofill.data.datasets import (
    UnpublishedFileWarning,
    catalogue,
    dataset,
    fetch,
    load,
    locate,
    published_folds,
)
from cofill.data.datasets.catalogue import CATALOGUE
from cofill.errors import DatasetError
from tests.data.dataset_files import LATIN, RATINGS, WIDE, members, packed, put, put_in_the_open, shrink

REAL = Path(os.environ.get("COFILL_DATA") or Path(__file__).parents[3] / "shared" / "data")
ZIPPED = [name for name, entry in CATALOGUE.items() if entry.address is not None]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty COFILL_DATA and an empty cache, so that no test sees the files of this machine."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COFILL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch)


def test_the_catalogue() -> None:
    assert list(catalogue()) == [
        "ml-100k", "ml-1m", "ml-10m", "ml-20m", "ml-25m", "ml-32m", "ml-latest-small", "douban", "monti-douban",
        "monti-flixster", "monti-yahoo-music", "movietweetings",
    ]  # fmt: skip
    for name, entry in catalogue().items():
        assert entry.name == name
        assert entry.address is None or entry.address.endswith(f"/{entry.file_names[0]}")
        assert (entry.address is None) == bool(entry.missing)
        assert entry.md5 is None or len(entry.md5) == 32
        assert entry.licence
        assert set(entry.second_hand) <= {"licence", "checksum"}
        assert entry.md5 or "checksum" not in entry.second_hand
        assert entry.citation
        sources = (*entry.about_users, *entry.about_items)
        assert all(source.brings for source in sources)
        assert len({source.member for source in sources}) == len(sources) > 0
    douban = dataset("douban")
    assert (douban.users, douban.items, douban.ratings) == (129_490, 58_541, 16_830_839)


@pytest.mark.parametrize(("wrong", "meant"), [("ml1m", "ml-1m"), ("ML-20M", "ml-20m"), ("duban", "douban")])
def test_an_unknown_name_gets_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(
        DatasetError, match=rf"no data set '{wrong}'. Did you mean {meant}\? There are ml-100k, .*douban"
    ):
        load(wrong)


@pytest.mark.parametrize("name", ZIPPED)
@pytest.mark.usefixtures("small")
def test_every_format_is_read(own_folders: Path, name: str) -> None:
    put(own_folders, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnpublishedFileWarning)
        ratings = load(name)
    whole_stars = name in ("ml-100k", "ml-1m")
    assert list(ratings.users) == [1, 2]
    assert list(ratings.items) == [10, 20]
    np.testing.assert_array_equal(ratings.values, [3, 5, 1] if whole_stars else [3.5, 5, 0.5])
    assert tuple(ratings.scale) == (1.0 if whole_stars else 0.5, 5.0)
    assert ratings.titles[10] == LATIN
    assert ratings.titles[20] == "Quiet (1996)"
    assert ratings.times is not None
    assert sorted(path.name for path in (own_folders / "data").iterdir()) == [f"{name}.zip"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("as_zip", [True, False])
def test_douban_from_the_users_own_file(own_folders: Path, as_zip: bool) -> None:
    content = members(dataset("douban"))
    if as_zip:
        put(own_folders, "douban", {f"somewhere/{name}": data for name, data in content.items()})
    else:
        (own_folders / "data" / "deep").mkdir()
        (own_folders / "data" / "deep" / "uir.index").write_bytes(content["uir.index"])
    ratings = load("douban")
    np.testing.assert_array_equal(ratings.values, [3, 5, 1])
    assert tuple(ratings.scale) == (1.0, 5.0)


def test_douban_says_what_to_do() -> None:
    assert locate("douban") is None
    with pytest.raises(DatasetError, match=r"douban cannot be downloaded.*uir\.index.*COFILL_DATA.*user item rating"):
        load("douban")


@pytest.mark.usefixtures("small")
def test_movietweetings_lies_in_the_open(own_folders: Path) -> None:
    path = put_in_the_open(own_folders, "movietweetings")
    assert locate("movietweetings") == path
    ratings = load("movietweetings")
    assert list(ratings.items) == ["0000010", "1000020"]  # leading zeros stay
    assert list(ratings.users) == [1, 2]
    np.testing.assert_array_equal(ratings.values, [3, 10, 0])
    assert tuple(ratings.scale) == (0.0, 10.0)
    assert ratings.titles == {"0000010": WIDE, "1000020": "Quiet (1996)", "0000030": "Unseen (1999)"}


@pytest.mark.parametrize("folder", ["movietweetings", "MovieTweetings", "MovieTweetings/latest", "deep/movietweetings"])
def test_a_usual_file_name_is_known_by_its_folder(own_folders: Path, folder: str) -> None:
    for elsewhere in ("ml-1m", "latest", "movietweetings-old", "movietweetings/snapshots"):
        (own_folders / "data" / elsewhere).mkdir(parents=True)
        (own_folders / "data" / elsewhere / "ratings.dat").touch()
    (own_folders / "data" / "ratings.dat").touch()
    assert locate("movietweetings") is None
    own = own_folders / "data" / folder / "ratings.dat"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.touch()
    assert locate("movietweetings") == own


def test_the_named_folder_may_be_that_folder(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = own_folders / "movietweetings"
    own.mkdir()
    (own / "ratings.dat").touch()
    monkeypatch.setenv("COFILL_DATA", str(own))
    assert locate("movietweetings") == own / "ratings.dat"
    monkeypatch.chdir(own)
    monkeypatch.setenv("COFILL_DATA", ".")
    assert locate("movietweetings") == Path("ratings.dat")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("member", "data", "message"),
    [
        ("ratings.dat", b"1::10::3::9\n1::20::x::9\n2::10::1::9\n", r"ratings\.dat, line 2, .*'x'"),
        ("ratings.dat", b"1::10::3::9\n1::20::9::9\n2::10::1::9\n", r"ratings\.dat, line 2, .*9"),
        ("movies.dat", b"10 Heat\n", r"movies\.dat: 1 columns and none is left for the title"),
    ],
)
def test_what_is_wrong_inside_is_said_of_the_set(own_folders: Path, member: str, data: bytes, message: str) -> None:
    content = members(dataset("ml-1m")) | {f"ml-1m/{member}": data}
    path = put(own_folders, "ml-1m", content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnpublishedFileWarning)
        with pytest.raises(DatasetError, match=rf"{path}.*{message}.*Get ml-1m\.zip anew") as caught:
            load("ml-1m")
    assert "cofill-" not in str(caught.value)  # the temporary file is nobody's concern


@pytest.mark.usefixtures("small")
def test_a_repacked_file_is_used_with_a_warning(own_folders: Path) -> None:
    path = put(own_folders, "ml-1m")
    with pytest.warns(UnpublishedFileWarning, match=r"ml-1m\.zip: its MD5 is \w{32}, the published one c4d9"):
        assert fetch("ml-1m") == path


@pytest.mark.usefixtures("small")
def test_members_may_be_in_another_folder(own_folders: Path) -> None:
    content = members(dataset("ml-1m"))
    put(own_folders, "ml-1m", {f"mine/{Path(name).name}": data for name, data in content.items()})
    with pytest.warns(UnpublishedFileWarning):
        assert len(load("ml-1m")) == 3


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"ml-1m/movies.dat": b"1::A::B\n"}, r"there is no ml-1m/ratings\.dat inside"),
        ({"ml-1m/ratings.dat": RATINGS["ml-1m"].encode()}, r"there is no ml-1m/movies\.dat inside"),
        (
            {"ml-1m/ratings.dat": b"1::10::3::9\n1::20::5::9", "ml-1m/movies.dat": b""},
            "2 ratings instead of 3",
        ),
        ({}, r"there is no ml-1m/ratings\.dat inside"),
    ],
)
def test_an_incomplete_file_is_refused(own_folders: Path, content: dict[str, bytes], message: str) -> None:
    put(own_folders, "ml-1m", content)
    with pytest.raises(DatasetError, match=rf"ml-1m\.zip: .*{message}.* Get ml-1m\.zip anew from https://files"):
        load("ml-1m")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_file_is_refused(own_folders: Path, damage: str) -> None:
    path = put(own_folders, "ml-1m")
    data = bytearray(path.read_bytes())
    data[50] ^= 0xFF
    path.write_bytes(data if damage == "flipped" else data[: len(data) // 2])
    with pytest.raises(DatasetError, match=r"ml-1m\.zip: truncated or damaged \(.*Get ml-1m\.zip anew"):
        load("ml-1m")


def test_data_folder_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COFILL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match=r"COFILL_DATA is .*nowhere, which is no folder\. Name the folder"):
        locate("ml-1m")


@pytest.mark.usefixtures("small")
def test_the_order_of_places(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locate("ml-1m") is None
    cached = own_folders / "cache" / "ml-1m.zip"
    cached.parent.mkdir()
    cached.write_bytes(packed(members(dataset("ml-1m"))))
    assert locate("ml-1m") == cached
    assert len(load("ml-1m")) == 3  # what is in the cache was checked before
    deep = own_folders / "data" / "a" / "b" / "ml-1m.zip"
    deep.parent.mkdir(parents=True)
    deep.write_bytes(cached.read_bytes())
    assert locate("ml-1m") == deep
    assert locate("ml-1m") != put(own_folders, "ml-1m").with_name("other")
    assert locate("ml-1m") == own_folders / "data" / "ml-1m.zip"
    monkeypatch.delenv("COFILL_DATA")
    assert locate("ml-1m") == cached


def test_the_place_of_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert datasets.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("COFILL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert datasets.cache_folder() == tmp_path / "xdg" / "cofill"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.cache_folder() == tmp_path / ".cache" / "cofill"


@pytest.mark.usefixtures("small")
def test_folds_share_the_vocabularies_of_the_whole_set(own_folders: Path) -> None:
    put(own_folders, "ml-100k")
    with pytest.warns(UnpublishedFileWarning):
        folds = list(published_folds("ml-100k"))
    assert len(folds) == 5
    for train, test in folds:
        assert (len(train), len(test)) == (2, 1)
        assert list(train.items) == list(test.items) == [10, 20]
        assert test.values.tolist() == [3.0]


def test_a_set_without_folds() -> None:
    with pytest.raises(DatasetError, match=r"ml-1m was published without folds\. .* monti-douban, monti-flixster,"):
        published_folds("ml-1m")


class Publisher(BaseHTTPRequestHandler):
    content = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, format: str, *args: object) -> None:
        """Quietly."""


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Publisher]]:
    """ml-latest-small, whose checksum changes, comes from a server of this test."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Publisher)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    address = f"http://127.0.0.1:{server.server_address[1]}/ml-latest-small.zip"
    entry = dataclasses.replace(CATALOGUE["ml-latest-small"], address=address)
    monkeypatch.setattr(datasets, "CATALOGUE", {"ml-latest-small": entry})
    Publisher.content = packed(members(entry))
    yield Publisher
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("published")
def test_a_set_is_downloaded_once_with_its_licence(own_folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(load("ml-latest-small")) == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert "is for research: no commercial use" in said.err
    assert "(second-hand: as others quote it; what is in the publisher's README counts)." in said.err
    assert "Harper" in said.err
    assert locate("ml-latest-small") == own_folders / "cache" / "ml-latest-small.zip"
    load("ml-latest-small")
    (own_folders / "cache" / "ml-latest-small.zip").unlink()
    load("ml-latest-small", quiet=True)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("content", [b"<html>moved</html>", packed({"README": b"nothing else"})])
def test_a_wrong_download_never_enters_the_cache(own_folders: Path, published: type[Publisher], content: bytes) -> None:
    published.content = content
    with pytest.raises(DatasetError, match=r"Get ml-latest-small\.zip anew"):
        load("ml-latest-small", quiet=True)
    assert list((own_folders / "cache").iterdir()) == []


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> None:
    if not next(REAL.glob("**/ml-100k.zip"), None) or not next(REAL.glob("**/ml-1m.zip"), None):
        pytest.skip(f"ml-100k.zip and ml-1m.zip are not in {REAL}; name their folder in COFILL_DATA")
    monkeypatch.setenv("COFILL_DATA", str(REAL))


@pytest.mark.real_data
@pytest.mark.usefixtures("real")
def test_the_real_1m() -> None:
    ratings = load("ml-1m")
    entry = dataset("ml-1m")
    assert (len(ratings.users), len(ratings.items), len(ratings)) == (entry.users, entry.items, entry.ratings)
    assert tuple(ratings.scale) == (1.0, 5.0)
    assert ratings.titles[1] == "Toy Story (1995)"
    assert ratings.titles[73] == "Misérables, Les (1995)"
    assert set(ratings.items) <= set(ratings.titles)


@pytest.mark.real_data
@pytest.mark.usefixtures("real")
@pytest.mark.filterwarnings("ignore::cofill.data.datasets.UnpublishedFileWarning")
def test_the_real_100k_and_its_folds() -> None:
    ratings = load("ml-100k")
    assert (len(ratings.users), len(ratings.items), len(ratings)) == (943, 1_682, 100_000)
    assert ratings.titles[1] == "Toy Story (1995)"
    assert set(ratings.items) <= set(ratings.titles)
    tested = 0
    for train, test in published_folds("ml-100k"):
        assert (len(train), len(test)) == (80_000, 20_000)
        assert train.users == test.users == ratings.users
        assert train.values.sum() + test.values.sum() == ratings.values.sum()
        tested += len(test)
    assert tested == 100_000


@pytest.mark.real_data
def test_the_real_movietweetings(monkeypatch: pytest.MonkeyPatch) -> None:
    if not next(REAL.glob("**/movietweetings/ratings.dat"), None):
        pytest.skip(f"movietweetings/ratings.dat is not in {REAL}; name its folder in COFILL_DATA")
    monkeypatch.setenv("COFILL_DATA", str(REAL))
    ratings = load("movietweetings")
    entry = dataset("movietweetings")
    assert (len(ratings.users), len(ratings.items), len(ratings)) == (entry.users, entry.items, entry.ratings)
    assert tuple(ratings.scale) == (0.0, 10.0)
    assert ratings.titles["0002844"] == "Fantômas - À l'ombre de la guillotine (1913)"
    assert set(ratings.items) <= set(ratings.titles)
    user, item = ratings.users.index(1), ratings.items.index("0054890")
    assert ratings.values[(ratings.user_index == user) & (ratings.item_index == item)].tolist() == [9.0]

"""cofill split and cofill datasets"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cofill.data.datasets import catalogue
from cofill.data.ratings import Ratings
from tests.cli.conftest import Run


@pytest.fixture
def parts(tmp_path: Path) -> list[object]:
    return ["--train", tmp_path / "train.csv", "--test", tmp_path / "sub" / "test.parquet"]


@pytest.mark.parametrize("by", ["random", "time", "cold-items", "cold-users"])
def test_split(run: Run, world: Path, tmp_path: Path, parts: list[object], by: str) -> None:
    result = run("split", world / "ratings.csv", *parts, "--strategy", by, "--ratio", "0.8", "--seed", "3", "--json")
    assert (result.code, result.err) == (0, "")
    whole, train, test = (
        Ratings.read(path)
        for path in (world / "ratings.csv", tmp_path / "train.csv", tmp_path / "sub" / "test.parquet")
    )
    assert [part["ratings"] for part in json.loads(result.out)] == [len(train), len(test)]
    assert sorted(train.to_polars().rows() + test.to_polars().rows()) == whole.to_polars().rows()
    if by == "random":
        assert len(train) == 720
    elif by == "time":
        assert train.times is not None
        assert test.times is not None
        assert train.times.max() < test.times.min()
    elif by == "cold-items":
        assert not set(train.items) & set(test.items)
    else:
        assert not set(train.users) & set(test.users)


def test_split_by_the_last_of_each_user(run: Run, world: Path, tmp_path: Path, parts: list[object]) -> None:
    result = run("split", world / "ratings.csv", *parts, "--strategy", "last", "--last", "2", "--json")
    assert (result.code, result.err) == (0, "")
    whole, train, test = (
        Ratings.read(path)
        for path in (world / "ratings.csv", tmp_path / "train.csv", tmp_path / "sub" / "test.parquet")
    )
    assert sorted(train.to_polars().rows() + test.to_polars().rows()) == whole.to_polars().rows()
    assert len(test) == 2 * len(test.users)


def test_split_for_strong_generalisation(run: Run, world: Path, tmp_path: Path, parts: list[object]) -> None:
    told = tmp_path / "told.csv"
    result = run(
        "split", world / "ratings.csv", *parts, "--strategy", "strong", "--fold-in", told, "--ratio", "0.8", "--json"
    )
    assert (result.code, result.err) == (0, "")
    train, fold_in, test = (Ratings.read(part["file"]) for part in json.loads(result.out))
    assert len(train) + len(fold_in) + len(test) == 900
    assert set(fold_in.users) == set(test.users)
    assert not set(train.users) & set(test.users)
    assert len(fold_in) > 3 * len(test)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--last 2", "--last belongs to a split by last; add --strategy last"),
        ("--strategy last --ratio 0.5", "--ratio says nothing where the last ratings of each user are tested"),
        ("--strategy strong", "name the file for the ratings to fold in with --fold-in"),
        ("--fold-in c.csv", "--fold-in belongs to a split by strong; add --strategy strong"),
        ("--fold-in-ratio 0.5", "--fold-in-ratio belongs to a split by strong; add --strategy strong"),
    ],
)
def test_split_refuses_what_it_makes_no_use_of(
    refused: Callable[..., str], world: Path, parts: list[object], words: str, says: str
) -> None:
    assert says in refused("split", world / "ratings.csv", *parts, *words.split(), code=2)


def test_split_table(run: Run, world: Path, parts: list[object]) -> None:
    result = run("split", world / "ratings.csv", *parts)
    assert result.out.startswith("Split by random\n")
    assert " 810 " in result.out


@pytest.mark.parametrize("ratio", ["0", "1", "2", "-1", "nan"])
def test_split_by_a_ratio_that_is_none(
    refused: Callable[..., str], world: Path, parts: list[object], ratio: str
) -> None:
    assert "is not a share; give the share to train on" in refused(
        "split", world / "ratings.csv", *parts, "--ratio", ratio
    )


def test_split_refuses(refused: Callable[..., str], world: Path, tmp_path: Path) -> None:
    whole = world / "ratings.csv"
    before = whole.read_bytes()
    one, other = tmp_path / "a.csv", tmp_path / "b.csv"
    assert "are the same file" in refused("split", whole, "--train", one, "--test", tmp_path / "." / "a.csv")
    assert "--train is the ratings file itself" in refused("split", whole, "--train", whole, "--test", other)
    assert "--test is the ratings file itself" in refused("split", whole, "--train", one, "--test", whole)
    assert "b.txt: cannot tell the format" in refused("split", whole, "--train", one, "--test", tmp_path / "b.txt")
    (tmp_path / "c.csv").mkdir()
    assert "c.csv: this is a folder" in refused("split", whole, "--train", one, "--test", tmp_path / "c.csv")
    (tmp_path / "timeless.csv").write_text("user,item,rating\n1,1,3\n2,1,4\n")
    timeless = refused("split", tmp_path / "timeless.csv", "--train", one, "--test", other, "--strategy", "time")
    assert "no times to split by" in timeless
    few = refused("split", tmp_path / "timeless.csv", "--train", one, "--test", other)
    assert "ratio=0.9 of 2 ratings leaves none to test" in few
    assert not one.exists()
    assert not other.exists()
    assert whole.read_bytes() == before


def test_list(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COFILL_DATA", str(tmp_path))
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path))
    entries = json.loads(run("datasets", "list", "--json").out)
    assert [entry["name"] for entry in entries] == list(catalogue())
    assert not any(entry["on this machine"] for entry in entries)
    told = {entry["name"]: entry["side information"] for entry in entries}
    assert told["ml-1m"] == {"items": ["genres", "years"], "users": ["ages", "genders", "occupations"]}
    assert told["ml-10m"] == {"items": ["genres", "years", "tags"], "users": []}
    assert told["monti-douban"] == {"items": [], "users": ["friends"]}
    assert told["monti-flixster"] == {"items": ["similar movies"], "users": ["similar users"]}
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        table = run("datasets", "list").out
        assert re.search("│ ml-latest-small +│", table)
        assert "│ 32,000,204 │" in table
        assert "│ | friends " in table
    assert "│ genres, years, tags " in table
    assert "│ genres, years | ages, genders, occupations │" in table
    second_hand = {entry["name"]: entry["second-hand"] for entry in entries}
    assert (second_hand["ml-1m"], second_hand["ml-20m"]) == ([], ["licence", "checksum"])
    monkeypatch.setenv("COLUMNS", "200")
    terms = run("datasets", "list", "--licences").out
    assert "second-hand: quoted by others, not read at the publisher" in terms
    assert re.search(r"│ ml-20m .*│ cd245b17a1ae2cc31bb14903e1204af3 │ licence, checksum │", terms)


def test_fetch(run: Run, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert "no data set 'ml-1n'. Did you mean ml-1m?" in refused("datasets", "fetch", "ml-1n")
    monkeypatch.delenv("COFILL_DATA", raising=False)
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path))
    here = tmp_path / catalogue()["ml-1m"].file_names[0]
    here.touch()  # what is in the cache was checked before
    found = run("datasets", "fetch", "ml-1m")
    assert (found.out, found.err) == (f"{here}\n", "next: cofill train ml-1m --out model\n")
    assert run("datasets", "fetch", "ml-1m", "--quiet").err == ""
    monkeypatch.setenv("COFILL_DATA", str(tmp_path / "nowhere"))
    assert "which is no folder" in refused("datasets", "fetch", "ml-1m")


def test_make(run: Run, world: Path, tmp_path: Path) -> None:
    words = ["datasets", "make", "--users", 60, "--items", 40, "--ratings", 900, "--out"]
    summary = json.loads(run(*words, tmp_path / "same", "--json", "--quiet").out)
    assert (summary["users"], summary["items"], summary["ratings"]) == (60, 40, 900)
    assert (tmp_path / "same" / "ratings.csv").read_bytes() == (world / "ratings.csv").read_bytes()
    again = run(*words, tmp_path / "same", "--seed", 1)  # an earlier world may be replaced
    assert again.code == 0
    assert (tmp_path / "same" / "ratings.csv").read_bytes() != (world / "ratings.csv").read_bytes()
    folder = tmp_path / "same"
    about = f"--item-features {folder / 'movies.csv'} --user-features {folder / 'users.csv'}"
    assert again.err == f"next: cofill train {folder / 'ratings.csv'} {about} --out model\n"


def test_make_with_events_and_another_choice(run: Run, world: Path, tmp_path: Path) -> None:
    words = ["datasets", "make", "--users", 60, "--items", 40, "--ratings", 900, "--quiet", "--out"]
    run(*words, tmp_path / "events", "--events")
    assert (tmp_path / "events" / "ratings.csv").read_bytes() == (world / "ratings.csv").read_bytes()
    assert (tmp_path / "events" / "events.csv").read_text().startswith("user,item,event,time\n")
    run(*words, tmp_path / "choice", "--choice", 0)
    assert (tmp_path / "choice" / "ratings.csv").read_bytes() != (world / "ratings.csv").read_bytes()
    assert not (tmp_path / "choice" / "events.csv").exists()


def test_make_like(run: Run, tmp_path: Path) -> None:
    result = run("datasets", "make", "--like", "ml-1m", "--size", "0.001", "--out", tmp_path / "w", "--json", "--quiet")
    summary = json.loads(result.out)
    assert (summary["users"], summary["items"], summary["ratings"]) == (191, 117, 1000)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("", "give --like, or all of --users, --items and --ratings"),
        ("--users 3", "give --like, or all of --users, --items and --ratings"),
        ("--like ml-1m --users 3", "--like gives the shape already; leave out --users"),
        ("--users 3 --items 3 --ratings 9 --size 0.5", "--size goes with --like"),
        ("--users 3 --items 3 --ratings 10", "at most users x items = 9"),
    ],
)
def test_make_refuses(refused: Callable[..., str], tmp_path: Path, flags: str, says: str) -> None:
    assert says in refused("datasets", "make", "--out", tmp_path / "w", "--quiet", *flags.split())
    assert not (tmp_path / "w").exists()


def test_make_leaves_other_folders_alone(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "ratings.csv").write_text("mine")
    for out in (tmp_path, tmp_path / "ratings.csv"):
        message = refused("datasets", "make", "--users", 3, "--items", 3, "--ratings", 9, "--out", out)
        assert "exists and is not an earlier world" in message
    assert (tmp_path / "ratings.csv").read_text() == "mine"

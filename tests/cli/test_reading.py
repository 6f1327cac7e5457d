"""How files are read on the command line: its flags, and messages, which are those of Python."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofill.models.cfn.model import CFN
from tests.cli.conftest import QUICK, Run
from tests.data.test_dirty_files import DIRTY


@pytest.fixture
def counts(run: Run, tmp_path: Path) -> Callable[..., Any]:
    """(ratings, users, items) of a file, as `cofill split` reads it, and what was said beside it."""

    def split(path: Path, *words: object) -> tuple[int, str]:
        parts = ["--train", tmp_path / "a.csv", "--test", tmp_path / "b.csv", "--ratio", "0.5", "--json"]
        result = run("split", path, *parts, *words)
        assert result.code == 0, result.err
        return sum(part["ratings"] for part in json.loads(result.out)), result.err

    return split


def test_encoding(counts: Callable[..., Any], refused: Callable[..., str], tmp_path: Path) -> None:
    assert counts(DIRTY / "latin_1.csv", "--encoding", "latin-1")[0] == 3
    message = refused("train", DIRTY / "latin_1.csv", "--out", tmp_path / "m")
    assert message.startswith(f"{DIRTY / 'latin_1.csv'}, line 2: byte 0xe9 ")
    assert "encoding='latin-1'" in message


def test_wide(counts: Callable[..., Any], refused: Callable[..., str], tmp_path: Path) -> None:
    message = refused("train", DIRTY / "jester.csv", "--out", tmp_path / "m")
    assert "wide=True" in message
    assert "unknown=99" in message
    assert "user=0" not in message
    assert counts(DIRTY / "jester.csv", "--wide", "--unknown", 99)[0] == 15


@pytest.mark.filterwarnings("default::cofill.data.ratings.SkippedLinesWarning")
def test_an_empty_cell_among_many_good_lines(
    counts: Callable[..., Any], refused: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "r.csv"
    lines = [f"{number % 1000},{number // 1000},{1 + number % 5}" for number in range(190_000)]
    path.write_text("\n".join(["user,item,rating", *lines[:150_000], "7,,3", *lines[150_000:], ""]))
    message = refused("train", path, "--out", tmp_path / "m")
    assert message.startswith(f"{path}, line 150002, column 'item': ")
    assert "empty" in message
    assert "skip_bad_lines=100" in message
    found, said = counts(path, "--skip-bad-lines", 100)
    assert found == 190_000
    assert said == f"cofill: warning: {path}: 1 bad line was skipped (line 150002); 190,000 ratings are left\n"


def test_columns_in_another_order(refused: Callable[..., str], tmp_path: Path) -> None:
    message = refused("train", DIRTY / "another_order.dat", "--out", tmp_path / "m")
    assert all(f"{role}=..." in message for role in ("user", "item", "rating"))


def test_data_sets_refuse_what_is_known(refused: Callable[..., str], tmp_path: Path) -> None:
    flags = {
        "--wide": "wide",
        "--encoding latin-1": "encoding",
        "--user-column 3": "user",
        "--skip-bad-lines 3": "skip_bad_lines",
        "--scale 1 5": "scale",
        "--event-weight a=1": "event_weights",
    }
    for flag, name in flags.items():
        assert refused("train", "ml-1m", "--out", tmp_path / "m", *flag.split()).endswith(f"leave out {name}=...\n")


# Interactions


@pytest.mark.filterwarnings("default::cofill.data.interactions.InteractionsRecognisedNote")
def test_interactions_are_recognised_and_said(counts: Callable[..., Any], tmp_path: Path) -> None:
    found, said = counts(DIRTY / "events.csv")
    assert found == 3
    assert said == (
        f"cofill: note: {DIRTY / 'events.csv'}: interactions, not ratings: there is no column of ratings (its columns: "
        "user_id, item_id, event_type, event_time)\n"
    )
    assert "weight" in (tmp_path / "a.csv").read_text()
    assert counts(DIRTY / "thumbs.csv")[1].endswith("; to read them as ratings, pass rating=...\n")
    assert counts(DIRTY / "thumbs.csv", "--rating-column", "rating")[1] == ""


def test_weights_of_events(counts: Callable[..., Any], refused: Callable[..., str], tmp_path: Path) -> None:
    weights = ["--event-weight", "view=1", "--event-weight", "purchase=5"]
    message = refused("train", DIRTY / "events.csv", "--out", tmp_path / "m", *weights)
    assert "'cart', 'purchase', 'view'" in message
    assert "event_weights={'cart': 1.0, 'purchase': 5.0, 'view': 1.0}" in message
    assert counts(DIRTY / "events.csv", *weights, "--event-weight", "cart=0") == (3, "")
    rows = [line.split(",")[:3] for part in "ab" for line in (tmp_path / f"{part}.csv").read_text().splitlines()[1:]]
    assert sorted(rows) == [["1", "10", "2.0"], ["1", "20", "5.0"], ["22", "10", "1.0"]]
    for wrong, code in (("buy", 2), ("buy=much", 2), ("=3", 2), ("buy=-1", 1), ("buy=nan", 1)):
        refused("train", DIRTY / "events.csv", "--out", tmp_path / "m", "--event-weight", wrong, code=code)


def test_columns_of_interactions(counts: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("user,item,did,n\n1,2,see,3\n1,2,buy,4\n2,2,see,1\n")
    weights = ["--event-column", "did", "--event-weight", "see=1", "--event-weight", "buy=10"]
    assert counts(path, "--count-column", "n", *weights) == (2, "")
    both = (tmp_path / "a.csv").read_text() + (tmp_path / "b.csv").read_text()
    assert "1,2,43.0" in both
    assert counts(path, "--rating-column", "") == (2, "")


@pytest.mark.filterwarnings("default::cofill.data.ratings.ManyZerosWarning")
def test_zeros(counts: Callable[..., Any]) -> None:
    found, said = counts(DIRTY / "mostly_zeros.csv")
    assert found == 32
    assert said.startswith(f"cofill: warning: {DIRTY / 'mostly_zeros.csv'}: 24 of 32 ratings are 0")
    assert "zero_means='unrated'" in said
    assert counts(DIRTY / "mostly_zeros.csv", "--zero-means", "unrated") == (8, "")
    assert counts(DIRTY / "mostly_zeros.csv", "--zero-means", "rating") == (32, "")


# Side information


def test_how_side_files_are_laid_out(run: Run, refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_bytes("key~land~n\n1~Österreich~3\n2~Österreich~4\n3~Perú~5\n".encode("latin-1"))
    words = ["--id-column", "key", "--separator", "~", "--encoding", "latin-1", "--json"]
    told = json.loads(run("features", path, *words).out)
    assert (told["ids"], [line["column"] for line in told["about"]]) == (3, ["land", "n"])
    assert "land=Österreich" in told["names"]
    assert "separator=..." in refused("features", path, "--quiet")
    assert "id=..." in refused("features", path, "--separator", "~", "--quiet")
    assert "id=..." in refused("features", path, "--separator", "~", "--id-column", "kee", "--quiet")


def test_side_files_of_a_training(run: Run, some: Path, tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_text("key~land~title\n" + "".join(f"{item}~{'ab'[item % 2]}~T{item}\n" for item in range(1, 30)))
    words = ["--item-features", path, "--id-column", "key", "--feature-separator", "~", "--quiet"]
    result = run("train", some, "--out", tmp_path / "m", *words, *QUICK)
    assert result.code == 0, result.err
    model = CFN.load(tmp_path / "m")
    assert model.titles[2] == "T2"
    learned = model.item_features
    assert learned is not None
    assert learned.names == ("land=a", "land=b")
    new = tmp_path / "new.txt"
    new.write_text("item~land\n900~a\n")
    reading = ["--item-features", new, "--id-column", "item", "--feature-separator", "~", "--json"]
    found = json.loads(run("recommend", tmp_path / "m", "--user", 1, "-n", 100, *reading).out)
    assert 900 in [entry["item"] for entry in found]


def test_links_separated_by_blanks(run: Run) -> None:
    told = run("features", DIRTY / "spaced_links.txt", "--kind", "links", "--json")
    assert json.loads(told.out)["ids"] == 4

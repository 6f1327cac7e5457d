"""How files are read on the command line: its flags, and messages that speak of flags."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofill.cli import options
from cofill.models.cfn.cfn import CFN
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
    assert "--encoding latin-1" in message


def test_wide(counts: Callable[..., Any], refused: Callable[..., str], tmp_path: Path) -> None:
    message = refused("train", DIRTY / "jester.csv", "--out", tmp_path / "m")
    assert "--wide" in message
    assert "--unknown 99" in message
    assert "--user-column 0" not in message
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
    assert "--skip-bad-lines 100" in message
    found, said = counts(path, "--skip-bad-lines", 100)
    assert found == 190_000
    assert said == f"cofill: warning: {path}: 1 bad line was skipped (line 150002); 190,000 ratings are left\n"


def test_columns_in_another_order(refused: Callable[..., str], tmp_path: Path) -> None:
    message = refused("train", DIRTY / "another_order.dat", "--out", tmp_path / "m")
    assert all(f"--{role}-column COLUMN" in message for role in ("user", "item", "rating"))


def test_data_sets_refuse_what_is_known(refused: Callable[..., str], tmp_path: Path) -> None:
    for flag in ("--wide", "--encoding latin-1", "--user-column 3", "--skip-bad-lines 3", "--scale 1 5"):
        words = flag.split()
        assert refused("train", "ml-1m", "--out", tmp_path / "m", *words).endswith(f"leave out {words[0]}\n")


def test_arguments_as_flags() -> None:
    assert options.as_flag("separator", "|") == "--separator '|'"
    assert options.as_flag("user", 0) == "--user-column 0"
    assert options.as_flag("header", False) == "--no-header"
    assert options.as_flag("scale", ...) == "--scale LOW HIGH"


# Side information


def test_how_side_files_are_laid_out(run: Run, refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_bytes("key~land~n\n1~Österreich~3\n2~Österreich~4\n3~Perú~5\n".encode("latin-1"))
    words = ["--id-column", "key", "--separator", "~", "--encoding", "latin-1", "--json"]
    told = json.loads(run("features", path, *words).out)
    assert (told["ids"], [line["column"] for line in told["about"]]) == (3, ["land", "n"])
    assert "land=Österreich" in told["names"]
    assert "--feature-separator TEXT" in refused("features", path, "--quiet")
    assert "--id-column COLUMN" in refused("features", path, "--separator", "~", "--quiet")
    message = refused("features", path, "--separator", "~", "--id-column", "kee", "--quiet")
    assert "--id-column" in message


def test_side_files_of_a_training(run: Run, some: Path, tmp_path: Path) -> None:
    path = tmp_path / "f.txt"
    path.write_text("key~land\n" + "".join(f"{item}~{'ab'[item % 2]}\n" for item in range(1, 30)))
    words = ["--item-features", path, "--id-column", "key", "--feature-separator", "~", "--quiet"]
    result = run("train", some, "--out", tmp_path / "m", *words, *QUICK)
    assert result.code == 0, result.err
    learned = CFN.load(tmp_path / "m").item_features
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


def test_every_remedy_is_a_flag_that_exists(refused: Callable[..., str], run: Run, tmp_path: Path) -> None:
    known = run("train", "--help").out
    for name in ("jester.csv", "another_order.dat", "latin_1.csv", "nul_in_an_id.csv"):
        message = refused("train", DIRTY / name, "--out", tmp_path / "m")
        flags = [word.strip(",;.") for word in shlex.split(message.replace("'", "")) if word.startswith("--")]
        assert flags
        assert all(f"{flag} " in known or f"{flag}\n" in known for flag in flags), flags
        assert "=..." not in message

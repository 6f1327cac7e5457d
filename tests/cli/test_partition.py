"""cofill partition, and cofill train on what it wrote."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cofill import CFN
from cofill.data.partition import Partition
from tests.cli.conftest import HYBRID, QUICK, Run


def sides(world: Path) -> list[object]:
    return ["--item-features", world / "movies.csv", "--user-features", world / "users.csv"]


def test_a_partition_trains_the_model_of_the_file(run: Run, world: Path, tmp_path: Path) -> None:
    ratings, folder = world / "ratings.csv", tmp_path / "parts"
    made = run("partition", ratings, "--out", folder, "--buckets", 7, "--json", *sides(world))
    assert made.code == 0, made.err
    said = json.loads(made.out)
    assert (said["ratings"], said["buckets"], said["orientation"]) == (900, 7, "item")
    assert said["item_features"]["described"] == said["items"]
    assert said["peak_memory_bytes"] > 0
    assert "the largest bucket" in said["memory_is_bounded_by"]
    assert "Side information about items" in made.err
    quickly = ("--epochs", "3", *HYBRID[2:-2], "--quiet")
    assert run("train", folder, "--out", tmp_path / "a", *quickly).code == 0
    assert run("train", ratings, "--out", tmp_path / "b", *quickly, *sides(world)).code == 0
    ours, theirs = CFN.load(tmp_path / "a"), CFN.load(tmp_path / "b")
    assert ours.data_summary == theirs.data_summary
    assert ours.titles == theirs.titles
    assert ours.item_attributes.columns() == theirs.item_attributes.columns()
    pairs = [(user, item) for user in ours.users.ids[:9] for item in ours.items.ids[:9]]
    assert ours.predict(pairs) == pytest.approx(theirs.predict(pairs), abs=1e-5)


def test_the_table(run: Run, world: Path, tmp_path: Path) -> None:
    result = run("partition", world / "ratings.csv", "--out", tmp_path / "p", "--buckets", 3, "--orientation", "user")
    assert result.code == 0
    for words in ("Partitioned into", "ratings in the largest bucket", "memory at the peak", "memory is bounded by"):
        assert words in result.out
    assert "next: cofill train" in result.err
    assert Partition.open(tmp_path / "p").orientation == "user"
    again = run("partition", world / "ratings.csv", "--out", tmp_path / "p", "--buckets", 4, "--quiet")
    assert (again.code, again.err) == (0, "")
    assert Partition.open(tmp_path / "p").buckets == 4


def test_titles(run: Run, world: Path, titles: Path, tmp_path: Path) -> None:
    words = ("partition", world / "ratings.csv", "--out", tmp_path / "p", "--buckets", 2, "--quiet")
    assert run(*words, "--titles", titles).code == 0
    assert Partition.open(tmp_path / "p").titles[1] == "[red]Alien[/red]"
    strange = tmp_path / "strange.csv"
    strange.write_text("item,title\nnobody,Nothing\n")
    assert "strange.csv: none of its items is among those that are rated" in run(*words, "--titles", strange).err
    assert Partition.open(tmp_path / "p").titles[1] == "[red]Alien[/red]"  # it is as it was


def test_refusals(refused: Callable[..., str], run: Run, world: Path, tmp_path: Path) -> None:
    ratings, out = world / "ratings.csv", tmp_path / "p"
    assert "is not a partition's folder" in refused("partition", ratings, "--out", world)
    assert "neither a file nor a data set" in refused("partition", "nothing", "--out", out)
    assert "there is no such file" in refused("partition", tmp_path / "no.csv", "--out", out)
    assert "at least 1" in refused("partition", ratings, "--out", out, "--buckets", "0", code=2)
    assert "from 1 to 65536 with buckets=256" in refused("partition", ratings, "--out", out, "--buckets", "99999")
    assert "without a Parquet file" in refused("partition", tmp_path, "--out", out)
    assert not out.exists()
    assert run("partition", ratings, "--out", out, "--buckets", 2, "--quiet").code == 0
    assert "this is a partition already" in refused("partition", out, "--out", tmp_path / "q")
    assert "is a partition, whose columns are known; leave out separator=..." in refused(
        "train", out, "--out", tmp_path / "m", "--separator", ";"
    )
    (out / "bucket-00001.safetensors").unlink()
    assert "missing; copy it again" in refused("train", out, "--out", tmp_path / "m", *QUICK)


@pytest.mark.parametrize("line", ["7,,3,1", "7,1,good,1", "7,1,3", "7,1,3,soon", '"7,1,3,1'])
def test_a_bad_line_is_told_as_train_tells_it(
    refused: Callable[..., str], line: str, world: Path, tmp_path: Path
) -> None:
    path = tmp_path / "r.csv"
    path.write_text((world / "ratings.csv").read_text() + line + "\n")
    said = refused("partition", path, "--out", tmp_path / "p", "--quiet")
    assert said == refused("train", path, "--out", tmp_path / "m", "--quiet")
    assert "line 902" in said


def test_a_pipe(refused: Callable[..., str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (os.devnull, tmp_path / "pipe"):  # the device first: without the check, a pipe waits forever
        # It is told before features are read.
        said = refused("partition", path, "--out", tmp_path / "p", "--item-features", tmp_path / "nothing.csv")
        assert "write its content into a file first, and pass that" in said


def test_the_help_says_which_rating_counts(run: Run) -> None:
    assert "at equal times the last line" in " ".join(run("partition", "--help-all").out.split())

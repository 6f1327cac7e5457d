"""The demo: everything that it promises is there at its end."""

import json
import shlex
from pathlib import Path

import pytest

from cofill.cli import main
from cofill.cli.tour import hold_out
from cofill.data.datasets.world import make_world
from cofill.models.cfn.model import CFN

TINY = ["--users", "40", "--items", "20", "--ratings", "300"]


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    (out / "world").mkdir(parents=True)
    (out / "world" / "ratings.csv").touch()  # a demo that was stopped may be run again
    assert main(["demo", "--out", str(out), *TINY]) == 0
    printed = capsys.readouterr()
    assert sorted(path.name for path in out.iterdir()) == ["model", "report.html", "test.csv", "world"]
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "300 ratings of 20 generated films by 40 people" in report
    for line in (
        "cofill, ratings alone",
        "cofill, with side information",
        "oracle (best in expectation)",
        "new films",
        "new people",
        "A new user who rated nothing: age ",
    ):
        assert line in report
        assert line in printed.out
    assert f"report: {out / 'report.html'}" in printed.err
    model = CFN.load(out / "model")
    assert model.recommend(1, 1)[0].title
    assert model.item_features is not None
    assert model.user_features is not None
    describing = next(line for line in printed.err.splitlines() if "--describe" in line)
    assert main(shlex.split(describing)[1:]) == 0  # what it says to do next works
    assert (out / "world" / "truth.safetensors").exists()


def test_what_is_held_out() -> None:
    ratings = make_world(users=100, items=60, ratings=2000, seed=1).ratings
    parts = hold_out(ratings, seed=0)
    pieces = (parts.train, parts.test, parts.new_films, parts.new_people)
    pairs = [{*zip(part.user_index.tolist(), part.item_index.tolist(), strict=True)} for part in pieces]
    assert sum(map(len, pairs)) == len(set().union(*pairs)) <= 2000
    trained_items, trained_users = set(parts.train.item_index.tolist()), set(parts.train.user_index.tolist())
    assert len(set(parts.new_films.item_index.tolist())) == 3
    assert not trained_items & set(parts.new_films.item_index.tolist())
    assert len(set(parts.new_people.user_index.tolist())) == 5
    assert not trained_users & set(parts.new_people.user_index.tolist())


def test_demo_leaves_other_folders_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    for out in (tmp_path, tmp_path / "diary.txt"):
        assert main(["demo", "--out", str(out), *TINY]) == 1
        assert capsys.readouterr().err == f"cofill: {out}: exists and is not an earlier demo; choose another --out\n"
    assert [path.name for path in tmp_path.iterdir()] == ["diary.txt"]


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        (["--items", "3"], "the demo needs at least 4 items to have something to show. Got 3"),
        (["--ratings", "9"], "the demo needs at least 10 ratings to have something to show. Got 9"),
        (["--ratings", "801"], "must be at most users x items = 800"),
    ],
)
def test_demo_of_a_world_that_is_too_small(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sizes: list[str], says: str
) -> None:
    assert main(["demo", "--out", str(tmp_path / "demo"), "--quiet", *TINY, *sizes]) == 1
    assert says in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


def test_smallest_demo_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demo", "--out", str(tmp_path / "demo"), "--quiet", "--users", "5", "--items", "4", "--ratings", "10"]
    assert main([*words, "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    result = json.loads(printed.out)
    assert [len(row) for row in result["measures"]] == [5] * 5
    assert len(result["described"]) == 2

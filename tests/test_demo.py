"""The demo: everything that it promises is there at its end."""

from pathlib import Path

import pytest

from cofill.cli import main
from cofill.recommender import CFN

TINY = ["--users", "40", "--items", "20", "--ratings", "300"]


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "demo"
    (out / "world").mkdir(parents=True)
    (out / "world" / "ratings.csv").touch()  # a demo that was stopped may be run again
    assert main(["demo", "--out", str(out), *TINY]) == 0
    printed = capsys.readouterr()
    assert sorted(path.name for path in out.iterdir()) == ["model", "report.md", "world"]
    report = (out / "report.md").read_text(encoding="utf-8")
    assert "300 ratings of 20 generated films by 40 people" in report
    for line in ("cofill, rows are items", "the truth, which nobody can beat"):
        assert line in report
        assert line in printed.out
    assert f"report: {out / 'report.md'}" in printed.err
    first = CFN.load(out / "model").recommend(1, 1)[0]
    assert first.title
    assert (out / "world" / "truth.safetensors").exists()


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


def test_smallest_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["demo", "--out", str(tmp_path / "demo"), "--quiet", "--users", "5", "--items", "4", "--ratings", "10"]
    assert main(words) == 0
    assert capsys.readouterr().err == ""

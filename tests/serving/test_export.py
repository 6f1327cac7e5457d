"""Live ratings written to a file, and taken into the next training."""

import json
import sqlite3
from pathlib import Path

import polars as pl
import pytest

from cofill.cli import main
from cofill.data.ratings import Ratings
from cofill.errors import DataError
from cofill.serving.live.export import with_export
from cofill.serving.live.store import Store, url_of


@pytest.fixture
def served(tmp_path: Path) -> Path:
    model = tmp_path / "model"
    store = Store(url_of(None, model))
    store.open()
    store.put_ratings("1", [("10", 0.5), ("12", 4.5)])
    store.put_ratings("9", [("10", 5.0), ("77", 3.0)])
    store.put_ratings("2", [("11", None)])
    store.put_ratings("8", [("11", None)])  # of somebody who is not in the data
    store.close()
    return model


@pytest.fixture
def original(tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating,time\n1,10,4.0,5\n1,11,2.0,6\n2,10,3.0,7\n2,11,1.0,8\n")
    return path


def pairs(ratings: Ratings) -> dict[tuple[object, object], float]:
    return {(user, item): rating for user, item, rating, *_ in ratings.to_polars().iter_rows()}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_export_wins_and_what_was_taken_back_is_gone(
    served: Path, original: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = served.parent / "live"
    assert main(["export", str(served), "--out", str(folder), f"--format={ending}", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ratings"], told["taken_back"]) == (4, 2)
    out = folder / f"ratings.{ending}"
    both = with_export(Ratings.read(original, scale=(0.5, 5)), out)
    assert pairs(both) == {(1, 10): 0.5, (1, 11): 2.0, (1, 12): 4.5, (2, 10): 3.0, (9, 10): 5.0, (9, 77): 3.0}
    assert both.times is not None
    assert tuple(both.scale) == (0.5, 5.0)
    texts = Ratings.read([("1", "10", 4.0), ("x", "11", 2.0)], scale=(0.5, 5))
    assert ("x", "11") in pairs(with_export(texts, out))


def test_train_takes_it(served: Path, original: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, model = served.parent / "live", served.parent / "next"
    assert main(["export", str(served), "--out", str(out), "--quiet"]) == 0
    words = ["--scale", "0.5", "5", "--epochs", "1", "--hidden", "2", "--threads", "1", "--json", "--quiet"]
    assert main(["train", str(original), "--live-export", str(out), "--out", str(model), *words]) == 0
    assert json.loads(capsys.readouterr().out)["ratings"] == 6


def test_nothing_yet_changes_nothing(tmp_path: Path, original: Path) -> None:
    store = Store(url_of(None, tmp_path / "quiet"))
    store.open()
    store.close()
    for ending in ("csv", "parquet"):
        words = ["--database", f"sqlite:///{tmp_path}/quiet.live.sqlite", "--out", str(tmp_path / ending)]
        assert main(["export", *words, f"--format={ending}"]) == 0
        out = tmp_path / ending / f"ratings.{ending}"
        assert pl.read_csv(out).is_empty() if ending == "csv" else pl.read_parquet(out).is_empty()
        assert pairs(with_export(Ratings.read(original), out)) == pairs(Ratings.read(original))


def test_what_is_refused(served: Path, original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: object) -> str:
        assert main([str(word) for word in ("export", *words)]) == 1
        return capsys.readouterr().err

    out = tmp_path / "x"
    assert "there is no such file; has" in said(tmp_path / "never", "--out", out)
    typo, other = tmp_path / "typo.sqlite", tmp_path / "other.sqlite"
    assert f"{typo}: there is no such file; check database=" in said("--database", f"sqlite:///{typo}", "--out", out)
    sqlite3.connect(other).close()
    other.touch()
    assert "no live ratings are kept there; check database=" in said("--database", f"sqlite:///{other}", "--out", out)
    assert not typo.exists()
    assert b"cofill" not in other.read_bytes()
    assert not out.exists()
    assert "give either the folder" in said("--out", out)
    assert "give either the folder" in said(served, "--database", "sqlite:///x", "--out", out)
    out = tmp_path / "x.csv"
    out.write_text("user,item,rating,time\n1,10,,5\n2,10,9,6\n")
    with pytest.raises(DataError, match=r"line 3.*9"):
        with_export(Ratings.read(original, scale=(0.5, 5)), out)
    out.write_text("user,item,rating,time\n1,10,,5\n1,11,,5\n2,10,,5\n2,11,,6\n")
    with pytest.raises(DataError, match="every rating was taken back"):
        with_export(Ratings.read(original), out)

"""All that a server has stored, taken into the next training: nothing twice, and nobody who was forgotten."""

import csv
import json
import os
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.cli import main
from cofill.data.described import SideInformation
from cofill.data.features import Features
from cofill.data.frames import safe_in_a_spreadsheet
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings
from cofill.errors import DataError
from cofill.models.recommender import Recommender
from cofill.serving.live.events import Event, EventLog
from cofill.serving.live.export import is_export, read_export, with_export
from cofill.serving.live.store import Changes, ItemToKeep, Store
from tests.serving.conftest import live_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tmp_path / "model"


@pytest.fixture
def lived(store: Store, model: Path) -> Path:
    """A database in which a shop has been for a day."""
    log = EventLog(store)
    store.put_ratings("1", [("10", 0.5, 100.0), ("12", 4.5, 101.0)])
    store.put_ratings("2", [("11", None)])
    store.put_ratings("3", [("10", 5.0)])
    store.put_ratings("visitor-x", [("10", 3.0), ("13", 1.0)])
    log.put([Event("1", "11", "view", 1.0, time=50.0), Event("1", "11", "buy", 5.0, time=60.0)])
    log.put([Event("visitor-y", "12", "view", 1.0), Event("3", "10", "view", 1.0), Event("1", "13", "view", 1.0)])
    log.put([Event("1", "12", "shown", 0.0)])
    store.put_items([ItemToKeep("14", "New", {"genres": ["Drama", "Comedy"], "year": 2001})])
    store.put_items([ItemToKeep("10", "Renamed", None, available=False), ItemToKeep("13", "Gone", {"year": 1990})])
    store.put_users([("visitor-x", {"age": 33}), ("3", {"age": 50})])
    store.delete_item("13")
    store.forget_user("3")
    return model


def exported(model: Path, ending: str = "csv") -> Path:
    out = model.parent / "export"
    assert main(["export", str(model), "--out", str(out), "--format", ending, "--quiet"]) == 0
    return out


def values(ratings: Ratings | None) -> dict[tuple[object, object], float]:
    assert ratings is not None
    return {(str(user), str(item)): value for user, item, value, *_ in ratings.to_polars().iter_rows()}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_in_an_export(lived: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = lived.parent / "export"
    for _ in range(2):  # the second takes the place of the first
        assert main(["export", str(lived), "--out", str(out), "--format", ending, "--json"]) == 0
        counts = json.loads(capsys.readouterr().out)
    assert counts == {
        "folder": str(out), "ratings": 3, "taken_back": 1, "interactions": 2, "items": 2, "users": 1, "removed": 2,
    }  # fmt: skip
    assert sorted(path.name for path in out.iterdir()) == [
        "export.json", f"interactions.{ending}", "items.ndjson", "merged.ndjson", f"ratings.{ending}",
        "removed.ndjson", "users.ndjson",
    ]  # fmt: skip
    assert out.stat().st_mode & 0o077 == 0
    whole = "\n".join(path.read_text() for path in out.iterdir() if path.suffix != ".parquet")
    assert '{"item": "13"}' in whole
    assert "50" not in (out / "users.ndjson").read_text()
    read = read_export(out)
    assert (read.removed_users.among([1, 2, 3]), read.removed_items) == ([3], ["13"])
    assert [path.name for path in lived.parent.glob(".export*")] == []


def test_an_export_has_reached_the_disk_when_it_has_its_name(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(Path(f"/proc/self/fd/{file}").readlink()))
    out = exported(lived)
    assert {path.name for path in synced} >= {path.name for path in out.iterdir()}
    assert synced[-1] == out.parent
    assert any(path.name.startswith(".export.") for path in synced)


def test_who_is_deleted_while_an_export_is_written_is_not_in_it(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = Store.changes_since

    def and_then(store: Store, change: int, learned: int = 0, until: int | None = None) -> Changes:
        found = read(store, change, learned, until)
        store.forget_user("1")
        return found

    monkeypatch.setattr(Store, "changes_since", and_then)
    whole = read_export(exported(lived))
    assert whole.removed_users.among(["1"]) == ["1"]
    for table in (whole.rating_table, whole.interaction_table):
        assert "1" not in pl.read_csv(table)["user"].cast(pl.String).to_list()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_next_training_has_it_all_and_nothing_that_went(lived: Path, ending: str) -> None:
    training = read_export(exported(lived, ending))
    original = Ratings.read(
        [(1, 10, 4.0), (1, 11, 2.0), (2, 11, 1.0), (3, 10, 3.0), (3, 12, 1.0), (4, 13, 2.0)], scale=(0.5, 5)
    )
    ratings = training.titles(training.ratings(original))
    assert values(ratings) == {
        ("1", "10"): 0.5, ("1", "11"): 2.0, ("1", "12"): 4.5, ("visitor-x", "10"): 3.0,
    }  # fmt: skip
    assert 3 not in ratings.users
    assert 13 not in ratings.items
    assert ratings.users.own("1") == 1
    assert ratings.titles == {14: "New", 10: "Renamed"}
    assert values(training.interactions(None)) == {("1", "11"): 6.0, ("visitor-y", "12"): 1.0}
    beside = Interactions.read([(1, 11, 2.0), (3, 11, 9.0), (2, 13, 1.0)])
    assert values(training.interactions(beside)) == {("1", "11"): 8.0, ("visitor-y", "12"): 1.0}
    # A model of interactions takes them as what it was trained on; ratings are weights to it.
    assert values(training.ratings(beside)) == {
        ("1", "11"): 8.0, ("1", "10"): 0.5, ("1", "12"): 4.5, ("visitor-x", "10"): 3.0, ("visitor-y", "12"): 1.0,
    }  # fmt: skip


def test_descriptions_override_and_what_went_is_not_described(lived: Path) -> None:
    training = read_export(exported(lived))
    films = pl.DataFrame(
        {
            "item": [10, 11, 12, 13],
            "genres": ["Drama", "Comedy", "Drama|Comedy", "Drama"],
            "year": [1990, 1991, 1992, 1993],
        }
    )
    people = pl.DataFrame({"user": [1, 2, 3], "age": [20, 30, 40]})
    side = SideInformation(Features.read(people, about="user"), Features.read(films, about="item"))
    users, items = training.side_information(side)
    assert users is not None
    assert items is not None
    assert users.ids.ids == [1, 2, "visitor-x"]
    assert items.ids.ids == [10, 11, 12, 14]
    expected = items.encode({"genres": ["Drama", "Comedy"], "year": 2001})
    assert items.values[3].tolist() == expected.tolist()
    assert items.readable["genres"].cells.to_list()[3] == ["Drama", "Comedy"]


def test_train_takes_the_folder_and_the_server_counts_nothing_twice(lived: Path, store: Store, tmp_path: Path) -> None:
    clicks = tmp_path / "clicks.csv"
    rows = [
        f"{user},{item},{1 + (user + item) % 3}" for user in range(1, 13) for item in range(10, 16) if (user * item) % 3
    ]
    clicks.write_text("user,item,count\n" + "\n".join(rows) + "\n")
    words = ["--out", str(lived), "--quiet", "--confidence", "1", "--count-column", "count"]
    assert main(["train", str(clicks), "--live-export", str(exported(lived)), *words]) == 0
    trained = Recommender.load(lived)
    assert trained.data_summary["live"] == {"database": store.counter().database, "change": store.counter().change}
    assert 3 not in trained.users
    assert 13 not in trained.items
    served = live_model(lived, store).served
    pair = served.model.users.index(1), served.model.items.index(11)

    def weight() -> float:
        items, weights = served.model.predictor.known.row(pair[0])
        return float(weights[items == pair[1]][0])

    before = weight()
    EventLog(store).put([Event("1", "11", "view", 1.0)])
    served.apply(store.changes_since(served.applied, served.learned))
    assert weight() == min(before + 1.0, served.model.scale.high)
    # To a model that was not trained on the export, all of it is new.
    assert main(["train", str(clicks), *words]) == 0
    other = live_model(lived, store).served
    assert other.learned == 0
    assert not other.known_user(3)


def test_a_folder_that_is_no_export_is_refused(lived: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("x")
    assert main(["export", str(lived), "--out", str(other)]) == 1
    assert "exists and is no export; choose another out=..." in capsys.readouterr().err
    assert (other / "precious").exists()
    with pytest.raises(DataError, match="is no export; `cofill export` makes one"):
        read_export(other)
    out = exported(lived)
    assert is_export(out)
    (out / "export.json").write_text("{")
    with pytest.raises(DataError, match="is damaged; export again"):
        read_export(out)
    assert main(["export", "--out", str(out)]) == 1
    assert "give either the folder of the model" in capsys.readouterr().err


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "'quoted", "''twice", "plain", "-", "=cmd|' /C calc'!A0"]


@given(st.lists(st.one_of(st.sampled_from(FORMULAS), st.text(min_size=1, max_size=5)), min_size=1))
def test_no_cell_of_an_export_is_a_formula_and_each_comes_back(texts: list[str]) -> None:
    frame = pl.DataFrame({"user": texts, "rating": [-1.5] * len(texts)})
    safe = safe_in_a_spreadsheet(frame)
    assert not any(text[0] in "=+-@\t\r" for text in safe["user"])
    assert [text.removeprefix("'") if text[0] == "'" else text for text in safe["user"]] == texts
    assert safe["rating"].to_list() == frame["rating"].to_list()


def test_ids_that_look_like_formulas_come_back_from_a_file(store: Store, model: Path) -> None:
    ids = [text for text in FORMULAS if text.strip() == text]
    for at, user in enumerate(ids):
        store.put_ratings(user, [(f"{user} item", 1.0 + at % 4)])
    out = model.parent / "live"
    assert main(["export", str(model), "--out", str(out), "--quiet"]) == 0
    file = out / "ratings.csv"
    with file.open(newline="") as lines:
        cells = [cell for row in csv.reader(lines) for cell in row[:2]]
    assert not any(cell[0] in "=+-@\t\r" for cell in cells)
    both = with_export(Ratings.read([("a", "b", 1.0), ("a", "c", 5.0)], scale=(1, 5)), file)
    assert set(ids) <= set(both.users.ids)
    assert {f"{user} item" for user in ids} <= set(both.items.ids)

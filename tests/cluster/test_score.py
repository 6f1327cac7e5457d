"""Lists, predictions and measures of a model by tasks on Ray: those of one process, also where a worker is killed."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill import CFN
from cofill.cli import main
from cofill.cluster import score
from cofill.cluster.evaluate import ListQuestion, evaluate_on_cluster
from cofill.cluster.score import (
    Division,
    ModelOutline,
    ModelParts,
    PartFolder,
    Range,
    cut_by_person,
    people_asked,
    predict_pairs,
    recommend_everybody,
)
from cofill.data.datasets.world import make_world
from cofill.data.features import Features
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings
from cofill.data.splits import random_split, strong_generalisation_split
from cofill.errors import ClusterError, CofillError, DataError, ModelFileError
from cofill.evaluation import evaluate, evaluate_newcomers, evaluate_ranking
from cofill.models.bias_models import ListModel
from cofill.models.lists.rules import Rules
from cofill.models.recommender import Recommender
from cofill.workers import cores
from tests.cluster.conftest import members
from tests.waiting import wait_until
from tests.warm_processes import WarmProcess

USERS, ITEMS = 90, 50
HERE = Division(None, 3, cores())  # tasks in a process of this machine; on Ray they are the same


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_world(users=USERS, items=ITEMS, ratings=1800, seed=3).write(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def ratings(folder: Path) -> Ratings:
    return Ratings.read(folder / "ratings.csv")


@pytest.fixture(scope="module")
def test_part(ratings: Ratings) -> Ratings:
    """With users, items and a rating that are strange to the model, or not strange enough."""
    train, test = random_split(ratings, ratio=0.8, seed=1)
    rows = [(ratings.users.id(int(u)), ratings.items.id(int(i)), float(v))
            for u, i, v in zip(test.user_index, test.item_index, test.values, strict=True)]  # fmt: skip
    known = (ratings.users.id(int(train.user_index[0])), ratings.items.id(int(train.item_index[0])), 4.0)
    return Ratings.read([*rows, known, (5001, 3, 5.0), (5002, 9, 4.0), (5002, 7007, 5.0), (1, 7008, 5.0)])


@pytest.fixture(scope="module")
def model(folder: Path, ratings: Ratings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("model") / "model"
    about = Features.read(folder / "movies.csv", about="item")
    train, _ = random_split(ratings, ratio=0.8, seed=1)
    CFN(epochs=2, hidden=40, threads=1).fit(train, item_features=about).save(target)
    return target


@pytest.fixture(scope="module")
def outline(model: Path) -> ModelOutline:
    return ModelOutline(model)


def rows_in(folder: Path) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted(folder.glob("part-*.parquet"))])


def lists_here(model: Path, **question: Any) -> pl.DataFrame:
    rows = [
        (user, rank, entry.item, entry.score, entry.rating, entry.raters, entry.title)
        for user, found in Recommender.load(model).recommend_many(**question)
        for rank, entry in enumerate(found, 1)
    ]
    schema = {"user": pl.Int64, "rank": pl.Int32, "item": pl.Int64, "score": pl.Float32, "rating": pl.Float32}
    return pl.DataFrame(rows, schema={**schema, "raters": pl.Int64, "title": pl.String}, orient="row")


def same_rows(one: pl.DataFrame, other: pl.DataFrame, measures: Sequence[str]) -> None:
    assert one.schema == other.schema
    assert one.drop(measures).equals(other.drop(measures))
    for name in measures:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-5, atol=1e-6)


# Without Ray


@given(
    people=st.lists(st.integers(-1, 40), min_size=1, max_size=60),
    borders=st.sets(st.integers(1, 40), max_size=4),
    tasks=st.integers(1, 80),
)
def test_a_cut_divides_neither_people_nor_parts(people: list[int], borders: set[int], tasks: int) -> None:
    ascending = np.sort(np.array(people))
    ends = [0, *sorted(borders), 41]
    parts = [Range(*ends[at : at + 2]) for at in range(len(ends) - 1)]
    ranges = cut_by_person(ascending, parts, tasks)
    assert [0, *(one.last for one in ranges)] == [*(one.first for one in ranges), len(people)]
    assert len(ranges) <= tasks + len(borders)
    for one, following in pairwise(ranges):
        assert ascending[one.last - 1] < ascending[following.first]
    for one in ranges:
        asked = people_asked(ascending[slice(*one)])
        assert any(part.first <= asked.first <= asked.last <= part.last for part in parts)


@given(tasks=st.integers(1, 200))
def test_all_people_are_cut_into_ranges(outline: ModelOutline, tasks: int) -> None:
    ranges = outline.cut(tasks)
    assert [0, *(one.last for one in ranges)] == [*(one.first for one in ranges), outline.users]
    assert len(ranges) == min(tasks, outline.users)
    assert max(one.last - one.first for one in ranges) - min(one.last - one.first for one in ranges) <= 1


def test_folders_that_are_somebody_elses_are_refused(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary", encoding="utf-8")
    folder = PartFolder(tmp_path, "lists", {"n": 10})
    with pytest.raises(DataError, match=r"holds diary\.txt.*out=\.\.\."):
        folder.ranges(lambda: [Range(0, 1)])
    with pytest.raises(DataError, match="this is a file"):
        PartFolder(tmp_path / "diary.txt", "lists", {"n": 10}).ranges(lambda: [Range(0, 1)])
    (tmp_path / "diary.txt").unlink()
    assert folder.ranges(lambda: [Range(0, 1)]) == [Range(0, 1)]
    assert folder.ranges(lambda: [Range(0, 2)]) == [Range(0, 1)]  # those of the run before
    with pytest.raises(DataError, match=r"another question .another n.*out=\.\.\., or remove"):
        PartFolder(tmp_path, "lists", {"n": 5}).ranges(lambda: [])
    (tmp_path / "lists.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match="truncated or altered"):
        folder.ranges(lambda: [])


def test_what_is_refused_before_any_work(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*words: object) -> str:
        assert main([str(word) for word in words]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        return printed.err

    everybody = ("recommend", model, "--all", "--ray", "local")
    assert "add --out FOLDER" in refused(*everybody)
    assert "add --all" in refused("recommend", model, "--user", 1, "--ray", "local")
    assert "add --ray ADDRESS" in refused("recommend", model, "--all", "--tasks", 3)
    assert "leave out --ray or features" in refused(*everybody, "--out", tmp_path / "o", "--item-features", "f.csv")
    assert "no column 'colour'" in refused(*everybody, "--out", tmp_path / "o", "--where", "colour:red")
    monkeypatch.setitem(sys.modules, "ray", None)
    for command in (("evaluate", model, "x.csv"), ("predict", model, "x.csv"), ("tune", "x.csv")):
        assert "pip install 'cofill[cluster]'" in refused(*command, "--ray", "auto")
    assert "pip install 'cofill[cluster]'" in refused("reproduce", "table1", "--ray", "auto")
    assert not (tmp_path / "o").exists()


# What tasks come to


def test_everybodys_lists_are_those_of_one_process(model: Path, outline: ModelOutline, tmp_path: Path) -> None:
    """Parts that are there and whole are not made again."""
    out = tmp_path / "lists"
    question: Rules = {"min_ratings": 3, "at_most": {"genres": 3}}
    for kept in (0, 1):
        assert recommend_everybody(outline, out, HERE, n=5, rules=question).kept == kept
        same_rows(rows_in(out), lists_here(model, n=5, **question), ["score", "rating"])
        if not kept:
            (out / "part-00001.parquet").unlink()
            content = (out / "part-00002.parquet").read_bytes()
            (out / "part-00002.parquet").write_bytes(content[:100] + bytes([content[100] ^ 255]) + content[101:])


@pytest.mark.slow
def test_everybodys_lists_on_ray_are_made_once(
    joined: str, model: Path, outline: ModelOutline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lists"
    words = ["recommend", model, "--all", "--ray", joined, "--out", out, "-n", 5, "--tasks", 5, "--min-ratings", 3]
    command = [*map(str, words), "--at-most", "genres=3", "--json"]

    def run() -> dict[str, Any]:
        capsys.readouterr()
        assert main(command) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return document

    found = run()
    assert (found["parts"], found["kept"]) == (5, 0)
    assert found["peak_bytes"] > 50e6
    expected = lists_here(model, n=5, min_ratings=3, at_most={"genres": 3})
    same_rows(rows_in(out), expected, ["score", "rating"])
    assert sorted(path.name for path in out.iterdir()) == ["lists.json", *(f"part-{at:05d}.parquet" for at in range(5))]
    manifest = json.loads((out / "lists.json").read_text(encoding="utf-8"))
    assert (manifest["people"], manifest["rows"]) == (outline.users, len(expected))
    assert manifest["question"]["model"] == outline.digest

    (out / "part-00001.parquet").write_bytes(b"PAR1")
    (out / "part-00003.parquet").unlink()
    assert run()["kept"] == 3
    same_rows(rows_in(out), expected, ["score", "rating"])

    for change in (("-n", "6"), ("--rank-by", "rating"), ("--exclude", "3"), ("--include-known",)):
        assert main([*command, *change]) == 1
        assert "of another question" in capsys.readouterr().err
    assert sorted(path.name for path in out.glob("*.json")) == ["lists.json"]


def test_predictions_are_those_of_one_process(
    model: Path, outline: ModelOutline, test_part: Ratings, tmp_path: Path
) -> None:
    users, items = test_part.users.array()[test_part.user_index], test_part.items.array()[test_part.item_index]
    shuffled = np.random.default_rng(0).permutation(len(users))
    pairs = pl.DataFrame({"user": users[shuffled], "item": items[shuffled]})
    out = tmp_path / "predictions"
    assert predict_pairs(outline, pairs, out, HERE, with_interval=True).rows == len(pairs)
    expected = Recommender.load(model).predict((pairs["user"], pairs["item"]), with_interval=True)
    columns = {"rating": expected.ratings, "low": expected.low, "high": expected.high}
    found = rows_in(out)
    both = ["user", "item"]
    same_rows(found.sort(both), pairs.with_columns(**columns).sort(both), list(columns))
    assert json.loads((out / "predictions.json").read_text(encoding="utf-8"))["pairs"] == len(pairs)
    position = {id: place for place, id in enumerate(Recommender.load(model).users)}
    assert np.all(np.diff([position.get(user, -1) for user in found["user"]]) >= 0)


@pytest.mark.slow
def test_predict_and_evaluate_on_ray(
    joined: str, model: Path, test_part: Ratings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test_part.write(tmp_path / "test.csv")
    words = ["predict", model, tmp_path / "test.csv", "--ray", joined, "--out", tmp_path / "out", "--interval"]
    assert main([*map(str, words), "--tasks", "2"]) == 0
    assert "Predictions written" in capsys.readouterr().out
    words = ["evaluate", model, tmp_path / "test.csv", "--ray", joined, "--tasks", 2, "--json"]
    assert main([*map(str, words)]) == 0
    expected = evaluate(Recommender.load(model), test_part).rmse
    assert json.loads(capsys.readouterr().out)["rmse"] == pytest.approx(expected, rel=1e-5)


def test_measures_are_those_of_one_process(model: Path, outline: ModelOutline, test_part: Ratings) -> None:
    shares: list[float] = []
    question = ListQuestion(("list", "rating"))
    found = evaluate_on_cluster(outline, test_part, HERE, lists=question, report=shares.append)
    here = Recommender.load(model)
    assert found.ratings is not None
    close(found.ratings.as_json(), evaluate(here, test_part, intervals=True).as_json())
    assert found.trained_on == here.known_pairs(test_part) == 1
    for by in ("list", "rating"):
        close(found.rankings[by].as_json(), evaluate_ranking(here, test_part, by=by).as_json())
    assert shares[-1] == 1.0


def test_measures_of_newcomers_and_of_interactions_are_those_of_one_process(ratings: Ratings, tmp_path: Path) -> None:
    def named(part: Ratings) -> Interactions:
        users, items = part.users.array()[part.user_index], part.items.array()[part.item_index]
        return Interactions.read(pl.DataFrame({"user": [f"u{one}" for one in users], "item": items}))

    train, fold_in, test = (named(part) for part in strong_generalisation_split(ratings, seed=1))
    here = ListModel(list_rank=8).fit(train)
    here.save(tmp_path / "model")
    question = ListQuestion(n=7, fold_in=fold_in)
    found = evaluate_on_cluster(ModelOutline(tmp_path / "model"), test, HERE, errors=False, lists=question)
    assert found.ratings is None
    close(found.rankings["list"].as_json(), evaluate_newcomers(here, fold_in, test, n=7).as_json())


def close(one: Any, other: Any) -> None:
    """Equal but for rounding."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        one, other = list(one.values()), list(other.values())
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for each, its_other in zip(one, other, strict=True):
            close(each, its_other)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-7)
    else:
        assert one == other


def test_a_model_that_was_replaced_meanwhile_is_not_asked(model: Path, outline: ModelOutline) -> None:
    people = outline.whole_parts()[0]
    task = {"model": str(model), "digest": outline.digest}
    assert ModelParts().held_for(task, people).offset == 0
    with pytest.raises(ModelFileError, match=r"another model has taken the place .* with another out=\.\.\."):
        ModelParts().held_for(task | {"digest": "the one before"}, people)


@pytest.mark.slow
def test_a_task_whose_worker_is_killed_is_done_by_another(
    joined: str, model: Path, outline: ModelOutline, tmp_path: Path
) -> None:
    killed: list[int] = []

    def report(share: float) -> None:
        if len(killed) < 2 and (there := members() - set(killed)):
            killed.append(there.pop())
            os.kill(killed[-1], signal.SIGKILL)

    found = recommend_everybody(outline, tmp_path / "lists", Division(joined, 8), report=report)
    assert killed
    assert found.parts == 8
    same_rows(rows_in(tmp_path / "lists"), lists_here(model), ["score", "rating"])
    assert not list((tmp_path / "lists").glob(".*"))


@pytest.mark.slow
def test_a_task_that_kills_every_worker_ends_all(
    joined: str, outline: ModelOutline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "__name__", "tests.cluster.bad_workers")  # where the workers look for what to do
    with pytest.raises(ClusterError, match=r"task 1 of 1: .*the same command goes on"):
        recommend_everybody(outline, tmp_path / "lists", Division(joined, 1))
    with pytest.raises(ClusterError, match=r"a task takes 64 cores.*has 2"):
        recommend_everybody(outline, tmp_path / "more", Division(joined, 1, cores=64))
    pairs = pl.DataFrame({"user": [1], "item": [1]})
    with pytest.raises(CofillError, match="no good at it"):
        predict_pairs(outline, pairs, tmp_path / "predictions", Division(joined, 1))
    assert not (tmp_path / "more").exists()
    assert "parts" not in json.loads((tmp_path / "lists" / "lists.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_a_command_that_was_killed_goes_on_where_it_was(
    joined: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lists"
    words = ["recommend", str(model), "--all", "--ray", joined, "--out", str(out), "--tasks", "15", "--json"]
    # A copy of the model on the way would be another question: the digest is that of its content.
    copied = [*words[:1], str(shutil.copytree(model, tmp_path / "copy")), *words[2:]]
    command = WarmProcess(copied, cwd=tmp_path)
    wait_until(lambda: len(list(out.glob("part-*.parquet"))) >= 2, "two parts")
    command.kill()
    command.wait()
    wait_until(lambda: not members(), "the end of the workers of a driver that is gone")
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"] == 15
    assert 2 <= found["kept"] < 15
    same_rows(rows_in(out), lists_here(model), ["score", "rating"])
    assert sorted(path.name for path in out.glob("*.json")) == ["lists.json"]

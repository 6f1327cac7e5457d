"""cofill features"""

import json
import shlex
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from cofill.data.datasets import UnpublishedFileWarning
from cofill.data.features import Features
from tests.cli.conftest import QUICK, Run
from tests.data.dataset_files import put, shrink


def cells(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if line.startswith("│")]


def test_a_table(run: Run, world: Path) -> None:
    path = world / "users.csv"
    result = run("features", path)
    assert result.code == 0
    assert result.out.startswith(f"{path}: 60 ids, ")
    assert [line[:3] for line in cells(result.out)] == [
        ["users.csv", "age", "number"],
        ["users.csv", "occupation", "category"],
    ]
    assert result.err == f"next: cofill train ratings.csv --item-features {path} --out model  (or --user-features)\n"
    document = json.loads(run("features", path, "--json").out)
    features = Features.read(path)
    assert (document["ids"], document["columns"]) == (60, features.width)
    assert document["names"] == list(features.names)
    assert document["about"][0] == features.report()[0]._asdict() | {"categories": []}
    assert "retired" in document["about"][1]["categories"]


def test_other_kinds(run: Run, world: Path) -> None:
    tags = run("features", world / "tags.csv", "--feature-size", 3)
    assert cells(tags.out)[0][:4] == ["tags", "tags", "tags", "3"]
    assert "--item-tags" in tags.err
    links = run("features", world / "friends.csv", "--kind", "links", "--one-way-links", "--json", "--quiet")
    expected = Features.read(world / "friends.csv", kind="links", both_ways=False)
    assert (json.loads(links.out)["ids"], links.err) == (len(expected.ids), "")


def test_kinds_that_are_said(run: Run, world: Path) -> None:
    told = json.loads(run("features", world / "users.csv", "--feature-kind", "age=skip", "--json").out)
    assert [line["kind"] for line in told["about"]] == ["skip", "category"]


def test_a_model(run: Run, hybrid: Path) -> None:
    result = run("features", hybrid)
    items, users = (cells(part) for part in result.out.split("Users are described"))
    assert [line[:2] for line in items if line[0]] == [
        ["title", "a title that ends in its year"],
        ["year", "a year or a date"],
        ["genres", "categories with '|' between them"],
        ["tags", "tags with '|' between them"],
    ]
    assert [line[:2] for line in users if line[0]] == [
        ["age", "a number"],
        ["occupation", "one category"],
        ["links", "ids with '|' between them"],
    ]
    hint = shlex.split(result.err.splitlines()[-1].removeprefix("next: cofill "))
    assert hint[:3] == ["recommend", str(hybrid), "--describe"]
    assert run(*hint).code == 0
    document = json.loads(run("features", hybrid, "--json").out)
    assert document["items"]["unrated"] == 2
    assert (document["items"]["ids"], document["users"]["ids"]) == (40, 60)
    assert [line["column"] for line in document["users"]["about"]] == ["age", "occupation", "links"]


@pytest.mark.parametrize(
    ("column", "values", "example"),
    [
        ("job", ["o'clock maker, " + "very " * 20 + "long", "a cook"], "'job=a cook'"),
        ("age", ["30", "30"], "age=30"),
        ("score", ["NA", "2.5"], "score=2.5"),
        ("born", ["1990-05-01", "1992-05-01"], "born=1991"),
        ("fan", ["no", "yes"], "fan=yes"),
        ("likes", ["tea|a cake", "tea"], "'likes=a cake'"),
    ],
)
def test_the_example_can_be_run(
    run: Run, some: Path, tmp_path: Path, column: str, values: list[str], example: str
) -> None:
    lines = [f'{user},"{values[user % 2]}"' for user in range(1, 59)]
    (tmp_path / "users.csv").write_text("\n".join([f"user,{column}", *lines, ""]))
    kind = ["--feature-kind", "job=category"] if column == "job" else []
    words = ["--out", tmp_path / "m", "--user-features", tmp_path / "users.csv", *kind, *QUICK]
    assert run("train", some, *words).code == 0
    hint = run("features", tmp_path / "m").err.splitlines()[-1]
    assert hint == f"next: cofill recommend {tmp_path / 'm'} --describe {example}"
    assert run(*shlex.split(hint)[2:]).code == 0


def test_a_model_without(run: Run, model: Path) -> None:
    result = run("features", model)
    assert (result.code, result.out) == (0, "")
    assert result.err == f"{model}: was trained without side information\n"
    assert json.loads(run("features", model, "--json").out) == {"items": None, "users": None}


def test_a_data_set(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COFILL_DATA", str(tmp_path / "data"))
    shrink(monkeypatch)
    put(tmp_path, "ml-10m")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnpublishedFileWarning)
        table = run("features", "ml-10m")
        document = json.loads(run("features", "ml-10m", "--json").out)
    assert [line[:3] for line in cells(table.out)] == [
        ["movies.dat", "title", "date"],
        ["movies.dat", "genres", "several"],
        ["tags", "tags", "tags"],
    ]
    assert document["users"] is None
    assert document["items"]["ids"] == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("nothing", "nothing: neither a file, nor a model's folder, nor a data set; check the path\n"),
        ("nowhere.csv", "nowhere.csv: there is no such file; check the path"),
        ("{world}", "{world}: not a model, there is no model.json in it; check the path\n"),
        ("{world}/users.csv --one-way-links", "--one-way-links goes with --kind links; leave it out\n"),
        (
            "{world}/tags.csv --kind tags --feature-kind tag=skip",
            "--feature-kind is about the columns of tables; leave it out with --kind tags\n",
        ),
        (
            "{world}/users.csv --feature-kind ages=skip",
            "--feature-kind ages=skip: no table has a column 'ages'; did you mean 'age'?\n",
        ),
        ("{model} --kind tags", "{model} is a model, which was trained already; leave out --kind\n"),
        (
            "ml-1m --feature-size 3",
            "ml-1m is a data set, whose side information is known; leave out --feature-size\n",
        ),
    ],
)
def test_refused(refused: Callable[..., str], world: Path, model: Path, words: str, says: str) -> None:
    places = {"world": world, "model": model}
    assert refused("features", *words.format(**places).split()).startswith(says.format(**places))

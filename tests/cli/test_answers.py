"""cofill evaluate, predict, recommend, similar"""

import csv
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings
from cofill.models.bias_models import ListModel
from cofill.models.cfn.model import CFN
from cofill.models.recommender import Recommender
from tests.cli.conftest import LONG_TITLE, Run

PAIRS = "user,item\n1,2\nbert,1\n1,zz\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def file(text: str) -> Path:
        path = tmp_path / "input.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return file


# evaluate


def test_evaluate_on_ratings_it_was_trained_on(run: Run, model: Path, world: Path) -> None:
    result = run("evaluate", model, world / "ratings.csv", "--json")
    measures = json.loads(result.out)
    assert (measures["ratings"], measures["cold"], measures["trained_on"]) == (900, 0, 900)
    assert 0 < measures["mae"] < measures["rmse"] < 2
    assert len(measures["clusters"]) == 5
    assert sum(cluster["ratings"] for cluster in measures["clusters"]) == 900
    assert result.err.startswith("warning: the model was trained on 900 of these 900 ratings")
    table = run("evaluate", model, world / "ratings.csv")
    assert f"{measures['rmse']:.4f}" in table.out
    assert "80% to 100%" in table.out


def test_evaluate_on_new_ratings(run: Run, model: Path, write: Callable[[str], Path]) -> None:
    cold = run("evaluate", model, write("user,item,rating\nanna,1,3\n1,zz,4\n"), "--json")
    assert (json.loads(cold.out)["cold"], cold.err) == (2, "")
    outside = run("evaluate", model, write("user,item,rating\nanna,1,99\n"), "--json")
    assert outside.err.startswith("warning: 1 of these 1 ratings are outside the scale 0.5 to 5")


# predict


def test_predict(run: Run, model: Path, write: Callable[[str], Path], tmp_path: Path) -> None:
    pairs = write(PAIRS)
    expected = CFN.load(model).predict((["1", "bert", "1"], ["2", "1", "zz"]))
    printed = run("predict", model, pairs)
    assert printed.err == "2 of 3 pairs have a user or an item that is not in the model: means stand in\n"
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert [(row["user"], row["item"]) for row in rows] == [("1", "2"), ("bert", "1"), ("1", "zz")]
    assert [row["rating"] for row in rows] == [f"{rating:.4f}" for rating in expected]
    documents = json.loads(run("predict", model, pairs, "--json").out)
    assert [document["rating"] for document in documents] == expected.tolist()
    for name in ("p.csv", "new/p.parquet"):
        written = run("predict", model, pairs, "--out", tmp_path / name)
        assert (written.code, written.out) == (0, "")
        assert written.err.endswith(f"3 predictions written to {tmp_path / name}\n")
        frame = pl.read_csv(tmp_path / name) if name == "p.csv" else pl.read_parquet(tmp_path / name)
        np.testing.assert_allclose(frame["rating"], expected, rtol=1e-6)


def test_predict_prints_no_minus_zero(
    run: Run, model: Path, write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recommender, "predict", lambda *_, **__: np.array([-1e-9, 0, 1], np.float32))
    rows = list(csv.DictReader(io.StringIO(run("predict", model, write(PAIRS)).out)))
    assert [row["rating"] for row in rows] == ["0.0000", "0.0000", "1.0000"]


def test_quiet_prints_no_notes(run: Run, model: Path, write: Callable[[str], Path], tmp_path: Path) -> None:
    pairs = write(PAIRS)
    assert run("predict", model, pairs, "--quiet").err == ""
    assert run("predict", model, pairs, "--quiet", "--out", tmp_path / "p.csv").err == ""
    strange = ("similar", model, "--item", 1, "--among", "zz")
    assert run(*strange).err.count("\n") == 2
    assert run(*strange, "--quiet").err == ""


def test_predict_with_intervals(run: Run, model: Path, write: Callable[[str], Path], tmp_path: Path) -> None:
    pairs = write(PAIRS)
    expected = CFN.load(model).predict((["1", "bert", "1"], ["2", "1", "zz"]), with_interval=True)
    documents = json.loads(run("predict", model, pairs, "--interval", "--json").out)
    for name, values in expected._asdict().items():
        assert [document[name.removesuffix("s")] for document in documents] == values.tolist()
    rows = list(csv.DictReader(io.StringIO(run("predict", model, pairs, "--interval").out)))
    assert list(rows[0]) == ["user", "item", "rating", "low", "high"]
    assert [row["low"] for row in rows] == [f"{low:.4f}" for low in expected.low]
    run("predict", model, pairs, "--interval", "--out", tmp_path / "p.parquet")
    np.testing.assert_allclose(pl.read_parquet(tmp_path / "p.parquet")["high"], expected.high, rtol=1e-6)
    assert "low" not in run("predict", model, pairs).out


def test_predict_says_which_models_have_intervals(
    run: Run, refused: Callable[..., str], world: Path, write: Callable[[str], Path], tmp_path: Path
) -> None:
    assert run("train", world / "ratings.csv", "--out", tmp_path / "m", "--algorithm", "means", "--quiet").code == 0
    assert refused("predict", tmp_path / "m", write(PAIRS), "--interval") == (
        "a model of 'means' does not know how far off its predictions are; "
        "train a CFN with the decoder process, which is the default\n"
    )


def test_predict_keeps_integers(run: Run, model: Path, world: Path) -> None:
    result = run("predict", model, world / "ratings.csv", "--json")
    first = json.loads(result.out)[0]
    assert (first["user"], result.err) == (1, "")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--out", "p.xlsx"], "p.xlsx: cannot tell the format; end the name in .csv"),
        (["--out", "p.csv", "--json"], "--json prints and --out writes a table"),
    ],
)
def test_predict_refuses(refused: Callable[..., str], model: Path, world: Path, flags: list[str], says: str) -> None:
    assert says in refused("predict", model, world / "ratings.csv", *flags)


# recommend


def test_recommend_to_a_user(run: Run, model: Path, world: Path) -> None:
    ratings = Ratings.read(world / "ratings.csv")
    known = {ratings.items.id(item) for item in ratings.item_index[ratings.user_index == ratings.users.index(1)]}
    found = json.loads(run("recommend", model, "--user", 1, "-n", 100, "--json").out)
    assert {entry["item"] for entry in found} == set(ratings.items.ids) - known
    assert all(0.5 <= entry["rating"] <= 5 for entry in found)
    everything = json.loads(run("recommend", model, "--user", 1, "-n", 100, "--include-known", "--json").out)
    assert {entry["item"] for entry in everything} == set(ratings.items.ids)
    table = run("recommend", model, "--user", 1, "-n", 2)
    assert table.out.startswith("For user 1\n")
    assert f"{found[0]['score']:.4f}" in table.out
    assert f"{found[0]['rating']:.2f}" in table.out
    assert found[0]["title"] in table.out
    assert table.err == ""


def test_recommend_to_somebody_unknown(run: Run, refused: Callable[..., str], model: Path) -> None:
    result = run("recommend", model, "--user", "nobody", "-n", 3)
    assert result.err == "user 'nobody' is not in the model: this is the list of a user without ratings\n"
    assert len(result.out.splitlines()) == 8
    assert "an id is an empty string" in refused("recommend", model, "--user", "")


@pytest.mark.parametrize("text", ["item,rating\n1,5\n2,1\n", "1,5\n2,1\n", "1\t5\n2\t1\n", "stars;film\n5;1\n1;2\n"])
def test_recommend_to_somebody_new(run: Run, model: Path, write: Callable[[str], Path], text: str) -> None:
    found = json.loads(run("recommend", model, "--ratings", write(text), "--json").out)
    expected = CFN.load(model).recommend({1: 5.0, 2: 1.0})
    assert [entry["item"] for entry in found] == [entry.item for entry in expected]
    for name in ("score", "rating", "raters"):
        assert [entry[name] for entry in found] == [getattr(entry, name) for entry in expected]
    assert not {1, 2} & {entry["item"] for entry in found}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("item,rating\n1,9\n", "the rating of item 1 must be between 0.5 and 5. Got 9"),
        ("item,rating\n1,4\nzz,4\n", "item 'zz' is not in the model; check the id, or leave it out"),
        ("item,rating\n1,4\n1,4\n", "item 1 is rated more than once"),
        ("item,rating\n", "a header and no ratings below it"),
        ("item,rating\n1,good\n", "line 2, column 'rating': found 'good' where a number belongs"),
        ("", "the file is empty"),
    ],
)
def test_bad_ratings_of_somebody(
    refused: Callable[..., str], model: Path, write: Callable[[str], Path], text: str, says: str
) -> None:
    assert says in refused("recommend", model, "--ratings", write(text))


def test_recommend_to_everybody(run: Run, model: Path, tmp_path: Path) -> None:
    one = json.loads(run("recommend", model, "--user", 7, "-n", 2, "--json").out)
    lines = [json.loads(line) for line in run("recommend", model, "--all", "-n", 2, "--json").out.splitlines()]
    assert [line["user"] for line in lines] == list(range(1, 61))
    assert [entry["item"] for entry in lines[6]["recommendations"]] == [entry["item"] for entry in one]
    table = run("recommend", model, "--all", "-n", 2)
    rows = list(csv.DictReader(io.StringIO(table.out)))
    assert [int(row["item"]) for row in rows if row["user"] == "7"] == [entry["item"] for entry in one]
    written = run("recommend", model, "--all", "-n", 2, "--out", tmp_path / "all.csv")
    assert (written.out, written.err) == ("", f"recommendations for 60 users written to {tmp_path / 'all.csv'}\n")
    assert (tmp_path / "all.csv").read_text(encoding="utf-8") == table.out
    quiet = run("recommend", model, "--all", "-n", 2, "--json", "--quiet", "--out", tmp_path / "all.json")
    assert (quiet.out, quiet.err) == ("", "")
    assert [json.loads(line) for line in (tmp_path / "all.json").read_text(encoding="utf-8").splitlines()] == lines


def test_everybodys_lists_are_safe_in_a_spreadsheet(run: Run, tmp_path: Path) -> None:
    clicks = [("=1+1", "-a"), ("=1+1", "b"), ("ann", "-a"), ("ann", "@c")]
    model = ListModel().fit(Interactions.read(clicks))
    model.titles["b"] = '=HYPERLINK("evil")'
    model.save(tmp_path / "model")
    assert run("recommend", tmp_path / "model", "--all", "--out", tmp_path / "all.csv", "--quiet").code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "all.csv").read_text(encoding="utf-8"))))
    assert {(row["user"], row["item"], row["title"]) for row in rows} == {
        ("'=1+1", "'@c", ""),
        ("ann", "b", '\'=HYPERLINK("evil")'),
    }
    exact = run("recommend", tmp_path / "model", "--all", "--json", "--quiet").out
    assert json.loads(exact.splitlines()[0])["user"] == "=1+1"


def test_out_is_for_everybody(refused: Callable[..., str], model: Path, tmp_path: Path) -> None:
    assert "--out and --ray go with --all" in refused("recommend", model, "--user", "1", "--out", tmp_path / "r.csv")


@pytest.mark.parametrize("width", [80, 120])
def test_titles_are_printed_literally(run: Run, monkeypatch: pytest.MonkeyPatch, model: Path, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = run("recommend", model, "--user", 1, "-n", 40, "--include-known").out
    assert "[red]Alien[/red]" in text
    assert ":smile: [/]" in text
    assert "two lines" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= width
    folded = "".join(line.split("│")[6] for line in text.splitlines() if line.startswith("│")).replace(" ", "")
    assert LONG_TITLE.replace(" ", "") in folded


# similar


def test_similar(run: Run, refused: Callable[..., str], model: Path) -> None:
    found = json.loads(run("similar", model, "--item", 1, "-n", 3, "--json").out)
    assert len(found) == 3
    assert 1 not in [entry["item"] for entry in found]
    likeness = [entry["similarity"] for entry in found]
    assert likeness == sorted(likeness, reverse=True)
    assert run("similar", model, "--item", 1, "-n", 3).out.startswith("Like [red]Alien[/red]\n")
    assert "unknown id 'nothing'" in refused("similar", model, "--item", "nothing")


@pytest.mark.parametrize("words", [("recommend", "MODEL", "--user", "1"), ("similar", "MODEL", "--item", "1")])
def test_a_short_answer_waits_for_no_heavy_import(model: Path, words: tuple[str, ...]) -> None:
    """numba and scipy's solvers take longer to import than the answer takes."""
    heavy = ("numba", "scipy.linalg", "scipy.optimize", "torch", "pandas", "cofill.data.datasets", "cofill.serving")
    called = [str(model) if word == "MODEL" else word for word in words]
    code = f"import sys\nfrom cofill.cli import main\nassert main({called!r}) == 0\n"
    code += f"found = [name for name in {heavy!r} if name in sys.modules]\nassert not found, found"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Models that are none


@pytest.mark.parametrize(
    "words", ["evaluate {} ratings.csv", "predict {} pairs.csv", "recommend {} --user 1", "similar {} --item 1"]
)
def test_no_model(refused: Callable[..., str], world: Path, tmp_path: Path, words: str) -> None:
    for path in (tmp_path / "nowhere", world, world / "ratings.csv"):
        message = refused(*(word.format(path) for word in words.split()))
        assert message == f"{path}: not a model, there is no model.json in it; check the path\n"


@pytest.mark.parametrize("damage", ["cut", "flip", "remove", "card", "newer"])
def test_damaged_model(refused: Callable[..., str], model: Path, tmp_path: Path, damage: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(model, copy)
    (weights,) = copy.glob("weights-*")
    card = copy / "model.json"
    content = weights.read_bytes()
    if damage == "cut":
        weights.write_bytes(content[:-1])
    elif damage == "flip":
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "remove":
        weights.unlink()
    elif damage == "card":
        card.write_text(card.read_text().replace('"scale": [\n    0.5', '"scale": [\n    0.0'))
    else:
        card.write_text(card.read_text().replace('"format_version": 1', '"format_version": 99'))
    message = refused("recommend", copy, "--user", "1")
    assert {"newer": "upgrade cofill"}.get(damage, "the model again") in message
    assert (card.name if damage in ("card", "newer") else weights.name) in message

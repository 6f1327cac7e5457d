"""cofill report, as people call it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cofill.data.ratings import Ratings
from cofill.evaluation import evaluate
from cofill.memory import data_size
from cofill.models.recommender import Recommender
from tests.cli.conftest import Run
from tests.report.pages import check

Refused = Callable[..., str]


def test_a_report_without_a_test_part(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "page.html"
    result = run("report", model, "--out", out)
    assert result.code == 0
    assert result.out == ""
    assert result.err.splitlines()[-2:] == [
        f"report: {out} ({data_size(out.stat().st_size)})",
        f"next:   cofill report {model} --test RATINGS  (measures it on ratings it has not seen)",
    ]
    page = check(out.read_text(encoding="utf-8"))
    assert "Nothing was measured" in page.text


def test_the_page_has_the_numbers_of_evaluate(run: Run, model: Path, world: Path, tmp_path: Path) -> None:
    test, out = world / "ratings.csv", tmp_path / "page.html"
    result = run("report", model, "--test", test, "--out", out, "--quiet", "--json")
    assert result.code == 0
    told = json.loads(result.out)
    found = evaluate(Recommender.load(model), Ratings.read(test), intervals=True)
    assert told["report"] == str(out)
    assert told["bytes"] == out.stat().st_size
    assert told["evaluation"] == found.as_json()
    assert told["trained_on"] == found.ratings
    assert told["ranking"] is None  # there is nothing left to find
    page = check(out.read_text(encoding="utf-8"))
    assert page.tables[f"On {test}"][1][:3] == ["this model", f"{found.rmse:.4f}", f"{found.mae:.4f}"]


def test_json_without_a_test_part(run: Run, model: Path, tmp_path: Path) -> None:
    told = json.loads(run("report", model, "--out", tmp_path / "a.html", "--json", "--quiet").out)
    assert told["evaluation"] is told["ranking"] is told["trained_on"] is None


def test_a_table_is_printed_with_a_test_part(run: Run, model: Path, world: Path, tmp_path: Path) -> None:
    result = run("report", model, "--test", world / "ratings.csv", "--out", tmp_path / "a.html", "--quiet")
    assert "RMSE" in result.out


def test_training_ratings_are_not_passed_off_as_test_ratings(
    run: Run, model: Path, world: Path, tmp_path: Path
) -> None:
    """In the very words of `cofill evaluate`, and on the page."""
    out, known = tmp_path / "a.html", world / "ratings.csv"
    told = run("report", model, "--test", known, "--out", out, "--quiet")
    assert run("evaluate", model, known, "--ranking", "--quiet").err.startswith(told.err)
    assert told.err.startswith("warning: the model was trained on 900 of these 900 ratings")
    page = out.read_text(encoding="utf-8")
    assert '<div class="warning"><dt>RMSE, on training ratings</dt>' in page
    assert "test RMSE" not in page

    mixed = tmp_path / "mixed.csv"
    lines = known.read_text().splitlines()[:3]
    mixed.write_text("\n".join([",".join(line.split(",")[:3]) for line in lines] + ["stranger,1,9"]) + "\n")
    told = run("report", model, "--test", mixed, "--scale", 1, 9, "--out", out, "--quiet")
    first, second = told.err.splitlines()
    assert first.startswith("warning: the model was trained on 2 of these 3 ratings")
    assert second.startswith("warning: 1 of these 3 ratings are outside the scale")
    assert "RMSE, partly on training ratings" in out.read_text(encoding="utf-8")


def test_the_page_tells_the_command_that_makes_it_again(run: Run, model: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd name.txt"
    odd.write_text("1;1;4.5\n2;3;1\n")
    call = ("--test", odd, "--users", 3, 7, "--separator", ";", "--no-header", "--scale", 1, 5)
    assert run("report", model, *call, "--out", tmp_path / "a.html", "--quiet").code == 0
    command = f"cofill report {model} --test '{odd}' --users 3 7 --separator ';' --no-header --scale 1 5"
    assert command in check((tmp_path / "a.html").read_text(encoding="utf-8")).text


def test_users_that_are_asked_for(run: Run, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.html"
    assert run("report", model, "--out", out, "--users", "3", "7", "3").code == 0
    captions = check(out.read_text(encoding="utf-8")).tables
    assert [name for name in captions if name.startswith("Recommended")] == [
        "Recommended to user 3",
        "Recommended to user 7",
    ]


def test_a_hybrid_model(run: Run, hybrid: Path, some: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.html"
    assert run("report", hybrid, "--test", some, "--out", out, "--quiet").code == 0
    page = check(out.read_text(encoding="utf-8"))
    assert "features" in page.ids
    assert "items without a rating, known by features" in page.text


def test_what_is_refused(refused: Refused, model: Path, tmp_path: Path) -> None:
    here = tmp_path / "page.html"
    empty = tmp_path / "empty.csv"
    empty.write_text("", encoding="utf-8")
    nowhere = tmp_path / "none"
    assert refused("report", nowhere, "--out", here) == (
        f"{nowhere}: not a model, there is no model.json in it; check the path\n"
    )
    assert refused("report", model, "--out", tmp_path) == (
        f"{tmp_path}: this is a folder; name a file, such as {tmp_path / 'report.html'}\n"
    )
    assert refused("report", model, "--out", tmp_path / "page.pdf") == (
        f"{tmp_path / 'page.pdf'}: a report is an HTML page; let its name end in .html\n"
    )
    assert refused("report", model, "--out", here, "--users", "nobody") == (
        "user 'nobody' is not in the model; check the id given to --users\n"
    )
    assert str(empty) in refused("report", model, "--out", here, "--test", empty)
    assert "neither a file nor a data set" in refused("report", model, "--out", here, "--test", "nothing")
    assert not here.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_to(refused: Refused, model: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "no permission to write there" in refused("report", model, "--out", tmp_path / "a.html", "--quiet")


def test_an_earlier_page_stays_if_the_new_one_fails(refused: Refused, model: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text("the old one", encoding="utf-8")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("user,item,rating\n1,2,lots\n", encoding="utf-8")
    assert "lots" in refused("report", model, "--out", out, "--test", wrong)
    assert out.read_text(encoding="utf-8") == "the old one"

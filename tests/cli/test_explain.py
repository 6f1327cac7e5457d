"""cofill explain"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from cofill.cli.ask import _print_explanation as print_explanation
from cofill.models.recommender import Recommender
from cofill.models.results import Contribution, Explanation
from tests.cli.conftest import Run


@pytest.mark.parametrize("by", ["list", "rating"])
def test_what_moves_a_prediction(run: Run, model: Path, by: Literal["list", "rating"]) -> None:
    found = json.loads(run("explain", model, "7", "--user", "3", "--rank-by", by, "--json").out)
    loaded = Recommender.load(model)
    assert (found["item"], found["title"], found["by"]) == (7, "Film 7", by)
    assert found["clipped"] == pytest.approx(float(loaded.score(3, by=by)[loaded.items.index(7)]), abs=1e-5)
    amounts = [entry["amount"] for entry in found["contributions"]]
    assert len(amounts) == loaded.user_counts()[loaded.users.index(3)] > 3
    assert found["base"] + sum(amounts) + found["remainder"] == pytest.approx(found["value"], abs=1e-4)
    assert set(found["contributions"][0]) >= {"item", "rating", "amount"}


@pytest.mark.parametrize(("by", "together"), [("list", "the list score"), ("rating", "the predicted rating")])
def test_the_table_adds_up(run: Run, model: Path, by: str, together: str) -> None:
    result = run("explain", model, 7, "--user", 3, "-n", 2, "--rank-by", by)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("Why Film 7\n")
    names, amounts = amounts_in(result.out)
    assert names[0] == "base, without ratings"
    assert names[3].endswith(" more")
    assert names[4:-1] in ([], ["remainder"])  # as it rounds here
    assert names[-1] == f"together: {together}"
    assert sum(amounts[:-1]) == pytest.approx(amounts[-1], abs=3e-4)


@pytest.mark.parametrize(("remainder", "told"), [(-4e-5, False), (4e-5, False), (-6e-5, True), (0.2, True)])
def test_a_remainder_that_rounds_to_nothing_is_not_shown(
    remainder: float, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Contribution(-4e-5, 3, 4.0)
    print_explanation(Explanation(7, "list", 0.5, 0.5, 0.5 - remainder - one.amount, [one], remainder), 10)
    names, amounts = amounts_in(out := capsys.readouterr().out)
    assert names == ["base, without ratings", "3", *(["remainder"] if told else []), "together: the list score"]
    assert sum(amounts[:-1]) == pytest.approx(amounts[-1], abs=3e-4)
    assert not re.search(r"-0\.0+\b", out)


def amounts_in(table: str) -> tuple[list[str], list[float]]:
    """The names and the amounts that a table tells."""
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in table.splitlines() if "│" in line]
    return [line[0] for line in lines], [float(line[2]) for line in lines]


def test_somebody_new(run: Run, hybrid: Path) -> None:
    words = (
        "explain",
        hybrid,
        7,
        "--rank-by",
        "rating",
        "--rating",
        "1=4.5",
        "--rating",
        "2=2",
        "--describe",
        "age=25",
    )
    result = run(*words, "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert {entry["item"]: entry["rating"] for entry in found["contributions"] if "item" in entry} == {1: 4.5, 2: 2}
    assert [entry["feature"] for entry in found["contributions"] if "item" not in entry] == ["age"]
    assert abs(found["remainder"]) < 1e-3
    assert result.err == "not described, so taken as unknown: occupation, links\n"
    assert run(*words, "--json", "--quiet").err == ""
    alone = json.loads(run("explain", hybrid, 7, "--rating", "1=4.5", "--json").out)
    assert [entry["item"] for entry in alone["contributions"]] == [1]


def test_a_prediction_beyond_the_scale_says_so(run: Run, model: Path) -> None:
    loaded = Recommender.load(model)
    everything = dict.fromkeys(range(1, 41), 5.0)
    found = max(loaded.explain_many(everything, everything, by="rating"), key=lambda explanation: explanation.value)
    assert found.value > found.clipped == 5
    words = [word for item in everything for word in ("--rating", f"{item}=5")]
    result = run("explain", model, found.item, "--rank-by", "rating", *words)
    assert "beyond the scale" in result.out
    *_, together, _, interval = result.out.splitlines()
    assert "5.0000" in together
    assert interval.endswith(" to 5.00 (90 % prediction interval)")


def test_a_predicted_rating_has_its_interval(run: Run, model: Path) -> None:
    words = ("explain", model, 7, "--rank-by", "rating")
    found = json.loads(run(*words, "--user", 3, "--json").out)
    expected = Recommender.load(model).predict([(3, 7)], with_interval=True)
    assert found["low"] == pytest.approx(float(expected.low[0]), abs=1e-4)
    assert found["high"] == pytest.approx(float(expected.high[0]), abs=1e-4)
    line = f"likely {found['low']:.2f} to {found['high']:.2f} (90 % prediction interval)"
    assert run(*words, "--user", 3).out.splitlines()[-1] == line
    somebody = json.loads(run(*words, "--rating", "1=4.5", "--rating", "2=2", "--json").out)
    assert somebody["low"] < somebody["clipped"] < somebody["high"]
    of_list = run("explain", model, 7, "--user", 3, "--json").out
    assert "low" not in json.loads(of_list)


def test_shares_of_a_list_score_are_told(run: Run, model: Path) -> None:
    loaded = Recommender.load(model)
    best = loaded.recommend(3, 1)[0]
    result = run("explain", model, best.item, "--user", 3, "-n", 100)
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.out.splitlines() if "│" in line]
    shares = [float(line[3].removesuffix("%")) for line in lines]
    assert shares[-1] == 100
    assert sum(shares[:-1]) == pytest.approx(100, abs=0.05 * len(shares))
    assert "share" not in run("explain", model, best.item, "--user", 3, "--rank-by", "rating").out


def test_titles_are_printed_literally(run: Run, model: Path) -> None:
    result = run("explain", model, 1, "--rating", "3=4", "--rating", "6=2")
    assert result.out.startswith("Why [red]Alien[/red]\n")
    assert "\x1b[31m" not in result.out
    assert ":smile: [/]" in result.out


def test_an_id_that_nobody_knows_gets_what_anybody_gets(run: Run, model: Path) -> None:
    result = run("explain", model, 7, "--user", "bert", "--json")
    assert result.err == "user 'bert' is not in the model: this is the score for a user without ratings\n"
    assert json.loads(result.out)["contributions"] == []


def test_wrong_calls(refused: Callable[..., str], model: Path) -> None:
    needed = "one of the arguments --user --rating --describe is required; `cofill explain --help` tells how\n"
    assert refused("explain", model, 7, code=2) == needed
    assert refused("explain", model, "zz", "--user", 1) == "item 'zz' is not in the model; check the id\n"
    assert refused("explain", model, 7, "--user", 1, "--rating", "2=3") == (
        "--rating is for a new user, and --user for a user of the model; leave out one\n"
    )
    for wrong in ("2", "=3", "2=", "2=good"):
        message = refused("explain", model, 7, "--rating", wrong, code=2)
        assert message.startswith(f"argument --rating: must be ITEM=RATING, such as Alien=5, got {wrong!r};")
    for rating in ("9", "nan", "-inf"):
        message = refused("explain", model, 7, "--rating", f"2={rating}")
        assert message == f"the rating of item '2' must be between 0.5 and 5. Got {float(rating)}\n"
    twice = refused("explain", model, 7, "--rating", "2=3", "--rating", "2=4")
    assert twice == "--rating 2=... is given twice; keep one of them\n"
    assert refused("explain", model, 7, "--describe", "age=3").startswith(
        "the model was trained without features of users"
    )
    assert refused("explain", model.parent / "none", 7, "--user", 1).startswith(f"{model.parent / 'none'}: ")

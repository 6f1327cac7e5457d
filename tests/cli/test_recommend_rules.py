"""cofill recommend and similar: what lists are ranked by, and the rules of what may be in one."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofill.models.recommender import Recommender
from tests.cli.conftest import Run


@pytest.fixture(scope="module")
def here(hybrid: Path) -> Recommender:
    return Recommender.load(hybrid)


def listed(run: Run, *words: object) -> list[Any]:
    result = run(*words, "--json")
    assert (result.code, result.err) == (0, "")
    return [entry["item"] for entry in json.loads(result.out)]


RULES: dict[str, tuple[list[object], dict[str, Any]]] = {
    "by rating": (["--rank-by", "rating"], {"by": "rating"}),
    "where": (
        ["--where", "genres:Drama", "--where", "year:1970.."],
        {"where": {"genres": "Drama", "year": {"min": 1970}}},
    ),
    "either": (["--where", "genres:Drama", "--where", "genres:Comedy"], {"where": {"genres": ["Drama", "Comedy"]}}),
    "among": (["--among", 1, 2, 3, "--among", 39], {"among": [1, 2, 3, 39]}),
    "exclude": (["--exclude", *range(1, 20)], {"exclude": list(range(1, 20))}),
    "boost": (
        ["--boost", "genres:Drama=3", "--boost", "year:1990=2"],
        {"boost": {"genres": {"Drama": 3}, "year": {1990: 2}}},
    ),
    "at most": (["--at-most", "genres=1"], {"at_most": {"genres": 1}}),
    "min ratings": (["--min-ratings", 20], {"min_ratings": 20}),
    "diversity": (["--diversity", 0.7], {"diversity": 0.7}),
    "new items": (["--new-items", 0.2], {"new_items": 0.2}),
}


@pytest.mark.parametrize(("words", "rules"), RULES.values(), ids=RULES)
def test_rules_are_those_of_python(
    run: Run, hybrid: Path, here: Recommender, words: list[object], rules: dict[str, Any]
) -> None:
    expected = [entry.item for entry in here.recommend(7, 6, **rules)]
    assert expected != [entry.item for entry in here.recommend(7, 6)]  # the rule does something
    assert listed(run, "recommend", hybrid, "--user", 7, "-n", 6, *words) == expected
    rows = csv.DictReader(io.StringIO(run("recommend", hybrid, "--all", "-n", 6, *words).out))
    assert [int(row["item"]) for row in rows if row["user"] == "7"] == expected
    assert rows.fieldnames == ["user", "rank", "item", "score", "rating", "raters", "title"]


def test_everything_that_an_entry_has_is_told(run: Run, hybrid: Path, here: Recommender) -> None:
    expected = here.recommend(7, 2)
    table = run("recommend", hybrid, "--user", 7, "-n", 2).out
    heads = [cell.strip() for cell in table.splitlines()[2].split("┃")[1:-1]]
    assert heads == ["", "item", "score", "predicted rating", "raters", "title"]
    first = [cell.strip() for cell in next(line for line in table.splitlines() if "│" in line).split("│")[1:-1]]
    best = expected[0]
    assert first == ["1", str(best.item), f"{best.score:.4f}", f"{best.rating:.2f}", str(best.raters), best.title]
    row = next(csv.DictReader(io.StringIO(run("recommend", hybrid, "--all", "-n", 2).out)))
    first_user = here.recommend(here.users.id(0), 1)[0]
    assert float(row["score"]) == pytest.approx(first_user.score, rel=1e-5)
    assert float(row["rating"]) == float(f"{first_user.rating:.4f}")  # four decimals, and no zeros at the end
    assert row["raters"] == str(first_user.raters)


def test_a_model_of_interactions_has_no_ratings(
    run: Run, refused: Callable[..., str], hybrid: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Recommender, "rated", False)
    assert "predicted rating" not in run("recommend", hybrid, "--user", 7).out
    assert "rating" not in json.loads(run("recommend", hybrid, "--user", 7, "--json").out)[0]
    head = run("recommend", hybrid, "--all", "-n", 1).out.splitlines()[0]
    assert head == "user,rank,item,score,raters,title"
    for words in (["recommend", hybrid], ["explain", hybrid, 7]):
        assert "trained on interactions" in refused(*words, "--user", 7, "--rank-by", "rating")


def test_nothing_left_says_which_rules_to_loosen(run: Run, hybrid: Path) -> None:
    result = run("recommend", hybrid, "--user", 7, "--where", "year:..1700")
    assert result.err == "no item is left that fits --where; ask for less\n"
    result = run("recommend", hybrid, "--user", 7, "--among", "zz", "y", "--exclude", 1, "z")
    assert result.err == (
        "--among: not in the model, and left out: 'zz', 'y'\n--exclude: not in the model, and left out: 'z'\n"
        "no item is left that fits --among and --exclude; ask for less\n"
    )
    assert run("recommend", hybrid, "--user", 7, "--among", "zz", "--quiet").err == ""
    result = run("similar", hybrid, "--item", 7, "--where", "year:..1700")
    assert result.err == "no item is left that fits --where; ask for less\n"


def test_a_value_that_no_item_has_is_told(refused: Callable[..., str], hybrid: Path) -> None:
    for words in (["recommend", hybrid, "--user", 7], ["similar", hybrid, "--item", 7]):
        said = refused(*words, "--where", "genres:drama")
        assert said == "the filter, 'genres': no item has 'drama'; did you mean 'Drama'?\n"
    said = refused("recommend", hybrid, "--user", 7, "--boost", "genres:drama=2")
    assert said == "boost, 'genres': no item has 'drama'; did you mean 'Drama'?\n"


@pytest.mark.parametrize("name", ["where", "either", "among", "exclude", "at most", "min ratings", "diversity"])
def test_rules_of_similar_items_are_those_of_python(run: Run, hybrid: Path, here: Recommender, name: str) -> None:
    words, rules = RULES[name]
    expected = [entry.item for entry in here.similar(7, 6, **rules)]
    assert listed(run, "similar", hybrid, "--item", 7, "-n", 6, *words) == expected
    assert expected
    assert expected != [entry.item for entry in here.similar(7, 6)] or name == "min ratings"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--where", "red"], "red: there is no column in it; write COLUMN:VALUE, such as genres:Comedy, or"),
        (
            ["--where", "genre:War"],
            "the filter: there is no column 'genre'; did you mean 'genres'? the columns are 'year'",
        ),
        (
            ["--where", "year:soon"],
            "the filter, 'year': found 'soon' where a number belongs; a column of kind number takes",
        ),
        (["--where", "year:1.."] * 2, "year:1..: year has two conditions; give one range"),
        (["--boost", "genres:War"], "genres:War: a boost is COLUMN:VALUE=FACTOR, where the factor is above 0;"),
        (["--boost", "genre:War=2"], "boost: there is no column 'genre'; did you mean 'genres'?"),
        (["--boost", "year:soon=2"], "boost, 'year': found 'soon' where a number belongs;"),
        (["--at-most", "genres"], "genres: a limit is COLUMN=N, where N is 1 or more; write it so, such as"),
        (["--at-most", "genre=3"], "at_most: there is no column 'genre'; did you mean 'genres'?"),
    ],
)
def test_refused(refused: Callable[..., str], hybrid: Path, words: list[str], says: str) -> None:
    for who in (["--user", "7"], ["--all"]):
        assert refused("recommend", hybrid, *who, *words).startswith(says)
    if words[0] == "--where":
        assert refused("similar", hybrid, "--item", 7, *words).startswith(says)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--diversity", "2"], "argument --diversity: must be a number from 0 to 1, got '2';"),
        (["--new-items", "nan"], "argument --new-items: must be a number from 0 to 1, got 'nan';"),
        (["--min-ratings", "-1"], "argument --min-ratings: must be a whole number of at least 0, got '-1';"),
        (["--rank-by", "chance"], "argument --rank-by: invalid choice: 'chance'"),
    ],
)
def test_refused_at_once(refused: Callable[..., str], hybrid: Path, words: list[str], says: str) -> None:
    assert refused("recommend", hybrid, "--user", 7, *words, code=2).startswith(says)


def test_a_model_without_features_has_no_columns(refused: Callable[..., str], model: Path) -> None:
    message = refused("recommend", model, "--user", 7, "--where", "genres:War")
    assert message == (
        "the filter: there is no column 'genres', nor any other, for nothing is known of the items but ratings; "
        "train the model with item_features=..., or leave the filter out\n"
    )


def test_similar_items_of_a_kind(run: Run, hybrid: Path, here: Recommender) -> None:
    dramas = listed(run, "similar", hybrid, "--item", 7, "--where", "genres:Drama", "--where", "year:1970..")
    assert dramas == [one.item for one in here.similar(7, where={"genres": "Drama", "year": {"min": 1970}})]
    assert dramas != listed(run, "similar", hybrid, "--item", 7)
    rated = listed(run, "similar", hybrid, "--item", 7, "--min-ratings", 20)
    assert rated == [one.item for one in here.similar(7, min_ratings=20)] != listed(run, "similar", hybrid, "--item", 7)

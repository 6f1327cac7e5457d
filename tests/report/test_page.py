"""The page about a model: whole, inert, the same every time, and right."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cofill.data.datasets.world import make_world
from cofill.data.ratings import Ratings
from cofill.data.splits import random_split
from cofill.errors import DataError
from cofill.evaluation import evaluate, evaluate_ranking
from cofill.models import algorithm
from cofill.models.baselines.item_models import EASE
from cofill.models.bias_models import Means
from cofill.models.cfn.model import CFN
from cofill.report import Subject, report_page, write_report
from tests.report.pages import check, read

QUICK: dict[str, Any] = {"epochs": 3, "hidden": 6, "threads": 1}


@pytest.fixture(scope="module")
def parts() -> tuple[Ratings, Ratings]:
    return random_split(make_world(users=60, items=40, ratings=900, seed=2).ratings, ratio=0.8, seed=0)


@pytest.fixture(scope="module")
def model(parts: tuple[Ratings, Ratings]) -> CFN:
    return CFN(**QUICK).fit(parts[0])


@pytest.fixture(scope="module")
def subject(model: CFN, parts: tuple[Ratings, Ratings]) -> Subject:
    return Subject(model, "films", test=parts[1], test_name="test.csv", version="9.8.7")


def tiny(*lines: tuple[object, object, float], **settings: Any) -> CFN:
    return CFN(**{"epochs": 2, "hidden": 2, "threads": 1, **settings}).fit(Ratings.read(list(lines), scale=(1, 5)))


def test_a_page_with_a_test_part_is_whole(subject: Subject) -> None:
    page = check(report_page(subject))
    assert page.ids == ["predictions", "lists", "examples", "items", "data", "model", "settings"]
    assert "cofill 9.8.7" in page.text
    assert page.tags["svg"] == 12  # the star, predictions 4, lists 1, map 1, data 3, training 2
    assert page.tags["circle"] > 30  # the map


def test_a_learning_rate_that_was_lowered_is_told(subject: Subject, parts: tuple[Ratings, Ratings]) -> None:
    assert "learning rate of the settings" not in check(report_page(subject)).text
    model = CFN(**QUICK, learning_rate=50.0, weight_decay=0.0).fit(parts[0])
    assert "training diverged, or was no better than" in check(report_page(replace(subject, model=model))).text


def test_the_training_of_two_networks(subject: Subject, parts: tuple[Ratings, Ratings]) -> None:
    model = CFN(**QUICK, orientation="both").fit(parts[0])
    page = check(report_page(replace(subject, model=model)))
    phases = [row[0] for row in page.tables["Phases of the training"][1:]]
    assert phases == [
        f"{phase}, rows are {rows}"
        for rows in ("items", "users")
        for phase in ("training for validation", "training on all ratings")
    ]
    assert {"validation, rows are items", "validation, rows are users"} <= set(page.texts)


def test_the_measures_are_those_of_evaluate(subject: Subject, model: CFN, parts: tuple[Ratings, Ratings]) -> None:
    found, ranking = evaluate(model, parts[1], intervals=True), evaluate_ranking(model, parts[1])
    means, ease = evaluate(Means().fit(parts[0]), parts[1]), evaluate_ranking(EASE().fit(parts[0]), parts[1])
    page = check(report_page(subject))
    tables = page.tables
    measures = [f"{found.rmse:.4f}", f"{found.mae:.4f}", f"{found.within_interval:.4f}"]
    assert tables["On test.csv"][1:] == [
        ["this model", *measures, f"{found.ratings:,}", str(found.cold)],
        ["biases", f"{means.rmse:.4f}", f"{means.mae:.4f}", "-", f"{found.ratings:,}", str(found.cold)],
    ]
    assert f"{found.within_interval:.1%} do." in page.text
    sides = (("item", found.clusters, means.clusters), ("user", found.user_clusters, means.user_clusters))
    for side, clusters, others in sides:
        assert [row[2:] for row in tables[f"By number of training ratings of the {side}"][1:]] == [
            [str(c.ratings), *("-" if m is None else f"{m:.4f}" for m in (c.rmse, other.rmse, c.within_interval))]
            for c, other in zip(clusters, others, strict=True)
        ]
    header, *rows = tables[f"Lists of 10 for {ranking.users} users"]
    assert header[1:4] == ["this model", "popularity", "EASE"]
    lists = {row[0]: row[1:4] for row in rows}
    for name, measure in (("NDCG", "ndcg"), ("recall", "recall"), ("coverage", "coverage")):
        assert lists[name] == [f"{getattr(one, measure):.4f}" for one in (ranking, ranking.popularity, ease)]
    assert f"biases {means.rmse:.4f}" in page.text
    assert f"popularity {ranking.popularity.ndcg:.4f} · EASE {ease.ndcg:.4f}" in page.text


def test_the_errors_are_those_of_the_predictions(subject: Subject, model: CFN, parts: tuple[Ratings, Ratings]) -> None:
    test = parts[1]
    predicted = model.predict(test).astype(np.float64)
    rows = check(report_page(subject)).tables["By the rating that was given"][1:]
    assert [row[0] for row in rows] == [f"{value:g}" for value in np.unique(test.values)]
    assert sum(int(row[1].replace(",", "")) for row in rows) == len(test)
    means = Means().fit(parts[0]).predict(test).astype(np.float64)
    for name, _, *measures in rows:
        inside = test.values == np.float32(name)
        expected = []
        for said in (predicted[inside], means[inside]):
            expected += [said.mean(), np.sqrt(((said - test.values[inside]) ** 2).mean())]
        assert measures == [f"{measure:.4f}" for measure in expected]


def test_the_examples_are_what_the_model_recommends(model: CFN, parts: tuple[Ratings, Ratings]) -> None:
    train, test = parts
    user = int(train.users.id(int(train.user_index[0])))
    page = check(report_page(Subject(model, "films", test=test, users=(user,))))
    rows = page.tables[f"Recommended to user {user}"][1:]
    recommended = model.recommend(user)
    assert [(row[1], row[2]) for row in rows] == [(r.title, f"{r.rating:.2f}") for r in recommended]
    frame = test.to_polars()
    given = {i: r for u, i, r, *_ in frame.iter_rows() if u == user}
    assert [row[3] for row in rows] == [f"{given[r.item]:g}" if r.item in given else "-" for r in recommended]
    liked = [float(row[1]) for row in page.tables[f"Rated highest by user {user}"][1:]]
    assert liked == sorted(train.values[train.user_index == train.users.index(user)].tolist(), reverse=True)[:6]


def test_without_a_test_part_the_page_says_how_to_measure(model: CFN) -> None:
    page = check(report_page(Subject(model, "films")))
    assert "lists" not in page.ids
    assert "Nothing was measured" in page.text
    assert "cofill report MODEL --test RATINGS" in page.text
    assert f"{model.measures['validation_rmse']:.4f}" in page.text


def test_the_same_model_gives_the_same_bytes(subject: Subject, parts: tuple[Ratings, Ratings], tmp_path: Path) -> None:
    subject.model.save(tmp_path / "model")
    again = replace(subject, model=CFN.load(tmp_path / "model"))
    first, second = tmp_path / "a" / "one.html", tmp_path / "two.htm"
    assert write_report(subject, first) == len(first.read_bytes())
    write_report(again, second)
    assert first.read_bytes() == second.read_bytes()
    assert [path.name for path in first.parent.iterdir()] == ["one.html"]


HOSTILE = "<script>alert(1)</script>"


def test_titles_and_ids_are_inert() -> None:
    names = [
        HOSTILE,
        "\"' onload=alert(1) x='",
        "</title></svg><img src=//evil.example/x>",
        "a\x01b\x1b[2J\u202ec",  # an id with NUL is refused when it is read
        "&lt;b&gt;",
    ]
    lines = [(f"{name}{turn}", f"{turn}{other}", 1.0 + (turn + at) % 5)
             for turn in range(3) for at, name in enumerate(names) for other in names]  # fmt: skip
    ratings = Ratings.read(lines, scale=(1, 5))
    ratings = replace(ratings, titles={item: f"{HOSTILE}\x00 {item}" for item in list(ratings.items)[::2]})
    model = CFN(**QUICK).fit(ratings)
    subject = Subject(model, HOSTILE, test=ratings, test_name=HOSTILE, version=HOSTILE, users=tuple(model.users))
    html = report_page(subject)
    page = check(html)
    assert "<script" not in html
    assert HOSTILE in page.text  # shown as it is
    assert "&lt;b&gt;" in page.text
    assert not {"\x00", "\x01", "\x1b", "\u202e"} & set(html)


def test_a_model_without_titles_is_shown_by_its_ids() -> None:
    model = tiny(*((u, 100 + i, 1 + (u * i) % 5) for u in range(6) for i in range(8) if (u + i) % 4))
    page = check(report_page(Subject(model, "numbers")))
    assert re.search(r"\b10[0-7] · \d+ ratings, mean", page.text)


@pytest.mark.parametrize(
    "lines",
    [
        [("a", "x", 3)],
        [("a", "x", 3), ("b", "x", 5)],
        [("a", "x", 3), ("a", "y", 5)],
        [("a", "x", 4), ("a", "y", 4), ("a", "z", 4), ("b", "z", 4)],
    ],
    ids=["one rating", "one item", "one user", "all alike"],
)
@pytest.mark.parametrize("orientation", ["user", "item"])
def test_the_smallest_models(lines: list[tuple[object, object, float]], orientation: str) -> None:
    model = tiny(*lines, orientation=orientation)
    test = Ratings.read([("a", "x", 2), ("stranger", "strange", 5)])
    page = check(report_page(Subject(model, "small", test=test)))
    assert page.tables["On the test part"][1][4:] == ["2", "1"]
    check(report_page(Subject(model, "small")))


def test_ratings_that_the_model_knows_are_warned_of(model: CFN, parts: tuple[Ratings, Ratings]) -> None:
    page = check(report_page(Subject(model, "films", test=parts[0])))
    assert f"The model was trained on {len(parts[0]):,} of these {len(parts[0]):,} ratings" in page.text
    assert "Lists of recommendations were not measured: the model was trained on all of these" in page.text


def test_ratings_on_another_scale_are_warned_of(model: CFN, parts: tuple[Ratings, Ratings]) -> None:
    test = Ratings.read([(u, i, 87.5) for u, i, *_ in parts[1].to_polars().iter_rows()][:9], scale=(0, 100))
    assert "9 of these 9 ratings are outside the scale" in check(report_page(Subject(model, "films", test=test))).text


def test_many_different_ratings_are_grouped() -> None:
    rng = np.random.default_rng(0)
    lines = [(u, i, float(v)) for (u, i), v in zip(np.ndindex(12, 12), rng.uniform(0, 100, 144), strict=True)]
    ratings = Ratings.read(lines, scale=(0, 100))
    train, test = random_split(ratings, ratio=0.7, seed=0)
    page = check(report_page(Subject(CFN(**QUICK).fit(train), "percent", test=test)))
    names = [row[0] for row in page.tables["By the rating that was given"][1:]]
    assert names[0] == "0 to 10"
    assert len(names) <= 12


def test_ratings_that_came_later_count(parts: tuple[Ratings, Ratings]) -> None:
    model = CFN(**QUICK).fit(parts[0])
    before = Subject(model, "films").known
    user, item, given = model.users.id(0), model.items.id(0), 5.0
    was_known = item in {model.items.id(int(i)) for i in model.known_items(0)}
    model.add_ratings([(user, item, given), (999, model.items.id(1), 1.0)])
    after = Subject(model, "films").known
    assert len(after) == len(before) + 2 - was_known
    assert np.array_equal(np.bincount(after.item_index, minlength=len(model.items)), model.item_counts())
    assert np.array_equal(np.bincount(after.user_index, minlength=len(model.users)), model.user_counts())
    assert "ratings added after the training" in check(report_page(Subject(model, "films"))).text


@pytest.mark.parametrize("orientation", ["item", "user"])
def test_ratings_that_were_removed_do_not_count(parts: tuple[Ratings, Ratings], orientation: str) -> None:
    train = parts[0]
    model = CFN(orientation=orientation, epochs=1, hidden=4, threads=1, validation=0).fit(train)
    item = model.items.id(int(train.item_index[0]))
    before = Subject(model, "films").known.item_index
    model.remove_ratings([(model.users.id(int(train.user_index[0])), item)])
    after = Subject(model, "films").known.item_index
    assert len(after) == len(before) - 1
    assert (after == model.items.index(item)).sum() == (before == model.items.index(item)).sum() - 1


def test_settings_that_differ_come_first_and_can_be_given_again(subject: Subject) -> None:
    page = check(report_page(subject))
    rows = {row[0]: row[1:3] for row in page.tables["Settings that differ from their defaults"][1:]}
    assert rows == {"epochs": ["3", "by the data"], "hidden": ["6", "250"], "threads": ["1", "0"]}
    assert "--set hidden=6 \\ --set epochs=3 \\ --set threads=1" in page.text
    assert "orientation" in {row[0] for row in page.tables["Settings at their defaults"]}


def test_settings_are_told_with_every_digit(parts: tuple[Ratings, Ratings]) -> None:
    chosen: dict[str, Any] = {"learning_rate": 0.10512345678, "weight_decay": 1e-7}
    page = check(report_page(Subject(CFN(**QUICK, **chosen).fit(parts[0]), "films")))
    assert "--set learning_rate=0.10512345678 \\ --set weight_decay=1e-07" in page.text


def test_only_ratings_that_are_new_to_the_model_give_a_test_rmse(subject: Subject) -> None:
    assert "test RMSE" in check(report_page(subject)).text
    other = CFN(**QUICK).fit(subject.tested.select(np.arange(20)))
    assert "RMSE, partly on training ratings" in check(report_page(replace(subject, model=other))).text


def test_defaults_follow_the_orientation() -> None:
    model = tiny(("a", "x", 3), ("b", "y", 5), orientation="user")
    rows = check(report_page(Subject(model, "small"))).tables["Settings that differ from their defaults"]
    assert [row[0] for row in rows[1:]] == ["orientation", "hidden", "epochs", "threads"]


def test_side_information_has_a_part_of_its_own() -> None:
    ratings = [(u, i, 1.0 + (u * i) % 5) for u in range(12) for i in range(15) if (u + i) % 3]
    about = [{"item": i, "genre": ("war", "love")[i % 2], "year": 1950 + i} for i in range(17)]
    model = CFN(**QUICK).fit(Ratings.read(ratings, scale=(1, 5)), item_features=pl.DataFrame(about))
    page = check(report_page(Subject(model, "described")))
    assert [row[1:3] for row in page.tables["What describes the items: 3 feature columns"][1:]] == [
        ["genre", "category"],
        ["year", "date"],
    ]
    assert "15 items have ratings and features, 0 have ratings alone, 2 have features alone." in page.text
    assert "--item-features items.csv" in page.text


@pytest.mark.parametrize("kind", ["popularity", "als-wr"])
def test_a_baseline_has_a_page_too(kind: str, parts: tuple[Ratings, Ratings]) -> None:
    baseline = algorithm(kind)(seed=4).fit(parts[0])
    page = check(report_page(Subject(baseline, "baseline", test=parts[1], test_name="test.csv")))
    assert page.tables["On test.csv"][1][1] == f"{evaluate(baseline, parts[1]).rmse:.4f}"
    assert f"--algorithm {kind}" in page.text
    assert "--set seed=4" in page.text
    assert "a row of the network is" not in page.text
    assert ("knows nothing that makes one item like another" in page.text) == (kind == "popularity")


def test_an_empty_test_part_is_refused(model: CFN, parts: tuple[Ratings, Ratings]) -> None:
    nothing = parts[1].select(np.zeros(len(parts[1]), np.bool_))
    with pytest.raises(DataError, match=r"^none.csv: there are no ratings to measure on; give at least one$"):
        Subject(model, "films", test=nothing, test_name="none.csv")


def test_a_page_that_is_not_well_formed_would_be_found() -> None:
    for broken in ("<p><b></p></b>", "<p>", "</p>", '<p id="a" id="b"></p>', "<table></table>"):
        with pytest.raises(AssertionError):
            read(f"<!doctype html>\n<html>{broken}</html>")
    for outside in ('<a href="//evil.example">x</a>', '<p onclick="x()">x</p>', "<script></script>"):
        with pytest.raises(AssertionError):
            check(f"<!doctype html>\n<html><nav></nav><h1></h1><main>{outside}</main></html>")

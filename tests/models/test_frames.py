"""Lists of many people at once, and everything that can be had as a frame of polars or pandas."""

import copy
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill import (
    CrossValidation,
    Features,
    Interactions,
    RankedList,
    Ratings,
    Recommender,
    cross_validate,
    evaluate,
    evaluate_ranking,
)
from cofill.errors import DataError, DataWarning, SettingsError, UnknownIdError
from cofill.models import results
from cofill.models.bias_models import ListModel, Means
from cofill.progress import Step
from tests.models.contract import cells, small_cells

COLUMNS = ["user", "rank", "item", "score", "rating", "raters", "title"]


@pytest.fixture(scope="module")
def model() -> Recommender:
    made = ListModel().fit(cells(small_cells()))
    made.titles[3] = "=Three"
    return made


@pytest.fixture(scope="module")
def clicks() -> Recommender:
    return ListModel().fit(Interactions.read([(f"u{user}", f"i{item}") for user, item, _ in small_cells()]))


def test_many_lists_are_those_of_each(model: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_SCORES_AT_ONCE", 3 * len(model.items))  # batches of three
    steps: list[Step] = []
    asked = [5, 1, 9, 1, 12]
    lists = model.recommend_many(asked, n=3, exclude_known=False, min_ratings=2, progress=steps.append)
    assert len(lists) == 5
    assert repr(lists) == "UserLists(5 users)"
    each = [model.recommend(user, 3, exclude_known=False, min_ratings=2) for user in asked]
    found = list(lists)
    assert [user for user, _ in found] == asked
    assert [[entry.item for entry in entries] for _, entries in found] == [[one.item for one in own] for own in each]
    assert [step.share for step in steps] == [0.6, 1.0]
    frame = lists.to_polars()
    assert frame.columns == COLUMNS
    assert frame["user"].to_list() == [user for user, entries in found for _ in entries]
    assert frame["rank"].to_list() == [rank for _, entries in found for rank, _ in enumerate(entries, 1)]
    as_rows = [tuple(entry) for _, entries in found for entry in entries]
    assert frame.select("item", "score", "rating", "raters", "title").rows() == as_rows
    assert [part.height for part in lists.frames()] == [9, 6]
    assert found[0][1].to_polars().equals(frame.head(3).drop("user"))
    in_pandas = lists.to_pandas()
    assert list(in_pandas.columns) == COLUMNS
    assert in_pandas["item"].tolist() == frame["item"].to_list()


def test_everybody_and_nobody(model: Recommender, clicks: Recommender) -> None:
    assert [user for user, _ in model.recommend_many(n=1)] == model.users.ids
    nobody = model.recommend_many([])
    assert nobody.to_polars().schema == model.recommend_many([1]).to_polars().schema
    assert (len(nobody), list(nobody)) == (0, [])
    frame = clicks.recommend_many(n=2).to_polars()
    assert frame.columns == [name for name in COLUMNS if name != "rating"]
    assert frame.schema["user"] == frame.schema["item"] == pl.String
    assert clicks.recommend("u1").to_polars().columns == ["rank", "item", "score", "raters", "title"]


@pytest.mark.parametrize("made", [np.array, pl.Series, tuple, iter, lambda ids: [str(each) for each in ids]])
def test_users_are_given_in_any_way(model: Recommender, made: Callable[[list[int]], Any]) -> None:
    assert model.recommend_many(made([3, 1]), n=1).to_polars()["user"].to_list() == [3, 1]


def test_unknown_users_are_told(model: Recommender) -> None:
    with pytest.raises(UnknownIdError, match=r"^2 users, such as 99, are not in the model; check the ids, or pass unk"):
        model.recommend_many([1, 99, 100])
    with pytest.warns(DataWarning, match=r"user 99 is not in the model; they get what a stranger is recommended"):
        lists = model.recommend_many([1, 99], n=4, unknown_users="popular")
    assert [user for user, _ in lists] == [1, 99]
    assert lists.to_polars().filter(pl.col("user") == 99)["item"].to_list() == [
        one.item for one in model.recommend(99, 4)
    ]
    with pytest.warns(DataWarning, match="user 'ann' is not in the model"):
        mixed = model.recommend_many([1, "ann"], n=1, unknown_users="popular").to_polars()
    assert mixed["user"].to_list() == ["1", "ann"]
    with pytest.warns(DataWarning, match="2 users, such as 99, are not in the model; they get no list"):
        assert [user for user, _ in model.recommend_many([99, 1, 100], unknown_users="skip")] == [1]
    with pytest.raises(DataError, match=r"unknown_users must be one of refuse, popular, skip\. Got 'raise'"):
        model.recommend_many([1], unknown_users="raise")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="recommend is about one person, and this may be several; ask recommend_many"):
        model.recommend([1, 2])  # type: ignore[arg-type]
    for one in ("ann", 1, {1: 2.0}):
        with pytest.raises(DataError, match="give a list of ids, or ask recommend about one person"):
            model.recommend_many(one)  # type: ignore[arg-type]


def test_lists_that_were_asked_for_before_items_came_say_so() -> None:
    model = ListModel().fit(cells(small_cells()))
    lists = model.recommend_many(n=1)
    model.add_items([77])
    with pytest.raises(DataError, match="more items than when these lists were asked for; ask for them again"):
        lists.to_polars()


def test_single_results_stay_lists(model: Recommender) -> None:
    found = model.recommend(1, 3)
    assert isinstance(found, list)
    assert found == list(found)
    assert found.to_polars().columns == [name for name in COLUMNS if name != "user"]
    again = copy.deepcopy(found)
    assert isinstance(again, RankedList)
    assert again.to_polars().equals(found.to_polars())
    assert model.similar(1, 2).to_polars().columns == ["rank", "item", "similarity", "title"]
    none = model.recommend(1, among=[])
    assert none.to_polars().schema == found.to_polars().schema
    assert none.to_pandas().empty


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from([1.0, 2.5, 5.0])), min_size=1))
def test_ratings_come_back_from_their_frames(triples: list[tuple[int, int, float]]) -> None:
    latest = {triple[:2]: triple for triple in triples}
    ratings = Ratings.read(list(latest.values()), scale=(1, 5))
    for frame in (ratings.to_polars(), ratings.to_pandas()):
        assert Ratings.read(frame, scale=(1, 5)).to_polars().equals(ratings.to_polars())


def test_interactions_and_features() -> None:
    clicks = Interactions.read([("a", "x"), ("a", "x"), ("b", "y")])
    assert clicks.to_polars().rows() == [("a", "x", 2.0), ("b", "y", 1.0)]
    assert clicks.to_pandas()["weight"].tolist() == [2.0, 1.0]
    films = Features.read(pl.DataFrame({"item": [1, 2, 3], "genre": ["a", "b", "a"], "year": [1990, 1995, 2000]}))
    frame = films.to_polars()
    assert frame.columns == ["id", *films.names]
    assert np.array_equal(frame.drop("id").to_numpy(), films.values)
    assert films.to_pandas()["id"].tolist() == [1, 2, 3]


def test_measures(model: Recommender) -> None:
    ratings = cells(small_cells())
    found = evaluate(model, ratings)
    frame = found.to_polars()
    assert frame.row(0, named=True)["rmse"] == found.rmse
    assert frame["of"].to_list() == ["all", *["items"] * len(found.clusters), *["users"] * len(found.user_clusters)]
    assert "within_interval" not in frame.columns
    lists = evaluate_ranking(Means().fit(ratings), cells([(20, 1, 5.0), (20, 2, 5.0)]), n=3, cutoffs=(5,))
    table = lists.to_polars()
    assert table.select("lists", "n").rows() == [("model", 3), ("model", 5), ("popularity", 3), ("popularity", 5)]
    assert table["ndcg"][0] == lists.ndcg
    folds: CrossValidation = cross_validate(lambda seed: Means(seed=seed), ratings, folds=2)
    assert folds.to_polars()["rmse"].mean() == pytest.approx(folds.interval("rmse").mean)
    assert folds.to_pandas()["fold"].tolist() == [1, 2]


def test_without_pandas_the_command_is_said(model: Recommender, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("cofill.extras.find_spec", lambda name: None if name == "pandas" else find(name))
    with pytest.raises(SettingsError, match=r"a pandas frame needs pandas, which is not installed\. Run: pip install"):
        model.recommend(1).to_pandas()
    assert len(model.recommend(1).to_polars())


def test_predict_says_what_is_wrong_and_takes_ids_of_both_types(model: Recommender) -> None:
    with pytest.raises(DataError, match=r"found 'who', 'what'; name it 'user'"):
        model.predict(pl.DataFrame({"who": [1], "what": [2]}))
    with pytest.raises(DataError, match=r"found a single pair, \(1, 2\)"):
        model.predict((1, 2))
    with pytest.raises(DataError, match="without ratings"):
        model.remove_ratings([(1, 2, 3.0)])
    assert np.array_equal(model.predict([(1, 2), ("1", 2), ("ann", "2")])[:2], model.predict([(1, 2), (1, 2)]))
    grown = ListModel().fit(cells(small_cells())).add_ratings([("ann", 1, 5.0)])
    assert np.array_equal(grown.predict([("ann", 2), (1, 2)]), [*grown.predict([("ann", 2)]), *grown.predict([(1, 2)])])


def test_lists_of_a_frame() -> None:
    """Its column names are not taken for ids."""
    model = Means().fit(cells(small_cells()))
    people: Any = pl.DataFrame({"user": [9]})
    with pytest.raises(DataError, match=r"users is a frame; .*frame\['user'\]"):
        model.recommend_many(people)

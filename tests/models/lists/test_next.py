"""Lists of what comes next: S against written-out rows, what is chosen, and the laws that all lists keep."""

import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cofill import CFN, Interactions, Ratings, Recommender, evaluate_ranking
from cofill.data.sparse import SparseRows
from cofill.data.splits import leave_last_out_split, random_split
from cofill.errors import DataError
from cofill.evaluation import evaluate_next
from cofill.models.bias_models import ListModel
from cofill.models.lists import next as next_items
from cofill.models.lists.next import HALF_LIVES, NextScorer, OrderWeights, Trend

DAY = 86_400
START = 12_000 * DAY


def walks(users: int = 150, items: int = 30, steps: int = 8, seed: int = 0, *, rated: bool = False) -> Ratings:
    """Users who mostly go from an item to the next, at different times; some of it at the same second."""
    rng = np.random.default_rng(seed)
    rows: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    for user in range(users):
        item, time = int(rng.integers(items)), START + int(rng.integers(300)) * DAY
        for _ in range(steps):
            rows.setdefault((user, item % items), (user, item % items, int(rng.integers(1, 6)), time))
            item += 1 if rng.random() < 0.8 else int(rng.integers(items))
            time += int(rng.integers(3)) * DAY
    return (
        Ratings.read(list(rows.values()))
        if rated
        else Interactions.read([(u, i, 1, t) for u, i, _, t in rows.values()])
    )


def shuffled(data: Ratings) -> Ratings:
    rng = np.random.default_rng(5)
    return replace(data, times=START + rng.permutation(len(data)) * 977, order=None)


def positions(data: Ratings) -> Ratings:
    return replace(data, times=None).in_order()


@pytest.fixture(scope="module")
def model() -> ListModel:
    fitted = ListModel().fit(leave_last_out_split(walks()).train)
    assert fitted.follows_order
    return fitted


# The formulas


@pytest.mark.parametrize("frequent", [10, 4])
@pytest.mark.parametrize("dense", [True, False])
def test_order_weights_are_those_of_written_out_rows(
    dense: bool, frequent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the most frequent items G is its diagonal."""
    monkeypatch.setattr(next_items, "_PENALTY", 0.5)  # so that G counts
    monkeypatch.setattr(next_items, "_LEAST", 0.0)
    if not dense:
        monkeypatch.setattr(next_items, "_DENSE", 3)
        monkeypatch.setattr(next_items, "_MOST_FREQUENT", frequent)
        monkeypatch.setattr(next_items, "_TERMS", 1)  # one user at a time
    rng = np.random.default_rng(0)
    sequences = [rng.permutation(9)[: rng.integers(1, 8)] for _ in range(20)]
    grades = [rng.random(len(own)).astype(np.float32) for own in sequences]
    fades = [rng.random(len(own)) for own in sequences]
    gram, followed = 0.5 * np.eye(10), np.zeros((10, 10))
    for own, grade, fade in zip(sequences, grades, fades, strict=True):
        for last in range(len(own) - 1):
            z = np.zeros(10)
            z[own[: last + 1]] = fade[last] * np.exp(-np.arange(last, -1, -1) / 5)
            gram += np.outer(z, z)
            followed[:, own[last + 1]] += grade[last + 1] * z
    ends = np.cumsum([0, *map(len, sequences)])
    done = SparseRows(ends, np.concatenate(sequences).astype(np.int32), np.concatenate(grades), 10)
    if not dense:
        rare = np.argsort(-np.bincount(done.indices, minlength=10), kind="stable")[frequent:]
        diagonal = gram.diagonal().copy()
        gram[rare], gram[:, rare] = 0, 0
        np.fill_diagonal(gram, diagonal)
    found = OrderWeights.fit(done, np.concatenate(fades))
    exact = np.linalg.solve(gram, followed)
    kept = found.weights.toarray()
    np.testing.assert_allclose(kept, exact, atol=1e-8 + 2e-6 * np.abs(exact).max())
    every = np.arange(10, dtype=np.int32)
    np.testing.assert_allclose(found.pairs(every, every), kept.T, rtol=1e-6)
    later = SparseRows(np.array([0, 2]), np.array([3, 11], np.int32), np.ones(2, np.float32), 12)
    np.testing.assert_allclose(found.scores(later), [[*kept[3], 0, 0]], rtol=1e-6)


def test_the_trend_is_what_counting_finds() -> None:
    rng = np.random.default_rng(1)
    times = START + rng.integers(0, 40 * DAY, 300).astype(np.float64)
    items = rng.integers(0, 7, 300).astype(np.int32)
    trend, asked = Trend.of(times, items, 7), START + np.array([3.0, 20.0, 39.0, 500.0]) * DAY
    shares, place = trend.at(asked)
    for number, moment in enumerate(asked.tolist()):
        bins = np.floor((times - times.min()) / (DAY / 2))
        now = min(np.floor((moment - times.min()) / (DAY / 2)), bins.max() + 1)
        for half_life, found in zip(HALF_LIVES, shares[place[number]], strict=True):
            before = bins < now
            sums = np.bincount(items[before], 0.5 ** ((now - bins[before]) / 2 / half_life), minlength=7)
            np.testing.assert_allclose(found, sums / max(sums.sum(), 1e-30), atol=1e-6)
    again, _ = trend.at(np.array([START + 900.0 * DAY]))
    np.testing.assert_allclose(again[0], shares[place[3]], atol=1e-6)


# What is chosen


def test_order_is_followed_where_it_tells_something(model: ListModel) -> None:
    train, test = leave_last_out_split(walks())
    without = ListModel(list_goal="any").fit(train)
    assert evaluate_next(model, test).ndcg > 1.2 * evaluate_next(without, test).ndcg
    assert evaluate_ranking(model, test).ndcg == evaluate_next(model, test, n=10).ndcg
    assert "order" in model.data_summary["lists"]
    assert "held out" in model.data_summary["lists"]


def test_positions_do_without_dates() -> None:
    train, test = leave_last_out_split(positions(walks()))
    found = ListModel().fit(train)
    assert isinstance(found.scorer, NextScorer)
    assert found.scorer.choice.parts == "order"
    assert evaluate_next(found, test).ndcg > evaluate_next(ListModel(list_goal="any").fit(train), test).ndcg


def test_without_order_lists_are_those_of_always() -> None:
    data = walks()
    always = ListModel(list_goal="any").fit(data)
    users = np.arange(len(data.users))
    for other in (replace(data, times=None, order=None), shuffled(data)):
        found = ListModel().fit(other)
        assert not found.follows_order
        assert np.array_equal(found.user_scores(users), always.user_scores(users))
    with pytest.raises(DataError, match="there are no times"):
        ListModel(list_goal="next").fit(replace(data, times=None))


def test_a_random_split_asks_for_lists_without_order() -> None:
    train, test = random_split(walks(), ratio=0.8)
    found, always = ListModel(list_goal="next").fit(train), ListModel(list_goal="any").fit(train)
    assert found.follows_order
    assert evaluate_ranking(found, test).ndcg == evaluate_ranking(always, test).ndcg


# Laws of lists


def test_one_list_is_that_of_many_and_of_a_new_user_who_did_the_same(model: ListModel) -> None:
    users = np.arange(20)
    together = model.user_scores(users)
    lists = dict(iter(model.recommend_many([model.users.id(user) for user in users.tolist()], 5)))
    for user in users.tolist():
        name = model.users.id(user)
        np.testing.assert_allclose(model.score(name), together[user], rtol=1e-4, atol=1e-6)
        assert [entry.item for entry in model.recommend(name, 5)] == [entry.item for entry in lists[name]]
        items, ratings, times = model.sequence(user)
        ids = [model.items.id(item) for item in items.tolist()]
        told = dict(zip(ids, ratings.tolist(), strict=True))
        when = dict(zip(ids, times.tolist(), strict=True))
        np.testing.assert_allclose(model.score(told, times=when), together[user], rtol=1e-4, atol=1e-6)
        just_now = model.score(told)  # in a session, unless the last thing was done at the end
        assert just_now.shape == together[user].shape


def test_the_last_thing_counts_most(model: ListModel) -> None:
    forwards, backwards = model.score({3: 1, 12: 1}), model.score({12: 1, 3: 1})
    at = model.items.find([4, 13])
    assert forwards[at[1]] > backwards[at[1]]
    assert backwards[at[0]] > forwards[at[0]]


@pytest.mark.parametrize("rated", [False, True])
def test_explanations_add_up_in_three_groups(rated: bool) -> None:
    found = ListModel(list_goal="next").fit(walks(rated=rated))
    found.add_interactions([(0, "new", 1, START + 400 * DAY), (1, "new", 1, START + 400 * DAY)])
    for user in (0, 5, "nobody", {3: 1, 12: 1}):
        for why in found.explain_many(user, [4, 20, "new"]):
            assert why.groups is not None
            assert set(why.groups) == {"trend", "history", "order"}
            near = pytest.approx(why.value, rel=1e-4, abs=1e-6)
            assert sum(why.groups.values()) == near
            assert why.base + sum(one.amount for one in why.contributions) == near
            assert abs(why.remainder) < 1e-5


def test_it_is_saved_and_cut(model: ListModel, tmp_path: Path) -> None:
    model.save(tmp_path / "whole")
    again = Recommender.load(tmp_path / "whole")
    users = np.arange(len(model.users))
    assert np.array_equal(again.user_scores(users), model.user_scores(users))
    assert isinstance(again.scorer, NextScorer)
    assert isinstance(model.scorer, NextScorer)
    assert again.scorer.choice == model.scorer.choice


def test_events_move_the_next_list() -> None:
    found = ListModel().fit(walks())
    user = found.users.id(0)
    before = found.score(user)
    last = found.items.id(int(np.argmax(before)))
    fresh = next(item for item in range(30) if item not in {found.items.id(i) for i in found.known_items(0).tolist()})
    found.add_interactions([(user, fresh, 1, START + 500 * DAY)])
    following = found.items.index((fresh + 1) % 30)
    assert found.score(user)[following] > before[following]
    found.remove_ratings([(user, fresh)])
    assert found.recommend(user, 1, exclude_known=False)
    assert last in found.items


def test_the_trend_follows_events_at_once_and_in_any_order(tmp_path: Path) -> None:
    """Also by an item that is new; what is forgotten leaves no trace."""
    found = ListModel(list_goal="next").fit(walks())
    scorer = found.scorer
    assert isinstance(scorer, NextScorer)
    events = [(f"new {n}", item, 1, START + (400 + n) * DAY) for n, item in enumerate([7, 7, 99, 7])]
    other = deepcopy(found).add_interactions(events[2:]).add_interactions(events[:2])
    now = np.array([START + 404.0 * DAY])
    before = scorer.trend.at(now)[0][0]
    found.add_interactions(events)
    shares, item = scorer.trend.at(now)[0][0], found.items.index(7)
    assert (shares[:, item] > before[:, item]).all()
    assert (shares[:, found.items.index(99)] > 0).all()
    assert shares[0, item] > shares[-1, item]  # the shortest half-life has forgotten most of the others
    times, items, _ = zip(*[(t, found.items.index(i), 0) for _, i, _, t in events], strict=True)
    width, first = scorer.trend.width, scorer.trend.first
    bins = np.append(scorer.trend.bins, np.floor((np.array(times) - first) / width))
    weights = np.append(scorer.trend.counts, np.ones(4))
    for half_life, own in zip(HALF_LIVES, shares, strict=True):
        sums = np.bincount(
            np.append(scorer.trend.items, items), weights * 0.5 ** ((bins.max() - bins) * width / DAY / half_life)
        )
        np.testing.assert_allclose(own, sums / sums.sum(), atol=1e-6)
    order = other.items.find(found.items.array())
    assert isinstance(other.scorer, NextScorer)
    np.testing.assert_allclose(other.scorer.trend.at(now)[0][0][:, order], shares, atol=1e-7)
    np.testing.assert_allclose(other.score(0)[order], found.score(0), rtol=1e-5, atol=1e-7)
    found.save(tmp_path)
    np.testing.assert_array_equal(Recommender.load(tmp_path).score(0), found.score(0))
    found.forget_users([user for user, *_ in events])
    np.testing.assert_array_equal(scorer.trend.at(now)[0][0], before)


def test_a_day_as_a_number_is_no_later_time(model: ListModel) -> None:
    users = len(model.users)
    for told in ([(9000, 1, 1.0, 20200105)], [(9000, 1, 1.0, START), (9000, 2, 1.0, 20200105)]):
        with pytest.raises(DataError, match=r"the time 20200105 is of August 1970 .* write days as 2020-01-05"):
            model.add_interactions(told)
    assert len(model.users) == users


def test_a_date_that_has_not_come_yet_is_now() -> None:
    """In training and after it: of the short half-lives one alone would be the whole."""
    data = Interactions.read([(0, 1, 1, 5e9), (0, 2, 1, 4e9), *walks().to_polars().iter_rows()])
    found = ListModel(list_goal="next").fit(data).add_interactions([(1, 1, 1, 6e9)])
    sequences = found.scorer.feedback.sequences
    assert sequences is not None
    assert sequences.end <= time.time()
    assert [found.items.id(item) for item in found.sequence(found.users.index(0))[0][-2:].tolist()] == [2, 1]


def test_data_whose_dates_are_shifted_has_its_own_present(tmp_path: Path) -> None:
    shift, data = 5_000_000_000, walks()
    assert data.times is not None
    plain = ListModel(list_goal="next").fit(data)
    found = ListModel(list_goal="next").fit(replace(data, times=data.times.astype(np.int64) + shift))
    users = np.arange(len(found.users))
    np.testing.assert_allclose(found.user_scores(users), plain.user_scores(users), rtol=1e-4, atol=1e-6)
    sequences = found.scorer.feedback.sequences
    assert sequences is not None
    end = sequences.end
    assert end == float(np.max(data.times)) + shift
    found.add_interactions([(0, 1, 1, end - DAY), (1, 1, 1, end + DAY)])
    assert sequences.end == end
    assert sequences.later[found.users.index(0)] == {found.items.index(1): end - DAY}
    found.save(tmp_path)
    np.testing.assert_array_equal(Recommender.load(tmp_path).score(0), found.score(0))


def test_the_order_of_users_and_items_does_not_matter() -> None:
    data = positions(walks())
    renamed = Interactions.read(
        [(997 - 3 * u, 500 - i, 1, t) for u, i, t in data.to_polars().select("user", "item", "time").iter_rows()]
    )
    one = ListModel(list_goal="next").fit(replace(data, order=None))
    other = ListModel(list_goal="next").fit(renamed)
    users = other.users.find([997 - 3 * int(user) for user in one.users.ids])
    items = other.items.find([500 - int(item) for item in one.items.ids])
    assert isinstance(one.scorer, NextScorer)
    assert isinstance(other.scorer, NextScorer)
    assert one.scorer.choice.parts == other.scorer.choice.parts
    expected = one.user_scores(np.arange(len(users)))
    np.testing.assert_allclose(other.user_scores(users.astype(np.int64))[:, items], expected, rtol=1e-3, atol=1e-5)


def test_part_of_a_model_has_the_lists_of_the_whole(tmp_path: Path) -> None:
    whole = CFN(list_goal="next", hidden=4, epochs=2, validation=0.0, threads=1).fit(walks(60, rated=True))
    whole.save(tmp_path, shards=2)
    for number in range(2):
        part = Recommender.load(tmp_path, part=number)
        users = part.users.find(part.users.ids).astype(np.int64)
        expected = whole.user_scores(whole.users.find(part.users.ids).astype(np.int64))
        np.testing.assert_allclose(part.user_scores(users), expected, rtol=1e-5, atol=1e-6)

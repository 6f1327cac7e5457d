"""The list scorer against its definition: ridge regression of every item on all others, with a zero diagonal."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.arrays import Doubles
from cofill.models.lists.item_weights import (
    ExactWeights,
    FitOptions,
    FoldIn,
    LowRankWeights,
    Penalties,
    fit_weights,
    gram_factor,
    gram_times,
    invert,
    keys_by_number,
    user_weights,
)
from tests.models.baselines.sparse_grades import sparse_of


def random_grades(seed: int, users: int = 40, items: int = 12, share: float = 0.4) -> Doubles:
    """(users, items): grades of people with one of two tastes."""
    rng = np.random.default_rng(seed)
    taste = rng.integers(0, 2, users)
    kind = rng.integers(0, 2, items)
    chance = np.where(taste[:, None] == kind, 1.5 * share, 0.5 * share)
    return np.where(rng.random((users, items)) < chance, rng.uniform(0.1, 1.0, (users, items)), 0.0)


def slow_weights(x: Doubles, penalties: Penalties) -> Doubles:
    """B (items + 1, items), scaled: a regression for each item, the constant last."""
    counts = (x > 0).sum(1)
    kept = x[counts > 0]
    counts = counts[counts > 0]
    w = (counts / counts.mean()) ** -penalties.user_power
    design = np.column_stack([kept, np.ones(len(kept))])
    gram = (design * w[:, None]).T @ design
    ratings = (x > 0).sum(0)
    ridge = penalties.penalty * (x**2).sum() / max(1, (ratings > 0).sum())
    penalty = ridge + penalties.share * np.diag(gram)
    found = np.zeros((x.shape[1] + 1, x.shape[1]))
    for item in np.flatnonzero(ratings):
        others = np.arange(x.shape[1] + 1) != item
        left = gram[np.ix_(others, others)] + np.diag(penalty[others])
        found[others, item] = np.linalg.solve(left, gram[others, item]) * ratings[item] ** -penalties.popularity
    return found


def fitted(x: Doubles, penalties: Penalties, *, exact: bool) -> LowRankWeights | ExactWeights:
    found = fit_weights(sparse_of(x), penalties, FitOptions(threads=1), exact=exact)
    assert isinstance(found, LowRankWeights | ExactWeights)
    return found


def weights_of(found: LowRankWeights | ExactWeights) -> Doubles:
    """B as the vectors have it, or as it is."""
    if isinstance(found, ExactWeights):
        return found.weights.astype(np.float64)
    q = found.directions.astype(np.float64)
    whole = q @ q[:-1].T * found.gains
    whole[np.arange(found.items), np.arange(found.items)] = 0.0
    return whole


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    penalty=st.floats(0.3, 10),
    share=st.floats(0, 2),
    user_power=st.floats(0, 1),
    popularity=st.floats(0, 0.5),
)
def test_it_is_ridge_regression_of_each_item_on_all_others(
    seed: int, penalty: float, share: float, user_power: float, popularity: float
) -> None:
    x = random_grades(seed)
    penalties = Penalties(64, penalty, share, user_power, popularity)
    for exact in (False, True):
        found = fitted(x, penalties, exact=exact)
        np.testing.assert_allclose(weights_of(found), slow_weights(x, penalties), rtol=0, atol=2e-3)


@pytest.mark.parametrize(("rank", "form"), [(1, LowRankWeights), (2, ExactWeights)])
def test_a_catalogue_of_up_to_twenty_times_the_rank_is_solved_exactly(rank: int, form: type) -> None:
    grades = np.tile(random_grades(1), 2)  # 24 items
    assert isinstance(fit_weights(sparse_of(grades), Penalties(rank), FitOptions()), form)


def test_what_is_sought_among_frequent_items_tells_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """G - F F' is no less than nothing, and hardly larger than with directions among all items."""
    rng = np.random.default_rng(3)
    x = random_grades(3, users=600, items=300, share=0.2) * (rng.random(300) < np.linspace(1, 0.05, 300))
    gram, keys, rank = x.T @ x, keys_by_number(300), 40

    def left_over(sought_in: int) -> Doubles:
        monkeypatch.setattr("cofill.models.lists.item_weights._SOUGHT_IN", sought_in)
        factor = gram_factor(sparse_of(x), rank, keys, FitOptions()).astype(np.float64)
        assert factor.shape == (300, rank)
        return np.asarray(gram - factor @ factor.T)

    some, every = left_over(120), left_over(300)
    assert np.linalg.eigvalsh(some).min() > -1e-3 * np.linalg.eigvalsh(gram).max()
    assert np.trace(some) < 1.1 * np.trace(every) < 0.9 * np.trace(gram)


@pytest.mark.parametrize("size", [1, 300, 1200])
def test_the_inverse_by_halves(size: int) -> None:
    """Of one panel and of several; the upper half is not looked at."""
    half = np.random.default_rng(size).standard_normal((size, 2 * size))
    matrix = half @ half.T / size + np.eye(size)
    found = np.tril(matrix)
    invert(found)
    np.testing.assert_allclose(found, np.linalg.inv(matrix), rtol=0, atol=1e-9)


def test_low_rank_comes_close_and_closer() -> None:
    x = random_grades(1, users=400, items=80)
    exact = slow_weights(x, Penalties())
    errors = []
    for rank in (2, 10, 40, 81):
        found = fitted(x, Penalties(rank), exact=False)
        assert found.directions.shape[1] == rank
        errors.append(float(np.linalg.norm(weights_of(found) - exact) / np.linalg.norm(exact)))
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < 0.8
    assert errors[-1] < 1e-3


def test_an_item_that_is_folded_in_with_its_own_grades_stays_what_it_is() -> None:
    x = random_grades(2, users=120, items=30)
    rows = sparse_of(x)
    low, exact = (fitted(x, Penalties(64), exact=exact) for exact in (False, True))
    assert isinstance(low, LowRankWeights)
    assert isinstance(exact, ExactWeights)
    for item in range(30):
        users = np.flatnonzero(x[:, item])
        given = item, rows.take(users), x[users, item].astype(np.float32)
        again = low.folded_in(*given)
        np.testing.assert_allclose(again.as_input, low.directions[item], atol=1e-3 * np.abs(low.directions).max())
        target = low.directions[item] * low.gains[item]
        np.testing.assert_allclose(again.as_target, target, atol=2e-3 * np.abs(target).max())
        again = exact.folded_in(*given)
        np.testing.assert_allclose(again.as_input, exact.weights[item], atol=1e-4)
        np.testing.assert_allclose(again.as_target[:-1], exact.weights[:-1, item], atol=1e-4)
        np.testing.assert_allclose(again.as_target[-1], exact.weights[-1, item], atol=1e-4)


@pytest.mark.parametrize("exact", [False, True])
def test_a_new_item_is_scored_as_if_it_had_been_there(exact: bool) -> None:
    """To first order: the others have not heard of it yet."""
    x = random_grades(3, users=600, items=25, share=0.5)
    without = fitted(x[:, :-1], Penalties(64), exact=exact)
    users = np.flatnonzero(x[:, -1])
    mean = (x[:, :-1] > 0).sum(1).mean()
    assert FoldIn(*without.numbers).mean_ratings == pytest.approx(mean, rel=0.05)
    new = without.folded_in(-1, sparse_of(x[:, :-1]).take(users), x[users, -1].astype(np.float32))
    did = np.column_stack([x[:, :-1], np.ones(len(x))])
    codes = did @ without.directions if isinstance(without, LowRankWeights) else did
    expected = did @ np.delete(slow_weights(x, Penalties()), 24, 0)[:, 24]
    assert np.corrcoef(codes @ new.as_target, expected)[0, 1] > 0.995
    assert np.std(codes @ new.as_target) == pytest.approx(np.std(expected), rel=0.1)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), width=st.integers(1, 150), threads=st.integers(1, 3))
def test_gram_times_is_the_product(seed: int, width: int, threads: int) -> None:
    x = random_grades(seed)
    matrix = np.random.default_rng(seed).standard_normal((12, width)).astype(np.float32)
    np.testing.assert_allclose(gram_times(sparse_of(x), matrix, threads), x.T @ (x @ matrix), rtol=1e-3, atol=1e-3)


def test_people_who_did_much_count_less_each() -> None:
    weights = user_weights(np.array([0, 1, 4, 16]), 4.0, 0.5)
    np.testing.assert_allclose(weights, [0, 2, 1, 0.5])

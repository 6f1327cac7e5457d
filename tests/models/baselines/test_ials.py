"""iALS keeps the contract, and its steps, users and items are those of the normal equations."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.arrays import Doubles, Floats
from cofill.data.ratings import Ratings
from cofill.data.sparse import SparseRows
from cofill.errors import SettingsError
from cofill.models.baselines.ials import IALS, GradesAs, IALSFactors, IALSScorer, Objective, fit_factors
from tests.models.baselines.list_baseline_contract import ListBaselineContract
from tests.models.baselines.sparse_grades import dense_of, sparse_of
from tests.models.contract import cells, parts, small_cells

_SMALL: dict[str, Any] = {"rank": 8, "unobserved": 0.1, "penalty": 0.02, "iterations": 6, "threads": 1}


class TestContract(ListBaselineContract):
    baseline = IALS
    small_settings = _SMALL


def solved_densely(grades: Doubles, others: Doubles, objective: Objective) -> Doubles:
    """Each row by the normal equations, over all pairs one by one."""
    rank = others.shape[1]
    found = np.zeros((len(grades), rank))
    for row, own in enumerate(grades):
        count = np.count_nonzero(own)
        if not count:
            continue
        left = objective.penalty * (count + objective.unobserved * len(others)) ** objective.power * np.eye(rank)
        right = np.zeros(rank)
        for grade, other in zip(own, others, strict=True):
            left += objective.unobserved * np.outer(other, other)
            if grade:
                confidence, label = (1.0, grade) if objective.as_labels else (grade, 1.0)
                left += confidence * np.outer(other, other)
                right += confidence * label * other
        found[row] = np.linalg.solve(left, right)
    return found


def value(grades: Doubles, users: Doubles, items: Doubles, objective: Objective) -> float:
    """The objective, word for word."""
    predicted, did = users @ items.T, grades > 0
    confidence, labels = (did * 1.0, grades) if objective.as_labels else (grades, did * 1.0)
    found = (confidence * (labels - predicted) ** 2).sum() + objective.unobserved * (predicted**2).sum()
    for vectors, counts, others in ((users, did.sum(1), len(items)), (items, did.sum(0), len(users))):
        ridges = objective.penalty * (counts + objective.unobserved * others) ** objective.power
        found += (ridges * (vectors**2).sum(1)).sum()
    return float(found)


def random_grades(rng: np.random.Generator, users: int, items: int) -> Doubles:
    chosen = np.where(rng.random((users, items)) < 0.4, rng.uniform(0.1, 1, (users, items)), 0.0)
    return chosen.astype(np.float32).astype(np.float64)


def stepped(rows: SparseRows, others: Floats, objective: Objective, steps: int, start: Floats) -> Floats:
    vectors = start.copy()
    objective.solve_side(rows, others, steps, 1, vectors)
    return vectors


@settings(max_examples=30, deadline=None)
@given(
    rank=st.integers(1, 12),
    unobserved=st.floats(0.01, 1),
    penalty=st.floats(0.01, 1),
    power=st.sampled_from([0.0, 0.5, 1.0]),
    as_labels=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_steps_end_at_the_normal_equations(
    rank: int, unobserved: float, penalty: float, power: float, as_labels: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    objective = Objective(unobserved, penalty, power, as_labels)
    grades, others = random_grades(rng, 7, 10), rng.standard_normal((10, rank)).astype(np.float32)
    start = rng.standard_normal((7, rank)).astype(np.float32)
    found = stepped(sparse_of(grades), others, objective, 300, start)
    expected = solved_densely(grades, others.astype(np.float64), objective)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-3 * max(1.0, float(np.abs(expected).max())))


@pytest.mark.parametrize("steps", [1, 3])
def test_every_side_lowers_the_objective(steps: int) -> None:
    rng = np.random.default_rng(5)
    objective = Objective(0.2, 0.05, 1.0, as_labels=True)
    grades = random_grades(rng, 30, 20)
    by_user = sparse_of(grades)
    users = np.zeros((30, 4), np.float32)
    items = rng.standard_normal((20, 4)).astype(np.float32)
    values = []
    for _ in range(8):
        users = stepped(by_user, items, objective, steps, users)
        items = stepped(by_user.transpose(), users, objective, steps, items)
        values.append(value(grades, users.astype(np.float64), items.astype(np.float64), objective))
    assert all(after < before for before, after in pairwise(values))


def fitted(ratings: Ratings, **changes: Any) -> IALSScorer:
    scorer = IALS(**_SMALL | changes).fit(ratings).scorer
    assert isinstance(scorer, IALSScorer)
    return scorer


@pytest.mark.parametrize("grades_as", ["labels", "confidence"])
def test_whoever_asks_gets_the_closed_form_without_the_item_itself(grades_as: GradesAs) -> None:
    scorer = fitted(parts().train, grades_as=grades_as)
    factors: IALSFactors = scorer.factors
    items = factors.items.astype(np.float64)
    grades = dense_of(scorer.feedback.trained())[:6]
    popular = scorer.one(np.empty(0, np.int32), np.empty(0, np.float32))
    scores = scorer.of_people(scorer.feedback.rows(np.arange(6))) - popular
    expected = solved_densely(grades, items, factors.objective) @ items.T
    np.testing.assert_allclose(scores[grades == 0], expected[grades == 0], rtol=0, atol=1e-4)
    # The ridge of somebody grows with what they did: without the item it is held where it is.
    for user in range(6):
        count = np.count_nonzero(grades[user])
        item = int(np.flatnonzero(grades[user])[0])
        without = grades[user : user + 1].copy()
        without[0, item] = 0.0
        held = (count + factors.objective.unobserved * len(items)) / (
            count - 1 + factors.objective.unobserved * len(items)
        )
        objective = factors.objective._replace(penalty=factors.objective.penalty * held)
        alone = (solved_densely(without, items, objective) @ items.T)[0, item]
        assert scores[user, item] == pytest.approx(alone, abs=1e-4)


def test_a_new_item_is_solved_for_in_closed_form() -> None:
    every = parts().train
    frame, mine = every.to_polars(), every.item_index == 17
    rest, new = (Ratings.read(frame.filter(flags), scale=every.scale) for flags in (~mine, mine))
    model = IALS(**_SMALL).fit(rest).add_ratings(new)
    scorer = model.scorer
    assert isinstance(scorer, IALSScorer)
    factors = scorer.factors
    grades = dense_of(scorer.feedback.trained())
    users = solved_densely(grades, factors.items.astype(np.float64), factors.objective)
    own = np.zeros((1, len(users)))
    raters, given_grades = scorer.feedback.column(model.items.index(every.items.id(17)))
    own[0, raters] = given_grades
    expected = solved_densely(own, users, factors.objective)[0]
    vector = scorer.item_vectors()[model.items.index(every.items.id(17))]
    np.testing.assert_allclose(vector, expected, rtol=0, atol=0.02 * float(np.abs(expected).max()))


def test_threads_change_nothing() -> None:
    graded = fitted(parts().train).feedback.trained()
    objective = Objective(0.1, 0.02, 1.0, as_labels=True)
    one, three = (
        fit_factors(graded, 8, objective, 3, steps=3, seed=1, threads=threads, done=lambda share: None)
        for threads in (1, 3)
    )
    np.testing.assert_array_equal(one.items, three.items)


def test_settings_are_chosen_or_given() -> None:
    model = IALS(rank=4, iterations=2).fit(parts().train)
    facts = dict(model.facts())
    assert facts["rank"] == "4"
    assert 0.01 <= float(facts["unobserved"]) <= 1.6
    assert 0.001 <= float(facts["penalty"]) <= 0.04
    assert dict(IALS().fit(cells([(1, 1, 4.0)])).facts())["rank"] == "128"
    with pytest.raises(SettingsError, match="'unobserved' must be greater than 0"):
        IALS(unobserved=0)


def test_as_good_as_implicit() -> None:
    """Its objective: a weight of alpha on a label of 1 for what was chosen, of 1 on 0 elsewhere, a constant ridge.

    Divided by alpha - 1 that is ours, up to a constant, with a label of alpha / (alpha - 1).
    """
    peer = pytest.importorskip("implicit.als")
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits

    alpha, ridge = 5.0, 2.0
    did = (dense_of(fitted(cells(small_cells())).feedback.trained()) > 0).astype(np.float64)
    with threadpool_limits(1, "blas"):
        theirs = peer.AlternatingLeastSquares(
            factors=8, regularization=ridge, alpha=alpha, iterations=50, use_cg=False, num_threads=1, random_state=1
        )
        theirs.fit(csr_matrix(did), show_progress=False)
    objective = Objective(1 / (alpha - 1), ridge / (alpha - 1), 0.0, as_labels=True)
    grades = did * alpha / (alpha - 1)
    ours = fit_factors(sparse_of(grades), 8, objective, 50, steps=20, seed=1, threads=1, done=lambda share: None)
    items = ours.items.astype(np.float64)
    reached = value(grades, solved_densely(grades, items, objective), items, objective)
    their_users, their_items = (np.asarray(v, np.float64) for v in (theirs.user_factors, theirs.item_factors))
    peers = value(grades, their_users, their_items, objective)
    assert reached == pytest.approx(peers, rel=0.01)

"""The output weights of the columns: trained, solved for, or expected from features."""

import copy
from functools import cache
from typing import Any

import numpy as np
import pytest

from cofill import CFN
from cofill.data.datasets.world import make_world
from cofill.data.described import SideFeatures
from cofill.data.ratings import Ratings
from cofill.models.cfn import column_weights
from cofill.models.cfn.completion import Completion
from cofill.models.cfn.fit import fit_matrix
from cofill.models.known import KnownRatings
from tests.models.cfn.as_read import portion_of
from tests.models.cfn.described_matrix import COLD_COLUMN, NOTHING, Floats, completion, fitted, indices, matrix, vector


def test_unsolved_columns_keep_the_weights_of_the_training() -> None:
    trained = fitted().network.output.weight
    rated = matrix().rows.transpose().counts() > 0
    unsolved, solved = completion(solved=False), completion()
    np.testing.assert_array_equal(unsolved.column_weights.now()[0][rated], trained[rated])
    unsolved.many_columns(np.arange(unsolved.columns))
    np.testing.assert_array_equal(unsolved.network.output.weight[rated], trained[rated])
    moved = np.abs(solved.column_weights.now()[0] - trained).max(axis=1)
    assert (moved[rated] > 1e-4).all()


@pytest.mark.parametrize("output", ["identity", "tanh"])
def test_solved_columns_follow_the_closed_form_by_hand(output: str) -> None:
    """A column with n ratings takes (100 + n / 2) / (100 + n) of the way to the regression's weights."""
    trained = fitted(output=output).network
    model = completion(output=output)
    column = 5
    by_column = model.known.trained_columns
    n = len(by_column.row(column)[0])
    assert n > 5
    start = np.append(trained.output.weight[column], trained.output.bias[column])
    solved = model.column_weights.of_new(*by_column.row(column), matrix().column_features[column])
    share = (100 + n / 2) / (100 + n)
    weight, bias = model.column_weights.now()
    found = np.append(weight[column], bias[column])
    np.testing.assert_allclose(found, start + share * (solved - start), rtol=0, atol=1e-5)


@pytest.mark.parametrize("solved", [True, False])
def test_a_cold_column_has_what_its_features_lead_one_to_expect(solved: bool) -> None:
    model = completion(solved=solved)
    weight, bias = model.column_weights.now()
    expected = model.column_weights.prior.expected(matrix().column_features[[COLD_COLUMN]])[0]
    assert np.abs(expected - model.column_weights.prior.mean).max() > 1e-2
    np.testing.assert_allclose(np.append(weight[COLD_COLUMN], bias[COLD_COLUMN]), expected, rtol=0, atol=1e-6)
    features = matrix().column_features[COLD_COLUMN]
    np.testing.assert_allclose(model.column(COLD_COLUMN), model.new_column(*NOTHING, features), rtol=0, atol=1e-5)


def test_solving_reports_how_far_it_is() -> None:
    shares: list[float] = []
    completion(solved=False).column_weights.solve_trained(shares.append)
    assert shares
    assert shares == sorted(shares)
    assert 0 <= shares[0] <= shares[-1] <= 1


def weights_of(model: Completion, column: int) -> Floats:
    weight, bias = model.column_weights.now()
    return np.append(weight[column], bias[column])


@pytest.mark.parametrize("output", ["identity", "tanh"])
def test_a_changed_column_moves_by_as_much_as_the_closed_form(output: str) -> None:
    """Of its ratings the first is removed, the second and the last are changed."""
    column = 5
    model = completion(output=output)
    rows, ratings = model.known.trained_columns.row(column)
    solved, trained = model.column_weights.of_new, weights_of(model, column)
    features = matrix().column_features[column]
    now = ratings[1:].copy()
    now[[0, -1]] = 6 - now[[0, -1]]
    expected = trained + solved(rows[1:], now, features) - solved(rows, ratings, features)
    model.remove(rows[:1], np.full(1, column, np.int32))
    model.add(rows[[1, -1]], np.full(2, column, np.int32), now[[0, -1]])
    np.testing.assert_allclose(weights_of(model, column), expected, rtol=0, atol=1e-5)
    assert np.abs(expected - trained).max() > 1e-2


@pytest.mark.parametrize("output", ["identity", "tanh"])
@pytest.mark.parametrize("change", ["removed", "changed"])
def test_of_a_long_column_the_unchanged_ratings_hold_it_in_place(
    output: str, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Much as if it were regressed on all of them, and the right way."""
    column = 5
    rows, ratings = matrix().rows.transpose().row(column)
    surprise = int(np.argmax(np.abs(completion(output=output).column(column)[rows] - ratings)))
    row, rating = int(rows[surprise]), ratings[surprise]
    moves = []
    for length in (200, 0):
        monkeypatch.setattr(column_weights, "_ALL_AGAIN", length)
        model = completion(output=output)
        before, trained = model.column(column)[row], weights_of(model, column)
        if change == "removed":
            model.remove(indices(row), indices(column))
            away = before - rating
        else:
            model.add(indices(row), indices(column), vector(6 - rating))
            away = 6 - 2 * rating
        moves.append(weights_of(model, column) - trained)
        assert (model.column(column)[row] - before) * away > 0
    exact, held = moves
    assert np.linalg.norm(exact) > 1e-3
    assert exact @ held / np.linalg.norm(exact) / np.linalg.norm(held) > 0.7
    assert 0.3 < np.linalg.norm(held) / np.linalg.norm(exact) < 1.5


def test_a_small_change_of_a_trained_rating_is_a_small_one_of_its_column() -> None:
    column = 5
    model = completion()
    rows, ratings = model.known.trained_columns.row(column)
    moves = []
    for much in (1.0, 0.01):
        changed, trained = copy.deepcopy(model), weights_of(model, column)
        nearer = vector(float(ratings[0] - np.sign(ratings[0] - 3) * much))
        changed.add(rows[:1], np.full(1, column, np.int32), nearer)
        moves.append(weights_of(changed, column) - trained)
    np.testing.assert_allclose(moves[1] * 100, moves[0], rtol=0, atol=2e-3)


@pytest.mark.parametrize("output", ["identity", "tanh"])
def test_a_column_that_has_lost_all_it_was_trained_on_is_a_new_one(output: str) -> None:
    column = 5
    model = completion(output=output)
    rows, _ = model.known.trained_columns.row(column)
    model.remove(rows, np.full(len(rows), column, np.int32))
    fresh = np.setdiff1d(np.arange(20, dtype=np.int32), rows)[:3]
    model.add(fresh, np.full(3, column, np.int32), vector(5, 1, 2))
    expected = model.column_weights.of_new(fresh, vector(5, 1, 2), matrix().column_features[column])
    np.testing.assert_array_equal(weights_of(model, column), expected)


@cache
def ratings() -> Ratings:
    return make_world(users=50, items=40, ratings=900, seed=3).ratings


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_the_setting_decides_whether_columns_are_solved(orientation: str) -> None:
    few: dict[str, Any] = {"hidden": 8, "epochs": 3, "validation": 0, "threads": 1, "decoder": "network"}
    models = [CFN(orientation=orientation, solve_columns=solve, **few).fit(ratings()) for solve in (False, True)]
    unsolved, solved = (model.completion.network.output.weight for model in models)
    rows = ratings().rows("item" if models[0].orientation == "item" else "user")
    trained = fit_matrix(
        KnownRatings(rows, rows.transpose()),
        ratings().scale,
        models[0].settings,
        row_features=SideFeatures.none(rows.rows),
        column_features=SideFeatures.none(rows.columns),
        portion=portion_of(models[0]),
    ).network.output.weight
    rated = rows.transpose().counts() > 0
    np.testing.assert_array_equal(unsolved[rated], trained[rated])
    assert (np.abs(solved - unsolved).max(axis=1)[rated] > 1e-4).all()

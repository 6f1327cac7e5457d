"""The output weights of the columns: trained, solved for, or expected from features."""

from functools import cache

import numpy as np
import pytest

from cofill import CFN
from cofill.cfn.fitting import fit_matrix
from cofill.data.ratings import Ratings
from cofill.data.world import make_world
from tests.cfn.described_matrix import COLD_COLUMN, NOTHING, completion, fitted, matrix


def test_unsolved_columns_keep_the_weights_of_the_training() -> None:
    trained = fitted().network.output.weight.detach().numpy()
    rated = matrix().rows.transpose().counts() > 0
    unsolved, solved = completion(solved=False), completion()
    np.testing.assert_array_equal(unsolved.column_weights.now()[0][rated], trained[rated])
    unsolved.many_columns(np.arange(unsolved.columns))
    np.testing.assert_array_equal(unsolved.network.output.weight.detach().numpy()[rated], trained[rated])
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
    start = np.append(trained.output.weight[column].detach().numpy(), trained.output.bias[column].item())
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


@cache
def ratings() -> Ratings:
    return make_world(users=50, items=40, ratings=900, seed=3).ratings


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_the_setting_decides_whether_columns_are_solved(orientation: str) -> None:
    models = [
        CFN(orientation=orientation, hidden=8, epochs=3, validation=0, threads=1, solve_columns=solve).fit(ratings())
        for solve in (False, True)
    ]
    unsolved, solved = (model.completion.network.output.weight.detach().numpy() for model in models)
    rows = ratings().rows(models[0].orientation)
    no_features = np.zeros((rows.rows, 0), np.float32)
    trained = fit_matrix(rows, ratings().scale, models[0].settings, features=no_features).network.output.weight
    rated = rows.transpose().counts() > 0
    np.testing.assert_array_equal(unsolved[rated], trained.detach().numpy()[rated])
    assert (np.abs(solved - unsolved).max(axis=1)[rated] > 1e-4).all()

"""Item-based nearest neighbours keep the contract, and are those of a brute force."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cofill.arrays import Doubles
from cofill.errors import SettingsError
from cofill.models.baselines.item_models import ItemKNN, Neighbours, strongest
from cofill.models.lists.feedback import sparse_times
from tests.models.baselines.list_baseline_contract import ListBaselineContract
from tests.models.baselines.sparse_grades import sparse_of
from tests.models.contract import cells, small_cells


class TestContract(ListBaselineContract):
    baseline = ItemKNN
    small_settings = {"neighbours": 20, "shrinkage": 1.0}  # noqa: RUF012


def brute_force(grades: Doubles, neighbours: int, shrinkage: float) -> Doubles:
    """Items x items: the weight of each input for each target.

    Which of two that are equally near is taken as the last is decided by rounding: such examples say nothing.
    """
    items = grades.shape[1]
    weights = np.zeros((items, items))
    for target in range(items):
        similar: list[float] = []
        for item in range(items):
            one, other = grades[:, item], grades[:, target]
            lengths = np.sqrt((one**2).sum()) * np.sqrt((other**2).sum()) + shrinkage
            similar.append(one @ other / lengths if item != target and lengths else 0.0)
        order = sorted(range(items), key=lambda item: -similar[item])
        for last, next_one in zip(order[neighbours - 1 :][:1], order[neighbours:][:1], strict=False):
            assume(similar[last] - similar[next_one] > 1e-6 or similar[last] == 0)
        for item in order[:neighbours]:
            weights[item, target] = similar[item]
    return weights


@settings(max_examples=30, deadline=None)
@given(
    users=st.integers(1, 12),
    items=st.integers(1, 9),
    neighbours=st.integers(1, 10),
    shrinkage=st.sampled_from([0.0, 1.0, 7.5]),
    seed=st.integers(0, 10**6),
)
def test_neighbours_are_those_of_a_brute_force(
    users: int, items: int, neighbours: int, shrinkage: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    grades = np.where(rng.random((users, items)) < 0.5, rng.uniform(0.1, 1, (users, items)), 0.0)
    found = Neighbours.of(sparse_of(grades), neighbours, shrinkage)
    expected = grades @ brute_force(grades, neighbours, shrinkage)
    np.testing.assert_allclose(sparse_times(sparse_of(grades), found.matrix), expected, rtol=0, atol=1e-5)


def test_a_new_item_has_the_cosines_that_it_would_have_been_fitted_with() -> None:
    triples = small_cells()
    new = [(user, item, rating) for user, item, rating in triples if item == 4]
    made: dict[str, Any] = {"neighbours": 99, "shrinkage": 2.0}
    model = ItemKNN(**made).fit(cells([cell for cell in triples if cell[1] != 4]))
    model.add_ratings(cells(new))
    whole = ItemKNN(**made).fit(cells(triples))
    order = model.items.find(whole.items.array())
    for user in whole.users:
        np.testing.assert_allclose(model.score(user)[order], whole.score(user), rtol=0, atol=1e-4)


def test_strongest_takes_no_zeros() -> None:
    similar = np.array([0.1, 0, 0.5, 0.3, 0], np.float32)
    assert strongest(similar, 2).tolist() == [2, 3]
    assert strongest(similar, 9).tolist() == [0, 2, 3]


def test_settings_are_chosen_or_given() -> None:
    ratings = cells(small_cells())
    facts = dict(ItemKNN(shrinkage=2.5).fit(ratings).facts())
    assert facts["shrinkage"] == "2.5"
    assert int(facts["neighbours"]) > 0
    assert dict(ItemKNN(neighbours=3).fit(ratings).facts())["neighbours"] == "3"
    with pytest.raises(SettingsError, match="'neighbours' must be greater than or equal to 1"):
        ItemKNN(neighbours=0)

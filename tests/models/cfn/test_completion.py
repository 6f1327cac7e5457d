"""The filled matrix with side features: cold rows and columns, later ones, and one answer to one question."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from cofill.models.cfn.network_predictor import Completion
from hypothesis import HealthCheck, given
from hypothesis import settings as law
from hypothesis import strategies as st

from cofill.data.described import SideFeatures
from cofill.models.observed import KnownRatings
from cofill.models.predictor import FilledMatrix
from tests.models.cfn import described_matrix
from tests.models.cfn.described_matrix import (
    COLD_COLUMN,
    COLD_ROW,
    COLUMNS,
    EMPTY_COLUMN,
    EMPTY_ROW,
    NOTHING,
    ROWS,
    Floats,
    Q,
    completion,
    fitted,
    indices,
    matrix,
    vector,
)

ORIENTATIONS = pytest.mark.parametrize("orientation", ["user", "item"])
SHAPES = pytest.mark.parametrize(
    "shape",
    [
        {"orientation": "user"},
        {"orientation": "item"},
        {"orientation": "item", "output": "tanh"},
        {"orientation": "user", "hidden": (12, 6, 12)},
    ],
    ids=["user", "item", "tanh", "stack"],
)
Shape = dict[str, Any]


def every_way(model: FilledMatrix) -> Floats:
    """(rows, columns), asked in every way there is; all must say the same."""
    row, column = (a.ravel().astype(np.int32) for a in np.indices((model.rows, model.columns)))
    whole = model.entries(row, column).reshape(model.rows, model.columns)
    for name, other in (
        ("row", np.stack([model.row(i) for i in range(model.rows)])),
        ("column", np.stack([model.column(j) for j in range(model.columns)]).T),
        ("many_rows", model.many_rows(np.arange(model.rows))),
        ("many_columns", model.many_columns(np.arange(model.columns)).T),
    ):
        np.testing.assert_allclose(other, whole, rtol=0, atol=2e-5, err_msg=name)
    assert np.isfinite(whole).all()
    return whole


def pairs_of(rows: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Rows and columns of all trained ratings of some rows."""
    columns = [matrix().rows.row(row)[0] for row in rows.tolist()]
    return np.repeat(rows, [len(part) for part in columns]), np.concatenate(columns)


def rmse(predicted: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.mean((predicted - truth) ** 2)))


# Cold ones


@ORIENTATIONS
def test_a_cold_row_is_predicted_from_its_features(orientation: str) -> None:
    model, blind = completion(orientation=orientation), completion(orientation=orientation, features=False)
    truth, warm = matrix().truth[COLD_ROW, :COLD_COLUMN], slice(COLD_COLUMN)
    told, untold = model.row(COLD_ROW)[warm], blind.row(COLD_ROW)[warm]
    assert np.abs(told - untold).max() > 0.1
    assert rmse(told, truth) < 0.85 * rmse(untold, truth)
    assert np.abs(model.row(COLD_ROW) - model.row(EMPTY_ROW)).max() > 0.1


@ORIENTATIONS
def test_a_cold_column_is_predicted_from_its_features(orientation: str) -> None:
    model, blind = completion(orientation=orientation), completion(orientation=orientation, features=False)
    truth, warm = matrix().truth[:COLD_ROW, COLD_COLUMN], slice(COLD_ROW)
    told, untold = model.column(COLD_COLUMN)[warm], blind.column(COLD_COLUMN)[warm]
    assert np.abs(told - untold).max() > 0.1
    assert rmse(told, truth) < 0.85 * rmse(untold, truth)
    assert np.abs(model.column(COLD_COLUMN) - model.column(EMPTY_COLUMN)).max() > 0.1


@ORIENTATIONS
def test_the_features_of_a_cold_row_decide_which_columns_it_likes(orientation: str) -> None:
    """Not only how high it rates them all: that much the fitted means would say."""
    model = completion(orientation=orientation)
    one, other = (model.new_user(*NOTHING, vector(0, sign, 0)) for sign in (2, -2))
    towards = matrix().column_features[:COLD_COLUMN, 0]
    assert np.corrcoef((one - other)[:COLD_COLUMN], towards)[0, 1] > 0.9
    # And how far the network is believed about it is a setting.
    distrustful = completion(orientation=orientation, trust_features=0.0)
    means = [distrustful.new_user(*NOTHING, vector(0, sign, 0)) for sign in (2, -2)]
    np.testing.assert_allclose(means[0] - means[1], (means[0] - means[1])[0], rtol=0, atol=1e-5)
    half, whole = (completion(orientation=orientation, trust_features=t) for t in (0.5, 1.0))
    np.testing.assert_allclose(
        half.row(COLD_ROW), (distrustful.row(COLD_ROW) + whole.row(COLD_ROW)) / 2, rtol=0, atol=1e-4
    )


@ORIENTATIONS
def test_of_whom_nothing_is_known_the_means_speak(orientation: str) -> None:
    model = completion(orientation=orientation)
    means = model.means
    nobody = means.overall + means.row[EMPTY_ROW] + means.column
    np.testing.assert_allclose(model.row(EMPTY_ROW), nobody, rtol=0, atol=1e-5)
    nothing = means.overall + means.column[EMPTY_COLUMN] + means.row
    np.testing.assert_allclose(model.column(EMPTY_COLUMN), nothing, rtol=0, atol=1e-5)


@ORIENTATIONS
def test_an_id_that_was_never_seen_is_one_of_which_nothing_is_known(orientation: str) -> None:
    """However it is asked for."""
    model = completion(orientation=orientation)
    every_column, every_row = np.arange(COLUMNS, dtype=np.int32), np.arange(ROWS, dtype=np.int32)
    stranger = model.entries(np.full(COLUMNS, -1, np.int32), every_column)
    np.testing.assert_allclose(stranger, model.new_user(*NOTHING), rtol=0, atol=1e-5)
    np.testing.assert_allclose(stranger, model.row(EMPTY_ROW), rtol=0, atol=1e-5)
    strange = model.entries(every_row, np.full(ROWS, -1, np.int32))
    np.testing.assert_allclose(strange, model.new_column(*NOTHING), rtol=0, atol=1e-5)
    np.testing.assert_allclose(strange, model.column(EMPTY_COLUMN), rtol=0, atol=1e-5)


# Later ones


@SHAPES
def test_a_described_row_is_what_new_row_says_of_it(shape: Shape) -> None:
    model = completion(**shape)
    features = vector(0.5, -1.5, 1)
    expected = model.new_user(*NOTHING, features)
    model.describe_users(indices(ROWS + 2), features[None])
    assert model.rows == ROWS + 3  # of those between nothing is known
    np.testing.assert_allclose(model.row(ROWS + 2), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(model.row(ROWS), model.row(EMPTY_ROW), rtol=0, atol=1e-5)
    # The row that was cold in the training comes to be the same when it is described alike.
    model.describe_users(indices(COLD_ROW), features[None])
    np.testing.assert_allclose(model.row(COLD_ROW), expected, rtol=0, atol=1e-5)
    every_way(model)


@SHAPES
def test_a_described_column_is_what_new_column_says_of_it(shape: Shape) -> None:
    model = completion(**shape)
    features = vector(-1, 0.8)
    expected = model.new_column(*NOTHING, features)
    model.describe_items(indices(COLUMNS + 2), features[None])
    assert model.columns == COLUMNS + 3
    np.testing.assert_allclose(model.column(COLUMNS + 2), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(model.column(COLUMNS), model.column(EMPTY_COLUMN), rtol=0, atol=1e-5)
    model.describe_items(indices(COLD_COLUMN), features[None])
    np.testing.assert_allclose(model.column(COLD_COLUMN), expected, rtol=0, atol=1e-5)
    every_way(model)


@ORIENTATIONS
@pytest.mark.parametrize("solved", [True, False])
def test_to_say_again_what_is_known_changes_nothing(orientation: str, solved: bool) -> None:
    model = completion(orientation=orientation, solved=solved)
    before = every_way(model)
    rows, columns = (
        np.flatnonzero(side.described).astype(np.int32) for side in (model.row_features, model.column_features)
    )
    model.describe_users(rows, matrix().row_features[rows])
    np.testing.assert_array_equal(every_way(model), before)
    model.describe_items(columns, matrix().column_features[columns])
    np.testing.assert_array_equal(every_way(model), before)
    model.add(*pairs_of(rows), np.concatenate([matrix().rows.row(row)[1] for row in rows.tolist()]))
    np.testing.assert_array_equal(every_way(model), before)


@ORIENTATIONS
def test_features_of_a_row_that_has_ratings_count_too(orientation: str) -> None:
    model = completion(orientation=orientation)
    before = model.row(3)
    others = model.many_rows(np.arange(4, 20))
    model.describe_users(indices(3), vector(0, -2, 2)[None])
    assert np.abs(model.row(3) - before).max() > 1e-2
    np.testing.assert_array_equal(model.many_rows(np.arange(4, 20)), others)
    every_way(model)


@SHAPES
def test_one_question_has_one_answer(shape: Shape) -> None:
    """Hot, warm and cold, described and not, trained and later: entry, row, column and many at once."""
    model = completion(**shape)
    before = every_way(model)
    model.add(
        indices(0, 1, ROWS, ROWS, ROWS + 1, EMPTY_ROW, 5, 6, ROWS, COLD_ROW),
        indices(3, COLUMNS, 0, 1, COLUMNS, 4, EMPTY_COLUMN, COLD_COLUMN, COLUMNS + 1, 7),
        vector(5, 1, 2, 4, 3, 5, 1, 2, 5, 1),
    )
    model.describe_users(indices(ROWS, ROWS + 3, 2), np.eye(3, dtype=np.float32))
    model.describe_items(indices(COLUMNS, COLUMNS + 2, 4), np.array([[1, 0], [0, 1], [1, 1]], np.float32))
    after = every_way(model)
    assert after.shape == (ROWS + 4, COLUMNS + 3)
    assert np.abs(after[:ROWS, :COLUMNS] - before)[[0, 2, EMPTY_ROW, COLD_ROW]].max(axis=1).min() > 1e-3
    new = model.new_column(*model.known.column(COLUMNS + 1), np.zeros(Q, np.float32))
    np.testing.assert_allclose(model.column(COLUMNS + 1), new, rtol=0, atol=1e-4)


# In which order, and what was asked between


Event = tuple[str, int, Any]
EVENTS: list[Event] = [
    ("row", ROWS, (1.0, 0.5, -1.0)),
    ("row", ROWS + 1, (0.0, 2.0, 0.0)),
    ("row", COLD_ROW, (0.0, 0.0, 1.0)),
    ("row", 4, (1.0, 1.0, 1.0)),
    ("row", 7, (0.0, -1.0, 2.0)),
    ("column", COLUMNS, (1.0, -1.0)),
    ("column", COLD_COLUMN, (0.5, 0.5)),
    ("column", 4, (0.0, 1.0)),
    ("column", 6, (1.0, 1.0)),
    ("rating", ROWS, (COLUMNS, 5.0)),
    ("rating", ROWS, (2, 1.0)),
    ("rating", ROWS + 1, (COLUMNS, 2.0)),
    ("rating", COLD_ROW, (COLUMNS, 4.0)),
    ("rating", EMPTY_ROW, (COLD_COLUMN, 4.0)),
    ("rating", 4, (4, 1.0)),
    ("rating", 3, (COLUMNS + 1, 5.0)),
    ("removal", 0, int(matrix().rows.row(0)[0][0])),
    ("removal", 0, int(matrix().rows.row(0)[0][1])),
    ("removal", 3, int(matrix().rows.row(3)[0][0])),
    ("removal", 5, COLUMNS + 1),  # which it has not rated
    ("ask", 0, ()),
    ("ask", 0, ()),
]


def happen(model: FilledMatrix, event: Event) -> None:
    kind, index, what = event
    if kind == "row":
        model.describe_users(indices(index), np.array([what], np.float32))
    elif kind == "column":
        model.describe_items(indices(index), np.array([what], np.float32))
    elif kind == "rating":
        column, rating = what
        model.add(indices(index), indices(column), vector(rating))
    elif kind == "removal":
        model.remove(indices(index), indices(what))
    else:
        model.many_columns(np.arange(model.columns))
        model.entries(indices(0, 1), indices(0, 1))


@ORIENTATIONS
@law(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(EVENTS))))
def test_the_order_does_not_matter(orientation: str, order: list[int]) -> None:
    one, other = completion(orientation=orientation), completion(orientation=orientation)
    for event in EVENTS:
        happen(one, event)
    for number in order:
        happen(other, EVENTS[number])
    assert (one.rows, one.columns) == (other.rows, other.columns)
    np.testing.assert_allclose(every_way(other), every_way(one), rtol=0, atol=1e-4)


@SHAPES
def test_what_came_and_went_leaves_no_trace(shape: Shape) -> None:
    """To the last bit, with features beside it, whether or not somebody asked between.

    Except for the first question of all: rows that are read together have codes that differ by rounding from those of
    rows that are read one by one.
    """
    model, twin = completion(**shape), completion(**shape)
    for event in [("ask", 0, ()), *EVENTS]:
        happen(model, event)
        happen(twin, event)
    expected = every_way(twin)
    rows, columns = indices(1, ROWS, ROWS + 1, COLD_ROW, 2, 8), indices(COLUMNS + 1, 5, 2, COLD_COLUMN, COLUMNS, 3)
    before = model.known.contains(rows, columns)
    rows, columns = rows[~before], columns[~before]
    assert len(rows) >= 5
    for asked in (True, False):
        model.add(rows, columns, np.full(len(rows), 5, np.float32))
        if asked:
            assert np.abs(every_way(model) - expected).max() > 0.05
        model.remove(rows[::-1], columns[::-1])
        np.testing.assert_array_equal(every_way(model), expected)


@SHAPES
def test_a_row_and_a_column_without_their_ratings_are_cold(shape: Shape) -> None:
    """What is left of them are their features."""
    model = completion(**shape)
    rows, columns = pairs_of(indices(3))
    model.remove(rows, columns)
    np.testing.assert_allclose(model.row(3), model.new_user(*NOTHING, matrix().row_features[3]), rtol=0, atol=1e-5)
    raters = model.known.column(4)[0]
    model.remove(raters, np.full(len(raters), 4, np.int32))
    model.remove(raters, np.full(len(raters), 4, np.int32))
    as_new = model.new_column(*NOTHING, matrix().column_features[4])
    np.testing.assert_allclose(model.column(4), as_new, rtol=0, atol=1e-5)
    assert model.row_counts[3] == model.column_counts[4] == 0
    every_way(model)


@SHAPES
def test_a_model_that_comes_back_has_seen_what_came_later(shape: Shape) -> None:
    """As from a file: the same network and prior, with later ratings and features laid over at once."""
    lived = completion(**shape)
    for event in EVENTS:
        happen(lived, event)
    known = KnownRatings(matrix().rows, matrix().rows.transpose())
    for row, column, rating in zip(*lived.known.later(), strict=True):
        known.add(int(row), int(column), float(rating))
    for row, column in zip(*lived.known.removed(), strict=True):
        known.remove(int(row), int(column))
    assert len(known.removed()[0]) == 3
    sides = []
    for side in (lived.row_features, lived.column_features):
        again = SideFeatures(side.trained)
        for index, features in zip(*side.later(), strict=True):
            again.describe(int(index), features)
        sides.append(again)
    back = Completion(
        lived.network,
        lived.scaling,
        known,
        described_matrix.settings(**shape),
        row_features=sides[0],
        column_features=sides[1],
        prior=lived.column_weights.prior,
    )
    np.testing.assert_allclose(every_way(back), every_way(lived), rtol=0, atol=1e-5)


def test_the_arrays_of_the_caller_stay_as_they_are() -> None:
    world = matrix()
    rows, columns = world.row_features.copy(), world.column_features.copy()
    trained = fitted()
    model = Completion(
        trained.network,
        trained.scaling,
        KnownRatings(world.rows, world.rows.transpose()),
        described_matrix.settings(),
        row_features=SideFeatures(rows),
        column_features=SideFeatures(columns),
    )
    for event in EVENTS:
        happen(model, event)
    every_way(model)
    np.testing.assert_array_equal(rows, world.row_features)
    np.testing.assert_array_equal(columns, world.column_features)

"""The matrix that the Bayesian decoder fills in: one answer to one question, whatever came, changed and went."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as law
from hypothesis import strategies as st

from cofill.data.described import SideFeatures
from cofill.models.cfn import decoded as decoded_module
from cofill.models.cfn.decoded import DecodedMatrix, Decoder
from cofill.models.cfn.gp import local_kernel
from cofill.models.explanation import Given
from cofill.models.known import KnownRatings
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
    decoded,
    indices,
    matrix,
    vector,
)
from tests.models.cfn.test_completion import EVENTS, every_way, happen, pairs_of

# With fewer neighbours than rows, so that the local kernel is cut; with all of them; with none.
SHAPES = pytest.mark.parametrize(
    "shape",
    [
        {"neighbours": 6, "validation": 0.2},
        {"neighbours": 6, "orientation": "user", "validation": 0.2},
        {"neighbours": 6, "hidden": (12, 6, 12), "output": "tanh"},
        {"neighbours": 500},
        {"neighbours": 0},
    ],
    ids=["item", "user", "stack", "uncut", "no local kernel"],
)
Shape = dict[str, Any]


def changed(shape: Shape) -> DecodedMatrix:
    """After all that may happen."""
    model = decoded(**shape)
    for event in EVENTS:
        happen(model, event)
    model.add(
        indices(ROWS, ROWS + 1, ROWS + 1, EMPTY_ROW, 0, 1),
        indices(COLUMNS + 1, COLUMNS + 1, EMPTY_COLUMN, COLUMNS, COLUMNS, COLUMNS),
        vector(1, 5, 4, 2, 5, 1),
    )
    return model


@SHAPES
def test_one_question_has_one_answer(shape: Shape) -> None:
    """Hot, warm and cold, described and not; new rows that were rated by new columns, and columns by them."""
    before = every_way(decoded(**shape))
    after = every_way(changed(shape))
    assert after.shape == (ROWS + 2, COLUMNS + 2)
    assert np.abs(after[:ROWS, :COLUMNS] - before)[[0, 4, EMPTY_ROW, COLD_ROW]].max(axis=1).min() > 1e-3


@SHAPES
def test_what_is_new_is_answered_as_if_it_were_known(shape: Shape) -> None:
    model = changed(shape)
    for row in (ROWS, ROWS + 1, COLD_ROW, EMPTY_ROW, 0):
        features = model.row_features
        about = features.values[row] if features.described[row] else None
        given_again = model.new_row(*model.known.row(row), about)
        np.testing.assert_allclose(given_again, model.row(row), rtol=0, atol=1e-4)
        some = indices(0, COLUMNS, EMPTY_COLUMN)
        np.testing.assert_allclose(
            model.new_row_at(*model.known.row(row), about, some), given_again[some], rtol=0, atol=1e-5
        )
    for column in (COLUMNS + 2, EMPTY_COLUMN):
        # Rows that came later are seen without the column's own rating, as they were before it was given.
        rated, ratings = indices(0, 3, 8, ROWS, ROWS + 1, COLD_ROW, EMPTY_ROW), vector(5, 1, 2, 1, 5, 4, 2)
        own = model.known.column(column)[0]
        model.remove(own, np.full(len(own), column, np.int32))
        expected = model.new_column(rated, ratings, np.zeros(Q, np.float32))
        some = indices(0, ROWS, EMPTY_ROW)
        part = model.new_column_at(rated, ratings, np.zeros(Q, np.float32), some)
        np.testing.assert_allclose(part, expected[some], rtol=0, atol=1e-5)
        model.add(rated, np.full(len(rated), column, np.int32), ratings)
        others = np.setdiff1d(np.arange(ROWS), rated)
        # The local kernel looks at rows as they are now, with the rating.
        near = 0.05 if model.decoder.amplitudes.local else 1e-4
        np.testing.assert_allclose(model.column(column)[others], expected[others], rtol=0, atol=near)


@SHAPES
def test_of_whom_nothing_is_known_the_biases_speak(shape: Shape) -> None:
    model = decoded(**shape)
    means = model.means
    assert np.abs(model.row(EMPTY_ROW) - model.row(COLD_ROW)).max() > 0.05
    stranger = model.entries(np.full(COLUMNS, -1, np.int32), np.arange(COLUMNS, dtype=np.int32))
    for nobody in (model.row(EMPTY_ROW), model.new_row(*NOTHING)):
        np.testing.assert_allclose(nobody, stranger, rtol=0, atol=1e-5)
    # The decoder's biases are posterior means beside tastes, the fitted ones without.
    assert np.abs(means.overall + means.row_of_nobody() + means.column - stranger).max() < 0.3
    strange = model.entries(np.arange(ROWS, dtype=np.int32), np.full(ROWS, -1, np.int32))
    for nothing in (model.column(EMPTY_COLUMN), model.new_column(*NOTHING)):
        np.testing.assert_allclose(nothing, strange, rtol=0, atol=1e-5)
    assert np.abs(means.overall + means.column_of_nothing() + means.row - strange).max() < 0.3
    neither = model.entries(indices(-1), indices(-1))
    assert neither[0] == pytest.approx(means.overall + means.row_of_nobody() + means.column_of_nothing(), abs=1e-5)
    assert neither[0] == pytest.approx(strange[EMPTY_ROW], abs=1e-5)


@pytest.mark.parametrize("orientation", ["user", "item"])
@law(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(len(EVENTS))))
def test_the_order_does_not_matter(orientation: str, order: list[int]) -> None:
    one, other = decoded(orientation=orientation, neighbours=6), decoded(orientation=orientation, neighbours=6)
    for event in EVENTS:
        happen(one, event)
    for number in order:
        happen(other, EVENTS[number])
    assert (one.rows, one.columns) == (other.rows, other.columns)
    np.testing.assert_allclose(every_way(other), every_way(one), rtol=0, atol=1e-4)


@SHAPES
def test_what_came_and_went_leaves_no_trace(shape: Shape) -> None:
    """But rounding, with features beside it, whether or not predictions were asked for between."""
    model, twin = decoded(**shape), decoded(**shape)
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
        np.testing.assert_allclose(every_way(model), expected, rtol=0, atol=1e-5)


@SHAPES
def test_to_say_again_what_is_known_changes_nothing(shape: Shape) -> None:
    model = decoded(**shape)
    before = every_way(model)
    rows, columns = (
        np.flatnonzero(side.described).astype(np.int32) for side in (model.row_features, model.column_features)
    )
    model.describe_rows(rows, matrix().row_features[rows])
    model.describe_columns(columns, matrix().column_features[columns])
    model.add(*pairs_of(rows), np.concatenate([matrix().rows.row(row)[1] for row in rows.tolist()]))
    np.testing.assert_array_equal(every_way(model), before)


@SHAPES
def test_a_row_and_a_column_without_their_ratings_are_cold(shape: Shape) -> None:
    """What is left of them are their features."""
    model = decoded(**shape)
    model.remove(*pairs_of(indices(3)))
    np.testing.assert_allclose(model.row(3), model.new_row(*NOTHING, matrix().row_features[3]), rtol=0, atol=1e-4)
    raters = model.known.column(4)[0]
    model.remove(raters, np.full(len(raters), 4, np.int32))
    as_new = model.new_column(*NOTHING, matrix().column_features[4])
    np.testing.assert_allclose(model.column(4), as_new, rtol=0, atol=1e-5)
    assert model.row_counts[3] == model.column_counts[4] == 0
    every_way(model)


@SHAPES
def test_a_column_that_is_solved_again_is_as_it_was(shape: Shape) -> None:
    """The closed form of one column in double precision, and that of all at once in single."""
    model = decoded(**shape)
    before = every_way(model)
    model._moved |= set(range(COLUMNS))
    as_trained, model.column_as_trained = model.column_as_trained, lambda column: False  # type: ignore[method-assign]
    model._settle()
    model.column_as_trained = as_trained  # type: ignore[method-assign]
    np.testing.assert_allclose(every_way(model), before, rtol=0, atol=2e-4)


@SHAPES
def test_a_model_that_comes_back_has_seen_what_came_later(shape: Shape) -> None:
    """As from a file: the same network and decoder, with later ratings and features laid over at once."""
    lived = changed(shape)
    known = KnownRatings(matrix().rows, matrix().rows.transpose())
    for row, column, rating in zip(*lived.known.later(), strict=True):
        known.add(int(row), int(column), float(rating))
    for row, column in zip(*lived.known.removed(), strict=True):
        known.remove(int(row), int(column))
    sides = []
    for side in (lived.row_features, lived.column_features):
        again = SideFeatures(side.trained)
        for index, features in zip(*side.later(), strict=True):
            again.describe(int(index), features)
        sides.append(again)
    network = {name: weight.copy() for name, weight in lived.network.weights().items() if name.startswith("output")}
    lived_in = lived.decoder.arrays()
    decoder = Decoder.restored({name: array.copy() for name, array in lived_in.items()}, network, matrix().rows.nnz)
    assert decoder.amplitudes == lived.decoder.amplitudes
    back = DecodedMatrix(
        lived.network,
        lived.scaling,
        known,
        type(lived.means).restored(lived.means.arrays()),
        decoder,
        described_matrix.settings(decoder="process", **shape),
        row_features=sides[0],
        column_features=sides[1],
    )
    np.testing.assert_allclose(every_way(back), every_way(lived), rtol=0, atol=1e-5)
    for name in ("turn", "bias", "pull", "mean", "centre", "factor", "by_features"):
        less = lived_in[name][:-1] if name == "factor" else lived_in[name][..., :-1]
        with pytest.raises(ValueError, match=f"decoder.{name} has shape"):
            Decoder.restored(lived_in | {name: less}, network, matrix().rows.nnz)
    wrong = lived_in | {"amplitudes": -lived_in["amplitudes"]}
    with pytest.raises(ValueError, match="amplitudes of the decoder are damaged"):
        Decoder.restored(wrong, network, matrix().rows.nnz)


@SHAPES
def test_without_a_cut_the_local_kernel_is_the_whole_one(shape: Shape) -> None:
    """And with one it is that of the nearest of a row, and of all rows that came later."""
    model = changed(shape)
    local = model._local
    if local is None:
        return
    most = min(shape["neighbours"], ROWS)
    trained, now = (
        model.decoder.space.directions(codes) for codes in (model.codes.as_trained()[0], model.row_vectors())
    )
    was_trained = np.append(matrix().rows.counts() > 0, [False, False])
    columns = [3, 4, COLUMNS, COLUMNS + 1]
    model.many_columns(np.arange(model.columns))  # weights follow what was rated
    for column in columns:
        rated, pull = local.pull_of(column)
        expected, clear = np.zeros(model.rows), np.ones(model.rows, np.bool_)
        for row in range(model.rows):
            cosines = np.sort(trained[was_trained[:ROWS]] @ now[row])
            least = cosines[-most] if most < len(cosines) else -np.inf
            clear[row] = most >= len(cosines) or least - cosines[-most - 1] > 1e-6  # which ones are the nearest
            for other, weight in zip(rated.tolist(), pull.tolist(), strict=True):
                if not was_trained[other]:
                    expected[row] += weight * local_kernel(now[other] @ now[row])
                elif trained[other] @ now[row] >= least - 1e-7:
                    expected[row] += weight * local_kernel(trained[other] @ now[row])
        assert clear.sum() > ROWS / 2
        np.testing.assert_allclose(local.of_column(rated, pull)[clear], expected[clear], rtol=0, atol=1e-5)
    for row in (0, 3, 4, COLD_ROW, EMPTY_ROW, ROWS, ROWS + 1):
        of_row = local.of_row(local.nearest(row, now[row]), now[row])
        for column in columns:
            assert of_row[column] == pytest.approx(local.of_column(*local.pull_of(column))[row], abs=1e-5)


# Shares


@SHAPES
def test_shares_of_a_column_add_up(shape: Shape) -> None:
    model = changed(shape)
    rows = np.arange(model.rows, dtype=np.int32)
    base = model.new_column(*NOTHING)
    features = model.column_features
    for column in (0, 4, 5, 6, COLUMNS, COLUMNS + 1, COLD_COLUMN, EMPTY_COLUMN):
        about = features.values[column] if features.described[column] else None
        rated = model.known.column(column)
        shares = model.column_shares(Given(*rated, about, (1, 1), column), rows)
        assert shares.ratings.shape == (model.rows, len(rated[0]))
        assert shares.features.shape == (model.rows, Q)
        together = base + shares.ratings.sum(1) + shares.features.sum(1)
        np.testing.assert_allclose(together, model.column(column), rtol=0, atol=2e-4)
    rated, about = (indices(0, 3, ROWS), vector(5, 1, 2)), vector(0.5, -1)
    shares = model.column_shares(Given(*rated, about, (2,)), rows[::7])
    together = base[::7] + shares.ratings.sum(1) + shares.features.sum(1)
    np.testing.assert_allclose(together, model.new_column(*rated, about)[::7], rtol=0, atol=1e-4)


@SHAPES
def test_shares_of_a_row_add_up(shape: Shape) -> None:
    model = changed(shape)
    columns = np.arange(model.columns, dtype=np.int32)
    base = model.new_row(*NOTHING)
    features = model.row_features
    for row in (0, 3, 4, 5, ROWS, ROWS + 1, COLD_ROW, EMPTY_ROW):
        about = features.values[row] if features.described[row] else None
        shares = model.row_shares(Given(*model.known.row(row), about, (1, 2), row), columns)
        together = base + shares.ratings.sum(1) + shares.features.sum(1)
        np.testing.assert_allclose(together, model.row(row), rtol=0, atol=1e-3)


def test_the_share_of_a_rating_is_what_it_moves() -> None:
    """A prediction is a sum over the column's ratings: one that differs by d moves it by its gain times d."""
    model = decoded(neighbours=6, validation=0.2)
    rated, ratings = indices(0, 3, 7, 8), vector(5, 1, 2, 4)
    rows = np.arange(ROWS, dtype=np.int32)
    other = ratings + vector(0, 0, 1, 0)
    before, after = (model.column_shares(Given(rated, r), rows).ratings for r in (ratings, other))
    np.testing.assert_allclose(
        after - before, (model.new_column(rated, other) - model.new_column(rated, ratings))[:, None] * [0, 0, 1, 0],
        rtol=0, atol=1e-4,
    )  # fmt: skip


def test_the_arrays_of_the_caller_stay_as_they_are() -> None:
    world = matrix()
    rows, columns = world.row_features.copy(), world.column_features.copy()
    every_way(changed({"neighbours": 6}))
    np.testing.assert_array_equal(rows, world.row_features)
    np.testing.assert_array_equal(columns, world.column_features)


def test_it_predicts_what_features_decide() -> None:
    """Truths of which only noisy ratings are known."""
    truth, hot = matrix().truth, np.s_[:COLD_ROW, :COLD_COLUMN]
    for orientation in ("item", "user"):
        model = decoded(neighbours=6, validation=0.2, orientation=orientation)
        known: Floats = every_way(model)
        assert np.sqrt(np.mean((known - truth)[hot] ** 2)) < 0.2


def test_intervals_of_many_columns_solve_none_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """One Gaussian process after the other made an evaluation take longer than the training."""
    model = decoded()
    rows, columns = (part.ravel().astype(np.int32) for part in np.mgrid[-1:ROWS, -1:COLUMNS])
    predicted = model.entries(rows, columns)
    monkeypatch.setattr(decoded_module, "Posterior", None)
    widths = model.half_widths(rows, columns, predicted)
    assert (widths > 0).all()
    for place in (0, 5, COLUMNS + 4, len(rows) - 1):
        one = slice(place, place + 1)
        alone = model.half_widths(rows[one], columns[one], predicted[one])
        np.testing.assert_allclose(alone, widths[one], rtol=1e-4)


@SHAPES
def test_intervals_of_what_is_new_are_those_of_what_is_known(shape: Shape) -> None:
    model = changed(shape)
    for row in (ROWS, COLD_ROW, EMPTY_ROW, 0):
        about = model.row_features.values[row] if model.row_features.described[row] else None
        asked = indices(0, COLUMNS, EMPTY_COLUMN, 2)
        predicted = model.new_row_at(*model.known.row(row), about, asked)
        given_again = model.new_row_half_widths(*model.known.row(row), about, asked, predicted)
        known = model.half_widths(np.full(len(asked), row, np.int32), asked, predicted)
        np.testing.assert_allclose(given_again, known, rtol=1e-3)
    asked = indices(0, ROWS, EMPTY_ROW)
    predicted = model.new_column_at(*NOTHING, None, asked)
    nobody = model.new_column_half_widths(*NOTHING, None, asked, predicted)
    np.testing.assert_allclose(nobody, model.half_widths(asked, indices(-1, -1, -1), predicted), rtol=1e-4)

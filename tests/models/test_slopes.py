"""Biases with slopes: a linear mixed model of what features of users and items say together."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill import Ratings
from cofill.data.features import Features
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE
from cofill.models import slopes as module
from cofill.models.bias_models import Means
from cofill.models.biases import Biases
from cofill.models.rng import Portion
from cofill.models.slopes import Design, Slopes, fit_slopes

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
ROWS, COLUMNS, NOISE = 300, 200, 0.5
NO_COLUMNS, NO_RATINGS = np.empty(0, np.int32), np.empty(0, np.float32)


class World:
    """Ratings that a mixed model has made; every tenth row and column has none."""

    def __init__(self, rows: int = ROWS, columns: int = COLUMNS, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.row_features = rng.normal(size=(rows, 2)).astype(np.float32)
        self.column_features = (rng.random((columns, 3)) < 0.4).astype(np.float32)
        self.column_features[:, 2] = rng.normal(size=columns)
        self.coefficients = np.array([[0.0, 0.3, -0.2], [0.2, 0.5, 0.0], [-0.4, 0.0, 0.4], [0.3, -0.3, 0.2]])
        f = np.column_stack([np.ones(rows), self.row_features])
        g = np.column_stack([np.ones(columns), self.column_features])
        self.expected = 3 + f @ self.coefficients.T @ g.T
        d = rng.normal(size=(rows, 4)) * [0.4, 0.3, 0.2, 0.2]
        e = rng.normal(size=(columns, 3)) * [0.5, 0.2, 0.1]
        known = rng.random((rows, columns)) < 0.25
        known[::10], known[:, ::10] = False, False
        ratings = self.expected + d @ g.T + f @ e.T + rng.normal(0, NOISE, (rows, columns))
        row, column = np.nonzero(known)
        indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
        self.rows = SparseRows(indptr, column.astype(np.int32), ratings[row, column].astype(np.float32), columns)

    def fit(self, damping: float | None = None) -> Slopes:
        return fit(self.rows, self.row_features, self.column_features, damping)


def fit(rows: SparseRows, row_features: Floats, column_features: Floats, damping: float | None = None) -> Slopes:
    values = rows.values.astype(np.float64)
    return fit_slopes(
        rows,
        rows.transpose(),
        row_features,
        column_features,
        overall=float(values.mean()),
        spread=float(values.var()),
        portion=Portion.of(rows),
        damping=damping,
    )


WORLD = World()
FITTED = WORLD.fit()


def all_pairs(slopes: Slopes) -> Floats:
    return slopes.of(slopes.rows.inputs, slopes.rows.effects)


def test_interactions_are_found_again() -> None:
    np.testing.assert_allclose(FITTED.coefficients[1:, 1:], WORLD.coefficients[1:, 1:], rtol=0, atol=0.12)
    assert pytest.approx(NOISE**2, rel=0.1) == FITTED.noise
    np.testing.assert_allclose(np.diag(FITTED.rows.covariance) ** 0.5, [0.4, 0.3, 0.2, 0.2], rtol=0.25)


def test_a_cold_pair_is_predicted_by_features_alone() -> None:
    cold_rows, cold_columns = np.arange(0, ROWS, 10), np.arange(0, COLUMNS, 10)
    assert not FITTED.rows.effects[cold_rows].any()
    assert not FITTED.columns.effects[cold_columns].any()
    found = all_pairs(FITTED)[np.ix_(cold_rows, cold_columns)]
    f, g = FITTED.rows.inputs[cold_rows], FITTED.columns.inputs[cold_columns]
    np.testing.assert_allclose(found, FITTED.overall + f @ FITTED.coefficients.T @ g.T, rtol=0, atol=1e-5)
    truth = WORLD.expected[np.ix_(cold_rows, cold_columns)]
    assert np.sqrt(np.mean((found - truth) ** 2)) < 0.2 < truth.std() / 3


def test_effects_are_the_most_likely_ones() -> None:
    """Given B and all variances, those of both sides solve one system of normal equations."""
    world = World(40, 30, seed=1)
    module._ROUNDS, before = 60, module._ROUNDS
    try:
        found = world.fit()
    finally:
        module._ROUNDS = before
    f, g = found.rows.inputs.astype(np.float64), found.columns.inputs.astype(np.float64)
    row, column = np.repeat(np.arange(40), world.rows.counts()), world.rows.indices
    p, q = found.coefficients.shape
    design = np.zeros((len(row), 40 * p + 30 * q))
    for at, (u, i) in enumerate(zip(row.tolist(), column.tolist(), strict=True)):
        design[at, u * p : u * p + p] = g[i]
        design[at, 40 * p + i * q : 40 * p + i * q + q] = f[u]
    left = world.rows.values - found.overall - np.einsum("np,pq,nq->n", g[column], found.coefficients, f[row])
    prior = np.zeros((design.shape[1],) * 2)
    for u in range(40):
        prior[u * p : u * p + p, u * p : u * p + p] = np.linalg.inv(found.rows.covariance)
    for i in range(30):
        own = slice(40 * p + i * q, 40 * p + i * q + q)
        prior[own, own] = np.linalg.inv(found.columns.covariance)
    best = np.linalg.solve(design.T @ design / found.noise + prior, design.T @ left / found.noise)
    np.testing.assert_allclose(found.rows.effects, best[: 40 * p].reshape(40, p), rtol=0, atol=0.02)
    np.testing.assert_allclose(found.columns.effects, best[40 * p :].reshape(30, q), rtol=0, atol=0.02)


def test_a_later_row_or_column_is_as_it_would_have_been() -> None:
    """A row exactly; a column up to the little that the last round of the rows has moved it by."""
    columns = WORLD.rows.transpose()
    for at in (0, 1, 7):
        inputs, effects = FITTED.row_of(*WORLD.rows.row(at), WORLD.row_features[at])
        np.testing.assert_allclose(inputs, FITTED.rows.inputs[at], atol=1e-6)
        np.testing.assert_allclose(effects, FITTED.rows.effects[at], rtol=0, atol=1e-3)
        _, effects = FITTED.transposed().row_of(*columns.row(at), WORLD.column_features[at])
        np.testing.assert_allclose(effects, FITTED.columns.effects[at], rtol=0, atol=0.03)


def test_it_does_not_matter_which_side_the_rows_are() -> None:
    turned = fit(WORLD.rows.transpose(), WORLD.column_features, WORLD.row_features)
    np.testing.assert_allclose(all_pairs(turned).T, all_pairs(FITTED), rtol=0, atol=0.1)
    np.testing.assert_allclose(all_pairs(FITTED.transposed()).T, all_pairs(FITTED), rtol=0, atol=1e-5)


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 999))
def test_the_order_of_rows_and_columns_makes_no_difference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    by_row, by_column = rng.permutation(ROWS), rng.permutation(COLUMNS)
    dense = np.full((ROWS, COLUMNS), np.nan, np.float32)
    dense[np.repeat(np.arange(ROWS), WORLD.rows.counts()), WORLD.rows.indices] = WORLD.rows.values
    shuffled = dense[by_row][:, by_column]
    known = ~np.isnan(shuffled)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    rows = SparseRows(indptr, np.nonzero(known)[1].astype(np.int32), shuffled[known], COLUMNS)
    found = fit(rows, WORLD.row_features[by_row], WORLD.column_features[by_column])
    np.testing.assert_allclose(all_pairs(found), all_pairs(FITTED)[by_row][:, by_column], rtol=0, atol=1e-3)


def test_shares_add_up() -> None:
    asked = np.arange(0, COLUMNS, 7, dtype=np.int32)
    nobody = FITTED.at_pairs(np.full(len(asked), -1, np.int32), asked)
    for row in (0, 5):  # with and without ratings
        columns, ratings = WORLD.rows.row(row)
        features = WORLD.row_features[row]
        inputs, effects = FITTED.row_of(columns, ratings, features)
        whole = FITTED.of(inputs[None], effects[None], asked)[0]
        by_rating, by_feature = FITTED.shares(columns, ratings, features, asked)
        np.testing.assert_allclose(nobody + by_rating.sum(1) + by_feature.sum(1), whole, rtol=0, atol=1e-4)
        assert np.abs(by_feature).max() > 0.01


def test_features_that_are_missing_say_nothing() -> None:
    nobody = np.zeros(2, np.float32)
    inputs, effects = FITTED.row_of(NO_COLUMNS, NO_RATINGS, nobody)
    assert inputs.tolist() == [1, 0, 0]
    at = np.arange(COLUMNS, dtype=np.int32)
    np.testing.assert_allclose(
        FITTED.of(inputs[None], effects[None])[0], FITTED.at_pairs(np.full(COLUMNS, -1, np.int32), at), atol=1e-5
    )
    features = WORLD.row_features.copy()
    features[: ROWS // 2] = 0
    found = fit(WORLD.rows, features, WORLD.column_features)
    assert np.isfinite(all_pairs(found)).all()


def test_a_given_damping_is_that_of_deviations() -> None:
    found = WORLD.fit(damping=20.0)
    for side in (found.rows, found.columns):
        assert found.noise / side.covariance[0, 0] == pytest.approx(20, rel=1e-6)


def test_wide_features_are_reduced_to_where_they_vary_most_and_to_what_tells_most() -> None:
    rng = np.random.default_rng(0)
    wide = (rng.normal(size=(500, 5)) @ rng.normal(size=(5, 90)) + 0.1 * rng.normal(size=(500, 90))).astype(np.float32)
    hidden = wide @ np.linalg.svd(wide)[2][-20:].sum(0)  # where they hardly vary
    means = 0.5 * hidden / hidden.std() + rng.normal(0, 0.1, 500)
    counts, keys = np.full(500, 20, np.int64), np.arange(500, dtype=np.uint64)
    kept = Design.of(wide, counts, means, keys, ALONE)(wide)[:, 1:]
    assert kept.shape[1] == module._MOST_DIRECTIONS
    assert kept[:, :-1].var(0).sum() == pytest.approx(wide.var(0).sum(), rel=0.05)
    assert np.corrcoef(kept[:, -1], hidden)[0, 1] > 0.9


@pytest.mark.parametrize("constant", [True, False])
def test_odd_features(constant: bool) -> None:
    """More of them than rows, constant ones, and those of one side only."""
    world = World(12, 9, seed=3)
    wide = np.random.default_rng(0).normal(size=(12, 30)).astype(np.float32)
    if constant:
        wide[:] = 1
    for features, others in ((wide, np.zeros((9, 0), np.float32)), (wide, world.column_features)):
        found = all_pairs(fit(world.rows, features, others))
        assert np.isfinite(found).all()
        assert np.abs(found - 3).max() < 10


def test_without_features_there_are_none() -> None:
    nothing = np.zeros((ROWS, 0), np.float32), np.zeros((COLUMNS, 0), np.float32)
    biases = Biases.fit(WORLD.rows, WORLD.rows.transpose(), row_features=nothing[0], column_features=nothing[1])
    assert biases.slopes is None
    at = np.array([3, -1, 4], np.int32), np.array([5, 2, -1], np.int32)
    by_hand = [biases.rows.now[3] + biases.columns.now[5], biases.columns.now[2], biases.rows.now[4]]
    np.testing.assert_allclose(biases.at_pairs(*at), biases.overall + np.array(by_hand), atol=1e-6)


def test_a_model_keeps_them_and_follows_changes(tmp_path: Path) -> None:
    row = np.repeat(np.arange(ROWS), WORLD.rows.counts())
    train = Ratings.read(list(zip(row.tolist(), WORLD.rows.indices.tolist(), WORLD.rows.values.tolist(), strict=True)))
    model = Means().fit(
        train,
        user_features=Features.read((np.arange(ROWS), WORLD.row_features), name="about"),
        item_features=Features.read((np.arange(COLUMNS), WORLD.column_features), name="kind"),
    )
    pairs = [(user, item) for user in (0, 1, 2, 9999) for item in (0, 3, 9999)]
    before = model.predict(pairs)
    model.add_ratings([(0, 3, 5.0), (10_000, 3, 1.0)])
    changed = model.predict([*pairs, (10_000, 3), (10_000, 0)])
    assert np.isfinite(changed).all()
    assert changed[1] > before[1]
    model.save(tmp_path / "model")
    again = Means.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict([*pairs, (10_000, 3), (10_000, 0)]), changed, rtol=0, atol=1e-5)
    model.remove_ratings([(0, 3), (10_000, 3)])
    np.testing.assert_allclose(model.predict(pairs), before, rtol=0, atol=1e-5)
    told = again.explain(1, 3, by="rating")
    assert told.remainder == pytest.approx(0, abs=1e-4)

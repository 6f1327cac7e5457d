"""BPMF keeps the contract, draws from the distributions that the paper gives, and predicts as well as myFM."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.arrays import Doubles
from cofill.data.ratings import Ratings
from cofill.data.sparse import SparseRows
from cofill.models.baselines.base import STARS, rescaled
from cofill.models.baselines.bpmf import BPMF, BPMFFactors, Prior, draw_precision, draw_prior, draw_rows, draw_wishart
from tests.models.contract import LearnerContract, kept_in, parts, rmse


class TestContract(LearnerContract):
    expected_rmse = 0.85

    def make(self, **changes: Any) -> BPMF:
        if "epochs" in changes:
            changes["samples"] = changes.pop("epochs")
        return BPMF(**{"samples": 25, "burn_in": 20, "threads": 1} | changes)


def drawn(rows: SparseRows, others: Doubles, precision: float, prior: Prior, normal: Doubles) -> Any:
    """(expected, drawn, squared errors)"""
    found = (np.zeros_like(normal), np.zeros_like(normal), np.zeros(rows.rows))
    shift = prior.precision @ prior.mean
    given = (rows.indptr, rows.indices, rows.values, others, precision, shift, prior.precision, normal)
    draw_rows(*given, 0, rows.rows, *found)
    return found


def some_precision(rank: int, rng: np.random.Generator) -> Doubles:
    root = rng.normal(size=(rank, rank + 2))
    precision: Doubles = root @ root.T
    return precision


@settings(max_examples=25, deadline=None)
@given(rank=st.integers(1, 12), ratings=st.integers(1, 30), seed=st.integers(0, 99))
def test_a_row_is_drawn_from_its_posterior(rank: int, ratings: int, seed: int) -> None:
    """Mean A^-1 b and covariance A^-1, where A = prior + precision V'V and b = prior mean + precision V'r,
    with the ones of the bias in V."""
    rng = np.random.default_rng(seed)
    others, prior = rng.normal(size=(ratings, rank)), Prior(rng.normal(size=rank), some_precision(rank, rng))
    values, normal = rng.normal(size=ratings).astype(np.float32), rng.normal(size=(1, rank))
    rows = SparseRows(np.array([0, ratings]), np.arange(ratings, dtype=np.int32), values, ratings)
    expected, draw, squares = drawn(rows, others, 1.7, prior, normal)
    # The last number is a bias: that of the other side is taken off, and the own one added.
    left, others = values - others[:, -1], np.column_stack([others[:, :-1], np.ones(ratings)])
    posterior = prior.precision + 1.7 * others.T @ others
    pull = prior.precision @ prior.mean + 1.7 * others.T @ left
    np.testing.assert_allclose(posterior @ expected[0], pull, atol=1e-8)
    # The draw lies at L'^-1 normal from the mean, and L'^-1 (L'^-1)' is the covariance.
    np.testing.assert_allclose(np.linalg.cholesky(posterior).T @ (draw - expected)[0], normal[0], atol=1e-8)
    assert squares[0] == pytest.approx(((left - others @ draw[0]) ** 2).sum())


def test_a_row_without_ratings_is_left_alone() -> None:
    rows = SparseRows(np.array([0, 0, 1]), np.array([0], np.int32), np.array([2], np.float32), 1)
    prior = Prior(np.zeros(2), np.eye(2))
    expected, draw, squares = drawn(rows, np.ones((1, 2)), 2.0, prior, np.ones((2, 2)))
    assert not expected[0].any()
    assert not draw[0].any()
    assert squares[0] == 0
    assert draw[1].all()


def test_wishart_draws_have_its_mean_and_variance() -> None:
    rng = np.random.default_rng(0)
    scale, freedom = np.array([[2.0, 0.6], [0.6, 1.0]]), 5
    draws = np.array([draw_wishart(scale, freedom, rng) for _ in range(8_000)])
    np.testing.assert_allclose(draws.mean(0), freedom * scale, rtol=0.04)
    variance = freedom * (scale**2 + np.outer(np.diag(scale), np.diag(scale)))
    np.testing.assert_allclose(draws.var(0), variance, rtol=0.09)


def test_priors_are_drawn_around_what_the_vectors_are_like() -> None:
    """Against the posterior of a Gaussian-Wishart(0, 2, diag(1, 0.001)^-1, 2), written out."""
    rng = np.random.default_rng(0)
    vectors = rng.normal([1.0, -2.0], [0.5, 1.5], size=(40, 2))
    draws = [draw_prior(vectors, rng) for _ in range(2_500)]
    centre = vectors.mean(0)
    scatter = np.diag([1, 0.001]) + 40 * np.cov(vectors.T, bias=True) + 2 * 40 / 42 * np.outer(centre, centre)
    precision = np.mean([draw.precision for draw in draws], axis=0)
    np.testing.assert_allclose(precision, 42 * np.linalg.inv(scatter), rtol=0.03, atol=0.01)
    means = np.array([draw.mean for draw in draws])
    np.testing.assert_allclose(means.mean(0), 40 / 42 * centre, atol=0.02)
    # The covariance of the mean is E[(strength * precision)^-1] = scatter / (strength * (freedom - rank - 1)).
    np.testing.assert_allclose(np.cov(means.T), scatter / (42 * (42 - 3)), rtol=0.1, atol=2e-3)


def test_the_precision_is_drawn_around_that_of_the_errors() -> None:
    rng = np.random.default_rng(0)
    draws = np.array([draw_precision(np.array([30.0, 19.0]), 98, 2.0, rng) for _ in range(10_000)])
    assert draws.mean() == pytest.approx(100 / 50, rel=0.01)  # two ratings of squared error 1 / 2 are added
    assert draws.var() == pytest.approx(2 * 100 / 50**2, rel=0.06)


def made_up(noise: float, biases: float) -> tuple[Ratings, Ratings, Doubles]:
    """Ratings that are drawn from the model, of rank 2, those held out, and what is expected of these."""
    rng = np.random.default_rng(4)
    users, items = rng.normal(0, 1, (150, 2)), rng.normal(0, 1, (100, 2))
    truth = users @ items.T + biases * (rng.normal(size=(150, 1)) + rng.normal(size=100))
    known = rng.random(truth.shape) < 0.3
    noisy = truth + rng.normal(0, noise, truth.shape)

    def ratings(chosen: npt.NDArray[np.bool_]) -> Ratings:
        cells = [(int(u), int(i), float(noisy[u, i])) for u, i in zip(*np.nonzero(chosen), strict=True)]
        return Ratings.read(cells, scale=(-20, 20))

    return ratings(known), ratings(~known), truth[~known]


@pytest.mark.parametrize(("biases", "error"), [(0.0, 0.21), (1.0, 0.27)])
def test_ratings_from_the_model_are_understood(biases: float, error: float) -> None:
    """The noise is found as it was made, and what lies behind the noise is predicted."""
    train, rest, truth = made_up(0.5, biases)
    model = BPMF(rank=4, samples=30, threads=1).fit(train)
    in_stars = 4.0 * ((train.scale.high - train.scale.low) / 4) ** 2
    assert model.predictor.factors.arrays()["precision"].mean() == pytest.approx(in_stars, rel=0.1)
    assert rmse(model.predict(rest), truth) < error


def test_more_samples_are_better_than_one() -> None:
    _, train, test, _, _ = parts()
    one, many = (BPMF(samples=samples, burn_in=30, threads=1).fit(train).predict(test) for samples in (1, 25))
    assert rmse(many, test.values) < rmse(one, test.values) - 0.005


def test_predictions_are_the_mean_over_the_samples() -> None:
    """Each sample's own vectors can be had back from the wide ones."""
    _, train, _, _, _ = parts()
    model = BPMF(samples=3, rank=4, burn_in=5, threads=1).fit(train)
    factors = model.predictor.factors
    users, items = (vectors.reshape(-1, 3, 6) * np.sqrt(3) for vectors in (factors.users, factors.items))
    np.testing.assert_allclose(users[..., 5], 1, rtol=1e-6)
    np.testing.assert_allclose(items[..., 4], 1, rtol=1e-6)
    means = rescaled(np.einsum("usk,isk->sui", users, items).mean(0), STARS, train.scale)
    np.testing.assert_allclose(model.predictor.users(np.arange(9)), means[:9], atol=1e-4)


def test_somebody_new_is_expected_in_every_sample() -> None:
    """Against the posterior mean of one sample at a time; an item in the same way, with the items' priors."""
    model = BPMF(samples=3, rank=4, burn_in=5, threads=1).fit(parts().train)
    factors = model.predictor.factors
    assert isinstance(factors, BPMFFactors)
    rng = np.random.default_rng(0)
    ratings = rng.integers(1, 6, 3000).astype(np.float32)
    for others, means, priors, solve, one in (
        (factors.items, factors.user_mean, factors.user_precision, factors.user_from, 5),
        (factors.users, factors.item_mean, factors.item_precision, factors.item_from, 4),
    ):
        chosen = others[rng.integers(0, len(others), 3000)]
        found = solve(chosen, ratings).reshape(3, 6) * np.sqrt(3)
        np.testing.assert_allclose(found[:, one], 1, rtol=1e-6)
        free = [place for place in range(6) if place != one]
        for sample in range(3):
            vectors = chosen.reshape(-1, 3, 6)[:, sample].astype(np.float64) * np.sqrt(3)
            weight, prior, known = factors.precision[sample], priors[sample], vectors[:, free]
            pull = prior @ means[sample, free] + weight * known.T @ (ratings - vectors[:, one])
            expected = np.linalg.solve(prior + weight * known.T @ known, pull)
            np.testing.assert_allclose(found[sample, free], expected, atol=1e-5)


def test_the_paper_holds_the_precision() -> None:
    model = BPMF(samples=3, burn_in=2, precision=2, threads=1).fit(parts().train)
    np.testing.assert_array_equal(model.predictor.factors.arrays()["precision"], 2.0)


def test_progress_counts_turns() -> None:
    seen: list[tuple[float, float]] = []
    model = BPMF(samples=2, thinning=3, burn_in=1, threads=1)
    model.fit(parts().train, progress=kept_in(seen))
    assert seen == [(turn, 7) for turn in range(1, 8)]


def test_myfm_predicts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Bayesian factorisation machine on ids: the same model, with biases of their own beside the factors."""
    # myFM asks pkg_resources for its own version and for nothing else; setuptools no longer has it.
    versions = SimpleNamespace(
        DistributionNotFound=Exception, get_distribution=lambda name: SimpleNamespace(version="")
    )
    monkeypatch.setitem(sys.modules, "pkg_resources", cast(ModuleType, versions))
    myfm = pytest.importorskip("myfm")
    sparse = pytest.importorskip("scipy.sparse")
    _, train, test, _, _ = parts()

    def ids(ratings: Ratings) -> Any:
        user = train.users.find(ratings.users.ids)[ratings.user_index]
        item = train.items.find(ratings.items.ids)[ratings.item_index] + len(train.users)
        place = np.repeat(np.arange(len(ratings)), 2)
        shape = (len(ratings), len(train.users) + len(train.items))
        return sparse.csr_matrix((np.ones(2 * len(ratings)), (place, np.stack([user, item], 1).ravel())), shape=shape)

    theirs = myfm.MyFMRegressor(rank=10, random_seed=1)
    groups = [len(train.users), len(train.items)]
    theirs.fit(ids(train), train.values.astype(np.float64), n_iter=80, n_kept_samples=60, group_shapes=groups)
    expected = rmse(theirs.predict(ids(test)), test.values)
    ours = BPMF(burn_in=20, threads=1).fit(train)
    assert rmse(ours.predict(test), test.values) == pytest.approx(expected, abs=0.005)

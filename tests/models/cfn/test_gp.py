"""The posterior of one column against the textbook's formulas in plain numpy, in the dual and in the primal."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.models.cfn import gp
from cofill.models.cfn.codes import CodeSpace
from cofill.models.cfn.gp import (
    MOST_LOCAL,
    ColumnWeights,
    Expected,
    KernelInputs,
    KernelParams,
    Posterior,
    kernel_between,
    local_kernel,
)
from tests.models.cfn.codes import (
    AMPLITUDES,
    DIRECTIONS,
    WIDTH,
    Doubles,
    Floats,
    plain_kernel,
    some_seen,
    some_space,
)

LAW = settings(max_examples=30, deadline=None)
ABOUT = Expected(np.linspace(-0.5, 0.5, WIDTH + 1, dtype=np.float32), 0.2)


def plain_mean(amplitudes: KernelParams, rows: KernelInputs, about: Expected = ABOUT) -> Doubles:
    codes = rows.codes.astype(np.float64)
    mean: Doubles = about.bias + amplitudes.mean * rows.shrinkage * (codes @ about.weights[:-1] + about.weights[-1])
    return mean


def said(space: CodeSpace, posterior: Posterior, seen: KernelInputs, asked: KernelInputs) -> Floats:
    """What the weights of a column tell of rows."""
    found = posterior.weights()
    local = local_kernel(asked.directions @ seen.directions.T) @ found.alpha
    told: Floats = asked.codes @ found.linear[:-1] + found.linear[-1] + asked.directions @ found.cosine + local
    return found.bias + asked.shrinkage * told


def targets_of(count: int, seed: int) -> Floats:
    return np.random.default_rng([seed, 5]).normal(size=count).astype(np.float32)


@LAW
@given(n=st.integers(0, 25), seed=st.integers(0, 99), local=st.sampled_from([0.0, 0.5]), noise=st.floats(0.05, 2))
def test_it_is_the_posterior_of_a_gaussian_process(n: int, seed: int, local: float, noise: float) -> None:
    """Mean and gain; with more ratings than directions it is solved in the primal."""
    amplitudes, space = replace(AMPLITUDES, local=local, noise=noise), some_space(seed)
    seen, asked, targets = some_seen(space, n, seed), some_seen(space, 5, seed + 100), targets_of(n, seed)
    posterior = Posterior(space, amplitudes, seen, targets, ABOUT)
    gram = plain_kernel(space, amplitudes, seen, seen) + noise * np.eye(n)
    between = plain_kernel(space, amplitudes, asked, seen)
    gain = between @ np.linalg.inv(gram)
    mean = plain_mean(amplitudes, asked) + gain @ (targets - plain_mean(amplitudes, seen))
    np.testing.assert_allclose(posterior.left, targets - plain_mean(amplitudes, seen), rtol=0, atol=1e-5)
    np.testing.assert_allclose(said(space, posterior, seen, asked), mean, rtol=0, atol=1e-4)
    np.testing.assert_allclose(posterior.gain(asked), gain, rtol=0, atol=1e-4)


@LAW
@given(n=st.integers(WIDTH + DIRECTIONS + 2, 60), seed=st.integers(0, 99))
def test_dual_and_primal_are_one(n: int, seed: int) -> None:
    amplitudes, space = replace(AMPLITUDES, local=0.0), some_space(seed)
    seen, asked, targets = some_seen(space, n, seed), some_seen(space, 7, seed + 100), targets_of(n, seed)
    primal = Posterior(space, amplitudes, seen, targets, ABOUT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gp, "_most_in_dual", lambda _: n)
        dual = Posterior(space, amplitudes, seen, targets, ABOUT)
    for name, one, other in zip(ColumnWeights._fields, primal.weights(), dual.weights(), strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=0, atol=1e-4, err_msg=name)
    np.testing.assert_allclose(primal.gain(asked), dual.gain(asked), rtol=0, atol=1e-4)


def test_a_cut_local_kernel_is_taken_as_it_is_given() -> None:
    space = some_space()
    seen, asked = some_seen(space, 4), some_seen(space, 3, 1)
    whole = kernel_between(AMPLITUDES, asked, seen)
    np.testing.assert_allclose(whole, plain_kernel(space, AMPLITUDES, asked, seen), rtol=0, atol=1e-5)
    given_whole = kernel_between(AMPLITUDES, asked, seen, local_kernel(asked.directions @ seen.directions.T))
    np.testing.assert_array_equal(given_whole, whole)
    without = kernel_between(AMPLITUDES, asked, seen, np.zeros((3, 4), np.float32))
    np.testing.assert_allclose(without, kernel_between(replace(AMPLITUDES, local=0.0), asked, seen), rtol=0, atol=1e-6)
    posterior = Posterior(space, AMPLITUDES, seen, targets_of(4, 0), ABOUT)
    inverse = np.linalg.inv(plain_kernel(space, AMPLITUDES, seen, seen) + AMPLITUDES.noise * np.eye(4))
    np.testing.assert_allclose(
        posterior.gain(asked, np.zeros((3, 4), np.float32)), without @ inverse, rtol=0, atol=1e-5
    )


def test_of_a_column_without_ratings_the_expectation_is_all_there_is() -> None:
    space = some_space()
    posterior = Posterior(space, AMPLITUDES, some_seen(space, 0), targets_of(0, 0), ABOUT)
    asked = some_seen(space, 5)
    np.testing.assert_allclose(posterior.prior_mean(asked), plain_mean(AMPLITUDES, asked), rtol=0, atol=1e-6)
    found = posterior.weights()
    np.testing.assert_allclose(found.linear, AMPLITUDES.mean * ABOUT.weights, rtol=1e-6)
    assert found.bias == pytest.approx(0.2)
    assert not found.cosine.any()
    assert found.alpha.shape == (0,)


def test_rows_that_are_not_believed_get_the_bias_alone() -> None:
    space = some_space()
    seen = some_seen(space, 8)
    nobody = some_seen(space, 3, 1)._replace(shrinkage=np.zeros(3, np.float32))
    posterior = Posterior(space, AMPLITUDES, seen, targets_of(8, 0), ABOUT)
    told = said(space, posterior, seen, nobody)
    np.testing.assert_array_equal(told, np.full(3, posterior.weights().bias))
    # And where no rating is believed, it is the damped mean of what is left over.
    unknown = seen._replace(shrinkage=np.zeros(8, np.float32))
    alone = Posterior(space, AMPLITUDES, unknown, targets_of(8, 0), ABOUT).weights()
    damped = (targets_of(8, 0) - 0.2).sum(dtype=np.float64) / (8 + AMPLITUDES.noise / AMPLITUDES.bias)
    assert alone.bias == pytest.approx(0.2 + damped, abs=1e-6)


def test_very_many_ratings_do_without_the_local_kernel() -> None:
    space = some_space()
    count = MOST_LOCAL + 1
    seen, targets = some_seen(space, count), targets_of(count, 0)
    ways = [Posterior(space, replace(AMPLITUDES, local=local), seen, targets, ABOUT) for local in (0.5, 0.0)]
    for one, other in zip(*(way.weights() for way in ways), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not ways[0].weights().alpha.any()
    asked = some_seen(space, 3, 1)
    np.testing.assert_array_equal(ways[0].gain(asked), ways[1].gain(asked))


@pytest.mark.parametrize("local", [5.0, 0.0])
@pytest.mark.parametrize("noise", [1e-5, 1e-2])
def test_codes_that_are_nearly_alike_and_little_noise(noise: float, local: float) -> None:
    """Then the kernel is all but singular, in the dual and, without a local kernel, in the primal."""
    space = some_space()
    one = some_seen(space, 1)
    codes = np.repeat(one.codes, 60, 0) + np.random.default_rng(0).normal(0, 1e-4, (60, WIDTH)).astype(np.float32)
    seen = KernelInputs.of(space, codes, np.full(60, 0.9, np.float32))
    amplitudes = KernelParams(noise, 5.0, 50.0, 5.0, local, 3.0, 0.6, 0.0)
    posterior = Posterior(space, amplitudes, seen, np.full(60, 1.5, np.float32), ABOUT)
    np.testing.assert_allclose(said(space, posterior, seen, seen), 1.5, rtol=0, atol=0.02)


def test_shrinkage_by_hand() -> None:
    amplitudes = replace(AMPLITUDES, half=3.0, features=2.0)
    found = amplitudes.shrinkage(np.array([0, 3, 9, 0, 1]), np.array([False, False, False, True, True]))
    np.testing.assert_allclose(found, [0, 0.5, 0.75, 0.4, 0.5], rtol=1e-6)
    assert replace(amplitudes, half=0.0).shrinkage(np.array([0, 1]), np.zeros(2, np.bool_)).tolist() == [0, 1]


def test_amplitudes_as_arrays_and_back() -> None:
    for amplitudes in (AMPLITUDES, replace(AMPLITUDES, short=(0.3, 0.1, 0.2, 0.1))):
        assert KernelParams.from_array(amplitudes.as_array()) == amplitudes


def test_a_code_at_the_centre_has_no_direction() -> None:
    space = some_space()
    found = space.directions(np.stack([space.centre, space.centre + 1]))
    assert not found[0].any()
    assert np.linalg.norm(found[1]) == pytest.approx(1)


def test_what_codes_have_beside_the_basis_is_not_compared() -> None:
    space = some_space()
    beside = np.linalg.svd(space.basis)[0][:, DIRECTIONS:]  # (width, 2)
    codes = some_seen(space, 5).codes
    moved = codes + (np.random.default_rng(0).normal(size=(5, beside.shape[1])) @ beside.T).astype(np.float32)
    np.testing.assert_allclose(space.directions(moved), space.directions(codes), rtol=0, atol=1e-5)
    lengths = [np.linalg.norm(space.centred(some), axis=1) for some in (moved, codes)]
    np.testing.assert_allclose(lengths[0], lengths[1], rtol=1e-4)
    np.testing.assert_allclose(space.projected(moved)[0], space.projected(codes)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("sizes", [(3.0, 1.0, 0.3), (1.0,) * (WIDTH + 1), (2.0, 1.0, 0.0)])
def test_a_turned_factor_is_a_factor(sizes: tuple[float, ...]) -> None:
    """Also with more directions than codes have."""
    factor = np.random.default_rng(3).normal(size=(WIDTH + 1, len(sizes))) * sizes
    whole = some_space()
    space = CodeSpace.of(whole.mean, whole.by_features, factor, whole.centre)
    np.testing.assert_allclose(space.factor @ space.factor.T, factor @ factor.T, rtol=0, atol=1e-4)
    real = min(np.count_nonzero(sizes), WIDTH)
    np.testing.assert_allclose(np.linalg.svd(space.basis)[1][:real], 1, rtol=1e-5)
    codes = np.column_stack([some_seen(whole, 8).codes, np.ones(8, np.float32)])
    along, directions = space.projected(codes[:, :-1])
    np.testing.assert_allclose(along, codes @ space.factor, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1, rtol=1e-5)

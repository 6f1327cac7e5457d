"""Posterior variances of many columns at once are those of a Gaussian process, column by column."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.models.cfn import gp
from cofill.models.cfn.codes import CodeSpace
from cofill.models.cfn.gp import SHORT, KernelInputs, KernelParams, RowsOf, posterior_variances
from tests.models.cfn.codes import AMPLITUDES, WIDTH, Doubles, plain_kernel, some_codes, some_space

ROWS = 60
LAW = settings(max_examples=20, deadline=None)


def some_rows(lengths: list[int], seed: int) -> RowsOf:
    """So many rows of each column, some of them twice, believed more or less."""
    rng = np.random.default_rng(seed)
    count = sum(lengths)
    shrinkage = rng.uniform(0, 1, count).astype(np.float32)
    return RowsOf.of([range(length) for length in lengths], rng.integers(0, ROWS, count), shrinkage)


def one_by_one(space: CodeSpace, amplitudes: KernelParams, rated: RowsOf, asked: RowsOf, most: int = 10**9) -> Doubles:
    codes, found = some_codes(ROWS), []

    def seen(rows: RowsOf, chosen: range | list[int]) -> KernelInputs:
        places = np.array(chosen, np.int64)
        return KernelInputs.of(space, codes[rows.places[places]], rows.shrinkage[places])

    for column in range(len(rated.starts) - 1):
        (first, last), (start, end) = ((int(x) for x in rows.starts[column : column + 2]) for rows in (rated, asked))
        count = last - first
        own = amplitudes.for_column(count)
        read = min(count, most)
        known = seen(rated, [first + place * count // read for place in range(read)])
        wanted = seen(asked, range(start, end))
        gram = plain_kernel(space, own, known, known) + own.noise * np.eye(len(known.shrinkage))
        between = plain_kernel(space, own, wanted, known)
        explained = np.einsum("ij,ji->i", between, np.linalg.solve(gram, between.T))
        # However little a row is believed, there is as much to explain.
        whole = wanted._replace(shrinkage=np.ones(end - start, np.float32))
        found.append(np.diag(plain_kernel(space, own, whole, whole)) - explained)
    return np.concatenate([*found, np.empty(0)])


@LAW
@given(
    lengths=st.lists(st.tuples(st.sampled_from([0, 1, 3, SHORT, SHORT + 1, 45]), st.integers(0, 4)), max_size=6),
    local=st.sampled_from([0.0, 0.5]),
    short=st.sampled_from([None, (0.3, 0.1, 0.2, 0.1)]),
)
def test_every_column_by_itself(
    lengths: list[tuple[int, int]], local: float, short: tuple[float, float, float, float] | None
) -> None:
    amplitudes, space = replace(AMPLITUDES, local=local, short=short), some_space()
    rated, asked = (some_rows([pair[side] for pair in lengths], side) for side in (0, 1))
    found = posterior_variances(space, amplitudes, some_codes(ROWS), rated, asked)
    np.testing.assert_allclose(found, one_by_one(space, amplitudes, rated, asked), rtol=0, atol=1e-4)


def test_of_many_ratings_some_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gp, "MOST_READ", 30)
    rated, asked, space = some_rows([29, 30, 31, 75], 0), some_rows([2, 2, 2, 2], 1), some_space()
    found = posterior_variances(space, AMPLITUDES, some_codes(ROWS), rated, asked)
    np.testing.assert_allclose(found, one_by_one(space, AMPLITUDES, rated, asked, 30), rtol=0, atol=1e-4)
    whole = one_by_one(space, AMPLITUDES, rated, asked)
    np.testing.assert_allclose(found[:4], whole[:4], rtol=0, atol=1e-4)
    assert (found[4:] > whole[4:] + 1e-4).any()


def test_more_ratings_leave_less_doubt() -> None:
    space, asked = some_space(), some_rows([5], 1)
    doubts = []
    for count in range(0, 60, 10):
        rated = RowsOf.of([range(count)], np.arange(count), np.full(count, 0.8, np.float32))
        doubts.append(posterior_variances(space, AMPLITUDES, some_codes(ROWS), rated, asked))
    assert (np.diff(np.array(doubts), axis=0) <= 1e-5).all()
    assert (doubts[-1] < 0.9 * doubts[0]).any()


@pytest.mark.parametrize("noise", [1e-4, 1e-2])
def test_codes_that_are_nearly_alike_and_little_noise(noise: float) -> None:
    """Then the kernel is all but singular, and little doubt is left."""
    space, near = some_space(), np.random.default_rng(0).normal(0, 1e-4, (60, WIDTH)).astype(np.float32)
    rows = RowsOf.of([range(60)], np.arange(60), np.ones(60, np.float32))
    amplitudes = KernelParams(noise, 5.0, 50.0, 5.0, 5.0, 3.0, 0.6, 0.0)
    found = posterior_variances(space, amplitudes, np.repeat(some_codes(1), 60, 0) + near, rows, rows)
    assert (found < 0.01).all()

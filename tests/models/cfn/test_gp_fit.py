"""Amplitudes: slopes against finite differences, and what is learned where codes tell much, nothing, or too little."""

import gc
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest

from cofill import CFN
from cofill.data.sparse import SparseRows
from cofill.models.cfn.codes import CodeSpace, EncodedRows
from cofill.models.cfn.gp import Expected, KernelInputs, KernelParams, Posterior, RatedColumns
from cofill.models.cfn.gp_fit import DecoderFit, HeldOut, Learned, Lesson, _Batch, halves_of
from cofill.models.rng import Portion
from tests.models.cfn.codes import AMPLITUDES, WIDTH, Bools, Floats, Ints, no_interactions, some_codes, some_space

NAMES = ["bias", "taste", "cosine", "local", "half", "mean", "power", "features", "interactions"]


@dataclass(frozen=True)
class World:
    """Ratings of a training part, and held-out ones."""

    by_column: SparseRows
    held_out: HeldOut
    codes: Floats  # (rows, width)
    counts: "np.ndarray[tuple[int], np.dtype[np.int64]]"

    @property
    def described(self) -> Bools:
        """(rows,): which have side features."""
        flags: Bools = np.arange(len(self.codes)) % 3 == 0
        return flags

    @property
    def whole(self) -> EncodedRows:
        return EncodedRows(self.codes, np.zeros(len(self.codes), np.float32), self.counts, self.described)

    def left_out(self, rows: Ints, columns: Ints, ratings: Floats) -> EncodedRows:
        return self.whole.take(rows)

    def lesson(self, space: CodeSpace, expected: tuple[Floats, Floats]) -> Lesson:
        def of(columns: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
            return expected[0][columns], expected[1][columns]

        values = self.by_column.values
        data = RatedColumns(self.by_column, values, space, self.whole, self.left_out, of, no_interactions)
        portion = Portion.of(self.by_column.transpose())
        return Lesson(data, self.held_out, self.whole, portion.row_keys, portion, 0)

    def learn(self, space: CodeSpace, first: KernelParams) -> Learned:
        columns = self.by_column.rows
        nothing = np.zeros((columns, WIDTH + 1), np.float32), np.zeros(columns, np.float32)
        return self.lesson(space, nothing).learn(first)


def some_world(
    space: CodeSpace, *, tastes: float = 0.0, columns: int = 60, rows: int = 50, asked: int = 400, seed: int = 0
) -> World:
    """Ratings are a column's bias, its taste of codes that are known or of others, and noise of variance 0.25."""
    rng = np.random.default_rng(seed)
    codes = some_codes(rows, seed)
    truth = (
        rng.normal(0, 0.3, (columns, 1))
        + tastes * rng.normal(size=(columns, space.factor.shape[1])) @ space.projected(codes)[0].T
    )
    values = (truth + rng.normal(0, 0.5, truth.shape)).astype(np.float32)
    known = rng.random(truth.shape) < 0.5
    column, row = np.nonzero(known)
    chosen = np.zeros(len(row), np.bool_)
    chosen[rng.permutation(len(row))[:asked]] = True
    asked_values = values[column[chosen], row[chosen]]
    held_out = HeldOut(row[chosen], column[chosen].astype(np.int32), asked_values, np.zeros_like(asked_values))
    row, column = row[~chosen], column[~chosen]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=columns))]).astype(np.int64)
    by_column = SparseRows(indptr, row.astype(np.int32), values[column, row], rows)
    return World(by_column, held_out, codes, np.bincount(row, minlength=rows).astype(np.int64))


FIRST = KernelParams(0.25, 0.09, taste=0.3, cosine=0.0125, local=0.0125, half=3.0, mean=0.3, features=0.0)


def read_batch(world: World, space: CodeSpace, expected: tuple[Floats, Floats]) -> _Batch:
    """All columns, padded on both sides."""
    (batch,) = world.lesson(space, expected)._read(np.arange(world.by_column.rows))
    return batch


def some_expected(columns: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(8)
    return rng.normal(0, 0.4, (columns, WIDTH + 1)).astype(np.float32), rng.normal(0, 0.2, columns).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_those_of_finite_differences(seed: int) -> None:
    space = some_space(seed, features=2)
    world = some_world(space, tastes=1.0, columns=12, rows=15, asked=30, seed=seed)
    own = replace(AMPLITUDES, power=1.3, features=2.0, interactions=0.7)
    batch = read_batch(world, space, some_expected(12))
    rng = np.random.default_rng(seed)
    rated, asked = (
        rows._replace(interactions=(rng.normal(size=rows.mask.shape) * rows.mask).astype(np.float32))
        for rows in (batch.rated, batch.asked)
    )
    batch = replace(batch, rated=rated, asked=asked)
    squares = batch.squares(own, NAMES)
    there = batch.asked.mask
    for place, name in enumerate(NAMES):
        step = 3e-3
        beside = [
            batch._solved(replace(own, **{name: getattr(own, name) * np.exp(way * step)})).errors[there].astype(float)
            for way in (-1, 1)
        ]
        slopes = (beside[1] - beside[0]) / (2 * step)
        errors = (beside[1] + beside[0]) / 2
        assert squares[place, -1] == pytest.approx(float(slopes @ errors), rel=1e-2, abs=1e-2), name
        assert squares[place, place] == pytest.approx(float(slopes @ slopes), rel=1e-2, abs=1e-3), name
    np.testing.assert_allclose(squares, squares.T)


def predicted(
    world: World, space: CodeSpace, amplitudes: KernelParams, expected: tuple[Floats, Floats] | None = None
) -> Floats:
    """Of the held-out ratings, one after the other."""
    columns = world.by_column.rows
    nothing = np.zeros((columns, WIDTH + 1), np.float32), np.zeros(columns, np.float32)
    weights, biases = expected or nothing
    found = []
    for column, row in zip(world.held_out.columns.tolist(), world.held_out.rows.tolist(), strict=True):
        rated, ratings = world.by_column.row(column)
        seen, asked = (
            KernelInputs.of(space, world.codes[at], amplitudes.shrinkage(world.counts[at], world.described[at]))
            for at in (rated, np.array([row]))
        )
        posterior = Posterior(space, amplitudes, seen, ratings, Expected(weights[column], float(biases[column])))
        found.append((posterior.prior_mean(asked) + posterior.gain(asked) @ posterior.left)[0])
    return np.array(found, np.float32)


@pytest.mark.parametrize("features", [0.0, 4.0])
def test_errors_are_those_of_each_column_by_itself(features: float) -> None:
    """Features are worth as many ratings here as where columns are solved."""
    amplitudes, space = replace(AMPLITUDES, features=features), some_space(features=2)
    world = some_world(space, tastes=1.0, columns=12, rows=15, asked=30)
    expected = some_expected(12)
    wrong = predicted(world, space, amplitudes, expected) - world.held_out.targets
    batch = read_batch(world, space, expected)
    of_columns = np.bincount(world.held_out.columns, wrong.astype(np.float64) ** 2, 12)
    np.testing.assert_allclose(np.sort(batch.squared_errors(amplitudes)), np.sort(of_columns), rtol=0, atol=1e-3)
    assert batch.squares(amplitudes, NAMES)[-1, -1] == pytest.approx(of_columns.sum(), rel=1e-4)


def of_biases(world: World, bias: float) -> Floats:
    """Of the held-out ratings: the damped mean of each column."""
    sums, counts = world.by_column.row_sums(world.by_column.values), world.by_column.counts()
    damped: Floats = (sums / (counts + FIRST.noise / bias)).astype(np.float32)[world.held_out.columns]
    return damped


def rmse(found: Floats, targets: Floats) -> float:
    return float(np.sqrt(np.mean((found - targets) ** 2)))


@pytest.mark.parametrize("seed", range(2))
def test_where_codes_say_nothing_the_biases_remain(seed: int) -> None:
    space = some_space(seed)
    world = some_world(space, tastes=0.0, columns=150, asked=1500, seed=seed)
    learned = world.learn(space, FIRST)
    assert world.learn(space, FIRST) == learned  # nothing is left to chance
    assert learned.amplitudes.taste == 0
    assert set(learned.crossed) == {learned.amplitudes}
    alone = of_biases(world, learned.amplitudes.bias)
    np.testing.assert_allclose(predicted(world, space, learned.amplitudes), alone, rtol=0, atol=1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_where_codes_tell_tastes_they_are_believed(seed: int) -> None:
    space = some_space(seed)
    world = some_world(space, tastes=1.0, columns=150, asked=1500, seed=seed)
    learned = world.learn(space, FIRST)
    targets = world.held_out.targets
    of_biases_alone = rmse(of_biases(world, 0.09), targets)
    for amplitudes in (learned.amplitudes, *learned.crossed):
        assert rmse(predicted(world, space, amplitudes), targets) < 0.8 * of_biases_alone
    assert learned.amplitudes.taste > 0.5  # 1 is what tastes were made with
    # The noise is that of the biases, and not learned.
    assert learned.amplitudes.noise == FIRST.noise
    # Each half of the columns teaches for itself.
    halves = halves_of(0, Portion.of(world.by_column.transpose()))
    assert 50 < halves.sum() < 100
    for half, amplitudes in enumerate(learned.crossed):
        taught = halves[world.held_out.columns] != half
        wrong = [
            rmse(predicted(world, space, one)[taught], targets[taught]) for one in (amplitudes, learned.amplitudes)
        ]
        assert wrong[0] < wrong[1]


def test_three_validation_ratings_are_no_evidence_of_taste() -> None:
    space = some_space()
    world = some_world(space, tastes=1.0, asked=3)
    learned = world.learn(space, FIRST)
    assert (learned.amplitudes.taste, learned.amplitudes.cosine, learned.amplitudes.local) == (0, 0, 0)
    assert learned.amplitudes.bias == FIRST.bias


def test_without_a_local_kernel_there_stays_none() -> None:
    space = some_space()
    learned = some_world(space, tastes=1.0).learn(space, replace(FIRST, local=0.0))
    assert learned.amplitudes.local == 0
    assert learned.amplitudes.taste != FIRST.taste


def test_nothing_to_learn_from() -> None:
    """Held-out ratings of columns that have no others."""
    space = some_space()
    world = some_world(space, asked=0)
    learned = world.learn(space, FIRST)
    assert learned.amplitudes == FIRST
    assert learned.crossed == (FIRST, FIRST)


def test_a_search_is_let_go_before_the_training() -> None:
    """Its network and its ratings: nothing holds them in a circle, which would wait for the garbage collector."""
    ratings = [(user, item, 1.0 + (user * item) % 5) for user in range(20) for item in range(user % 3, 12)]
    gc.collect()
    gc.disable()
    try:
        CFN(hidden=4, epochs=1, threads=1).fit(ratings)
        assert not [one for one in gc.get_objects() if type(one) is DecoderFit]
    finally:
        gc.enable()

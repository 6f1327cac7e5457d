"""Amplitudes: slopes against finite differences, and what is learned where codes tell much, nothing, or too little."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from cofill.data.sparse import SparseRows
from cofill.models.decoder.amplitudes import (
    Cost,
    Doubles,
    ExpectedOf,
    HeldOut,
    Learned,
    _Batch,
    _settled,
    halves_of,
    learn,
)
from cofill.models.decoder.kernel import Amplitudes, CodeSpace, Expected, Posterior
from cofill.models.decoder.solving import Without, batches
from cofill.models.portion import Portion
from tests.models.decoder.codes import AMPLITUDES, WIDTH, Bools, Floats, Ints, some_codes, some_space

NAMES = ["bias", "taste", "cosine", "local", "half", "mean"]


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

    def left_out(self, rows: Ints, columns: Ints, ratings: Floats) -> Without:
        return Without(self.codes[rows], np.zeros(len(rows), np.float32), self.counts[rows], self.described[rows])

    def learn(self, space: CodeSpace, first: Amplitudes) -> Learned:
        nothing = np.zeros((self.by_column.rows, WIDTH + 1), np.float32), np.zeros(self.by_column.rows, np.float32)
        return learn(
            self.by_column, self.by_column.values, space, first, self.left_out, self.held_out, self.codes,
            self.counts, self.described, of(nothing), Portion.of(self.by_column.transpose()), seed=0,
        )  # fmt: skip


def some_world(
    space: CodeSpace, *, tastes: float = 0.0, columns: int = 60, rows: int = 50, asked: int = 400, seed: int = 0
) -> World:
    """Ratings are a column's bias, its taste of codes that are known or of others, and noise of variance 0.25."""
    rng = np.random.default_rng(seed)
    codes = some_codes(rows, seed)
    truth = (
        rng.normal(0, 0.3, (columns, 1))
        + tastes * rng.normal(size=(columns, space.factor.shape[1])) @ space.along(codes).T
    )
    values = (truth + rng.normal(0, 0.5, truth.shape)).astype(np.float32)
    known = rng.random(truth.shape) < 0.5
    column, row = np.nonzero(known)
    chosen = np.zeros(len(row), np.bool_)
    chosen[rng.permutation(len(row))[:asked]] = True
    held_out = HeldOut(row[chosen], column[chosen].astype(np.int32), values[column[chosen], row[chosen]])
    row, column = row[~chosen], column[~chosen]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=columns))]).astype(np.int64)
    by_column = SparseRows(indptr, row.astype(np.int32), values[column, row], rows)
    return World(by_column, held_out, codes, np.bincount(row, minlength=rows).astype(np.int64))


FIRST = Amplitudes.at_first(0.25, 0.09, local=True, described=True)


def read_batches(world: World, space: CodeSpace, expected: tuple[Floats, Floats]) -> list[_Batch]:
    """Several columns each, padded on both sides."""
    found = []
    for batch in batches(world.by_column, np.arange(world.by_column.rows), WIDTH):
        places = [np.flatnonzero(world.held_out.columns == column) for column in batch.columns]
        most = max(len(part) for part in places)
        asked = np.stack([np.append(part, np.full(most - len(part), -1)) for part in places])
        found.append(
            _Batch.read(
                batch, asked, world.by_column, world.by_column.values, space, world.left_out, world.held_out,
                world.codes, world.counts, world.described, of(expected),
            )
        )  # fmt: skip
    return found


def of(expected: tuple[Floats, Floats]) -> ExpectedOf:
    """As `learn` asks for it."""
    return lambda columns: (expected[0][columns], expected[1][columns])


def some_expected(columns: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(8)
    return rng.normal(0, 0.4, (columns, WIDTH + 1)).astype(np.float32), rng.normal(0, 0.2, columns).astype(np.float32)


@pytest.mark.parametrize("seed", range(3))
def test_slopes_are_those_of_finite_differences(seed: int) -> None:
    space = some_space(seed)
    world = some_world(space, tastes=1.0, columns=12, rows=15, asked=30, seed=seed)
    (batch,) = read_batches(world, space, some_expected(12))
    exact = batch.in_double()
    _, slope = exact.error(AMPLITUDES, NAMES)
    for place, name in enumerate(NAMES):
        step = 1e-4
        beside = [
            exact.error(replace(AMPLITUDES, **{name: getattr(AMPLITUDES, name) * np.exp(way * step)}), NAMES)[0]
            for way in (-1, 1)
        ]
        assert slope[place] == pytest.approx((beside[1] - beside[0]) / (2 * step), rel=1e-5, abs=1e-5), name
    error, single = batch.error(AMPLITUDES, NAMES)
    assert error == pytest.approx(exact.error(AMPLITUDES, NAMES)[0], rel=1e-5)
    np.testing.assert_allclose(single, slope, rtol=1e-3, atol=1e-3)


def predicted(
    world: World, space: CodeSpace, amplitudes: Amplitudes, expected: tuple[Floats, Floats] | None = None
) -> Floats:
    """Of the held-out ratings, one after the other."""
    columns = world.by_column.rows
    nothing = np.zeros((columns, WIDTH + 1), np.float32), np.zeros(columns, np.float32)
    weights, biases = expected or nothing
    found = []
    for column, row in zip(world.held_out.columns.tolist(), world.held_out.rows.tolist(), strict=True):
        rated, ratings = world.by_column.row(column)
        seen, asked = (
            space.seen(world.codes[at], amplitudes.trust(world.counts[at], world.described[at]))
            for at in (rated, np.array([row]))
        )
        posterior = Posterior(space, amplitudes, seen, ratings, Expected(weights[column], float(biases[column])))
        found.append((posterior.prior_mean(asked) + posterior.gain(asked) @ posterior.left)[0])
    return np.array(found, np.float32)


@pytest.mark.parametrize("features", [0.0, 4.0])
def test_errors_are_those_of_each_column_by_itself(features: float) -> None:
    """Features are worth as many ratings here as where columns are solved."""
    amplitudes, space = replace(AMPLITUDES, features=features), some_space()
    world = some_world(space, tastes=1.0, columns=12, rows=15, asked=30)
    expected = some_expected(12)
    wrong = predicted(world, space, amplitudes, expected) - world.held_out.targets
    (batch,) = read_batches(world, space, expected)
    of_columns = np.bincount(world.held_out.columns, wrong.astype(np.float64) ** 2, 12)
    np.testing.assert_allclose(np.sort(batch.squared_errors(amplitudes)), np.sort(of_columns), rtol=0, atol=1e-3)
    assert batch.error(amplitudes, NAMES)[0] == pytest.approx(of_columns.sum(), rel=1e-4)


def of_biases(world: World, bias: float) -> Floats:
    """Of the held-out ratings: the damped mean of each column."""
    sums, counts = world.by_column.row_sums(world.by_column.values), world.by_column.counts()
    damped: Floats = (sums / (counts + FIRST.noise / bias)).astype(np.float32)[world.held_out.columns]
    return damped


def rmse(found: Floats, targets: Floats) -> float:
    return float(np.sqrt(np.mean((found - targets) ** 2)))


@pytest.mark.parametrize("seed", range(3))
def test_where_codes_say_nothing_the_biases_remain(seed: int) -> None:
    space = some_space(seed)
    world = some_world(space, tastes=0.0, columns=150, asked=1500, seed=seed)
    learned = world.learn(space, FIRST)
    assert world.learn(space, FIRST) == learned  # nothing is left to chance
    assert learned.amplitudes.taste == 0
    assert set(learned.crossed) == {learned.amplitudes}
    alone = of_biases(world, learned.amplitudes.bias)
    np.testing.assert_allclose(predicted(world, space, learned.amplitudes), alone, rtol=0, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
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


@pytest.mark.parametrize("seed", range(3))
def test_each_half_of_the_columns_teaches_for_itself(seed: int) -> None:
    space = some_space(seed)
    world = some_world(space, tastes=1.0, columns=150, asked=1500, seed=seed)
    learned = world.learn(space, FIRST)
    halves = halves_of(0, Portion.of(world.by_column.transpose()))
    assert 50 < halves.sum() < 100
    for half, amplitudes in enumerate(learned.crossed):
        taught = halves[world.held_out.columns] != half
        wrong = [
            rmse(predicted(world, space, one)[taught], world.held_out.targets[taught])
            for one in (amplitudes, learned.amplitudes)
        ]
        assert wrong[0] < wrong[1]


# Where a search has ended


def flat(at: Doubles) -> tuple[float, Doubles]:
    """Lowest at (0.3, -1), where it is nearly flat along one direction."""
    away = at - np.array([0.3, -1.0])
    along, across = away[0] + away[1], away[0] - away[1]
    return float(100 + 0.1 * along**2 + 0.1 * along**3 + across**2), np.array(
        [0.2 * along + 0.3 * along**2 + 2 * across, 0.2 * along + 0.3 * along**2 - 2 * across]
    )


def a_part(at: Doubles) -> tuple[float, Doubles]:
    """A third of it, or nearly so."""
    value, slope = flat(at + 0.05)
    return value / 3, slope / 3


@pytest.mark.parametrize("roughly", [flat, a_part])
@pytest.mark.parametrize("start", [(0.3, -1.0), (0.33, -0.97), (0.27, -1.02), (1.3, 0.4), (0.1, -1.3)])
def test_wherever_a_search_has_ended_amplitudes_settle_at_one_point(start: tuple[float, float], roughly: Cost) -> None:
    settled = _settled(np.array(start), flat, flat, roughly, [(-6, 6), (-6, 6)])
    np.testing.assert_allclose(settled, [0.3, -1.0], rtol=0, atol=1e-5)


def test_amplitudes_settle_within_their_bounds() -> None:
    at = _settled(np.array([0.25, -1.03]), flat, flat, flat, [(-6, 0.25), (-6, 6)])
    assert at[0] == 0.25  # it was at its bound, and the other one settles beside it
    assert abs(flat(at)[1][1]) < 1e-5
    np.testing.assert_array_equal(_settled(np.array([0.25, -2]), flat, flat, flat, [(0.25, 1), (-3, -2)]), [0.25, -2])

"""Amplitudes: slopes against finite differences, and what is learned where codes tell much, nothing, or too little."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from cofill.data.sparse import SparseRows
from cofill.models.decoder.amplitudes import Cost, Doubles, ExpectedOf, HeldOut, Learned, _Batch, _settled, learn
from cofill.models.decoder.kernel import Amplitudes, CodeSpace, Expected, Posterior
from cofill.models.decoder.solving import Without, batches
from cofill.models.portion import Portion
from tests.models.decoder.codes import AMPLITUDES, WIDTH, Floats, Ints, some_codes, some_space

NAMES = ["bias", "taste", "cosine", "local", "half", "mean"]


@dataclass(frozen=True)
class World:
    """Ratings of a training part, and held-out ones."""

    by_column: SparseRows
    held_out: HeldOut
    codes: Floats  # (rows, width)
    counts: "np.ndarray[tuple[int], np.dtype[np.int64]]"

    def left_out(self, rows: Ints, columns: Ints, ratings: Floats) -> Without:
        described = np.zeros(len(rows), np.bool_)
        means = np.zeros(len(rows), np.float32)
        return Without(self.codes[rows], means, self.counts[rows], described)

    def learn(self, space: CodeSpace, first: Amplitudes) -> Learned:
        nothing = np.zeros((self.by_column.rows, WIDTH + 1), np.float32), np.zeros(self.by_column.rows, np.float32)
        return learn(
            self.by_column, self.by_column.values, space, first, self.left_out, self.held_out, self.codes,
            self.counts, of(nothing), Portion.of(self.by_column.transpose()), seed=0,
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
                world.codes, world.counts, of(expected),
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


def test_predictions_are_those_of_each_column_by_itself() -> None:
    space = some_space()
    world = some_world(space, tastes=1.0, columns=12, rows=15, asked=30)
    weights, biases = some_expected(12)
    (batch,) = read_batches(world, space, (weights, biases))
    places, predicted, _ = batch.predicted(AMPLITUDES)
    assert sorted(places.tolist()) == list(range(30))
    for place, found in zip(places.tolist(), predicted.tolist(), strict=True):
        column, row = int(world.held_out.columns[place]), world.held_out.rows[place]
        rated, ratings = world.by_column.row(column)
        seen, asked = (
            space.seen(world.codes[at], AMPLITUDES.trust(world.counts[at], np.zeros(len(at), np.bool_)))
            for at in (rated, np.array([row]))
        )
        posterior = Posterior(space, AMPLITUDES, seen, ratings, Expected(weights[column], float(biases[column])))
        expected = posterior.prior_mean(asked) + posterior.gain(asked) @ posterior.left
        assert found == pytest.approx(float(expected[0]), abs=1e-4)
    wrong = predicted - world.held_out.targets[places]
    assert batch.error(AMPLITUDES, NAMES)[0] == pytest.approx(float((wrong.astype(np.float64) ** 2).sum()), rel=1e-4)


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
    targets = world.held_out.targets[learned.asked]
    alone = of_biases(world, learned.amplitudes.bias)[learned.asked]
    apart = float(np.sqrt(np.mean((learned.predicted - alone) ** 2)))
    before = world.learn(space, FIRST).amplitudes
    assert before == learned.amplitudes  # nothing is left to chance
    assert apart < 1e-5
    assert learned.amplitudes.taste == 0
    assert rmse(learned.predicted, targets) < 1.005 * rmse(alone, targets)


@pytest.mark.parametrize("seed", range(3))
def test_where_codes_tell_tastes_they_are_believed(seed: int) -> None:
    space = some_space(seed)
    world = some_world(space, tastes=1.0, columns=150, asked=1500, seed=seed)
    learned = world.learn(space, FIRST)
    targets = world.held_out.targets[learned.asked]
    assert rmse(learned.predicted, targets) < 0.8 * rmse(of_biases(world, 0.09)[learned.asked], targets)
    assert learned.amplitudes.taste > 0.5  # 1 is what tastes were made with
    # The noise is that of the biases, and not learned.
    assert learned.amplitudes.noise == FIRST.noise


def test_three_validation_ratings_are_no_evidence_of_taste() -> None:
    space = some_space()
    world = some_world(space, tastes=1.0, asked=3)
    learned = world.learn(space, FIRST)
    assert len(learned.asked) == 3
    assert (learned.amplitudes.taste, learned.amplitudes.cosine, learned.amplitudes.local) == (0, 0, 0)
    assert learned.amplitudes.bias == FIRST.bias
    np.testing.assert_allclose(learned.predicted, of_biases(world, FIRST.bias)[learned.asked], rtol=0, atol=1e-5)


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
    assert len(learned.asked) == len(learned.predicted) == 0


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

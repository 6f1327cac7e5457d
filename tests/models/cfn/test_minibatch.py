"""Minibatches: entries in column order, noise by keys, and the mark of rows that show nothing, as noise leaves them."""

from typing import get_args

import numpy as np
import numpy.typing as npt
import pytest

from cofill.config import CFNSettings, LossSettings, Noise
from cofill.data.ratings import Scale
from cofill.data.sparse import SparseRows
from cofill.models.biases import Biases
from cofill.models.cfn.scaling import ScaledRows, Scaling
from cofill.models.cfn.sgd import EpochNoise, Minibatches, lay_out
from cofill.models.rng import Portion
from tests.models.cfn.as_read import as_read, entries_of, gather, no_noise
from tests.models.several_processes import Played, columns_of, together

Table = npt.NDArray[np.float32]
EMPTY, ROWS, COLUMNS = 3, 60, 5


def rows(presence: float, *, marks_empty: bool = True) -> ScaledRows:
    """Row 3 has no ratings, the others all five; some ratings are exactly zero, and some exactly -presence."""
    counts = np.full(ROWS, COLUMNS)
    counts[EMPTY] = 0
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    indices = np.tile(np.arange(COLUMNS, dtype=np.int32), ROWS - 1)
    values = np.random.default_rng(0).choice([0.0, -presence, 1.0], len(indices)).astype(np.float32)
    mark = (counts == 0).astype(np.float32)
    features = np.column_stack([np.arange(ROWS, dtype=np.float32), mark])
    known = SparseRows(indptr, indices, values, COLUMNS)
    return as_read(known, features, presence=presence, marks_empty=marks_empty)


def loss(noise: Noise = "mask", ratio: float = 0.2, *, std: float = 0.3, cold_ratio: float = 0.0) -> LossSettings:
    return LossSettings(noise=noise, noise_ratio=ratio, noise_std=std, cold_ratio=cold_ratio)


def corrupted(of: ScaledRows, corruption: LossSettings) -> Minibatches:
    return gather(of, np.arange(ROWS), EpochNoise.drawn(of, corruption, 0))


@pytest.mark.parametrize("noise", get_args(Noise))
@pytest.mark.parametrize("presence", [0.0, 0.5])
def test_a_row_is_marked_when_all_of_its_ratings_are_hidden(noise: Noise, presence: float) -> None:
    read = rows(presence)
    clean = gather(read, np.arange(ROWS))
    assert np.flatnonzero(clean.features[:, -1]).tolist() == [EMPTY]
    noisy = corrupted(read, loss(noise, 0.3, cold_ratio=0.4))
    entries = entries_of(noisy)
    silent = np.array([not entries.inputs[entries.rows == row].any() for row in range(ROWS)])
    hidden = np.array([entries.corrupted[entries.rows == row].all() for row in range(ROWS)])
    assert 10 < (silent & hidden).sum() < 40
    np.testing.assert_array_equal(noisy.features[:, -1], silent & hidden)
    np.testing.assert_array_equal(noisy.features[:, 0], clean.features[:, 0])
    assert np.flatnonzero(clean.features[:, -1]).tolist() == [EMPTY]  # what was clean stays clean


@pytest.mark.parametrize("noise", get_args(Noise))
def test_noise_alone_leaves_no_row_silent(noise: Noise) -> None:
    read = rows(0.5)
    noisy = corrupted(read, loss(noise, 0.9))
    assert np.flatnonzero(noisy.features[:, -1]).tolist() == [EMPTY]


def test_features_that_are_no_marks_stay_as_they_are() -> None:
    read = rows(0.5, marks_empty=False)
    noisy = corrupted(read, loss(cold_ratio=1.0))
    np.testing.assert_array_equal(noisy.features, read.features)


# Entries in column order


@pytest.mark.parametrize("most", [1, 1000])
@pytest.mark.parametrize("cuts", [[0, 12], [0, 5, 5, 12]])
@pytest.mark.parametrize("batch", [1, 7, 500])
def test_every_rating_is_in_the_minibatch_of_its_row_in_column_order(batch: int, cuts: list[int], most: int) -> None:
    read = full_rows(100)
    order = np.random.default_rng(0).permutation(100)[:90]
    seen: list[tuple[int, int, float]] = []
    rows_seen = []
    for some in lay_out(read, order, batch, no_noise(read), np.array(cuts), most):
        assert len(some) == 1 or sum(len(shard.rows) for shard in some.shards) <= most
        rows_seen.append(some.rows)
        for shard, low, high in zip(some.shards, cuts, cuts[1:], strict=False):
            assert ((shard.columns >= low) & (shard.columns < high)).all()
            for number in range(len(some)):
                at = slice(shard.starts[number], shard.starts[number + 1])
                assert (np.diff(shard.columns[at]) >= 0).all()
                rows_of_entries = some.rows[some.row_starts[number] + shard.rows[at]]
                found = (rows_of_entries, shard.columns[at], shard.targets[at])
                seen += zip(*(part.tolist() for part in found), strict=True)
        counts = [read.counts[some.rows[a:b]].sum() for a, b in zip(some.row_starts, some.row_starts[1:], strict=False)]
        assert some.ratings.tolist() == counts
    np.testing.assert_array_equal(np.concatenate(rows_seen), order)
    known = read.known.take(order)
    places = np.repeat(order, known.counts()).tolist()
    expected = list(zip(places, known.indices.tolist(), known.values.tolist(), strict=True))
    assert sorted(seen) == sorted(expected)


def test_no_rows_and_empty_rows_have_no_entries() -> None:
    nothing = as_read(SparseRows(np.zeros(4, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0))
    assert list(lay_out(nothing, np.empty(0, np.int64), 5, no_noise(nothing), np.array([0, 0]))) == []
    (some,) = gather(nothing, np.arange(3)).shards
    assert some.starts.tolist() == [0, 0]
    assert len(some.rows) == 0


@pytest.mark.parametrize("decoder", ["process", "network"])
def test_salt_and_pepper_are_the_ends_of_the_rating_scale(decoder: str) -> None:
    scale, chosen = Scale(1, 5), CFNSettings.of({"decoder": decoder})
    values = np.random.default_rng(0).choice([3.0, 4.0, 5.0], (ROWS - 1) * COLUMNS).astype(np.float32)
    known = rows(0.0).known
    rated, portion = SparseRows(known.indptr, known.indices, values, COLUMNS), Portion.of(known)
    nothing = np.zeros((ROWS, 0), np.float32)
    if decoder == "process":
        biases = Biases.fit(
            rated, rated.transpose(), None, row_features=nothing, column_features=nothing[:COLUMNS], portion=portion
        )
        scaling = Scaling.fit(rated, biases, scale, chosen, nothing, portion)
    else:
        scaling = Scaling.fit(rated, None, scale, chosen, nothing, portion)
    read = scaling.down(rated, nothing, portion)
    entries = entries_of(corrupted(read, loss("salt-and-pepper", 0.5)))
    at = entries.corrupted
    inputs = entries.inputs[at] / read.input_scale[entries.rows[at]] - np.float32(read.presence)
    ends = inputs * scaling.unit + scaling.centre
    assert set(np.round(ends, 4).tolist()) == {1.0, 5.0}


# The noise of an epoch, by keys


def full_rows(count: int = 300, columns: int = 12) -> ScaledRows:
    """Every fifth row has a single rating, the others all of them."""
    known = np.ones((count, columns), np.bool_)
    known[::5, 1:] = False
    values = np.random.default_rng(1).uniform(0.1, 0.9, known.shape).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum(known.sum(1))]).astype(np.int64)
    rows = SparseRows(indptr, np.nonzero(known)[1].astype(np.int32), values[known], columns)
    return as_read(rows, np.ones((count, 1), np.float32), presence=0.2)  # no row is cold without features


def as_table(batch: Minibatches, of: ScaledRows) -> tuple[Table, Table]:
    """(rows, columns): inputs and what is corrupted; nan where there is nothing."""
    inputs, corrupted = (np.full((of.known.rows, of.known.columns), np.nan, np.float32) for _ in range(2))
    entries = entries_of(batch)
    at = batch.rows[entries.rows], entries.columns
    inputs[at], corrupted[at] = entries.inputs, entries.corrupted
    return inputs, corrupted


@pytest.mark.parametrize("noise", get_args(Noise))
@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_noise_by_keys_is_the_noise_of_the_definition(noise: Noise, ratio: float) -> None:
    """As much as was asked for, and where it was asked for."""
    read, corruption = full_rows(), loss(noise, ratio, std=0.25)
    noisy, untouched = corrupted_all(read, corruption), gather(read, np.arange(read.known.rows))
    inputs, corrupted = as_table(noisy, read)
    clean, _ = as_table(untouched, read)
    chosen, long = corrupted == 1, read.counts > 1
    if noise == "mask" and ratio == 1:
        assert not chosen.any()  # no row may lose everything
    else:
        assert chosen[long].mean() == pytest.approx(ratio, abs=0.025)
    if noise == "mask":
        assert not chosen[~long].any()
        assert (chosen[long].sum(1) < 12).all()
        assert not inputs[chosen].any()
    elif noise == "gaussian" and ratio:
        moved = (inputs - clean)[chosen]
        assert moved.std() == pytest.approx(0.25, rel=0.08)
        assert moved.mean() == pytest.approx(0, abs=0.03)
    elif ratio:
        ends = np.unique(inputs[chosen].round(5))
        np.testing.assert_allclose(ends, [-0.8, 1.2], rtol=1e-5)  # -1 and 1, and presence
        assert (inputs[chosen] > 0).mean() == pytest.approx(0.5, abs=0.05)
    np.testing.assert_array_equal(inputs[~chosen], clean[~chosen])
    np.testing.assert_array_equal(entries_of(noisy).targets, entries_of(untouched).targets)


def corrupted_all(read: ScaledRows, corruption: LossSettings, *seed: int) -> Minibatches:
    return gather(read, np.arange(read.known.rows), EpochNoise.drawn(read, corruption, *(seed or (7,))))


@pytest.mark.parametrize("noise", get_args(Noise))
def test_noise_is_the_same_in_any_minibatch(noise: Noise) -> None:
    """In whatever order rows come, and with whatever others; another seed or another epoch has other noise."""
    read, corruption = full_rows(), loss(noise, 0.3, cold_ratio=0.2)
    whole = as_table(corrupted_all(read, corruption, 5, 1), read)
    of_epoch = EpochNoise.drawn(read, corruption, 5, 1)
    order = np.random.default_rng(0).permutation(read.known.rows)
    for chosen in np.array_split(order, 7):
        part = as_table(gather(read, chosen, of_epoch), read)
        for found, expected in zip(part, whole, strict=True):
            np.testing.assert_array_equal(found[chosen], expected[chosen])
    for seed in ((5, 2), (6, 1)):
        other = as_table(corrupted_all(read, corruption, *seed), read)
        assert (np.nan_to_num(other[1]) != np.nan_to_num(whole[1])).mean() > 0.2


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("noise", get_args(Noise))
def test_noise_is_the_same_however_columns_are_spread(noise: Noise, size: int) -> None:
    """Also which rows would lose everything: a process may see one rating of them, or none."""
    read, corruption = full_rows(), loss(noise, 0.8, cold_ratio=0.2)
    whole = as_table(corrupted_all(read, corruption), read)
    keys = read.portion

    def noisy(exchange: Played) -> tuple[Table, Table]:
        chosen = np.flatnonzero(np.arange(12) % size == exchange.rank)
        part = columns_of(read.known, chosen)
        portion = Portion(keys.row_keys, keys.column_keys[chosen], 12, exchange)
        own = as_read(part, read.features, presence=0.2, portion=portion)
        return as_table(corrupted_all(own, corruption), own)

    for rank, found in enumerate(together(size, noisy)):
        for part, expected in zip(found, whole, strict=True):
            np.testing.assert_array_equal(part, expected[:, rank::size])

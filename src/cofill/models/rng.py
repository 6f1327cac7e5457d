"""Random draws that depend on what they are drawn for, not on the order it comes in (counter-based random numbers).

A draw is a hash of a seed and of the keys of a row and a column, which come from their ids. So the same data in another
order, or on several machines, each of which has some columns, is given the same first weights, the same noise and the
same validation part.
"""

from dataclasses import dataclass
from math import cos, log, pi, sqrt
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cofill.arrays import Bools, Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.exchange import ALONE, Exchange, total

Keys = npt.NDArray[np.uint64]
_Array = TypeVar("_Array", bound=npt.NDArray[np.generic])

# Those of splitmix64.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_27, _30, _31, _40 = (np.uint64(bits) for bits in (27, 30, 31, 40))
_UNIT = np.float32(2.0**-24)


@compiled
def mixed(number: np.uint64) -> np.uint64:
    """A bijection of 64 bits in which every bit depends on every other."""
    number = (number ^ (number >> _30)) * _FIRST
    number = (number ^ (number >> _27)) * _SECOND
    return number ^ (number >> _31)


@compiled
def drawn(seed: np.uint64, one: np.uint64, other: np.uint64) -> np.uint64:
    """64 random bits for a pair of keys."""
    return mixed(mixed(seed ^ one) + other * _GOLDEN)


@compiled
def unit(bits: np.uint64) -> np.float32:
    """From 0 to 1, 1 excluded."""
    return np.float32(bits >> _40) * _UNIT


@compiled
def normal(bits: np.uint64) -> np.float32:
    """Of mean 0 and standard deviation 1 (Box-Muller)."""
    first = (float(bits >> _40) + 0.5) * 2.0**-24
    second = float(mixed(bits + _GOLDEN) >> _40) * 2.0**-24
    return np.float32(sqrt(-2.0 * log(first)) * cos(2.0 * pi * second))


@compiled
def _fill_rows(seed: np.uint64, keys: Keys, gaussian: bool, out: Floats) -> None:
    """Normal draws, or uniform ones from -1 to 1."""
    for row in range(len(keys)):
        base = mixed(seed ^ keys[row])
        for column in range(out.shape[1]):
            base += _GOLDEN
            bits = mixed(base)
            out[row, column] = normal(bits) if gaussian else unit(bits) * np.float32(2) - np.float32(1)


@compiled
def _of_keys(seed: np.uint64, keys: Keys, out: Keys) -> None:
    for place in range(len(keys)):
        out[place] = mixed(mixed(seed ^ keys[place]) + _GOLDEN)


@compiled
def _of_entries(seed: np.uint64, row_keys: Keys, column_keys: Keys, indptr: Longs, indices: Ints, out: Keys) -> None:
    for row in range(len(indptr) - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            out[entry] = drawn(seed, row_keys[row], column_keys[indices[entry]])


def seed_of(*numbers: int) -> np.uint64:
    """A seed for one purpose, such as the noise of one epoch."""
    return np.uint64(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def uniform_rows(seed: np.uint64, keys: Keys, width: int, bound: float) -> Floats:
    """(n, width): within +-bound."""
    # From numpy, which asks the system for huge pages: columns lie far apart, and finding small pages costs time.
    out = np.empty((len(keys), width), np.float32)
    _fill_rows(seed, keys, False, out)
    out *= np.float32(bound)
    return out


def normal_rows(seed: np.uint64, keys: Keys, width: int) -> Floats:
    """(n, width): of standard deviation 1."""
    out = np.empty((len(keys), width), np.float32)
    _fill_rows(seed, keys, True, out)
    return out


def draws_of(seed: np.uint64, keys: Keys) -> Keys:
    """(n,): 64 random bits for each key."""
    out = np.empty(len(keys), np.uint64)
    _of_keys(seed, keys, out)
    return out


def uniform_draws(seed: np.uint64, keys: Keys) -> Doubles:
    """(n,): from 0 to 1, 1 excluded."""
    return np.asarray((draws_of(seed, keys) >> _40) * 2.0**-24, np.float64)


def draws_of_entries(seed: np.uint64, row_keys: Keys, column_keys: Keys, indptr: Longs, indices: Ints) -> Keys:
    """(n,): 64 random bits for each entry of sparse rows."""
    out = np.empty(len(indices), np.uint64)
    _of_entries(seed, row_keys, column_keys, indptr, indices, out)
    return out


def are_smallest(draws: Keys, count: int, exchange: Exchange = ALONE) -> Bools:
    """(n,): which draws of this process are among the `count` smallest of all processes."""
    of_all = int(total(exchange, len(draws))[0])
    if not 0 < count < of_all:
        return np.full(len(draws), count > 0)
    # Draws are uniform: those that can be among the smallest are hardly more than these.
    share = min(1.0, (count + 8 * sqrt(count) + 16) / of_all)
    candidates = np.concatenate(exchange.gather(draws[draws * 2.0**-64 <= share]))
    if len(candidates) < count:  # of draws that are none
        candidates = np.concatenate(exchange.gather(draws))
    bound = np.partition(candidates, count - 1)[count - 1]
    found: Bools = draws <= bound
    return found


class Sample(NamedTuple):
    """Some of what all processes have, the same whatever process has it."""

    places: Longs  # of those that this process has
    order: Longs  # puts the parts of all processes, one after the other, into an order that is always the same
    exchange: Exchange

    @classmethod
    def of(cls, keys: Keys, candidates: Longs, count: int, seed: np.uint64, exchange: Exchange = ALONE) -> "Sample":
        """At most `count` of the candidates of all processes, which are places among the keys."""
        draws = draws_of(seed, keys[candidates])
        chosen = are_smallest(draws, count, exchange)
        of_all = np.concatenate(exchange.gather(draws[chosen]))
        return cls(candidates[chosen], np.argsort(of_all, kind="stable"), exchange)

    def gathered(self, array: _Array) -> _Array:
        """The values of the whole sample, from those (n, ...) of this process at its `places`."""
        found: _Array = np.concatenate(self.exchange.gather(np.ascontiguousarray(array)))[self.order]  # type: ignore[assignment]
        return found


@dataclass(frozen=True, eq=False)
class Portion:
    """What this process trains on: all rows of a matrix, and all columns or some of them.

    What belongs to rows is the same in every process; what belongs to columns is where the column is.

    Whatever is summed over columns, or over ratings, is summed over all processes by `exchange`. Draws are made by
    the keys of rows and columns.
    """

    row_keys: Keys  # (rows,)
    column_keys: Keys  # (own columns,)
    columns: int  # of all processes
    exchange: Exchange = ALONE

    @classmethod
    def of(cls, rows: SparseRows) -> "Portion":
        """One process, for a matrix whose rows and columns have no ids but their numbers."""
        keys = draws_of(np.uint64(0), np.arange(max(rows.rows, rows.columns), dtype=np.uint64))
        return cls(keys[: rows.rows], keys[: rows.columns], rows.columns)

    def row_counts(self, rows: SparseRows) -> Longs:
        """(rows,): how many ratings each row has, in all processes together."""
        return self.exchange.all_reduce(rows.counts())

"""Expectations from side features: ridge regression, its penalty chosen by leave-one-out cross-validation."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from cofill.arrays import Doubles, Floats, Longs
from cofill.exchange import ALONE, Exchange
from cofill.models.rng import Keys, Sample, seed_of

# Examples that are looked at: enough for hundreds of features, and a bound on time and memory.
_EXAMPLES = 20_000
_SEED = seed_of(0xFEA)
_PENALTIES = tuple(10.0**power for power in np.arange(-2, 5, 0.5))


@dataclass(frozen=True)
class FeatureRegression:
    """expected (n, m) = [features (n, P), 1] . slope. Without features (P = 0) nothing is expected but zero."""

    slope: Floats  # (P + 1, m)

    @classmethod
    def fit(
        cls, features: Floats, targets: Floats | Doubles, ratings: Longs, keys: Keys, exchange: Exchange = ALONE
    ) -> Self:
        """From examples: features (n, P), targets (n, m), and how many ratings each stands for (n,).

        Where all processes have very many, some are chosen by their keys (n,).

        An example with a typical number of ratings counts half of one that has very many.
        The penalty is the one with which the other examples predict each example best, which has a closed form for
        ridge regression. Where none beats expecting zero, the slope is zero.
        """
        nothing = cls(np.zeros((features.shape[1] + 1, targets.shape[1]), np.float32))
        if not features.shape[1]:
            return nothing
        sample = Sample.of(keys, np.flatnonzero(ratings > 0), _EXAMPLES, _SEED, exchange)
        if not len(sample.order):
            return nothing
        f = sample.gathered(features[sample.places]).astype(np.float64)
        f = np.column_stack([f, np.ones(len(f))])
        t = sample.gathered(targets[sample.places]).astype(np.float64)
        counts = sample.gathered(ratings[sample.places])
        w = (counts / (counts + counts.mean()))[:, None]
        values, vectors = np.linalg.eigh((f * w).T @ f)
        values = np.maximum(values, 0)
        turned = f @ vectors  # (n, P + 1): features along the directions along which the penalty acts
        moments = (turned * w).T @ t
        best, best_error = None, float((w * t**2).sum())
        for penalty in _PENALTIES:
            solved = moments / (values + penalty)[:, None]
            leverage = w * (turned**2 / (values + penalty)).sum(1, keepdims=True)  # how much each predicts itself
            left_out = (t - turned @ solved) / np.maximum(1 - leverage, 1e-6)
            error = float((w * left_out**2).sum())
            if error < best_error:
                best, best_error = solved, error
        return nothing if best is None else cls((vectors @ best).astype(np.float32))

    def expected(self, features: Floats) -> Floats:
        """(n, P) -> (n, m)"""
        if not features.shape[1]:
            return np.zeros((len(features), self.slope.shape[1]), np.float32)
        found: Floats = features @ self.slope[:-1] + self.slope[-1]
        return found

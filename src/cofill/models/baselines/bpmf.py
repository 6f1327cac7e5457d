"""BPMF: Bayesian probabilistic matrix factorisation by Gibbs sampling, with biases.

Salakhutdinov, Mnih: "Bayesian Probabilistic Matrix Factorization using Markov Chain Monte Carlo", ICML 2008.

    rating ~ N(overall + p . q + b + c, 1 / precision)
    (p, b) ~ N(mean_U, precision_U^-1),  (q, c) ~ N(mean_V, precision_V^-1),  both (mean, precision) ~ Gaussian-Wishart

One turn draws the prior of the items given the items, every item given the users, then the same for the users; all of
these are known distributions. The prediction is the mean over the turns after a burn-in. The constants are the paper's:
Gaussian-Wishart(mean 0, as certain as 2 observations, scale I, as many degrees of freedom as factors).

The mean over samples of (p, b, 1) . (q, 1, c) is itself a factorisation, by the samples' vectors side by side. We
differ in four things.
- The paper has no biases. They are drawn together with the factors, which helps most where ratings are few.
- Of a turn we keep the items that were drawn and the *expected* users given these, which are known when users are
  drawn. The mean over turns tends to the same, with less noise; and a new user with the same ratings gets the same
  vector.
- The precision of ratings is drawn too, once the chain has found its way. Held at 2, as in the paper, it means
  something else on every rating scale.
- The chain starts from small random vectors. From a point estimate, as in the paper, it takes longer to forget what was
  overfitted.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from pydantic import Field

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.models.baselines.base import Baseline, Done, Factors, ThreadedSettings, TrainingData, in_shards, ridge

# Standard deviation of vectors before the first turn.
_START = 0.1
# Vectors that a prior's mean of zero counts for, when the prior is drawn.
_PSEUDO_COUNT = 2.0
# The sum of squared biases, in stars, that a prior counts beside those of the vectors; 1 for factors, as in the paper.
# So small that biases vanish where ratings have none.
_BIAS_SCALE = 0.001
# The precision of ratings in stars, and the ratings that it counts for when drawn.
_PRECISION = 2.0
_FREEDOM = 2.0


class BPMFSettings(ThreadedSettings):
    """What BPMF is given by name."""

    rank: int = Field(default=10, ge=1, description="factors of a user and of an item, in each sample")
    burn_in: int = Field(default=50, ge=0, description="turns of the sampler before the first sample is kept")
    samples: int = Field(
        default=50, ge=1, description="samples that predictions are averaged over; vectors are rank times this wide"
    )
    thinning: int = Field(default=3, ge=1, description="turns of the sampler for each sample that is kept")
    precision: float = Field(
        default=0.0, ge=0, description="inverse variance of ratings, 2 in the paper; 0: drawn like everything else"
    )


class Prior(NamedTuple):
    """(factors, bias) of users, or of items, before their ratings are seen: N(mean, precision^-1)."""

    mean: Doubles  # (rank + 1,)
    precision: Doubles  # (rank + 1, rank + 1)


@dataclass(eq=False)
class BPMFFactors(Factors):
    """In each sample (p, b, 1) of a user and (q, 1, c) of an item, side by side, over the root of their number.

    The overall mean is part of b.
    """

    user_mean: Doubles  # (samples, rank + 2): what is expected of a user without ratings, in each sample
    user_precision: Doubles  # (samples, rank + 1, rank + 1), without the 1
    item_mean: Doubles
    item_precision: Doubles
    precision: Doubles  # (samples,), of ratings

    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        return self._expected(items, ratings, self.user_mean, self.user_precision, -1)

    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        return self._expected(users, ratings, self.item_mean, self.item_precision, -2)

    def _expected(self, others: Floats, ratings: Floats, means: Doubles, precisions: Doubles, fixed: int) -> Floats:
        """The posterior mean in each sample, side by side."""
        samples, width = means.shape
        known = others.reshape(-1, samples, width) * np.float32(np.sqrt(samples))
        penalties = precisions / self.precision[:, None, None]
        found = [ridge(known[:, s], ratings, penalties[s], means[s], fixed) for s in range(samples)]
        expected: Floats = (np.concatenate(found) / np.sqrt(samples)).astype(np.float32)
        return expected


class BPMF(Baseline):
    """Bayesian probabilistic matrix factorisation.

    >>> BPMF(samples=100).fit("ratings.csv").predict([(42, "Alien")])
    """

    kind = "bpmf"
    settings_class = BPMFSettings
    _settings: BPMFSettings
    factors_class = BPMFFactors

    def _factorise(self, data: TrainingData, done: Done) -> BPMFFactors:
        settings, rng = self._settings, np.random.default_rng(self._settings.seed)
        users, items = (_Side(rows, data.overall, settings, rng) for rows in (data.by_user, data.by_item))
        kept_users, kept_items = (
            np.empty((rows.rows, settings.samples, settings.rank + 2), np.float32)
            for rows in (data.by_user, data.by_item)
        )
        kept: list[tuple[Doubles, Doubles, Doubles, Doubles, float]] = []
        precision = settings.precision or _PRECISION
        turns = settings.burn_in + settings.samples * settings.thinning
        for turn in range(1, turns + 1):
            items.draw(users.vectors, precision, rng)
            users.draw(items.vectors, precision, rng)
            if turn > settings.burn_in and not (turn - settings.burn_in) % settings.thinning:
                kept_users[:, len(kept)] = user_layout(users.expected, data.overall)
                kept_items[:, len(kept)] = item_layout(items.vectors)
                means = user_layout(users.prior.mean, data.overall), item_layout(items.prior.mean)
                kept.append((means[0], users.prior.precision, means[1], items.prior.precision, precision))
            # Held at first: a chain that fits nothing yet would take all ratings for noise, and be slow to learn.
            if not settings.precision and 2 * turn >= settings.burn_in:
                precision = draw_precision(users.squared_errors, data.by_user.nnz, _PRECISION, rng)
            done(turn, turns)
        for vectors in (kept_users, kept_items):
            vectors /= np.float32(np.sqrt(len(kept)))
        priors = (np.array(each) for each in zip(*kept, strict=True))
        return BPMFFactors(kept_users.reshape(len(kept_users), -1), kept_items.reshape(len(kept_items), -1), *priors)


def user_layout(drawn: Doubles, overall: float) -> Doubles:
    """(..., rank + 1) factors and bias -> (..., rank + 2): (p, b + overall, 1)."""
    return np.concatenate([drawn[..., :-1], drawn[..., -1:] + overall, np.ones_like(drawn[..., :1])], axis=-1)


def item_layout(drawn: Doubles) -> Doubles:
    """(..., rank + 1) factors and bias -> (..., rank + 2): (q, 1, c)."""
    return np.insert(drawn, -1, 1.0, axis=-1)


class _Side:
    """The users, or the items, at one turn of the sampler. Vectors of rows without a rating are zero."""

    def __init__(self, rows: SparseRows, overall: float, settings: BPMFSettings, rng: np.random.Generator) -> None:
        self.rows = replace(rows, values=rows.values - np.float32(overall))
        self.rated, self.threads = rows.counts() > 0, settings.threads
        shape = rows.rows, settings.rank + 1
        self.vectors: Doubles = _START * rng.standard_normal(shape) * self.rated[:, None]  # as drawn
        self.expected = np.zeros(shape)  # the means of what they were drawn from
        self.squared_errors = np.zeros(rows.rows)  # of the ratings of each row
        self.prior = draw_prior(self.vectors[self.rated], rng)

    def draw(self, others: Doubles, precision: float, rng: np.random.Generator) -> None:
        """The prior given the vectors, then the vectors given the prior, the ratings and the other side."""
        self.prior = draw_prior(self.vectors[self.rated], rng)
        given = (self.rows.indptr, self.rows.indices, self.rows.values, others, precision)
        prior = (self.prior.precision @ self.prior.mean, self.prior.precision)
        normal = rng.standard_normal(self.vectors.shape)  # here, so that threads do not matter
        found = (self.expected, self.vectors, self.squared_errors)
        in_shards(self.rows, self.threads, lambda first, last: draw_rows(*given, *prior, normal, first, last, *found))


def draw_prior(vectors: Doubles, rng: np.random.Generator) -> Prior:
    """What vectors (n, rank + 1) are draws of, drawn from what is believed of it after seeing them."""
    count, width = vectors.shape
    count_and_prior = _PSEUDO_COUNT + count
    centre = vectors.mean(0)
    apart = vectors - centre
    scatter = apart.T @ apart + _PSEUDO_COUNT * count / count_and_prior * np.outer(centre, centre)
    scatter[np.diag_indices(width)] += np.append(np.ones(width - 1), _BIAS_SCALE)
    precision = draw_wishart(np.linalg.inv(scatter), width + count, rng)
    root = np.linalg.cholesky(count_and_prior * precision)
    return Prior(count / count_and_prior * centre + np.linalg.solve(root.T, rng.standard_normal(width)), precision)


def draw_precision(squared_errors: Doubles, ratings: int, usual: float, rng: np.random.Generator) -> float:
    """The inverse variance of ratings, drawn from what is believed of it after seeing their errors."""
    freedom = _FREEDOM + ratings
    return float(rng.chisquare(freedom) / (_FREEDOM / usual + squared_errors.sum()))


def draw_wishart(scale: Doubles, freedom: float, rng: np.random.Generator) -> Doubles:
    """From Wishart(scale (rank, rank), degrees of freedom), by Bartlett's decomposition."""
    rank = len(scale)
    lower = np.tril(rng.standard_normal((rank, rank)), -1)
    lower[np.diag_indices(rank)] = np.sqrt(rng.chisquare(freedom - np.arange(rank)))
    root = np.linalg.cholesky(scale) @ lower
    drawn: Doubles = root @ root.T
    return drawn


@compiled
def draw_rows(
    indptr: Longs, indices: Ints, values: Floats, others: Doubles, precision: float, prior_shift: Doubles,
    prior_precision: Doubles, normal: Doubles, first: int, last: int, expected: Doubles, drawn: Doubles,
    squared_errors: Doubles,
) -> None:  # fmt: skip
    """The posterior mean of each row from `first` to `last`, a draw from the posterior, and the errors of the draw.

    `prior_shift` is the prior's precision times its mean; `normal` (rows, rank + 1) are draws of N(0, 1).
    """
    width = others.shape[1]
    root = np.empty((width, width))
    for row in range(first, last):
        if indptr[row] == indptr[row + 1]:
            continue
        entries, mean, draw = slice(indptr[row], indptr[row + 1]), expected[row], drawn[row]
        known = others[indices[entries]]
        left = values[entries] - known[:, -1]
        known[:, -1] = 1.0  # what the own bias is multiplied by
        mean[:] = prior_shift
        root[:] = prior_precision
        for entry in range(len(left)):
            for p in range(width):
                weighted = precision * known[entry, p]
                mean[p] += weighted * left[entry]
                for q in range(p + 1):
                    root[p, q] += weighted * known[entry, q]
        for p in range(width):  # Cholesky, and a solution with the lower root, in place
            for q in range(p + 1):
                rest = root[p, q]
                for k in range(q):
                    rest -= root[p, k] * root[q, k]
                root[p, q] = np.sqrt(rest) if p == q else rest / root[q, q]
            for k in range(p):
                mean[p] -= root[p, k] * mean[k]
            mean[p] /= root[p, p]
        draw[:] = mean + normal[row]
        for p in range(width - 1, -1, -1):
            for k in range(p + 1, width):
                mean[p] -= root[k, p] * mean[k]
                draw[p] -= root[k, p] * draw[k]
            mean[p] /= root[p, p]
            draw[p] /= root[p, p]
        squared_errors[row] = 0.0
        for entry in range(len(left)):
            for p in range(width):
                left[entry] -= draw[p] * known[entry, p]
            squared_errors[row] += left[entry] ** 2

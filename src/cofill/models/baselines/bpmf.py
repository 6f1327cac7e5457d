"""BPMF: Bayesian probabilistic matrix factorisation by Gibbs sampling.

Salakhutdinov, Mnih: "Bayesian Probabilistic Matrix Factorization using Markov Chain Monte Carlo", ICML 2008.

    rating ~ N(overall + u . v, 1 / precision)
    u ~ N(mean_U, precision_U^-1),  v ~ N(mean_V, precision_V^-1),  both (mean, precision) ~ Gaussian-Wishart

One turn draws the prior of the items given the items, every item given the users, then the same for the users; all of
these are known distributions. The prediction is the mean over the turns after a burn-in. The constants are the paper's:
Gaussian-Wishart(mean 0, as certain as 2 observations, scale I, as many degrees of freedom as factors).

The mean over samples of u . v is itself a factorisation, by the samples' vectors side by side. We differ in three
things; RMSE below is on validation data of MovieLens-1M, at rank 10.
- Of a turn we keep the items that were drawn and the *expected* users given these, which are known when users are
  drawn. The mean over turns tends to the same, with less noise; and a new user with the same ratings gets the same
  vector.
- The precision of ratings is drawn too, once the chain has found its way (0.8430 after 120 turns). Held at 2, as in the
  paper, it is worse (0.8442), and means something else on every rating scale.
- The chain starts from small random vectors. From a point estimate, as in the paper, it takes longer to forget what was
  overfitted (with 10 rounds of alternating least squares 0.8456 after 40 turns and 0.8450 after 60, instead of 0.8443
  and 0.8446; precision 2).
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from pydantic import Field

from cofill.arrays import Doubles, Floats, Ints, Longs
from cofill.compiling import compiled
from cofill.data.sparse import SparseRows
from cofill.models.baselines.base import Baseline, Done, Factors, ThreadedSettings, TrainingData, in_shards

# Standard deviation of vectors before the first turn.
_START = 0.1
# Vectors that a prior's mean of zero counts for, when the prior is drawn.
_PSEUDO_COUNT = 2.0
# The precision of ratings in stars, and the ratings that it counts for when drawn.
_PRECISION = 2.0
_FREEDOM = 2.0
# Ratings that are worked in at once when a new user is solved for: every sample's vector of each is in memory.
_CHUNK = 2048


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
    """Vectors of users, or of items, before their ratings are seen: N(mean, precision^-1).

    One of them, or one for each sample along the first axis.
    """

    mean: Doubles  # (rank,)
    precision: Doubles  # (rank, rank)


@dataclass(eq=False)
class BPMFFactors(Factors):
    """(u_1, ..., u_S) / sqrt S and the overall mean of a user, (v_1, ..., v_S) / sqrt S and 1 of an item."""

    user_mean: Doubles  # (samples, rank), as all that follow: one prior for each sample
    user_precision: Doubles
    item_mean: Doubles
    item_precision: Doubles
    overall: Doubles  # (1,)
    precision: Doubles  # (samples,), of ratings

    def user_from(self, items: Floats, ratings: Floats) -> Floats:
        prior = Prior(self.user_mean, self.user_precision)
        return np.append(self._expected(prior, items, ratings), np.float32(self.overall[0]))

    def item_from(self, users: Floats, ratings: Floats) -> Floats:
        prior = Prior(self.item_mean, self.item_precision)
        return np.append(self._expected(prior, users, ratings), np.float32(1))

    def _expected(self, prior: Prior, others: Floats, ratings: Floats) -> Floats:
        """The posterior mean in each sample, side by side."""
        samples, rank = prior.mean.shape
        weight = self.precision[:, None, None]
        precision = prior.precision.copy()
        shift = prior.precision @ prior.mean[:, :, None]
        for first in range(0, len(ratings), _CHUNK):
            part = others[first : first + _CHUNK, :-1].astype(np.float64) * np.sqrt(samples)
            known = part.reshape(-1, samples, rank).transpose(1, 2, 0)  # (samples, rank, n)
            left = ratings[first : first + _CHUNK, None] - self.overall
            precision += weight * (known @ known.transpose(0, 2, 1))
            shift += weight * (known @ left)
        expected = np.linalg.solve(precision, shift) / np.sqrt(samples)
        side_by_side: Floats = expected.astype(np.float32).ravel()
        return side_by_side


class BPMF(Baseline):
    """Bayesian probabilistic matrix factorisation.

    >>> BPMF(samples=100).fit("ratings.csv").predict([(42, "Alien")])
    """

    kind = "bpmf"
    settings_class = BPMFSettings
    _settings: BPMFSettings
    factors_class = BPMFFactors

    def _factorise(self, data: TrainingData, done: Done) -> BPMFFactors:
        settings = self._settings
        rng = np.random.default_rng(settings.seed)
        users = _Side.start(data.by_user, data.overall, settings.rank, rng)
        items = _Side.start(data.by_item, data.overall, settings.rank, rng)
        samples, rank = settings.samples, settings.rank
        kept_users = np.full((data.by_user.rows, samples * rank + 1), data.overall, np.float32)
        kept_items = np.ones((data.by_item.rows, samples * rank + 1), np.float32)
        priors, precisions = [], []
        precision = settings.precision or _PRECISION
        turns = settings.burn_in + samples * settings.thinning
        for turn in range(1, turns + 1):
            items.draw(users.vectors, precision, rng, settings.threads)
            users.draw(items.vectors, precision, rng, settings.threads)
            sample, waiting = divmod(turn - settings.burn_in, settings.thinning)
            if sample > 0 and not waiting:
                at = slice((sample - 1) * rank, sample * rank)
                kept_users[:, at], kept_items[:, at] = (v / np.sqrt(samples) for v in (users.expected, items.vectors))
                priors.append((*users.prior, *items.prior))
                precisions.append(precision)
            # Held at first: a chain that fits nothing yet would take all ratings for noise, and be slow to learn.
            if not settings.precision and 2 * turn >= settings.burn_in:
                precision = draw_precision(users.squared_errors, data.by_user.nnz, _PRECISION, rng)
            done(turn, turns)
        numbers = {"overall": np.array([data.overall]), "precision": np.array(precisions)}
        return BPMFFactors(kept_users, kept_items, *(np.array(one) for one in zip(*priors, strict=True)), **numbers)


@dataclass
class _Side:
    """The users, or the items, at one turn of the sampler. Vectors of rows without a rating are zero."""

    rows: SparseRows  # ratings, the overall mean taken off
    vectors: Doubles  # (rows, rank), as drawn
    expected: Doubles  # (rows, rank), the means of what they were drawn from
    prior: Prior
    squared_errors: Doubles  # (rows,), of the ratings of each row

    @classmethod
    def start(cls, rows: SparseRows, overall: float, rank: int, rng: np.random.Generator) -> Self:
        vectors = _START * rng.standard_normal((rows.rows, rank)) * (rows.counts() > 0)[:, None]
        centred = replace(rows, values=rows.values - np.float32(overall))
        prior = Prior(np.zeros(rank), np.eye(rank))
        return cls(centred, vectors, np.zeros_like(vectors), prior, np.zeros(rows.rows))

    def draw(self, others: Doubles, precision: float, rng: np.random.Generator, threads: int) -> None:
        """The prior given the vectors, then the vectors given the prior, the ratings and the other side."""
        self.prior = draw_prior(self.vectors[self.rows.counts() > 0], rng)
        given = (self.rows.indptr, self.rows.indices, self.rows.values, others, precision)
        prior = (self.prior.precision, self.prior.precision @ self.prior.mean)
        normal = rng.standard_normal(self.vectors.shape)  # here, so that threads do not matter
        found = (self.expected, self.vectors, self.squared_errors)
        in_shards(self.rows, threads, lambda first, last: draw_rows(*given, *prior, normal, first, last, *found))


def draw_prior(vectors: Doubles, rng: np.random.Generator) -> Prior:
    """What vectors (n, rank) are draws of, drawn from what is believed of it after seeing them."""
    count, rank = vectors.shape
    count_and_prior = _PSEUDO_COUNT + count
    centre = vectors.mean(0)
    apart = vectors - centre
    scatter = np.eye(rank) + apart.T @ apart + _PSEUDO_COUNT * count / count_and_prior * np.outer(centre, centre)
    precision = draw_wishart(np.linalg.inv(scatter), rank + count, rng)
    root = np.linalg.cholesky(count_and_prior * precision)
    return Prior(count / count_and_prior * centre + np.linalg.solve(root.T, rng.standard_normal(rank)), precision)


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
    indptr: Longs,
    indices: Ints,
    values: Floats,
    others: Doubles,
    precision: float,
    prior_precision: Doubles,
    prior_shift: Doubles,
    normal: Doubles,
    first: int,
    last: int,
    expected: Doubles,
    drawn: Doubles,
    squared_errors: Doubles,
) -> None:
    """The posterior mean of each row from `first` to `last`, a draw from the posterior, and the errors of the draw.

    `prior_shift` is the prior's precision times its mean; `normal` (rows, rank) are draws of N(0, 1).
    """
    rank = others.shape[1]
    root = np.empty((rank, rank))
    for row in range(first, last):
        if indptr[row] == indptr[row + 1]:
            continue
        mean, draw = expected[row], drawn[row]
        for p in range(rank):
            mean[p] = prior_shift[p]
            draw[p] = normal[row, p]
            for q in range(p + 1):
                root[p, q] = prior_precision[p, q]
        for entry in range(indptr[row], indptr[row + 1]):
            other = others[indices[entry]]
            rating = values[entry]
            for p in range(rank):
                weighted = precision * other[p]
                mean[p] += weighted * rating
                for q in range(p + 1):
                    root[p, q] += weighted * other[q]
        for p in range(rank):  # Cholesky, in place
            for q in range(p + 1):
                rest = root[p, q]
                for k in range(q):
                    rest -= root[p, k] * root[q, k]
                root[p, q] = np.sqrt(rest) if p == q else rest / root[q, q]
        for p in range(rank):
            for k in range(p):
                mean[p] -= root[p, k] * mean[k]
            mean[p] /= root[p, p]
        for p in range(rank - 1, -1, -1):
            for k in range(p + 1, rank):
                mean[p] -= root[k, p] * mean[k]
                draw[p] -= root[k, p] * draw[k]
            mean[p] /= root[p, p]
            draw[p] /= root[p, p]
        for p in range(rank):
            draw[p] += mean[p]
        squares = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            other = others[indices[entry]]
            left = float(values[entry])
            for p in range(rank):
                left -= draw[p] * other[p]
            squares += left * left
        squared_errors[row] = squares

"""How large a step may be: a first learning rate that follows the shape of the ratings, and lower ones upon failure.

Along the input weights of a row, the curvature of the loss grows with the number of its ratings, whose errors are
summed in its code, and with the number of rows of the minibatch that share a column, whose steps then add up instead of
averaging out. Both together: a row with n ratings on columns that 1 + B d rows of a minibatch of B rows share (d:
density) is pulled by

    m = n (1 + B d) / B

ratings. The largest step that does not diverge falls with m, and was measured on ratings made of five tastes and noise:

    rows x columns      n    m        stays at     diverges at
    1000 x  50,000   2,000    125       0.21          0.42
     300 x 100,000   5,000    364       0.105         0.21
     100 x  20,000   5,000  1,360       0.026         0.053
     100 x  20,000  18,000 16,600       0.0066        0.013
     300 x  20,000   2,000    245       0.053         0.105      rows of very uneven length

(One draw of each, four epochs; not to diverge is not yet to learn.) That is slower than 1 / m and a little faster than
1 / sqrt(m), and uneven rows bear less than even ones: no exact law, but a start from which little has to be lowered.
The rule is sqrt(64 / m), from where it is below 1; both numbers were chosen on these shapes.
MovieLens-1M has m = 18 with rows of items and 15 with rows of users, the shape of MovieLens-10M 34 and 8: no change.
"""

from math import sqrt
from typing import Protocol

from cofill.config import CFNSettings
from cofill.errors import TrainingDivergedError
from cofill.exchange import total
from cofill.models.cfn.scaling import ScaledRows
from cofill.models.history import LoweredRate, Phase, WhyLowered

LOWERED_BY = 4  # a divisor that is a power of two is exact, whatever the learning rate
_MOST_LOWERINGS = 8
_MOST_FOR_LEARNING_NOTHING = 3
_BEARABLE_PULL = 64.0  # m up to which the learning rate of the settings is taken as it is


def share_that_rows_bear(rows: ScaledRows, settings: CFNSettings) -> float:
    """What to multiply the learning rate by so that rows of this length can be trained: 1, or less for long ones."""
    filled = int((rows.counts > 0).sum())
    if not filled:
        return 1.0
    length = rows.ratings / filled
    pull = length * (1 / min(settings.batch, filled) + length / rows.portion.columns)
    return min(1.0, sqrt(_BEARABLE_PULL / pull))


def loss_of_zeros(rows: ScaledRows, settings: CFNSettings) -> float:
    """The most that predicting zero, which is every row's mean, may cost: the mean of a rating, in scaled ratings.

    First weights are random and cost something even where all ratings are alike, so it is never taken to be nothing.
    """
    values = rows.known.values
    squared = total(rows.portion.exchange, float(values @ values))[0] / max(rows.ratings, 1)
    return max(settings.alpha, settings.beta) * max(squared, 0.1)


class StepTooLarge(Exception):
    """A training that fails for its learning rate, in the middle of a phase."""

    def __init__(self, phase: Phase, epoch: int, why: WhyLowered, found: str, rmse: float = float("inf")) -> None:
        super().__init__(found)
        self.phase = phase
        self.epoch = epoch
        self.why = why
        self.found = found
        self.rmse = rmse  # the best that was reached, in ratings


class Steps(Protocol):
    """What is known of the step size while a model is trained."""

    lowered: list[LoweredRate]
    rate_share: float


def lower(steps: Steps, failure: StepTooLarge, settings: CFNSettings, *, in_parts: bool) -> LoweredRate:
    """Choose the next learning rate to try, or raise the error that says what to do.

    A training that learned nothing is tried with lower rates as long as that helps, and a few times at most. Then it
    has the best of them for good.
    """
    before = settings.learning_rate * steps.rate_share
    if failure.why == "diverged" and len(steps.lowered) >= _MOST_LOWERINGS:
        raise diverged(failure, settings, before, in_parts=in_parts)
    share = steps.rate_share / LOWERED_BY
    in_vain = [one for one in steps.lowered if one.why == "learned nothing"]
    if failure.why == "learned nothing" and in_vain:
        best = min(in_vain, key=lambda one: one.rmse)
        if best.rmse <= failure.rmse:
            share = best.before / settings.learning_rate
        elif len(in_vain) == _MOST_FOR_LEARNING_NOTHING:
            share = steps.rate_share
    steps.rate_share = share
    steps.lowered.append(
        LoweredRate(failure.phase, failure.epoch, failure.why, before, settings.learning_rate * share, failure.rmse)
    )
    return steps.lowered[-1]


def learns_too_little(steps: Steps, rmse: float, *, still_better: bool, at_end: bool) -> bool:
    """Whether a training that is no better than the means of rows yet shall have another learning rate.

    One that still gets better may just need its time, unless it is over and was better with another rate.
    """
    in_vain = [one for one in steps.lowered if one.why == "learned nothing"]
    if any(one.after >= one.before for one in in_vain):
        return False  # it has the best of all
    return not still_better or (at_end and any(one.rmse < rmse for one in in_vain))


def starts_silent(steps: Steps) -> bool:
    """Whether output weights shall begin at zero.

    Random ones are noise in all predictions until they are trained, and the lower the rate, the longer it stays. Where
    there is little to learn, that alone is worse than the means of rows, which is what zeros predict.
    """
    return any(one.why == "learned nothing" for one in steps.lowered)


def diverged(failure: StepTooLarge, settings: CFNSettings, rate: float, *, in_parts: bool) -> TrainingDivergedError:
    usual = type(settings).model_fields["learning_rate"].default
    lowered = f" at a learning rate that was lowered to {rate:.2g}" if rate < settings.learning_rate else ""
    return TrainingDivergedError(
        f"training diverged in epoch {failure.epoch}{lowered}: {failure.found}. "
        f"Lower learning_rate (now {settings.learning_rate:g}, try {min(usual, rate / LOWERED_BY):.2g})"
        + (f", or raise batch (now {settings.batch})" if in_parts else "")
    )

"""The verdict on a model in one sentence: how much it says that the means and popularity do not."""

from dataclasses import dataclass

import numpy as np

from cofill.errors import DataError
from cofill.evaluation import PairedRatio, paired_ratio
from cofill.report.subject import Subject


@dataclass(frozen=True)
class Verdict:
    """A sentence, and whether it is good news; None where there is nothing to judge by, or chance alone."""

    sentence: str
    good: bool | None


def verdict_on(subject: Subject) -> Verdict:
    if subject.test is None:
        return Verdict(
            "Nothing was measured yet: whether the model is any good shows on ratings that it has not seen.", None
        )
    clauses = [clause for clause in (_of_predictions(subject), _of_lists(subject)) if clause is not None]
    if not clauses:
        return Verdict("There is nothing here to judge the model by.", None)
    news = [clause.good for clause in clauses]
    good = False if False in news else True if True in news else None
    words = "; ".join(clause.sentence for clause in clauses)
    return Verdict(f"{words[0].upper()}{words[1:]}.", good)


def _of_predictions(subject: Subject) -> Verdict | None:
    if not subject.rated:
        return None
    ours, means = subject.evaluation.rmse, subject.means_evaluation.rmse
    if subject.trained_on:
        which = "these" if subject.trained_on == len(subject.tested) else f"{subject.trained_on:,} of these"
        return Verdict(f"predictions cannot be judged by {which} ratings, because the model was trained on them", None)
    digits = 3 if abs(ours - means) >= 0.005 else 4
    figures = f"RMSE {ours:.{digits}f} against {means:.{digits}f}"
    found = squared_errors_to_means(subject)
    if found is None or found.half_width is None:
        return Verdict(f"predictions were measured on too little to judge them ({figures} of the means alone)", None)
    if found.ratio == 1:
        return Verdict(f"predictions are those of the means alone ({figures})", None)
    if abs(found.ratio - 1) <= found.half_width:
        return Verdict(f"predictions are no closer than the means alone, beyond chance ({figures})", None)
    change = abs(1 - np.sqrt(found.ratio))
    if found.ratio < 1:
        return Verdict(f"predictions are {percent(change)} closer than the means alone ({figures})", True)
    return Verdict(f"predictions are {percent(change)} further off than the means alone ({figures})", False)


def _of_lists(subject: Subject) -> Verdict | None:
    lists = subject.ranking
    if isinstance(lists, DataError):
        return None
    popular, measure = lists.popularity, f"recall@{lists.n}"
    figures = f"{measure} {lists.recall:.3f} against {popular.recall:.3f}"
    if popular.recall == 0:
        return Verdict(f"popularity finds nothing here, and lists {'something' if lists.recall else 'nothing'}", None)
    found = lists.ratio_to(popular, measure)
    if found.half_width is None:
        return Verdict(f"lists were measured for a single person ({figures} of popularity)", None)
    if found.ratio == 1:
        return Verdict(f"lists find what popularity finds ({figures})", None)
    if abs(found.ratio - 1) <= found.half_width:
        return Verdict(f"lists find no more than popularity, beyond chance ({figures})", None)
    if found.ratio < 1:
        return Verdict(f"lists find {percent(1 - found.ratio)} less than popularity ({figures})", False)
    if found.ratio < 1.1:
        return Verdict(f"lists find {percent(found.ratio - 1)} more than popularity ({figures})", True)
    return Verdict(f"lists find {found.ratio:.1f} times what popularity finds ({figures})", True)


def squared_errors_to_means(subject: Subject) -> PairedRatio | None:
    """The ratio of the model's squared errors to those of the means, with its interval over people; None if no ratio.

    What one person gave belongs together: people are drawn by chance, their ratings are not.
    """
    test = subject.tested
    errors = [predicted.astype(np.float64) - test.values for predicted in (subject.predictions, subject.means_said)]
    people, of_person = np.unique(test.user_index, return_inverse=True)
    ours, means = (np.bincount(of_person, error**2, len(people)) for error in errors)
    return paired_ratio(ours, means) if means.any() else None


def percent(share: float) -> str:
    """As people say it: 9 %, 0.6 %."""
    hundredths = 100 * share
    return (
        f"{hundredths:.0f} %" if hundredths >= 2 else f"{hundredths:.1f} %" if hundredths >= 0.1 else "less than 0.1 %"
    )

"""What is reported on: a model, its test part, what it is compared with, and the verdict."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cofill.arrays import Doubles, Floats, Ints
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Id
from cofill.errors import DataError
from cofill.evaluation import (
    Evaluation,
    MeasuredLists,
    PairedRatio,
    RankingEvaluation,
    evaluate_ranking,
    paired_ratio,
)
from cofill.evaluation.ratings import Predictions, measured, predict_test
from cofill.models.baselines.item_models import EASE
from cofill.models.biases import Biases
from cofill.models.recommender import Recommender
from cofill.progress import share_done

MOST_ITEMS_OF_EASE = 4000
"""From there on it would take longer than all else on the page: its time grows with the cube of the items."""


def known_ratings(model: Recommender) -> Ratings:
    """All ratings, or interactions, that the model knows, as they are now."""
    rows = [model.predictor.known.row(user) for user in range(len(model.users))]
    users = np.repeat(np.arange(len(rows), dtype=np.int32), [len(items) for items, _ in rows])
    items, values = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    kind = Ratings if model.rated else Interactions
    return kind(model.users, model.items, users, items, values, None, model.scale, model.titles)


def fitted_biases(model: Recommender, known: Ratings) -> Biases:
    """The best that needs no tastes: overall mean, deviations of user and item, and what the model's features add."""
    users, items = model.predictor.user_features.values, model.predictor.item_features.values
    return Biases.fit(known.rows("user"), known.rows("item"), row_features=users, column_features=items)


def fitted_ease(model: Recommender, known: Ratings) -> EASE | None:
    """EASE on the same; None where the model is that already, or where there are too many items, or too few."""
    if isinstance(model, EASE) or not 2 <= len(model.items) <= MOST_ITEMS_OF_EASE or not len(known):
        return None
    return EASE().fit(known)


@dataclass(frozen=True)
class Subject:
    """A fitted model, and how the page presents it."""

    model: Recommender
    name: str
    """What the model is called: its folder, say."""
    test: Ratings | None = None
    test_name: str | None = None
    """Where the test ratings came from."""
    version: str | None = None
    """The cofill that wrote the model."""
    command: str | None = None
    """The one that writes the page of a model in the folder `model`."""
    users: tuple[Id, ...] = ()
    """Whose recommendations are shown; by default of one with few, one with a middling number and one with many."""
    quiet: bool = True

    def __post_init__(self) -> None:
        if self.test is not None and len(self.test) == 0:
            raise DataError(
                f"{self.test_name or 'the test part'}: there are no ratings to measure on; give at least one"
            )

    def title(self, item: int) -> str:
        """The title of an item, by index; its id if it has none."""
        found = self.model.items.id(item)
        return self.model.titles.get(found) or str(found)

    def ratings_of(self, user: int) -> tuple[Ints, Floats]:
        """Items, by index, and what the user gave them."""
        return self.model.predictor.known.row(user)

    @cached_property
    def known(self) -> Ratings:
        """All ratings, or interactions, that the model knows, as they are now."""
        return known_ratings(self.model)

    @cached_property
    def mean_ratings(self) -> Doubles:
        """(items,): NaN where there is none."""
        items, values = self.known.item_index, self.known.values
        counts = np.bincount(items, minlength=len(self.model.items))
        sums = np.bincount(items, weights=values, minlength=len(self.model.items))
        means: Doubles = np.full(len(counts), np.nan)
        return np.divide(sums, counts, out=means, where=counts > 0)

    @property
    def described(self) -> bool:
        """Whether the model learned from side information."""
        return bool(self.model.predictor.user_features.width or self.model.predictor.item_features.width)

    # The test part

    @property
    def rated(self) -> bool:
        """Whether there are ratings to predict, and to compare predictions with; otherwise lists alone are measured."""
        return self.model.rated and (self.test is None or self.test.rated)

    @property
    def tested(self) -> Ratings:
        assert self.test is not None
        return self.test

    @cached_property
    def test_pairs(self) -> tuple[Ints, Ints]:
        """(n,), (n,): users and items of the test ratings in the model's indices; -1 for those it has never seen."""
        test = self.tested
        users = self.model.users.find(test.users.ids)[test.user_index]
        return users, self.model.items.find(test.items.ids)[test.item_index]

    @cached_property
    def _predicted(self) -> Predictions:
        with share_done("predicting", self.quiet) as report:
            return predict_test(self.model, self.tested, intervals=True, report=report)

    @property
    def predictions(self) -> Floats:
        """(n,): of the test ratings."""
        return self._predicted.ratings

    @cached_property
    def evaluation(self) -> Evaluation:
        return measured(self.model, self.tested, self._predicted)

    @cached_property
    def biases(self) -> Biases:
        """Of the same ratings and features."""
        with share_done("fitting biases, to compare predictions with", self.quiet):
            return fitted_biases(self.model, self.known)

    @cached_property
    def biases_said(self) -> Floats:
        """(n,): what the biases predict for the test ratings."""
        return np.clip(self.biases.at_pairs(*self.test_pairs), *self.model.scale).astype(np.float32)

    @cached_property
    def biases_evaluation(self) -> Evaluation:
        """The measures of the biases, in the same groups."""
        return measured(self.model, self.tested, Predictions(self.biases_said, None))

    @cached_property
    def ranking(self) -> RankingEvaluation | DataError:
        """Ranking measures of lists of ten, or the reason why there are none, which does not stop the page."""
        try:
            with share_done("ranking", self.quiet) as report:
                return evaluate_ranking(self.model, self.tested, report=report)
        except DataError as error:
            return error

    @cached_property
    def ease_ranking(self) -> RankingEvaluation | None:
        """The lists of EASE on the same ratings; None where it was not fitted."""
        if isinstance(self.ranking, DataError):
            return None
        with share_done("fitting EASE, to compare lists with", self.quiet):
            ease = fitted_ease(self.model, self.known)
        return None if ease is None else evaluate_ranking(ease, self.tested, relevant=self.ranking.relevant)

    @cached_property
    def trained_on(self) -> int:
        """How many test ratings the model was trained on; they say little about new ones."""
        return self.model.known_pairs(self.tested)


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
    ours, biases = subject.evaluation.rmse, subject.biases_evaluation.rmse
    if subject.trained_on:
        which = "these" if subject.trained_on == len(subject.tested) else f"{subject.trained_on:,} of these"
        return Verdict(f"predictions cannot be judged by {which} ratings, because the model was trained on them", None)
    digits = 3 if abs(ours - biases) >= 0.005 else 4
    figures = f"RMSE {ours:.{digits}f} against {biases:.{digits}f}"
    peer = "biases with the same features" if subject.described else "biases"
    found = squared_errors_to_biases(subject)
    if found is None or found.half_width is None:
        return Verdict(f"predictions were measured on too little to judge them ({figures} of the {peer})", None)
    if found.ratio == 1:
        return Verdict(f"predictions are those of the {peer} ({figures})", None)
    if _of_chance(found):
        return Verdict(f"predictions are no closer than the {peer}, beyond chance ({figures})", None)
    change = abs(1 - np.sqrt(found.ratio))
    if found.ratio < 1:
        return Verdict(f"predictions are {percent(change)} closer than the {peer} ({figures})", True)
    return Verdict(f"predictions are {percent(change)} further off than the {peer} ({figures})", False)


def _of_lists(subject: Subject) -> Verdict | None:
    lists = subject.ranking
    if isinstance(lists, DataError):
        return None
    others: dict[str, MeasuredLists] = {"popularity": lists.popularity}
    if subject.ease_ranking is not None:
        others["EASE"] = subject.ease_ranking
    found = {name: lists.ratio_to(other, f"recall@{lists.n}") for name, other in others.items() if other.recall}
    figures = ", ".join(f"{name} {other.recall:.3f}" for name, other in others.items())
    figures = f"recall@{lists.n} {lists.recall:.3f}; {figures}"
    if "popularity" not in found:
        return Verdict(f"popularity finds nothing here, and lists {'something' if lists.recall else 'nothing'}", None)
    if found["popularity"].half_width is None:
        return Verdict(f"lists were measured for a single person ({figures})", None)
    words = " and ".join(_times(ratio, name) for name, ratio in found.items())
    good = None if _of_chance(found["popularity"]) else found["popularity"].ratio > 1
    return Verdict(f"lists find {words} ({figures})", good)


def _times(found: PairedRatio, other: str) -> str:
    """How much lists find, compared with the others."""
    if _of_chance(found):
        return f"as much as {other}{'' if found.ratio == 1 else ' within chance'}"
    if found.ratio < 1:
        return f"{percent(1 - found.ratio)} less than {other}"
    if found.ratio < 1.1:
        return f"{percent(found.ratio - 1)} more than {other}"
    return f"{found.ratio:.1f} times as much as {other}"


def _of_chance(found: PairedRatio) -> bool:
    return found.half_width is None or abs(found.ratio - 1) <= found.half_width


def squared_errors_to_biases(subject: Subject) -> PairedRatio | None:
    """The ratio of the model's squared errors to those of the biases, with its interval over people; None if no ratio.

    What one person gave belongs together: people are drawn by chance, their ratings are not.
    """
    test = subject.tested
    errors = [predicted.astype(np.float64) - test.values for predicted in (subject.predictions, subject.biases_said)]
    people, of_person = np.unique(test.user_index, return_inverse=True)
    ours, theirs = (np.bincount(of_person, error**2, len(people)) for error in errors)
    return paired_ratio(ours, theirs) if theirs.any() else None


def percent(share: float) -> str:
    """As people say it: 9 %, 0.6 %."""
    hundredths = 100 * share
    return (
        f"{hundredths:.0f} %" if hundredths >= 2 else f"{hundredths:.1f} %" if hundredths >= 0.1 else "less than 0.1 %"
    )

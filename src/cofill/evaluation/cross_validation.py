"""k-fold cross-validation: every rating is tested once, and models are compared on the same folds."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cofill.data.frames import InFrames
from cofill.data.ratings import Ratings
from cofill.data.splits import k_folds
from cofill.errors import DataError
from cofill.evaluation.intervals import Interval, PairedComparison, paired
from cofill.evaluation.ranking import RankingEvaluation, RankingModel, evaluate_ranking
from cofill.evaluation.ratings import Evaluation, RatingModel, evaluate

if TYPE_CHECKING:
    import polars as pl

RATING_MEASURES = ("rmse", "mae")
"""The less the better."""
RANKING_MEASURES = ("ndcg", "precision", "recall", "recall_capped", "f1", "mrr", "coverage", "novelty")
"""The more the better."""


class TrainableModel(RatingModel, RankingModel, Protocol):
    """The interface of a model to train and measure; features are passed only if there are any."""

    def fit(self, ratings: object, /) -> Any: ...


@dataclass(frozen=True)
class Fold:
    """The measures of a model that was trained on all other folds."""

    seed: int  # of the model
    training_ratings: int
    rating: Evaluation
    ranking: RankingEvaluation | None

    def measure(self, name: str) -> float:
        source = self.rating if name in RATING_MEASURES else self.ranking
        return float(getattr(source, name))

    def as_json(self) -> dict[str, Any]:
        ranking = None if self.ranking is None else self.ranking.as_json()
        return asdict(replace(self, ranking=None)) | {"ranking": ranking}


@dataclass(frozen=True)
class CrossValidation(InFrames):
    """The measures of every fold, and what is needed to repeat them."""

    model: str
    seed: int  # of the folds
    data: str  # a fingerprint of the ratings
    folds: tuple[Fold, ...]

    @property
    def measures(self) -> tuple[str, ...]:
        """The names of the measures."""
        return RATING_MEASURES if self.folds[0].ranking is None else RATING_MEASURES + RANKING_MEASURES

    def interval(self, measure: str) -> Interval:
        """Mean over the folds and its 95 % interval, by plain Student's t, as is usual."""
        return Interval.of(self._values(measure))

    def compare(self, other: "CrossValidation", measure: str = "rmse") -> PairedComparison:
        """Is this model better than another one on the same folds?

        The folds share training ratings, for which the interval is widened: see `evaluation.intervals`. Greater is
        better with ranking measures, coverage and novelty among them.
        """
        self._check_comparable(other, measure)
        overlap = 1 / (len(self.folds) - 1)
        less_is_better = measure in RATING_MEASURES
        return paired(self._values(measure), other._values(measure), less_is_better=less_is_better, overlap=overlap)

    def to_polars(self) -> "pl.DataFrame":
        """A row for each fold, with its number from 1, the seed of its model, and its measures."""
        import polars as pl

        return pl.DataFrame(
            [
                {"fold": number, "seed": fold.seed, "training_ratings": fold.training_ratings}
                | {"ratings": fold.rating.ratings, "cold": fold.rating.cold}
                | {measure: fold.measure(measure) for measure in self.measures}
                for number, fold in enumerate(self.folds, 1)
            ]
        )

    def as_json(self) -> dict[str, Any]:
        """All of it, and the intervals, ready for JSON."""
        return {
            "model": self.model,
            "seed": self.seed,
            "data": self.data,
            "intervals": {measure: self.interval(measure).as_json() for measure in self.measures},
            "folds": [fold.as_json() for fold in self.folds],
        }

    def _values(self, measure: str) -> list[float]:
        if measure not in self.measures:
            ranking = "; cross_validate(..., ranking=True) measures lists too" if measure in RANKING_MEASURES else ""
            raise DataError(f"{measure!r} was not measured, but {', '.join(self.measures)}{ranking}")
        return [fold.measure(measure) for fold in self.folds]

    def _check_comparable(self, other: "CrossValidation", measure: str) -> None:
        def settings(of: CrossValidation) -> dict[str, object]:
            found: dict[str, object] = {"number of folds": len(of.folds), "seed of the folds": of.seed}
            ranking = of.folds[0].ranking
            if measure in RANKING_MEASURES and ranking is not None:
                found |= {"n": ranking.n, "relevant": ranking.relevant}
            return found

        if self.data != other.data:
            raise DataError(
                f"{self.model} and {other.model} were measured on different ratings, so they cannot be compared; "
                f"cross-validate both on the same"
            )
        ours, theirs = settings(self), settings(other)
        for name, value in ours.items():
            if name in theirs and value != theirs[name]:
                raise DataError(
                    f"{self.model} and {other.model} cannot be compared: the {name} is {value} with the one and "
                    f"{theirs[name]} with the other; cross-validate both alike"
                )


def cross_validate(
    make: Callable[[int], TrainableModel],
    ratings: Ratings,
    *,
    folds: int = 5,
    seed: int = 0,
    item_features: object = None,
    user_features: object = None,
    ranking: bool = False,
    n: int = 10,
    relevant: float | None = None,
    report: Callable[[float], None] | None = None,
) -> CrossValidation:
    """Train a model on all folds but one and measure it on that one, for each fold.

    `make` gets the seed of a fold's model (`seed`, `seed` + 1 and so on) and returns one that is not fitted. With
    `ranking`, lists of `n` are measured too, where ratings from `relevant` on are relevant. `report` is called with
    the share done.
    """
    passed: object = make
    if not callable(passed):
        raise DataError(
            f"make is the model {passed!r}, and every fold needs one of its own",
            "give what makes it: lambda seed: CFN(seed=seed)",
        )
    features = {"item_features": item_features, "user_features": user_features}
    given: dict[str, Any] = {name: source for name, source in features.items() if source is not None}
    found = []
    name = ""
    for number, (train, test) in enumerate(k_folds(ratings, folds=folds, seed=seed)):
        model = make(seed + number)
        name = type(model).__name__
        model.fit(train, **given)
        lists = evaluate_ranking(model, test, n=n, relevant=relevant) if ranking else None
        found.append(Fold(seed + number, len(train), evaluate(model, test), lists))
        if report:
            report((number + 1) / folds)
    return CrossValidation(name, seed, _fingerprint(ratings), tuple(found))


def _fingerprint(ratings: Ratings) -> str:
    """A hash of the ratings in their order, and so of the folds; ids without a rating do not count."""
    digest = hashlib.sha256(json.dumps(list(ratings.scale)).encode())
    for vocabulary, index in ((ratings.users, ratings.user_index), (ratings.items, ratings.item_index)):
        present, numbered = np.unique(index, return_inverse=True)
        digest.update(json.dumps(vocabulary.array()[present].tolist()).encode())
        digest.update(numbered.astype("<i4").tobytes())
    digest.update(ratings.values.astype("<f4").tobytes())
    return digest.hexdigest()

"""One run: train a model and measure it."""

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cofill.data.described import SideInformation
from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Vocabulary
from cofill.errors import CofillError, DataError, TrainingDivergedError
from cofill.evaluation import evaluate, evaluate_newcomers, evaluate_ranking
from cofill.experiments.runs import ExperimentData, Record, Run
from cofill.memory import peak_bytes, reset_peak
from cofill.models import algorithm
from cofill.models.recommender import Recommender
from cofill.workers import cores

Report = Callable[[float], None]
"""Called with the share done, as far as it can be known."""

_OF_MEASURING = 0.1  # share of the time of a run, roughly


def perform(run: Run, data: ExperimentData, *, threads: int, report: Report) -> Record:
    """Do a run and return its record. A training that diverges is a result too, recorded as a problem.

    `threads` 0: all cores at hand. The clock is that of the training alone: what a process has to do once, such as
    compiling, is done before.
    """
    began = time.perf_counter()
    about = {"threads": threads or cores()}
    warm_up(run, data, partial(_trained, threads=threads))
    fold_in = None
    if run.part.by == "strong":
        train, fold_in, test = data.strong_parts(run.part)
    else:
        train, test = data.parts(run.part)
    model = _model(run, threads)
    before = reset_peak()
    try:
        started = time.perf_counter()
        _fit(model, train, data if run.side else None, lambda share: report(share * (1 - _OF_MEASURING)))
        trained = time.perf_counter() - started
    except TrainingDivergedError as problem:
        return {"problem": str(problem), "seconds": time.perf_counter() - began, **about}
    result: dict[str, Any] = {"training_seconds": trained, **model.measures}
    if run.task == "cost":
        result |= {"peak_bytes": peak_bytes(), "bytes_before": before, "parameters": model.parameters()}
    elif run.task == "validate":
        result |= {"validation_curve": [record.validation_rmse for record in model.history]}
    else:
        result |= _tested(model, test, fold_in)
    report(1.0)
    return {"result": result, "seconds": time.perf_counter() - began, **about}


def _trained(run: Run, data: ExperimentData, *, threads: int) -> None:
    _fit(_model(run, threads), data.ratings, data if run.side else None, lambda share: None)


def _model(run: Run, threads: int) -> Recommender:
    kind = algorithm(run.algorithm)
    settings = dict(run.settings)
    if "threads" in kind.settings_class.model_fields:
        settings["threads"] = threads
    return kind(**settings)


def _fit(model: Recommender, train: Ratings, described_by: ExperimentData | None, report: Report) -> None:
    features: dict[str, Any] = {}
    if described_by is not None:
        features = {"item_features": described_by.side.items, "user_features": described_by.side.users}
    model.fit(train, progress=lambda step: report(step.share), **features)


def _tested(model: Recommender, test: Ratings, fold_in: Ratings | None) -> dict[str, Any]:
    """Rating and ranking metrics together: training takes longer, and the other may be needed later."""
    found: dict[str, Any] = {}
    if model.rated and fold_in is None:
        found = evaluate(model, test).as_json()
    try:
        if fold_in is None:
            found["ranking"] = evaluate_ranking(model, test).as_json()
            if model.rated:
                found["ranking_by_rating"] = evaluate_ranking(model, test, by="rating").as_json()
        else:
            found["ranking"] = evaluate_newcomers(model, fold_in, test).as_json()
    except DataError as problem:  # no rating that is relevant: of ratings there is something to say all the same
        found["ranking"], found["ranking_problem"] = None, str(problem)
    return found


# A first training on next to nothing, outside of the clock: kernels are compiled, libraries and threads are there

_SIDE = 40  # users, and items
# Each step of a training once or twice, whatever the algorithm calls it.
_BRIEF = {"epochs": 2, "iterations": 1, "burn_in": 1, "samples": 1, "anchors": 1}

_warm: set[tuple[object, ...]] = set()


def _brief(run: Run) -> Run:
    """The same training, shortened to the fewest steps possible."""
    known = algorithm(run.algorithm).settings_class.model_fields
    return replace(run, settings={**run.settings, **{name: few for name, few in _BRIEF.items() if name in known}})


def warm_up(run: Run, data: ExperimentData, train: Callable[[Run, ExperimentData], object]) -> None:
    """Train briefly, once in a process for each code path, so that compiling is not timed. The result is discarded."""
    choices = [(name, value) for name, value in run.all_settings.items() if isinstance(value, str | bool)]
    way = (run.algorithm, run.side is not None, *choices)
    if way in _warm:
        return
    _warm.add(way)
    with warnings.catch_warnings(), suppress(CofillError):
        warnings.simplefilter("ignore")
        train(_brief(run), corner(data))


def corner(data: ExperimentData) -> ExperimentData:
    """The ratings of the most active users for the most rated items, with their side information."""
    ratings = data.ratings
    users, user_place = _busiest(ratings.users, ratings.user_index)
    items, item_place = _busiest(ratings.items, ratings.item_index)
    kept = (user_place[ratings.user_index] >= 0) & (item_place[ratings.item_index] >= 0)
    few = Ratings(
        users,
        items,
        user_place[ratings.user_index[kept]],
        item_place[ratings.item_index[kept]],
        ratings.values[kept],
        None,
        ratings.scale,
    )
    return ExperimentData(few, SideInformation(_about(users, data.side.users), _about(items, data.side.items)))


def _busiest(ids: Vocabulary, index: Any) -> tuple[Vocabulary, Any]:
    """The ids with most ratings, in their order, and for every id its position among them, or -1."""
    chosen = np.sort(np.argsort(-np.bincount(index, minlength=len(ids)), kind="stable")[:_SIDE])
    place = np.full(len(ids), -1, np.int32)
    place[chosen] = np.arange(len(chosen), dtype=np.int32)
    every = ids.ids
    return Vocabulary([every[at] for at in chosen]), place


def _about(ids: Vocabulary, features: Features | None) -> Features | None:
    return None if features is None else replace(features, ids=ids, values=features.aligned(ids))

"""A first training on next to nothing, outside of the clock: kernels are compiled, libraries and threads are there."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.data.side_information import SideInformation
from cofill.data.vocabulary import Vocabulary
from cofill.errors import CofillError
from cofill.experiments.experiment_data import ExperimentData
from cofill.experiments.runs import Run
from cofill.models import algorithm

_SIDE = 40  # users, and items
# Each step of a training once or twice, whatever the algorithm calls it.
_BRIEF = {"epochs": 2, "iterations": 1, "burn_in": 1, "samples": 1, "anchors": 1}

_warm: set[tuple[object, ...]] = set()


def _brief(run: Run) -> Run:
    """The same training with as few steps as there can be."""
    known = algorithm(run.algorithm).settings_class.model_fields
    return replace(run, settings={**run.settings, **{name: few for name, few in _BRIEF.items() if name in known}})


def warm_up(run: Run, data: ExperimentData, train: Callable[[Run, ExperimentData], object]) -> None:
    """Once in a process for all runs that take the same way through the code. What comes of it is of no interest."""
    choices = [(name, value) for name, value in run.all_settings.items() if isinstance(value, str | bool)]
    way = (run.algorithm, run.side is not None, *choices)
    if way in _warm:
        return
    _warm.add(way)
    with warnings.catch_warnings(), suppress(CofillError):
        warnings.simplefilter("ignore")
        train(_brief(run), corner(data))


def corner(data: ExperimentData) -> ExperimentData:
    """The ratings of the busiest users for the most rated items, with what is known of them."""
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
    """Some ids in their order, and the place (all of them,) of each among these, or -1."""
    chosen = np.sort(np.argsort(-np.bincount(index, minlength=len(ids)), kind="stable")[:_SIDE])
    place = np.full(len(ids), -1, np.int32)
    place[chosen] = np.arange(len(chosen), dtype=np.int32)
    every = ids.ids
    return Vocabulary([every[at] for at in chosen]), place


def _about(ids: Vocabulary, features: Features | None) -> Features | None:
    return None if features is None else replace(features, ids=ids, values=features.aligned(ids))

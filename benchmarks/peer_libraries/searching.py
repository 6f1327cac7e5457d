"""A search on validation ratings, for libraries whose authors recommend no settings: a tenth of the training part."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from peer_libraries.answering import LENGTH, Ints, Model, Problem

Setting = TypeVar("Setting")


def validation_part(problem: Problem, seed: int) -> tuple[Problem, Problem]:
    """What a setting is fitted on, and the ratings that choose; the test part has no say."""
    held_out = np.random.default_rng(seed).random(len(problem.user)) < 0.1
    # users and items keep their numbers: the last of each stays in training
    held_out &= (problem.user != problem.users - 1) & (problem.item != problem.items - 1)
    kept = problem.part(~held_out)
    known = np.isin(problem.user, kept.user) & np.isin(problem.item, kept.item)
    return kept, problem.part(held_out & known)


def best_setting(
    problem: Problem, seed: int, settings: Sequence[Setting], fit: Callable[[Problem, Setting], Model]
) -> Setting:
    """The one with the best lists for people of the validation part; each is fitted once."""
    kept, held_out = validation_part(problem, seed)
    if not (held_out.rating >= problem.liked_from).any():
        return settings[0]
    return max(settings, key=lambda setting: ndcg(fit(kept, setting), kept, held_out))


def ndcg(model: Model, kept: Problem, held_out: Problem) -> float:
    """As cofill's evaluation has it: liked ratings are relevant, their gain is the rating less the lowest."""
    liked = held_out.part(held_out.rating >= held_out.liked_from)
    people: Ints = np.unique(liked.user).astype(np.int32)
    lists = model.lists(people, LENGTH)
    gains = liked.rating.astype(np.float64) - liked.low
    discount = 1 / np.log2(np.arange(2, LENGTH + 2))
    found = []
    order = np.argsort(liked.user, kind="stable")
    ends = np.searchsorted(liked.user[order], people, side="right")
    for person, own in enumerate(np.split(order, ends[:-1])):
        gain = np.zeros(kept.items + 1)
        gain[liked.item[own]] = gains[own]
        best = np.sort(gains[own])[::-1][:LENGTH]
        found.append(float(gain[lists[person]] @ discount / (best @ discount[: len(best)])))
    return float(np.mean(found))

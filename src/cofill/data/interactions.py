"""Interactions: who chose what, how often and when (implicit feedback); from any source, and told from ratings."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import polars as pl

from cofill.arrays import Floats
from cofill.data import cells
from cofill.data.columns import EitherColumns, InteractionColumns, listed
from cofill.data.ratings import (
    FEW_LINES,
    Ratings,
    Scale,
    in_order,
    read_ratings,
    sorted_ratings,
    unsorted_ratings,
    warn_of_skipped,
    without_bad_lines,
)
from cofill.data.reading import ReadOptions
from cofill.data.table import Table, read_table
from cofill.data.vocabulary import by_user_then_item
from cofill.errors import DataError, DataNote, Place

_Kind = TypeVar("_Kind", bound="Interactions")
NO_WEIGHT = 1e-6
"""What weights at most add up to that cancel each other, for all that rounding does."""


class InteractionsRecognisedNote(DataNote):
    """What was read are interactions, although nobody had said so."""


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(Ratings):
    """n pairs of users and items that they chose, sorted by user, then by item; no pair is there twice.

    The values are weights above 0: how often or how strongly somebody chose an item, which does not say how much it was
    liked. The scale is from 0 to the greatest weight. Everything else is as in Ratings.
    """

    rated: ClassVar[bool] = False
    value_name: ClassVar[str] = "weight"
    plural: ClassVar[str] = "interactions"

    @classmethod
    def read(  # type: ignore[override]  # what is said of ratings cannot be said of interactions
        cls,
        source: object,
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        count: str | int | None = None,
        event: str | int | None = None,
        time: str | int | None = None,
        title: str | int | None = None,
        event_weights: Mapping[str, float] | None = None,
        separator: str | None = None,
        header: bool | None = None,
        encoding: str = "utf-8",
        skip_bad_lines: int = 0,
    ) -> "Interactions":
        """Interactions from a file, a frame, arrays or tuples: clicks, plays, orders. Strict, as `Ratings.read` is.

        `source` is whatever `Ratings.read` takes, with the columns user, item and, if there are any, count, event and
        time; arrays are (users, items[, counts[, times]]), tuples (user, item[, count[, time]]). Usual names such as
        plays, quantity, clicks, event_type and action are recognised; without a header the columns are user,
        item[, count or event][, time]. `count=""` or `event=""` leaves out a column that would be recognised. A column
        of ratings is left alone: each of its lines counts 1.

        A line counts 1, or its count, times the weight of its event: 1, or what `event_weights` has for it, such as
        {"view": 1, "buy": 5}. It must then have one for every event that is found; 0 leaves such events out. What one
        user did with one item is added up, and the latest time is kept.

        Ids, times, titles, encodings and `skip_bad_lines` are as in `Ratings.read`.
        """
        options = ReadOptions.of(
            user=user, item=item, count=count, event=event, time=time, title=title, event_weights=event_weights,
            separator=separator, header=header, encoding=encoding, skip_bad_lines=skip_bad_lines,
        )  # fmt: skip
        return _read_interactions(source, options)

    def merge(self, other: Ratings) -> Self:
        """Both together: weights of a pair that both have are added up; new ids come after the known ones.

        Times remain only if both have them: the later of each pair.
        """
        return _added_up(self._joined(other), None)

    def summary(self) -> dict[str, Any]:
        """The main figures, ready for JSON; "ratings" counts the pairs, and "mean" is that of their weights."""
        total = float(self.values.sum(dtype=np.float64))
        return super().summary() | {"interactions": len(self), "total_weight": total}


def read_ratings_or_interactions(source: object, **reading: Any) -> Ratings:
    """Ratings or Interactions, whichever the source holds; `reading` are the fields of `ReadOptions`.

    Where the caller says it, by `rating`, or by `count`, `event`, `event_weights` or `rating=""`, that decides. Else a
    source without a column of ratings holds interactions, and so does one whose ratings are all the same (at least 20,
    and no `scale` is given): then each counts 1. An InteractionsRecognisedNote says so.
    """
    options = ReadOptions.of(**reading)
    if options.rating not in (None, "") or options.wide:
        _refuse_given(options, _OF_INTERACTIONS, "ratings have no counts and events")
        return read_ratings(source, options)
    if options.rating == "" or any(name in options.given for name in _OF_INTERACTIONS):
        _refuse_given(options, _OF_RATINGS, "interactions have no ratings")
        return _read_interactions(source, options)
    wanted = EitherColumns(options.columns)
    table = read_table(source, wanted, options)
    if "rating" not in table.names:
        found = wanted.reasons[0] if wanted.reasons else "there are no ratings beside users and items"
        _refuse_given(options, _OF_RATINGS, f"interactions, not ratings: {found}", table.origin.name)
        _note(f"interactions, not ratings: {found}", table.origin.name)
        return _interactions_of(table, options)
    table, unsorted = unsorted_ratings(table, options)
    if options.scale is None and len(unsorted) >= FEW_LINES and (unsorted.values == unsorted.values[0]).all():
        _note(
            f"all {len(unsorted):,} ratings are {unsorted.values[0]:g}: interactions, which say that a user chose an "
            "item, not how much it was liked",
            table.origin.name,
            "to read them as ratings, pass rating=...",
        )
        unrated = {role: column for role, column in table.found.items() if role != "rating"}
        return _interactions_of(replace(table, found=unrated), options)
    return sorted_ratings(table, unsorted, options)


_OF_RATINGS = ("scale", "wide", "unknown", "zero_means")
_OF_INTERACTIONS = ("count", "event", "event_weights")


def _note(found: str, source: str, remedy: str = "") -> None:
    """Say that a source holds interactions, and why."""
    warnings.warn(InteractionsRecognisedNote(found, remedy, where=source), stacklevel=4)


def _refuse_given(options: ReadOptions, names: Sequence[str], why: str, source: str | None = None) -> None:
    """DataError if the caller gives an option that would do nothing."""
    for name in names:
        if name in options.given:
            raise DataError(why, f"leave out {name}={options.given[name]!r}", where=source)


def _read_interactions(source: object, options: ReadOptions) -> Interactions:
    return _interactions_of(read_table(source, InteractionColumns(options.columns), options), options)


def _interactions_of(table: Table, options: ReadOptions) -> Interactions:
    """The interactions of a table with columns by role."""
    weights = options.event_weights
    if weights is not None:
        table = _with_weighted_events(table, weights)

    def values(columns: Mapping[str, pl.Series], origin: cells.Origin) -> Floats:
        one_each = np.ones(len(columns["user"]), np.float32)
        counts = cells.counts(columns["count"], origin) if "count" in columns else one_each
        if "event" not in columns:
            return counts
        events = cells.events(columns["event"], origin)
        if weights is None:
            return counts
        of_events = events.replace_strict(list(weights), list(weights.values())).to_numpy()
        return np.asarray(counts * of_events, np.float32)

    def scale(values: Floats) -> Scale:
        return Scale(0.0, float(values.max()))

    table, unsorted = without_bad_lines(
        table, lambda table: in_order(Interactions, table, values, scale), options.skip_bad_lines
    )
    left = f"{len(unsorted):,} {'lines' if table.origin.unit == 'line' else 'rows'} are left"
    warn_of_skipped(table.skipped, table.origin, left)
    return _added_up(unsorted, table.origin.name)


def _with_weighted_events(table: Table, weights: Mapping[str, float]) -> Table:
    """The lines whose event has a weight above 0; DataError if one has none at all."""
    origin = table.origin
    if "event" not in table.names:
        problem = "there is no column of events, which the weights are for"
        raise DataError(problem, "say which with event=..., or leave out event_weights=...", where=origin.name)
    events = cells.words(table.series("event"))
    found = sorted(event for event in events.unique().to_list() if event)
    if missing := [event for event in found if event not in weights]:
        row = int((events == missing[0]).fill_null(False).arg_max() or 0)
        whole = {event: weights.get(event, 1.0) for event in found}
        raise DataError(
            f"no weight is given for the event {missing[0]!r}; found the events {listed(found)}",
            f"give all of them one, 0 to leave an event out: event_weights={whole!r}",
            where=Place(origin.name, origin.unit, origin.line(row), origin.labels.get("event")),
        )
    left_out = events.is_in([event for event, weight in weights.items() if weight == 0]).fill_null(False).to_numpy()
    if left_out.all():
        problem = f"all events that are found ({listed(found)}) have the weight 0"
        raise DataError(problem, f"give one of them another: event_weights={{{found[0]!r}: 1.0}}", where=origin.name)
    return table.only(~left_out) if left_out.any() else table


def _added_up(interactions: _Kind, source: str | None) -> _Kind:
    """By user, then by item, each pair once: its weights added up, at its latest time."""
    if not len(interactions):
        return interactions
    shape = len(interactions.users), len(interactions.items)
    users, items, order = by_user_then_item(interactions.user_index, interactions.item_index, shape)
    times = None if interactions.times is None else interactions.times[order]
    new = np.append(True, (users[1:] != users[:-1]) | (items[1:] != items[:-1]))
    begins = np.flatnonzero(new)
    exact = interactions.values[order].astype(np.float64)
    if (exact != np.floor(exact)).any():
        exact = exact[np.lexsort((exact, np.cumsum(new)))]  # the same sum in whatever order the lines are
    with np.errstate(over="ignore"):
        weights = np.add.reduceat(exact, begins).astype(np.float32)
    if not (np.isfinite(weights) & (weights > 0)).all():
        raise DataError("a weight is too great or too small for 32 bits", "use other weights or counts", where=source)
    return replace(
        interactions,
        user_index=users[new],
        item_index=items[new],
        values=weights,
        times=None if times is None else np.maximum.reduceat(times, begins),
        scale=Scale(0.0, float(weights.max())),
        order=np.maximum.reduceat(interactions.places()[order], begins),
    )

"""Everybody's lists, or the predictions of many pairs, by tasks over ranges of people on a Ray cluster.

Each task loads the model, or the part of it with its people, scores them in chunks of bounded memory, and writes one
Parquet file (`part_files`). A task whose worker is killed is begun again; a command that was stopped goes on where it
was when it is given again.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cofill.cluster.model_parts import Held, ModelOutline, ModelParts, Range
from cofill.cluster.part_files import Part, PartFolder, finished_part, write_part
from cofill.cluster.ray_crew import Say, Workplace, workplace
from cofill.errors import ClusterError, CofillError, DataError, Remedy
from cofill.memory import peak_bytes
from cofill.models.lists.ranked import check_count, list_columns, list_schema
from cofill.models.lists.rules import By, Rules
from cofill.workers import Advanced, Duty, Failed

if TYPE_CHECKING:
    import polars as pl

Longs = npt.NDArray[np.int64]
Report = Callable[[float], None]

ATTEMPTS = 3
_TASKS_A_CORE = 4
_MOST_AT_ONCE = 50_000  # people, or pairs times 20, of a task, unless the caller says how many tasks there are
_PAIRS_AT_ONCE = 50_000


@dataclass(frozen=True)
class Division:
    """How work is divided on a cluster."""

    address: str
    tasks: int | None = None
    """None: a few for each core, and enough of them that each is small."""
    cores: int = 1
    """Of a task."""

    def workers(self, place: Workplace) -> int:
        found = sum(cores // self.cores for cores in place.machines)
        if not found:
            raise ClusterError(
                f"a task takes {self.cores} cores, and the greatest machine of the cluster has {place.machines[0]}",
                Remedy.passing("ask for fewer with {cores}", cores=...),
            )
        return found

    def number(self, place: Workplace, size: int, most: int) -> int:
        return self.tasks or max(_TASKS_A_CORE * self.workers(place), -(-size // most))


@dataclass(frozen=True)
class Scored:
    """What a command has written."""

    folder: Path
    rows: int
    parts: int
    kept: int
    """Parts that were there already."""
    seconds: float
    peak_bytes: int
    """Of the worker that took most; 0 where none had to do anything."""

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "rows": self.rows,
            "parts": self.parts,
            "kept": self.kept,
            "seconds": self.seconds,
            "peak_bytes": self.peak_bytes,
        }


# What the driver does


def recommend_everybody(
    outline: ModelOutline,
    out: Path,
    division: Division,
    *,
    n: int = 10,
    by: By = "list",
    exclude_known: bool = True,
    rules: Rules | None = None,
    report: Report | None = None,
    say: Say | None = None,
) -> Scored:
    """Write the lists of all people of a model, with the columns user, rank, item, score, rating, raters, title."""
    check_count(n)
    if by == "rating" and not outline.rated:
        raise DataError("this model was trained on interactions, so it knows no ratings to rank by; use by='list'")
    wanted: Rules = rules or {}
    outline.check_rules(wanted, by)
    given = {name: value for name, value in wanted.items() if value}
    asked = {"n": n, "by": by, "exclude_known": exclude_known, "rules": _plain(given)}
    folder = PartFolder(out, "lists", {"model": outline.digest, **asked})
    task = {
        "model": str(outline.folder),
        "digest": outline.digest,
        "integers": (outline.users_are_integers, outline.items.integers),
        "rules": given,
        **{name: asked[name] for name in ("n", "by", "exclude_known")},
    }

    def cut(place: Workplace) -> list[Range]:
        return outline.cut(division.number(place, outline.users, _MOST_AT_ONCE))

    return _score(folder, "begin_lists", cut, lambda one: task, division, {"people": outline.users}, report, say)


def predict_pairs(
    outline: ModelOutline,
    pairs: "pl.DataFrame",
    out: Path,
    division: Division,
    *,
    with_interval: bool = False,
    report: Report | None = None,
    say: Say | None = None,
) -> Scored:
    """Write predicted ratings of pairs, a frame with the columns user and item, ordered by person.

    The columns are user, item, rating and, with intervals, low and high. Pairs of one person keep their order; those of
    people whom the model does not know come first.
    """
    if not outline.rated:
        raise DataError("this model was trained on interactions, so it knows no ratings to predict; ask for lists")
    if not len(pairs):
        raise DataError("there are no pairs to predict; give at least one")
    people = outline.find_people(pairs["user"].to_list())
    items = outline.items.find(pairs["item"].to_list())
    order = np.argsort(people, kind="stable")
    people, items = people[order], items[order]
    folder = PartFolder(
        out, "predictions", {"model": outline.digest, "pairs": _digest(pairs), "with_interval": with_interval}
    )

    def cut(place: Workplace) -> list[Range]:
        return cut_by_person(people, outline.whole_parts(), division.number(place, len(pairs), 20 * _MOST_AT_ONCE))

    def task(part: Range) -> dict[str, Any]:
        own = slice(part.first, part.last)
        return {
            "model": str(outline.folder),
            "digest": outline.digest,
            "pairs": pairs[order[own]],
            "people": people[own],
            "items": items[own],
            "with_interval": with_interval,
        }

    return _score(folder, "begin_predictions", cut, task, division, {"pairs": len(pairs)}, report, say)


def cut_by_person(people: Longs, parts: Sequence[Range], tasks: int) -> list[Range]:
    """Places of entries, ascending by person, in about so many ranges that neither divide a person nor a part."""
    wanted = np.linspace(0, len(people), min(tasks, len(people)) + 1).astype(np.int64)[1:-1]
    at_persons = np.searchsorted(people, people[wanted]) if len(wanted) else wanted
    at_parts = np.searchsorted(people, [part.first for part in parts[1:]])
    ends = np.unique(np.concatenate([[0, len(people)], at_persons, at_parts])).tolist()
    return [Range(*pair) for pair in pairwise(ends)]


class _Tasks(Sequence[Any]):
    """The tasks, each made when a worker is free for it: together they may be as large as the data."""

    def __init__(self, folder: PartFolder, ranges: Sequence[Range], content: Callable[[Range], dict[str, Any]]) -> None:
        self._folder, self._ranges, self._content = folder, ranges, content

    def __len__(self) -> int:
        return len(self._ranges)

    def __getitem__(self, number: Any) -> Any:
        own = self._ranges[number]
        about = {"folder": str(self._folder.folder), "number": number, "range": tuple(own)}
        return about | {"question": self._folder.digest, **self._content(own)}


def _score(
    folder: PartFolder,
    function: str,
    cut: Callable[[Workplace], list[Range]],
    content: Callable[[Range], dict[str, Any]],
    division: Division,
    facts: Mapping[str, Any],
    report: Report | None,
    say: Say | None,
) -> Scored:
    began = time.perf_counter()
    with workplace(division.address, attempts=ATTEMPTS, say=say) as place:
        division.workers(place)  # before anything is written: whether there is room at all
        tasks = _Tasks(folder, folder.ranges(lambda: cut(place)), content)
        found: dict[int, dict[str, Any]] = {}
        done_by_all(place, tasks, f"{__name__}:{function}", division, found.__setitem__, report)
    results = [found[number] for number in range(len(tasks))]
    parts = [Part(**result["part"]) for result in results]
    folder.finish(parts, **facts)
    return Scored(
        folder=folder.folder,
        rows=sum(part.rows for part in parts),
        parts=len(parts),
        kept=sum(result["kept"] for result in results),
        seconds=time.perf_counter() - began,
        peak_bytes=max((result["peak_bytes"] for result in results if not result["kept"]), default=0),
    )


def done_by_all(
    place: Workplace,
    tasks: Sequence[Any],
    function: str,
    division: Division,
    take: Callable[[int, Any], None],
    report: Report | None,
    equipment: bytes = b"",
) -> None:
    """Do all tasks, whose results are taken as they come; the first that fails for good ends them all."""
    shares = np.zeros(len(tasks))
    workers = min(division.workers(place), len(tasks))
    with place.crew_for(tasks, function, workers=workers, threads=division.cores, equipment=equipment) as heard:
        for news in heard:
            if news is None:
                continue
            if isinstance(news, Failed):
                if news.killed:
                    raise ClusterError(
                        f"task {news.task + 1} of {len(tasks)}: {news.problem}",
                        Remedy.passing(
                            "the same command goes on; if memory is short, with more of {tasks} or {cores}",
                            tasks=...,
                            cores=...,
                        ),
                    )
                raise CofillError(news.problem)
            if isinstance(news, Advanced):
                shares[news.task] = news.share
            else:
                take(news.task, news.result)
                shares[news.task] = 1.0
            if report is not None:
                report(float(shares.mean()))


def _plain(value: Any) -> Any:
    """As JSON, for a digest."""
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, str | int | float | bool | None):
        return value
    return value.isoformat() if isinstance(value, date) else [_plain(one) for one in value]


def _digest(frame: "pl.DataFrame") -> str:
    found = hashlib.sha256(str(frame.schema).encode())
    for piece in frame.iter_slices(200_000):
        found.update(piece.write_csv().encode())
    return found.hexdigest()


# What a worker does

Write = Callable[[Mapping[str, Any], Held, Report], "Iterator[pl.DataFrame]"]


def begin_lists(duty: Duty, equipment: bytes) -> Callable[[Any], Any]:
    """Entry point of a worker that writes lists."""
    return _begin(duty, _schema_of_lists, _lists, lambda task: Range(*task["range"]))


def begin_predictions(duty: Duty, equipment: bytes) -> Callable[[Any], Any]:
    """Entry point of a worker that writes predictions."""
    return _begin(duty, _schema_of_predictions, _predictions, lambda task: people_asked(task["people"]))


def people_asked(people: Longs) -> Range:
    """The range of those asked about, ascending; strangers, who are -1, can be asked of any part."""
    last = int(people[-1]) + 1 if len(people) else 0
    return Range(min(max(0, int(people[0])), last) if last else 0, last)


def _begin(
    duty: Duty,
    schema: "Callable[[Mapping[str, Any], Held], Mapping[str, Any]]",
    write: Write,
    needed: Callable[[Mapping[str, Any]], Range],
) -> Callable[[Any], Any]:
    loaded: dict[str, ModelParts] = {}

    def do(task: Mapping[str, Any]) -> dict[str, Any]:
        folder, number, own = Path(task["folder"]), task["number"], Range(*task["range"])
        part = finished_part(folder, number, own, task["question"])
        kept = part is not None
        if part is None:
            parts = loaded.setdefault(task["model"], ModelParts(Path(task["model"]), task["digest"]))
            held = parts.held_for(needed(task))
            rows = write(task, held, duty.report)
            part = write_part(folder, number, own, task["question"], schema(task, held), rows)
        return {"part": vars(part), "kept": kept, "peak_bytes": peak_bytes()}

    return do


def _schema_of_lists(task: Mapping[str, Any], held: Held) -> "Mapping[str, Any]":
    integers = [name for name, yes in zip(("user", "item"), task["integers"], strict=True) if yes]
    return list_schema(list_columns(held.model.rated), integers=integers)


def _lists(task: Mapping[str, Any], held: Held, report: Report) -> "Iterator[pl.DataFrame]":
    model, own = held.model, Range(*task["range"])
    people = [model.users.id(index - held.offset) for index in range(own.first, own.last)]
    lists = model.recommend_many(
        people,
        task["n"],
        by=task["by"],
        exclude_known=task["exclude_known"],
        progress=lambda step: report(step.share),
        **task["rules"],
    )
    # A part may have numbers alone where the whole model has texts too.
    schema: dict[Any, Any] = dict(_schema_of_lists(task, held))
    for frame in lists.frames():
        yield frame.cast(schema)


def _schema_of_predictions(task: Mapping[str, Any], held: Held) -> "Mapping[str, Any]":
    import polars as pl

    ends = ("low", "high") if task["with_interval"] else ()
    return {**task["pairs"].schema, **dict.fromkeys(("rating", *ends), pl.Float32)}


def _predictions(task: Mapping[str, Any], held: Held, report: Report) -> "Iterator[pl.DataFrame]":
    import polars as pl

    pairs, items, people = task["pairs"], task["items"], task["people"]
    users = np.where(people < 0, -1, people - held.offset).astype(np.int32)
    for first in range(0, len(pairs), _PAIRS_AT_ONCE):
        own = slice(first, first + _PAIRS_AT_ONCE)
        if task["with_interval"]:
            found = held.model.predict_intervals(users[own], items[own])
            columns = {"rating": found.ratings, "low": found.low, "high": found.high}
        else:
            columns = {"rating": held.model.predict_indices(users[own], items[own])}
        yield pairs[own].with_columns(**{name: pl.Series(values) for name, values in columns.items()})
        report(min(len(pairs), first + _PAIRS_AT_ONCE) / len(pairs))

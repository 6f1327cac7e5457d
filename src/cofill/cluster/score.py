"""The lists of all people, or the predictions of many pairs, by tasks over ranges of people on a Ray cluster.

Each task loads the model, or the part of it with its people, scores them in chunks of bounded memory, and writes one
Parquet file. A task whose worker is killed is begun again; a command that was stopped goes on where it was when it is
given again. The folder:

    part-00000.parquet   the rows of one task; it is there whole or not at all
    NAME.json            the question and the ranges of all parts, written first; in the end also what they are
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cofill import __version__
from cofill.arrays import Longs
from cofill.cluster.session import Workplace, workplace
from cofill.data.attributes import Attributes
from cofill.data.ratings import Scale
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import ClusterError, CofillError, DataError, ModelFileError
from cofill.files import json_of, replacing
from cofill.manifest import sha256_of
from cofill.memory import peak_bytes
from cofill.models.lists.rules import By, Catalogue, Rules
from cofill.models.persistence import Card, ids_in, read_tables
from cofill.models.results import check_count, list_columns, list_schema
from cofill.workers import Work, map_unordered

if TYPE_CHECKING:
    import polars as pl

    from cofill.models.recommender import Recommender

Report = Callable[[float], None]

_TASKS_A_CORE = 4
MOST_AT_ONCE = 50_000  # people, or pairs times 20, of a task, unless the caller says how many tasks there are
_PAIRS_AT_ONCE = 50_000


# The model, as tasks over ranges of people see it


class Range(NamedTuple):
    """People by their indices in the whole model, from `first` to before `last`."""

    first: int
    last: int


class Held(NamedTuple):
    """A model that knows at least the people of a range, and the index in the whole model of its first person."""

    model: "Recommender"
    offset: int


class ModelOutline:
    """What is known of a model without loading it: enough to check a question, and to divide it among tasks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        card = Card.read(folder)
        tables = read_tables(folder, card)
        self.digest, self.scale, self._parts = card.sha256, Scale(*card.scale), card.parts
        self.named = {"model": str(self.folder), "digest": self.digest}
        """What a task says of the model that it is about."""
        self.rated = bool(card.data.get("rated", True))
        self.users, self.users_are_integers = len(tables["users"]), tables["users"]["id"].dtype.is_integer()
        self.items: Vocabulary = ids_in(tables["items"])
        self._attributes = tables.get("attributes")

    @cached_property
    def item_attributes(self) -> Attributes:
        return Attributes(self.items) if self._attributes is None else Attributes.restored(self.items, self._attributes)

    def check_rules(self, rules: Rules, by: By) -> None:
        """Raise what is wrong with rules before many tasks find it."""
        items = len(self.items)
        Catalogue(
            self.items,
            self.item_attributes,
            counts=np.ones(items, np.int64),
            placeable=np.ones(items, np.bool_),
            vectors=np.ones((items, 1), np.float32),
            floor=0.0 if by == "list" else self.scale.low,
        ).selection(rules)

    def find_people(self, ids: Iterable[Id] | npt.NDArray[np.generic]) -> Longs:
        """Indices in the whole model; -1 for people that it does not know."""
        users = read_tables(self.folder, Card.read(self.folder))["users"]
        return ids_in(users).find(ids).astype(np.int64)

    def whole_parts(self) -> list[Range]:
        """The ranges of people that can be loaded on their own; no task asks for people of two of them."""
        return [Range(*pair) for pair in pairwise(np.cumsum([0, *(self._parts or [self.users])]).tolist())]

    def cut(self, tasks: int) -> list[Range]:
        """All people in about so many ranges of about the same size, none of which lies in two parts."""
        return cut_by_person(np.arange(self.users), self.whole_parts(), tasks)


class ModelParts:
    """What a worker has loaded: the model, or the part of it that the last task was about."""

    def __init__(self) -> None:
        self._key: tuple[str, str, int | None] | None = None
        self._held: Held | None = None

    def held_for(self, task: Mapping[str, Any], people: Range) -> Held:
        """The model of a task, with these people: the part of it that they are in, or the whole where it has none."""
        from cofill.models.recommender import Recommender

        folder = Path(task["model"])
        ends = np.cumsum([0, *Card.read(folder).parts])
        part = None if len(ends) == 1 else int(np.searchsorted(ends, people.first, "right")) - 1
        key = (task["model"], task["digest"], part)
        if self._held is None or self._key != key:
            self._held = None  # before the next is loaded: two at a time would take twice the memory
            held = Held(Recommender.load(folder, part=part), 0 if part is None else int(ends[part]))
            if Card.read(folder).sha256 != task["digest"]:
                raise ModelFileError(
                    f"{folder}: another model has taken the place of the one that was asked for",
                    "run the same again, with another out=...",
                )
            self._key, self._held = key, held
        return self._held


def people_asked(people: Longs) -> Range:
    """The range of those asked about, ascending; strangers, who are -1, can be asked of any part."""
    last = int(people[-1]) + 1 if len(people) else 0
    return Range(min(max(0, int(people[0])), last) if last else 0, last)


def cut_by_person(people: Longs, parts: Sequence[Range], tasks: int) -> list[Range]:
    """Places of entries, ascending by person, in about so many ranges that neither divide a person nor a part."""
    wanted = np.linspace(0, len(people), min(tasks, len(people)) + 1).astype(np.int64)[1:-1]
    at_persons = np.searchsorted(people, people[wanted]) if len(wanted) else wanted
    at_parts = np.searchsorted(people, [part.first for part in parts[1:]])
    ends = np.unique(np.concatenate([[0, len(people)], at_persons, at_parts])).tolist()
    return [Range(*pair) for pair in pairwise(ends)]


# Tasks


@dataclass(frozen=True)
class Division:
    """How work is divided."""

    address: str | None
    """Of a Ray cluster; None: among processes of this machine."""
    tasks: int | None = None
    """None: a few for each core, and enough of them that each is small."""
    cores: int = 1
    """Of a task."""

    def workers(self, place: Workplace) -> int:
        found = sum(cores // self.cores for cores in place.machines)
        if not found:
            raise ClusterError(
                f"a task takes {self.cores} cores, and the greatest machine of the cluster has {place.machines[0]}",
                "ask for fewer with cores=...",
            )
        return found

    def number(self, place: Workplace, size: int, most: int = MOST_AT_ONCE) -> int:
        return self.tasks or max(_TASKS_A_CORE * self.workers(place), -(-size // most))


def do_all(
    place: Workplace,
    count: int,
    task: Callable[[int], Mapping[str, Any]],
    function: str,
    division: Division,
    report: Report | None,
    shared: bytes = b"",
) -> list[Any]:
    """The results of so many tasks, in their order; the first that fails for good ends them all."""
    workers, found = min(division.workers(place), count), dict[int, Any]()
    with map_unordered(
        function, map(task, range(count)), workers=workers, threads=division.cores, shared=shared, on_ray=place.on_ray
    ) as outcomes:
        for outcome in outcomes:
            if outcome.killed:
                remedy = "the same command goes on; if memory is short, with more of tasks=... or cores=..."
                raise ClusterError(f"task {outcome.task + 1} of {count}: {outcome.problem}", remedy)
            if outcome.problem is not None:
                raise CofillError(outcome.problem)
            found[outcome.task] = outcome.result
            if report is not None:
                report(len(found) / count)
    return [found[number] for number in range(count)]


# The folder of parts


class PartFolder:
    """The folder of one question, from its first part to its last."""

    def __init__(self, folder: Path, name: str, question: Mapping[str, Any]) -> None:
        """`name` is what the parts are, such as "lists"."""
        self.folder, self.name = folder.absolute(), name
        self._manifest = self.folder / f"{name}.json"
        self._question = dict(question)

    def ranges(self, cut: Callable[[], Sequence[Range]]) -> list[Range]:
        """The ranges of all parts: those of the same command before, or new ones; another question is refused."""
        before = self._before()
        if before is None:
            found = list(cut())
        else:
            asked, wanted = before["question"], self._question
            if differing := sorted(key for key in {*asked, *wanted} if asked.get(key) != wanted.get(key)):
                raise DataError(
                    f"{self.folder}: holds the {self.name} of another question (another "
                    f"{', '.join(key.replace('_', ' ') for key in differing)})",
                    "name another folder with out=..., or remove this one",
                )
            found = [Range(*pair) for pair in before["ranges"]]
            for part in before.get("parts", ()):
                path = self.folder / part["name"]
                if path.exists() and sha256_of(path) != part["sha256"]:  # damaged since: made again
                    path.unlink()
        self._write(ranges=found)
        return found

    def finish(self, parts: Sequence[Mapping[str, Any]], **facts: Any) -> None:
        """Write what all parts are, and remove what killed workers have left."""
        ranges = [(part["first"], part["last"]) for part in parts]
        self._write(ranges=ranges, rows=sum(part["rows"] for part in parts), **facts, parts=parts)
        for path in self.folder.glob(".*.part"):
            path.unlink(missing_ok=True)

    def _before(self) -> dict[str, Any] | None:
        """The manifest; None in a new or empty folder."""
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder}: this is a file; {self.name} of a cluster are written into a folder")
        if self._manifest.exists():
            with suppress(ValueError):
                document = json_of(self._manifest.read_text(encoding="utf-8"))
                if isinstance(document, dict) and {"ranges", "question"} <= document.keys():
                    return document
            remedy = "remove the folder, or name another with out=..."
            raise DataError(f"{self._manifest}: truncated or altered", remedy)
        if self.folder.exists() and (others := sorted(self.folder.iterdir())):
            raise DataError(
                f"{self.folder}: holds {others[0].name}, which does not belong to {self.name} of a cluster",
                "name an empty or a new folder with out=...",
            )
        return None

    def _write(self, **facts: Any) -> None:
        with replacing(self._manifest, ClusterError) as draft:
            document = {"format": f"cofill-{self.name}", "cofill_version": __version__, "question": self._question}
            draft.write_text(json.dumps(document | facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


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
        return asdict(self) | {"folder": str(self.folder)}


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
        **outline.named,
        "integers": (outline.users_are_integers, outline.items.integers),
        "rules": given,
        **{name: asked[name] for name in ("n", "by", "exclude_known")},
    }

    def cut(place: Workplace) -> list[Range]:
        return outline.cut(division.number(place, outline.users))

    return _score(folder, cut, lambda one: task, division, {"people": outline.users}, report)


def predict_pairs(
    outline: ModelOutline,
    pairs: "pl.DataFrame",
    out: Path,
    division: Division,
    *,
    with_interval: bool = False,
    report: Report | None = None,
) -> Scored:
    """Write predicted ratings of pairs, a frame with the columns user and item, ordered by person.

    The columns are user, item, rating and, with intervals, low and high. Pairs of one person keep their order; those of
    people that the model does not know come first.
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
        return cut_by_person(people, outline.whole_parts(), division.number(place, len(pairs), 20 * MOST_AT_ONCE))

    def task(part: Range) -> dict[str, Any]:
        own = slice(part.first, part.last)
        return {
            **outline.named,
            "pairs": pairs[order[own]],
            "people": people[own],
            "items": items[own],
            "with_interval": with_interval,
        }

    return _score(folder, cut, task, division, {"pairs": len(pairs)}, report)


def _score(
    folder: PartFolder,
    cut: Callable[[Workplace], list[Range]],
    content: Callable[[Range], dict[str, Any]],
    division: Division,
    facts: Mapping[str, Any],
    report: Report | None,
) -> Scored:
    began = time.perf_counter()
    with workplace(division.address) as place:
        division.workers(place)  # before anything is written: whether there is room at all
        ranges = folder.ranges(lambda: cut(place))

        def task(number: int) -> Mapping[str, Any]:
            path = str(folder.folder / f"part-{number:05d}.parquet")
            return {"path": path, "range": tuple(ranges[number]), **content(ranges[number])}

        results = do_all(place, len(ranges), task, f"{__name__}:begin", division, report)
    folder.finish([result["part"] for result in results], **facts)
    return Scored(
        folder=folder.folder,
        rows=sum(result["part"]["rows"] for result in results),
        parts=len(results),
        kept=sum(result["kept"] for result in results),
        seconds=time.perf_counter() - began,
        peak_bytes=max((result["peak_bytes"] for result in results if not result["kept"]), default=0),
    )


def _plain(rules: Mapping[str, Any]) -> Any:
    """As they are when they are read from JSON."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        return value.isoformat() if isinstance(value, date) else list(value)

    return json.loads(json.dumps(rules, default=plain))


def _digest(frame: "pl.DataFrame") -> str:
    found = hashlib.sha256(str(frame.schema).encode())
    for piece in frame.iter_slices(200_000):
        found.update(piece.write_csv().encode())
    return found.hexdigest()


# What a worker does


def begin(work: Work, shared: bytes) -> Callable[[Any], Any]:
    """Entry point of a worker that writes lists or predictions."""
    parts = ModelParts()

    def do(task: Mapping[str, Any]) -> dict[str, Any]:
        path, own = Path(task["path"]), Range(*task["range"])
        kept = path.exists()
        if not kept:
            if "pairs" in task:
                found = _predictions(task, parts.held_for(task, people_asked(task["people"])), work.report)
            else:
                found = _lists(task, parts.held_for(task, own), work.report)
            with replacing(path, ClusterError) as draft:
                found.write_parquet(draft, row_group_size=100_000)
        return {"part": _part(path, own), "kept": kept, "peak_bytes": peak_bytes()}

    return do


def _part(path: Path, own: Range) -> dict[str, Any]:
    """A part, as the manifest tells of it."""
    import polars as pl

    rows = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    facts = {"rows": rows, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
    return {"name": path.name, "first": own.first, "last": own.last, **facts}


def _lists(task: Mapping[str, Any], held: Held, report: Report) -> "pl.DataFrame":
    import polars as pl

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
    integers = [name for name, yes in zip(("user", "item"), task["integers"], strict=True) if yes]
    schema: dict[Any, Any] = dict(list_schema(list_columns(model.rated), integers=integers))
    return pl.concat([pl.DataFrame(schema=schema), *(frame.cast(schema) for frame in lists.frames())])


def _predictions(task: Mapping[str, Any], held: Held, report: Report) -> "pl.DataFrame":
    import polars as pl

    pairs: pl.DataFrame = task["pairs"]
    items, people = task["items"], task["people"]
    users = np.where(people < 0, -1, people - held.offset).astype(np.int32)
    found = []
    for first in range(0, len(pairs), _PAIRS_AT_ONCE):
        own = slice(first, first + _PAIRS_AT_ONCE)
        if task["with_interval"]:
            some = held.model.predict_intervals(users[own], items[own])
            found.append(pl.DataFrame({"rating": some.ratings, "low": some.low, "high": some.high}))
        else:
            found.append(pl.DataFrame({"rating": held.model.predict_indices(users[own], items[own])}))
        report(min(len(pairs), first + _PAIRS_AT_ONCE) / len(pairs))
    return pl.concat([pairs, pl.concat(found)], how="horizontal", strict=True)

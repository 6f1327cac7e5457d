"""The data of an experiment, its runs, how they are done, and the store of finished ones, one JSON file each.

A run is one algorithm, trained on one part of the data. An interrupted experiment continues, because runs in the
store are not repeated.
"""

import hashlib
import json
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from cofill import __version__
from cofill.cluster.session import Workplace, cores_each
from cofill.data.datasets import UnpublishedFileWarning, catalogue, published_folds
from cofill.data.described import SideInformation, fingerprint_of
from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.data.splits import leave_last_out_split, random_split, strong_generalisation_split
from cofill.errors import CofillError, DataError, TrainingDivergedError
from cofill.evaluation import evaluate, evaluate_newcomers, evaluate_ranking
from cofill.files import json_of, replacing
from cofill.memory import peak_bytes, reset_peak
from cofill.models import algorithm
from cofill.models.recommender import Recommender
from cofill.workers import Work, cores, map_unordered, problem_of

Task = Literal["measure", "validate", "cost"]
"""Test a model; train only as far as validation data go, which touches no test rating; time and memory, alone."""

Protocol = Literal["last", "strong"]
"""Protocols of lists beside random splits: the last rating of each user; users who are new to the model."""

# Raised when the same run would leave another record behind.
_FORMAT = 3
# They do not change what is learned, apart from rounding.
_BESIDE_THE_POINT = {"threads", "checkpoint_seconds"}
_OF_MEASURING = 0.1  # share of the time of a run, roughly


@dataclass(frozen=True)
class Part:
    """The training and test ratings of a run: a random split, a published fold counted from 0, or a protocol."""

    by: Literal["random", "published"] | Protocol
    ratio: float | None = None
    seed: int | None = None
    fold: int | None = None


_TRAINED, _TESTED = 1, 2  # marks of ratings in a published fold


@dataclass(frozen=True, eq=False)
class ExperimentData:
    """The data of an experiment, the same for every run."""

    ratings: Ratings
    side: SideInformation
    folds: tuple[npt.NDArray[np.uint8], ...] = ()  # published: (n,) each, which are trained on and which tested

    @classmethod
    def of(cls, name: str | None, ratings: Ratings, side: SideInformation) -> "ExperimentData":
        """The data, with the published folds of the named data set, if any; None: the ratings come from a file."""
        if name is None or not catalogue()[name].folds:
            return cls(ratings, side)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnpublishedFileWarning)  # the reading of the ratings has said so
            folds = [_marked(ratings, train, test) for train, test in published_folds(name, quiet=True)]
        return cls(ratings, side, tuple(folds))

    @property
    def described(self) -> bool:
        """Whether there is side information of any kind."""
        return self.side.users is not None or self.side.items is not None

    def parts(self, part: Part) -> tuple[Ratings, Ratings | None, Ratings]:
        """Ratings to train on, those that are told of users who are new to the model, where they are, and the test."""
        if part.by == "published":
            assert part.fold is not None
            marks = self.folds[part.fold]
            return self.ratings.select(marks == _TRAINED), None, self.ratings.select(marks == _TESTED)
        assert part.seed is not None
        if part.by == "strong":
            return strong_generalisation_split(self.ratings, seed=part.seed)
        if part.by == "last":
            train, test = leave_last_out_split(self.ratings)
        else:
            assert part.ratio is not None
            train, test = random_split(self.ratings, ratio=part.ratio, seed=part.seed)
        return train, None, test

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the ratings and folds."""
        return fingerprint_of(self.ratings, *self.folds)

    @cached_property
    def side_fingerprint(self) -> str | None:
        return fingerprint_of(*self.side) if self.described else None


def _marked(whole: Ratings, train: Ratings, test: Ratings) -> npt.NDArray[np.uint8]:
    def pairs(ratings: Ratings) -> npt.NDArray[np.int64]:
        return ratings.user_index.astype(np.int64) * len(whole.items) + ratings.item_index

    marks = np.zeros(len(whole), np.uint8)
    marks[np.isin(pairs(whole), pairs(train))] = _TRAINED
    marks[np.isin(pairs(whole), pairs(test))] = _TESTED
    return marks


@dataclass(frozen=True)
class Run:
    """All that defines a result, and a label for people."""

    label: str
    task: Task
    algorithm: str
    settings: Mapping[str, Any]  # apart from the defaults
    part: Part
    data: str  # fingerprint of the ratings
    side: str | None  # fingerprint of the side information; None: without

    @cached_property
    def all_settings(self) -> dict[str, Any]:
        """All settings of the model, including defaults."""
        dumped = algorithm(self.algorithm).settings_class.of(self.settings).model_dump(mode="json")
        return {name: value for name, value in dumped.items() if name not in _BESIDE_THE_POINT}

    @cached_property
    def digest(self) -> str:
        """A hash of the run; it changes if a default changes."""
        defining = {name: value for name, value in self.as_json().items() if name != "label"}
        defining |= {"settings": self.all_settings, "format": _FORMAT}
        return hashlib.sha256(json.dumps(defining, sort_keys=True).encode()).hexdigest()[:20]

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"settings": dict(self.settings)}


Record = dict[str, Any]
"""What a run left behind, as JSON: a result, or the problem that it ended with."""


@cache
def version() -> str:
    """The version of cofill, with the commit where it is run from a checkout."""
    root = Path(__file__).parents[3]
    if not (root / ".git").exists():
        return __version__
    try:
        words = ["git", "-C", str(root), "rev-parse", "HEAD"]
        commit = subprocess.run(words, capture_output=True, text=True, check=True).stdout[:9]
    except (OSError, subprocess.CalledProcessError):
        return __version__
    return f"{__version__}+{commit}"


class Store:
    """A folder of records, named by the digests of their runs; each says in which session it was made.

    With `fresh`, records of earlier sessions are not looked at, and are replaced.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        self.folder = folder
        self.session = uuid4().hex[:12]
        self._fresh = fresh

    def path(self, run: Run) -> Path:
        return self.folder / f"{run.digest}.json"

    def find(self, run: Run) -> Record | None:
        """The record of a run, or None if it has not been finished yet."""
        path = self.path(run)
        try:
            record = json_of(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise DataError(f"{path}: not the record of a run ({error}); remove it, and it is run again") from error
        if not isinstance(record, dict) or record.get("digest") != run.digest:
            raise DataError(f"{path}: not the record of the run of that name; remove it, and it is run again")
        return None if self._fresh and record.get("session") != self.session else record

    def keep(self, run: Run, record: Record) -> None:
        document = {
            "digest": run.digest,
            "version": version(),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "session": self.session,
            "run": run.as_json() | {"settings": run.all_settings},
            **record,
        }
        with replacing(self.path(run)) as draft:
            draft.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")


# One run


def perform(run: Run, data: ExperimentData, *, threads: int, report: Callable[[float], None]) -> Record:
    """Do a run and return its record. A training that diverges is a result too, recorded as a problem.

    `threads` 0: all cores at hand. The clock is that of the training alone: what a process has to do once, such as
    compiling, is done before. `report` is called with the share done, as far as it can be known.
    """
    began = time.perf_counter()
    about = {"threads": threads or cores()}
    _warm_up(run, threads)
    train, told, test = data.parts(run.part)
    model, before = _model(run, threads), reset_peak()
    started = time.perf_counter()
    try:
        _fit(model, train, data.side if run.side else None, lambda share: report(share * (1 - _OF_MEASURING)))
    except TrainingDivergedError as problem:
        return {"problem": str(problem), "seconds": time.perf_counter() - began, **about}
    result: dict[str, Any] = {"training_seconds": time.perf_counter() - started, **model.measures}
    if run.task == "cost":
        result |= {"peak_bytes": peak_bytes(), "bytes_before": before, "parameters": model.parameters()}
    elif run.task == "validate":
        result |= {"validation_curve": [record.validation_rmse for record in model.history]}
    else:
        result |= _tested(model, test, told)
    report(1.0)
    return {"result": result, "seconds": time.perf_counter() - began, **about}


def _model(run: Run, threads: int) -> Recommender:
    kind = algorithm(run.algorithm)
    own = {"threads": threads} if "threads" in kind.settings_class.model_fields else {}
    return kind(**{**run.settings, **own})


def _fit(model: Recommender, train: Ratings, side: SideInformation | None, report: Callable[[float], None]) -> None:
    described = side or SideInformation(None, None)
    model.fit(
        train,
        item_features=described.items,
        user_features=described.users,
        progress=lambda step: report(step.share),
    )


def _tested(model: Recommender, test: Ratings, told: Ratings | None) -> dict[str, Any]:
    """Rating and ranking metrics together: training takes longer, and the other may be needed later."""
    found: dict[str, Any] = {}
    if model.rated and told is None:
        found = evaluate(model, test).as_json()
    try:
        if told is not None:
            found["ranking"] = evaluate_newcomers(model, told, test).as_json()
        else:
            found["ranking"] = evaluate_ranking(model, test).as_json()
            if model.rated:
                found["ranking_by_rating"] = evaluate_ranking(model, test, by="rating").as_json()
    except DataError as problem:  # no rating that is relevant: of ratings there is something to say all the same
        found["ranking"], found["ranking_problem"] = None, str(problem)
    return found


# Each step of a training once or twice, whatever the algorithm calls it.
_BRIEF = {"epochs": 2, "iterations": 1, "burn_in": 1, "samples": 1, "anchors": 1}
_warm: set[tuple[object, ...]] = set()


def _warm_up(run: Run, threads: int) -> None:
    """Train on next to nothing, once in a process for each code path, so that compiling is not timed."""
    choices = [(name, value) for name, value in run.all_settings.items() if isinstance(value, str | bool)]
    way = (run.algorithm, run.side is not None, *choices)
    if way in _warm:
        return
    _warm.add(way)
    known = algorithm(run.algorithm).settings_class.model_fields
    brief = {**run.settings, **{name: few for name, few in _BRIEF.items() if name in known}}
    few = Ratings.read([(user, item, user * item % 5 + 1) for user in range(40) for item in range(user % 3, 40, 3)])
    numbers = np.random.default_rng(0).random((40, 4), np.float32)
    side = SideInformation(*(Features.read((list(range(40)), numbers)) for _ in range(2))) if run.side else None
    with warnings.catch_warnings(), suppress(CofillError):
        warnings.simplefilter("ignore")
        _fit(_model(replace(run, settings=brief), threads), few, side, lambda share: None)


# All runs


@dataclass(frozen=True)
class Event:
    """A run made progress (`share`) or is finished (`record`)."""

    run: Run
    share: float
    record: Record | None = None


Watch = Callable[[Event], None]


def finish(
    runs: Sequence[Run],
    data: ExperimentData,
    store: Store,
    *,
    workers: int | None = None,
    watch: Watch,
    place: Workplace | None = None,
) -> None:
    """Do all runs, and store each as soon as it is done.

    One worker is this process, with all cores. Several are processes that share the cores out. Costs are measured
    one by one, each in a new process, so that its memory is its own. At a place on a Ray cluster, the processes are on
    its machines, one on each by default.
    """
    place = place or Workplace(False, [cores()])
    several = workers or (len(place.machines) if place.on_ray else 1)
    stages = [[run for run in runs if run.task != "cost"], *([run] for run in runs if run.task == "cost")]
    for stage in stages:
        if stage and stage[0].task == "cost":
            done = _done_elsewhere(stage, data, watch, place, 1, 0)
        elif place.on_ray or several > 1:
            done = _done_elsewhere(stage, data, watch, place, several, cores_each(place.machines, several))
        else:
            done = _done_here(stage, data, watch)
        for run, record in done:
            store.keep(run, record)
            watch(Event(run, 1.0, record))


def _done_here(runs: Sequence[Run], data: ExperimentData, watch: Watch) -> Iterator[tuple[Run, Record]]:
    for run in runs:

        def report(share: float, run: Run = run) -> None:
            watch(Event(run, share))

        report(0.0)
        try:
            record = perform(run, data, threads=0, report=report)
        except BrokenPipeError:  # nothing reads the output any more, which is no problem of the run
            raise
        except Exception as error:
            raise _of_run(run, problem_of(error)) from error
        yield run, record


def _done_elsewhere(
    runs: Sequence[Run], data: ExperimentData, watch: Watch, place: Workplace, workers: int, threads: int
) -> Iterator[tuple[Run, Record]]:
    with map_unordered(
        f"{__name__}:begin_work",
        runs,
        workers=workers,
        threads=threads,
        shared=data,
        on_ray=place.on_ray,
        report=lambda task, share: watch(Event(runs[task], share)),
    ) as outcomes:
        for outcome in outcomes:
            run = runs[outcome.task]
            if outcome.problem is not None:
                raise _of_run(run, outcome.problem)
            yield run, outcome.result | {"seconds": outcome.seconds}


def begin_work(work: Work, data: ExperimentData) -> Callable[[Run], Record]:
    """Entry point of a worker: returns the function that does a run with the shared data."""
    return lambda run: perform(run, data, threads=work.threads, report=work.report)


def _of_run(run: Run, problem: str) -> CofillError:
    return CofillError(f"{run.label}: {problem}; what is finished is kept, and the same command goes on")

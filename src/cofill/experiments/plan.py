"""What an experiment is, the plan of its runs, the tables that show them, and the files of the whole."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from cofill.charts.graphs import Chart, write_picture
from cofill.cluster.session import workplace
from cofill.config import preset_values
from cofill.errors import SettingsError
from cofill.evaluation import Interval, PairedComparison, paired
from cofill.experiments.runs import (
    Event,
    ExperimentData,
    Part,
    Protocol,
    Record,
    Run,
    Store,
    Task,
    Watch,
    finish,
    version,
)
from cofill.files import json_of, replacing
from cofill.models import Contender, algorithms, contenders
from cofill.progress import Progress, Step, shown

LINEUP: Mapping[str, Contender] = {label: one for label, one in contenders().items() if not one.lists}
"""Algorithms that predict ratings, with today's defaults."""

LISTS: Mapping[str, Contender] = {label: one for label, one in contenders().items() if one.lists}
"""Algorithms that make lists."""

AS_PUBLISHED = " (paper)"
PAPER: Mapping[str, Contender] = {
    label + AS_PUBLISHED: replace(
        LINEUP[label], label=label + AS_PUBLISHED, settings={**LINEUP[label].settings, **preset_values("paper")}
    )
    for label in ("U-CFN", "U-CFN++", "V-CFN", "V-CFN++")
}
"""The paper's own network (`--preset paper`)."""

EVERY: Mapping[str, Contender] = {**LINEUP, **PAPER, **LISTS}
"""Every algorithm that takes part in an experiment."""

QUICK: Mapping[str, Mapping[str, Any]] = {name: entry.quick for name, entry in algorithms().items()}
"""For a quick look: what makes an algorithm quick, and no good."""

RATIO = 0.9
"""The share trained on, where nothing else is said."""

SETTINGS_NOTE = (
    "Settings are the defaults of each algorithm, chosen once on the training part of split 0 of MovieLens-1M. That "
    "part holds about 90 % of the test ratings of every other split of MovieLens-1M: only those of split 0 are new to "
    "the settings."
)
VERDICT_NOTE = (
    "Intervals of what is better by how much are widened because splits share training ratings. No difference: none "
    "beyond chance, at 5 %."
)
QUICK_LOOK = "A quick look: few epochs, small models, few splits. Not the result."
_GIVE_SIDE_INFORMATION = "give some, such as item_features=..."


# Tables: Markdown for a page, cells for a terminal, JSON for programs

Cell = str | int | float | Interval | None


@dataclass(frozen=True)
class Column:
    """The heading of a column, and the format of its numbers."""

    name: str
    digits: int = 4
    unit: str = ""
    signed: bool = False

    def shown(self, cell: Cell) -> str:
        """A cell as text; None is a dash."""
        if cell is None:
            return "-"
        if isinstance(cell, str):
            return cell
        if isinstance(cell, int):
            return f"{cell:,}{self.unit}"
        mean = cell.mean if isinstance(cell, Interval) else cell
        text = f"{mean:{'+' if self.signed else ''},.{self.digits}f}"
        if isinstance(cell, Interval) and cell.half_width is not None:  # of one run nothing more can be said
            text += f" ± {cell.half_width:.{self.digits}f}"
        return text + self.unit


Row = Mapping[str | Column, Cell]
"""Cells by the column that they belong to; a name alone is a column with four digits."""


def better(reference: str) -> Column:
    """The column of a paired comparison with the reference."""
    return Column(f"better than {reference} by", 2, " %", signed=True)


@dataclass(frozen=True)
class Table:
    """Rows of cells; a column without a single value is not shown."""

    title: str
    rows: Sequence[Row]

    @property
    def columns(self) -> dict[str | Column, Column]:
        """By their keys in the rows."""
        keys = dict.fromkeys(key for row in self.rows for key in row)
        return {key: key if isinstance(key, Column) else Column(key) for key in keys}

    def shown(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and the cells, as text."""
        filled = {key: one for key, one in self.columns.items() if any(row.get(key) is not None for row in self.rows)}
        rows = [[column.shown(row.get(key)) for key, column in filled.items()] for row in self.rows]
        return [column.name for column in filled.values()], rows

    def markdown(self) -> str:
        names, rows = self.shown()
        worded = {self.columns[key].name for row in self.rows for key, cell in row.items() if isinstance(cell, str)}
        lines = [names, ["---" if name in worded else "---:" for name in names], *rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def as_json(self) -> dict[str, Any]:
        cells = [{column.name: row.get(key) for key, column in self.columns.items()} for row in self.rows]
        rows = [{n: cell.as_json() if isinstance(cell, Interval) else cell for n, cell in row.items()} for row in cells]
        return {"title": self.title, "rows": rows}


def interval(values: Sequence[float], *, overlap: float = 0.0) -> Interval | None:
    return Interval.of(values, overlap=overlap) if values else None


def mean_seconds(records: Mapping[int, Record]) -> Interval | None:
    """Training times; None if the numbers of threads differ, because such times cannot be averaged."""
    if len({record["threads"] for record in records.values()}) > 1:
        return None
    return interval([record["result"]["training_seconds"] for record in records.values()])


def compared(ours: Mapping[int, float], theirs: Mapping[int, float], overlap: float) -> PairedComparison | None:
    """Of two contenders, by an error on the splits that both have."""
    both = sorted(ours.keys() & theirs.keys())
    return paired([ours[at] for at in both], [theirs[at] for at in both], overlap=overlap) if both else None


def verdict(comparison: PairedComparison) -> str:
    """A comparison in few words, for a table cell."""
    return "no difference" if comparison.verdict == "no difference beyond chance" else comparison.verdict


# Experiments


class Missing(NamedTuple):
    """A missing result, and why it is missing."""

    name: str
    reason: str


@dataclass(frozen=True)
class Result:
    """Tables and charts of an experiment, from the finished runs."""

    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    chart: Chart | None = None
    splits: str = ""
    """What the splits are, where they are not the usual ones."""

    def missing_lines(self) -> list[str]:
        """One line for each reason, with the results that are missing for it."""
        names: dict[str, list[str]] = {}
        for name, reason in self.missing:
            names.setdefault(reason, []).append(name)
        return [f"{', '.join(those)}: {reason}" for reason, those in names.items()]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper. `draw` makes the most of the runs that are finished.

    Whatever it asks the plan for is done, if it is missing, and `draw` is called again: then it may ask for more.
    """

    name: str
    title: str
    claim: str  # of the paper
    labels: tuple[str, ...]  # who takes part
    splits: int  # unless the user says otherwise
    quick_splits: int
    draw: "Callable[[Plan], Result]"
    needs_side: bool = False  # without side information it has nothing to show

    def show(self, plan: "Plan") -> Result:
        """What is there, and what is missing."""
        if self.needs_side and not plan.data.described:
            raise SettingsError(f"{self.name} is about side information, and there is none", _GIVE_SIDE_INFORMATION)
        plan.wanted.clear()
        result = self.draw(plan)
        return replace(result, missing=plan.missing() + result.missing)

    def runs(self, plan: "Plan") -> list[Run]:
        """What `show` asks for, finished or not, split by split: the first full table is there as soon as possible."""
        self.show(plan)
        wanted = [run for _, run in plan.wanted.values() if plan.only is None or run.label in plan.only]
        return sorted(wanted, key=lambda run: int(run.settings["seed"]))


@dataclass(frozen=True)
class Plan:
    """The data, the number of splits, the algorithms that take part, and the finished runs."""

    dataset: str  # for people
    data: ExperimentData
    splits: int
    store: Store
    quick: bool = False
    only: tuple[str, ...] | None = None
    published: str | None = None
    """The data set's name in the catalogue; None: the data are the user's own, and the paper knows nothing of them."""
    wanted: dict[str, tuple[str, Run]] = field(default_factory=dict)
    """The runs that were asked for, by their digests, and the name of what they are for."""

    def __post_init__(self) -> None:
        folds = len(self.data.folds)
        if 1 < folds < self.splits:
            raise SettingsError(
                f"{self.dataset} was published with {folds} folds, fewer than {self.splits}",
                f"use at most splits={folds!r}",
            )
        for label in self.only or ():
            if EVERY[label].side and not self.data.described:
                raise SettingsError(f"{label} needs side information, and there is none", _GIVE_SIDE_INFORMATION)

    def present(self, labels: Sequence[str]) -> list[Contender]:
        """The contenders that can take part: those marked ++ need side information, those of ratings need ratings."""
        return [
            EVERY[label]
            for label in labels
            if (self.data.described or not EVERY[label].side) and (self.data.ratings.rated or EVERY[label].lists)
        ]

    def run(
        self,
        contender: Contender,
        split: int,
        *,
        ratio: float | None = None,
        protocol: Protocol | None = None,
        task: Task = "measure",
        **changes: Any,
    ) -> Run:
        """A run on a usual split, on a random split with a given training share, or by another protocol of lists."""
        assert self.data.described or not contender.side, contender.label
        quick: Mapping[str, Any] = QUICK[contender.algorithm] if self.quick else {}
        return Run(
            label=contender.label,
            task=task,
            algorithm=contender.algorithm,
            settings={**contender.settings, **quick, **changes, "seed": split},
            part=self._part(split, ratio, protocol),
            data=self.data.fingerprint,
            side=self.data.side_fingerprint if contender.side else None,
        )

    def _part(self, split: int, ratio: float | None, protocol: Protocol | None) -> Part:
        if protocol is not None:
            return Part(protocol, seed=split)
        if ratio is None and self.data.folds:
            return Part("published", fold=split % len(self.data.folds))
        return Part("random", ratio=RATIO if ratio is None else ratio, seed=split)

    def split_words(self, ratio: float | None = None) -> str:
        """A description of the splits."""
        seeds = "seed 0" if self.splits == 1 else f"seeds 0 to {self.splits - 1}"
        if ratio is None and self.data.folds:
            if len(self.data.folds) == 1:
                return f"the published split, {seeds} of the model"
            return "published fold 1" if self.splits == 1 else f"published folds 1 to {self.splits}"
        share = RATIO if ratio is None else ratio
        return f"random {share * 100:.0f}/{100 - share * 100:.0f}, {seeds}"

    def overlap(self, ratio: float | None = None, protocol: Protocol | None = None) -> float:
        """Test ratings per training rating: the correction for overlapping training sets (Nadeau and Bengio)."""
        part = self._part(0, ratio, protocol)
        if part.ratio is not None:
            return (1 - part.ratio) / part.ratio
        train, _, test = self.data.parts(part)
        return len(test) / len(train)

    # What is finished

    def record(self, run: Run, name: str = "") -> Record | None:
        self.wanted.setdefault(run.digest, (name or run.label, run))
        return self.store.find(run)

    def records(self, contender: Contender, what: str = "", **how: Any) -> dict[int, Record]:
        """Records of a contender by split, without missing and diverged ones; `what` tells its results from others."""
        name = f"{contender.label} {what}".rstrip()
        found = {split: self.record(self.run(contender, split, **how), name) for split in range(self.splits)}
        return {split: record for split, record in found.items() if record is not None and "result" in record}

    def results(self, contender: Contender, what: str = "", **how: Any) -> dict[int, dict[str, Any]]:
        """Measures of a contender by split."""
        return {split: record["result"] for split, record in self.records(contender, what, **how).items()}

    def rmse(self, contender: Contender, what: str = "", **how: Any) -> dict[int, float]:
        """The RMSE of a contender by split."""
        return {split: found["rmse"] for split, found in self.results(contender, what, **how).items()}

    def missing(self) -> tuple[Missing, ...]:
        """What was asked for and is not there, and why."""
        by_name: dict[str, list[Record | None]] = {}
        for name, run in self.wanted.values():
            by_name.setdefault(name, []).append(self.store.find(run))
        found = []
        for name, records in by_name.items():
            if absent := records.count(None):
                found.append(Missing(name, f"{absent} of {len(records)} runs not finished"))
            if problems := [record["problem"] for record in records if record is not None and "problem" in record]:
                found.append(Missing(name, f"no result of {len(problems)} of {len(records)} runs: {problems[0]}"))
        return tuple(found)


# The command


def reproduce(
    experiment: Experiment,
    plan: Plan,
    *,
    workers: int | None = None,
    quiet: bool = True,
    ray: str | None = None,
) -> Result:
    """Do the missing runs and show all results. An interrupted experiment continues with the same call.

    `ray` is the address of a Ray cluster whose machines do the runs.
    """
    with workplace(ray) as place, shown(quiet) as progress:
        while True:
            runs = experiment.runs(plan)
            missing = [run for run in runs if plan.store.find(run) is None]
            if not missing:
                return experiment.show(plan)
            watch = _watched(experiment.name, progress, len(runs), len(runs) - len(missing))
            finish(missing, plan.data, plan.store, workers=workers, watch=watch, place=place)


def _watched(what: str, progress: Progress, runs: int, finished: int) -> Watch:
    """Show finished runs, running ones and the time left; a log gets a line for every finished run."""
    shares: dict[str, Event] = {}

    def watch(event: Event) -> None:
        nonlocal finished
        shares[event.run.digest] = event
        if event.record is not None:
            finished += 1
            del shares[event.run.digest]
        running = ", ".join(f"{one.run.label} {one.share:.0%}" for one in shares.values())
        text = f"{finished} of {runs} runs" + (f"  now {running}" if running else "")
        done = finished + sum(one.share for one in shares.values())
        progress(Step(what, done, runs, done / runs, text=text, logged=event.record is not None))

    return watch


def of_other_versions(experiment: Experiment, plan: Plan) -> int:
    """How many of the runs were finished by another version or commit."""
    found = [plan.store.find(run) for run in experiment.runs(plan)]
    return sum(record is not None and record["version"] != version() for record in found)


@dataclass(frozen=True)
class Reproduced:
    """An experiment, what it shows, and the files that show it."""

    experiment: Experiment
    plan: Plan
    result: Result
    command: str
    files: tuple[Path, ...] = ()

    @property
    def heading(self) -> str:
        return f"{self.experiment.title}: {self.plan.dataset}, {self.splits}"

    @property
    def splits(self) -> str:
        return self.result.splits or self.plan.split_words()

    def markdown(self, picture: str) -> str:
        parts = [f"# {self.heading}", f"    {self.command}"]
        if self.plan.quick:
            parts.append(f"**{QUICK_LOOK}**")
        parts.append(f"The paper: {self.experiment.claim}")
        for table in self.result.tables:
            parts += [f"## {table.title}", table.markdown()]
        if self.result.chart:
            parts.append(f"![{self.result.chart.title}]({picture})")
        parts += ["\n".join(f"- {line}" for line in self.result.notes)] if self.result.notes else []
        if self.result.missing:
            parts.append("Missing:\n\n" + "\n".join(f"- {line}" for line in self.result.missing_lines()))
        return "\n\n".join(parts) + "\n"

    def as_json(self) -> dict[str, Any]:
        return {
            "experiment": self.experiment.name,
            "title": self.experiment.title,
            "paper": self.experiment.claim,
            "dataset": self.plan.dataset,
            "data": self.plan.data.ratings.summary(),
            "fingerprint": self.plan.data.fingerprint,
            "splits": self.splits,
            "quick": self.plan.quick,
            "command": self.command,
            "version": version(),
            "tables": [table.as_json() for table in self.result.tables],
            "notes": list(self.result.notes),
            "missing": [missing._asdict() for missing in self.result.missing],
            "chart": self.result.chart and self.result.chart.as_json(),
        }


def refuse_other_data(folder: Path, experiment: Experiment, plan: Plan) -> None:
    """Refuse to replace results of other data: two files may have the same name."""
    path = folder / f"{experiment.name}.json"
    try:
        document = json_of(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return
    found = document.get("fingerprint") if isinstance(document, dict) else None
    if found is not None and found != plan.data.fingerprint:
        raise SettingsError(
            f"{path} is about other ratings that are called {plan.dataset} too",
            "name another folder with out=...",
        )


def write_result(folder: Path, experiment: Experiment, plan: Plan, result: Result, command: str) -> Reproduced:
    """NAME.json, NAME.md and, where there is something to draw, NAME.svg."""
    found = Reproduced(experiment, plan, result, command)
    picture = folder / f"{experiment.name}.svg"
    contents = {
        folder / f"{experiment.name}.json": json.dumps(found.as_json(), indent=2, allow_nan=False) + "\n",
        folder / f"{experiment.name}.md": found.markdown(picture.name),
    }
    if result.chart is not None:
        write_picture(picture, result.chart)
    for path, text in contents.items():
        with replacing(path) as draft:
            draft.write_text(text, encoding="utf-8")
    return replace(found, files=(*contents, *([picture] if result.chart else [])))

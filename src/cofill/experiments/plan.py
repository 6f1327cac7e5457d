"""What an experiment is, the plan of its runs, and the tables that show them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cofill.charts.graphs import Chart
from cofill.errors import SettingsError
from cofill.evaluation import Interval, PairedComparison
from cofill.experiments.runs import ExperimentData, Part, Protocol, Record, Run, Store, Task
from cofill.models import Contender, algorithms, contenders

EVERYONE: Mapping[str, Contender] = contenders()
"""Who takes part: every algorithm that the registry gives a name in tables."""

LINEUP: Mapping[str, Contender] = {label: one for label, one in EVERYONE.items() if not one.lists}
"""Who predicts ratings, as in the paper's tables."""

LISTS: Mapping[str, Contender] = {label: one for label, one in EVERYONE.items() if one.lists}
"""Who makes lists."""

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


GIVE_SIDE_INFORMATION = "give some, such as item_features=..."


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


@dataclass(frozen=True)
class Table:
    """Rows of cells; a column without a single value is not shown."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]

    def shown(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and the cells, as text."""
        filled = [at for at in range(len(self.columns)) if any(row[at] is not None for row in self.rows)]
        names = [self.columns[at].name for at in filled]
        return names, [[self.columns[at].shown(row[at]) for at in filled] for row in self.rows]

    def markdown(self) -> str:
        names, rows = self.shown()
        numeric = [
            not any(isinstance(row[at], str) for row in self.rows)
            for at in range(len(self.columns))
            if self.columns[at].name in names
        ]
        lines = [names, ["---:" if right else "---" for right in numeric], *rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def as_json(self) -> dict[str, Any]:
        rows = [{column.name: _json(cell) for column, cell in zip(self.columns, row, strict=True)} for row in self.rows]
        return {"title": self.title, "rows": rows}


def _json(cell: Cell) -> Any:
    return cell.as_json() if isinstance(cell, Interval) else cell


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
    """One table or figure of the paper.

    `runs` is called again when all runs it returned are finished: the next ones may depend on them. `show` makes the
    most of what is there.
    """

    name: str
    title: str
    claim: str  # of the paper
    labels: tuple[str, ...]  # who takes part
    splits: int  # unless somebody says otherwise
    quick_splits: int
    runs: "Callable[[Plan], list[Run]]"
    show: "Callable[[Plan], Result]"
    needs_side: bool = False  # without side information it has nothing to show


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
    """The data set's name in the catalogue; None: the data are somebody's own, and the paper knows nothing of them."""
    _fingerprints: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        folds = len(self.data.folds)
        if 1 < folds < self.splits:
            raise SettingsError(
                f"{self.dataset} was published with {folds} folds, fewer than {self.splits}",
                f"use at most splits={folds!r}",
            )
        for label in self.only or ():
            if EVERYONE[label].side and not self.data.described:
                raise SettingsError(f"{label} needs side information, and there is none", GIVE_SIDE_INFORMATION)

    def present(self, labels: tuple[str, ...]) -> list[Contender]:
        """The contenders that can take part: those marked ++ need side information, those of ratings need ratings."""
        return [
            EVERYONE[label]
            for label in labels
            if (self.data.described or not EVERYONE[label].side) and (self.data.ratings.rated or EVERYONE[label].lists)
        ]

    def asked(self, labels: tuple[str, ...]) -> list[Contender]:
        """The contenders that the caller selected."""
        return [contender for contender in self.present(labels) if self.only is None or contender.label in self.only]

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
            part=self._part(split, ratio) if protocol is None else Part(protocol, seed=split),
            data=self.fingerprint,
            side=self._fingerprint("side") if contender.side else None,
        )

    def _part(self, split: int, ratio: float | None) -> Part:
        if ratio is None and self.data.folds:
            return Part("published", fold=split % len(self.data.folds))
        return Part("random", ratio=RATIO if ratio is None else ratio, seed=split)

    @property
    def fingerprint(self) -> str:
        """A hash of the ratings and their folds."""
        return self._fingerprint("ratings") or ""

    def _fingerprint(self, what: str) -> str | None:
        if what not in self._fingerprints:
            of = self.data.fingerprint if what == "ratings" else self.data.side_fingerprint
            self._fingerprints[what] = of()
        return self._fingerprints[what]

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
        if protocol == "strong":
            train, _, test = self.data.strong_parts(Part(protocol, seed=0))
            return len(test) / len(train)
        if protocol is not None or (ratio is None and self.data.folds):
            train, test = self.data.parts(self._part(0, ratio) if protocol is None else Part(protocol, seed=0))
            return len(test) / len(train)
        share = RATIO if ratio is None else ratio
        return (1 - share) / share

    # What is finished

    def record(self, run: Run) -> Record | None:
        return self.store.find(run)

    def records(self, contender: Contender, **how: Any) -> dict[int, Record]:
        """Records of a contender by split, without missing and diverged ones."""
        found = {split: self.record(self.run(contender, split, **how)) for split in range(self.splits)}
        return {split: record for split, record in found.items() if record is not None and "result" in record}

    def results(self, contender: Contender, **how: Any) -> dict[int, dict[str, Any]]:
        """Measures of a contender by split."""
        return {split: record["result"] for split, record in self.records(contender, **how).items()}

    def missing(self, contender: Contender, what: str = "", **how: Any) -> list[Missing]:
        """The missing results of contenders, and why."""
        name = f"{contender.label} {what}".rstrip()
        records = [self.record(self.run(contender, split, **how)) for split in range(self.splits)]
        found = []
        if absent := records.count(None):
            found.append(Missing(name, f"{absent} of {self.splits} splits not run yet"))
        problems = [record["problem"] for record in records if record is not None and "problem" in record]
        if problems:
            reason = f"no result on {len(problems)} of {self.splits} splits: {problems[0]}"
            found.append(Missing(name, reason))
        return found


def interval(values: "list[float]", *, overlap: float = 0.0) -> Interval | None:
    return Interval.of(values, overlap=overlap) if values else None


def seconds_of(records: "list[Record]") -> "list[float]":
    """Training times; none if the numbers of threads differ, because such times cannot be averaged."""
    if len({record["threads"] for record in records}) > 1:
        return []
    return [record["result"]["training_seconds"] for record in records]


def verdict(comparison: PairedComparison) -> str:
    """A comparison in few words, for a table cell."""
    return "no difference" if comparison.verdict == "no difference beyond chance" else comparison.verdict

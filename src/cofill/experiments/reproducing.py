"""Reproduce an experiment: do its runs and write its files."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofill import __version__
from cofill.charts.graphs import write_picture
from cofill.cluster.session import workplace
from cofill.errors import SettingsError
from cofill.experiments.missing_runs import experiment_progress, finish
from cofill.experiments.plan import GIVE_SIDE_INFORMATION, Experiment, Plan, Result
from cofill.files import json_of, replacing

QUICK_LOOK = "A quick look: few epochs, small models, few splits. Not the result."


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

    def markdown(self, picture: str | None = None) -> str:
        parts = [f"# {self.heading}", f"    {self.command}"]
        if self.plan.quick:
            parts.append(f"**{QUICK_LOOK}**")
        parts.append(f"The paper: {self.experiment.claim}")
        for table in self.result.tables:
            parts += [f"## {table.title}", table.markdown()]
        if picture and self.result.chart:
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
            "fingerprint": self.plan.fingerprint,
            "splits": self.splits,
            "quick": self.plan.quick,
            "command": self.command,
            "version": __version__,
            "tables": [table.as_json() for table in self.result.tables],
            "notes": list(self.result.notes),
            "missing": [missing._asdict() for missing in self.result.missing],
            "chart": self.result.chart and self.result.chart.as_json(),
        }


def reproduce(
    experiment: Experiment,
    plan: Plan,
    *,
    workers: int | None = None,
    quiet: bool = True,
    ray: str | None = None,
) -> Result:
    """Do the missing runs and show all results. An interrupted experiment continues with the same call.

    `ray` is that of `finish`.
    """
    if experiment.needs_side and not plan.data.described:
        raise SettingsError(f"{experiment.name} is about side information, and there is none", GIVE_SIDE_INFORMATION)
    with workplace(ray) as place, experiment_progress(experiment.name, quiet) as begin:
        several = workers or (1 if ray is None else len(place.machines))
        while True:
            wanted = list({run.digest: run for run in experiment.runs(plan)}.values())
            records = {run.digest: plan.record(run) for run in wanted}
            missing = [run for run in wanted if records[run.digest] is None]
            if not missing:
                return experiment.show(plan)
            seconds = {digest: record["seconds"] for digest, record in records.items() if record is not None}
            alone = all(run.task == "cost" for run in missing)
            watch = begin(wanted, seconds, 1 if alone else several)
            finish(missing, plan.data, plan.store, workers=several, watch=watch, ray=ray)


def outdated(experiment: Experiment, plan: Plan) -> int:
    """How many of the runs were finished with other code than this, and will be run again."""
    return sum(plan.store.outdated(run) for run in {run.digest: run for run in experiment.runs(plan)}.values())


def refuse_other_data(folder: Path, experiment: Experiment, plan: Plan) -> None:
    """Refuse to replace results of other data: two files may have the same name."""
    path = folder / f"{experiment.name}.json"
    try:
        document = json_of(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return
    found = document.get("fingerprint") if isinstance(document, dict) else None
    if found is not None and found != plan.fingerprint:
        raise SettingsError(
            f"{path} is about other ratings that are called {plan.dataset} too",
            "name another folder with out=...",
        )


def write_result(folder: Path, experiment: Experiment, plan: Plan, result: Result, command: str) -> Reproduced:
    """NAME.json, NAME.md and, where there is something to draw, NAME.svg."""
    found = Reproduced(experiment, plan, result, command)
    files = [folder / f"{experiment.name}.json", folder / f"{experiment.name}.md"]
    picture = folder / f"{experiment.name}.svg"
    if result.chart is not None:
        write_picture(picture, result.chart)
        files.append(picture)
    with replacing(files[0]) as draft:
        draft.write_text(json.dumps(found.as_json(), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    with replacing(files[1]) as draft:
        draft.write_text(found.markdown(picture.name if picture in files else None), encoding="utf-8")
    return Reproduced(experiment, plan, result, command, tuple(files))

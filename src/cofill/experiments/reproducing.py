"""Reproduce an experiment: do its missing runs, here or by workers, and write its files."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from cofill.charts.graphs import write_picture
from cofill.cluster.session import Workplace, cores_each, workplace
from cofill.errors import CofillError, SettingsError
from cofill.experiments.plan import GIVE_SIDE_INFORMATION, Experiment, Plan, Result
from cofill.experiments.runs import ExperimentData, Record, Run, Store, version
from cofill.files import json_of, replacing
from cofill.progress import Step, shown
from cofill.workers import Work, map_unordered, problem_of

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
            "version": version(),
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
            watch = begin(len(wanted), len(wanted) - len(missing))
            finish(missing, plan.data, plan.store, workers=several, watch=watch, ray=ray)


def of_other_versions(experiment: Experiment, plan: Plan) -> int:
    """How many of the runs were finished by another version or commit."""
    found = [plan.record(run) for run in {run.digest: run for run in experiment.runs(plan)}.values()]
    return sum(record is not None and record["version"] != version() for record in found)


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


# Missing runs


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
    ray: str | None = None,
) -> None:
    """Do all runs, and store each as soon as it is done.

    One worker is this process, with all cores. Several are processes that share the cores out. Costs are measured
    one by one, each in a new process, so that its memory is its own. With `ray`, the address of a Ray cluster, the
    processes are on its machines, one on each by default.
    """
    alone = [run for run in runs if run.task == "cost"]
    others = [run for run in runs if run.task != "cost"]
    here = ray is None and (workers or 1) == 1
    if others and here:
        _finish_here(others, data, store, watch)
    if not alone and (not others or here):
        return
    with workplace(ray) as place:
        if others and not here:
            several = workers or len(place.machines)
            _finish_elsewhere(others, data, store, watch, place, several, cores_each(place.machines, several))
        for run in alone:
            _finish_elsewhere([run], data, store, watch, place, 1, 0)


def _finish_here(runs: Sequence[Run], data: ExperimentData, store: Store, watch: Watch) -> None:
    from cofill.experiments.measuring import perform

    for run in runs:
        watch(Event(run, 0.0))
        try:
            record = perform(run, data, threads=0, report=partial(_went_on, watch, run))
        except BrokenPipeError:  # nobody watches any more, which is no problem of the run
            raise
        except Exception as error:
            raise _of_run(run, problem_of(error)) from error
        store.keep(run, record)
        watch(Event(run, 1.0, record))


def _went_on(watch: Watch, run: Run, share: float) -> None:
    watch(Event(run, share))


def _finish_elsewhere(
    runs: Sequence[Run],
    data: ExperimentData,
    store: Store,
    watch: Watch,
    place: Workplace,
    workers: int,
    threads: int,
) -> None:
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
            record = outcome.result | {"seconds": outcome.seconds}
            store.keep(run, record)
            watch(Event(run, 1.0, record))


def begin_work(work: Work, data: ExperimentData) -> Callable[[Run], Record]:
    """Entry point of a worker: returns the function that does a run with the shared data."""
    from cofill.experiments.measuring import perform

    return lambda run: perform(run, data, threads=work.threads, report=work.report)


def _of_run(run: Run, problem: str) -> CofillError:
    return CofillError(f"{run.label}: {problem}; what is finished is kept, and the same command goes on")


@contextmanager
def experiment_progress(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], Watch]]:
    """Show finished runs, running ones and the time left; a log gets a line for every finished run.

    Gives what begins a stage, told how many runs it has, and how many of them are finished.
    """
    with shown(quiet) as progress:

        def begin(runs: int, finished: int) -> Watch:
            done = finished
            shares: dict[str, Event] = {}

            def watch(event: Event) -> None:
                nonlocal done
                shares[event.run.digest] = event
                if event.record is not None:
                    done += 1
                    del shares[event.run.digest]
                running = ", ".join(f"{one.run.label} {one.share:.0%}" for one in shares.values())
                text = f"{done} of {runs} runs" + (f"  now {running}" if running else "")
                completed = done + sum(one.share for one in shares.values())
                progress(Step(what, completed, runs, completed / runs, text=text, logged=event.record is not None))

            return watch

        yield begin

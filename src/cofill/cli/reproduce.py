"""cofill reproduce EXPERIMENT"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from cofill.cli.options import add_output, add_ray, add_reading, check_ray, count, load_ratings, named_data_set
from cofill.cli.output import note, note_if_stopped, print_json, print_table
from cofill.cli.side_information import add_side_information, matched_side, side_information_from
from cofill.errors import SettingsError
from cofill.experiments import EXPERIMENTS, experiment

if TYPE_CHECKING:
    from cofill.experiments.plan import Reproduced

_DATASET, _QUICK_DATASET = "ml-1m", "ml-100k"


def add_reproduce(parser: argparse.ArgumentParser) -> None:
    listed = "; ".join(f"{name}: {what}" for name, what in EXPERIMENTS.items())
    parser.add_argument("experiment", metavar="EXPERIMENT", help=listed)
    parser.add_argument(
        "--dataset",
        dest="ratings",
        metavar="NAME",
        help=f"a data set's name, or a ratings file (default {_DATASET}; with --quick {_QUICK_DATASET})",
    )
    parser.add_argument(
        "--folds", type=count, metavar="N",
        help="splits to average over (default 5; training-ratio 3, convergence and cost 1; with --quick fewer)",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="a quick look: few epochs, small models, few splits")
    parser.add_argument("--fresh", action="store_true", help="do all runs again, also those that are finished")
    parser.add_argument("--only", nargs="+", metavar="LABEL", help='run only these algorithms, such as V-CFN "ALS-WR"')
    parser.add_argument(
        "--workers", type=count, metavar="N",
        help="number of runs in parallel, sharing the cores; cost is always measured one at a time (default 1; with "
        "--ray one for each machine)",
    )  # fmt: skip
    add_ray(parser, "do the runs on a Ray cluster")
    parser.add_argument(
        "--out", type=Path, default=Path("results"), metavar="DIR",
        help="folder for EXPERIMENT-DATASET/ with tables and pictures, and runs/ with every run (default results)",
    )  # fmt: skip
    add_output(parser)
    add_side_information(parser)
    add_reading(parser)


def run_reproduce(options: argparse.Namespace) -> int:
    check_ray(options)
    chosen = experiment(options.experiment)
    for label in options.only or ():
        if label not in chosen.labels:
            raise SettingsError(f"--only {label}: not in {chosen.name}; there are {', '.join(chosen.labels)}")
    if options.ratings is None:
        options.ratings = _QUICK_DATASET if options.quick else _DATASET
    ratings = load_ratings(options.ratings, options)
    side = side_information_from(options)
    matched_side("item", side.items, ratings)
    matched_side("user", side.users, ratings)

    from cofill.experiments.plan import Plan, of_other_versions, refuse_other_data, reproduce, write_result
    from cofill.experiments.runs import ExperimentData, Store
    from cofill.workers import orderly_termination

    published = options.ratings if named_data_set(options.ratings) else None
    plan = Plan(
        dataset=published or Path(options.ratings).name.partition(".")[0],
        data=ExperimentData.of(published, ratings, side),
        splits=options.folds or (chosen.quick_splits if options.quick else chosen.splits),
        store=Store(options.out / "runs", fresh=options.fresh),
        quick=options.quick,
        only=tuple(options.only) if options.only else None,
        published=published,
    )
    folder = options.out / f"{chosen.name}-{plan.dataset}{'-quick' if options.quick else ''}"
    refuse_other_data(folder, chosen, plan)
    if not options.quiet:
        note(f"{chosen.title}: {plan.dataset}, {len(ratings):,} ratings")
    if others := of_other_versions(chosen, plan):
        note(f"{others} finished runs are of another version or commit; --fresh runs them again")
    with note_if_stopped("the same command goes on where this one stopped"), orderly_termination():
        result = reproduce(chosen, plan, workers=options.workers, quiet=options.quiet, ray=options.ray)
    found = write_result(folder, chosen, plan, result, options.call)
    if options.json:
        print_json(found.as_json())
        return 0
    _show(found)
    return 0


def _show(found: "Reproduced") -> None:
    from cofill.experiments.plan import QUICK_LOOK

    for table in found.result.tables:
        print_table(f"{found.heading}: {table.title}", *table.shown())
    for line in found.result.notes:
        note(line)
    for line in found.result.missing_lines():
        note(f"missing: {line}")
    if found.plan.quick:
        note(QUICK_LOOK)
    note("written: " + ", ".join(str(path) for path in found.files))

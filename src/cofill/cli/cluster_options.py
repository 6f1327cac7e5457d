"""The flags of commands that can work on a Ray cluster."""

import argparse
from typing import TYPE_CHECKING

from cofill.cli.options import count
from cofill.cli.output import Amount, print_json, print_table
from cofill.errors import SettingsError
from cofill.memory import data_size
from cofill.progress import duration

if TYPE_CHECKING:
    from cofill.cluster.score import Division, Scored


def add_ray(parser: argparse.ArgumentParser, what: str) -> argparse._ArgumentGroup:
    """Add --ray, in the group for clusters, where more may be added."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help=f"{what}: HOST:PORT, auto for one that this machine belongs to, or local to start one here "
        "(pip install 'cofill[cluster]')",
    )
    return group


def add_scoring(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --ray and how the work is divided there."""
    group = add_ray(parser, what)
    group.add_argument(
        "--tasks", type=count, metavar="N", help="with --ray: number of tasks (default: a few for each core)"
    )
    group.add_argument(
        "--task-cores",
        type=count,
        metavar="N",
        help="with --ray: cores of each task; more of them, and fewer copies of the model on a machine (default 1)",
    )


def check_ray(options: argparse.Namespace) -> None:
    """Refuse at once what cannot be done without Ray, or makes no sense without it."""
    if options.ray is not None:
        from cofill.cluster.session import require_ray

        require_ray()
        return
    for name in ("tasks", "task_cores"):
        if getattr(options, name, None) is not None:
            raise SettingsError(f"--{name.replace('_', '-')} says how to divide work on a cluster; add --ray ADDRESS")


def check_folder(options: argparse.Namespace, what: str) -> None:
    """Refuse what does not go with writing a folder of Parquet files."""
    if options.out is None:
        raise SettingsError(f"--ray writes {what} into a folder of Parquet files; add --out FOLDER")
    for name in ("item_features", "user_features"):
        if getattr(options, name, None):
            raise SettingsError(
                f"--{name.replace('_', '-')} tells one process of what is new, and --ray asks many; leave out one"
            )


def division(options: argparse.Namespace) -> "Division":
    from cofill.cluster.score import Division

    return Division(options.ray, options.tasks, options.task_cores or 1)


def show_scored(options: argparse.Namespace, scored: "Scored", what: str) -> None:
    """Tell what was written."""
    if options.json:
        print_json(scored.as_json())
        return
    print_table(
        f"{what[0].upper()}{what[1:]} written to {scored.folder}",
        ("rows", "parts", "of these kept", "time", "memory of a task, at most"),
        [
            (
                scored.rows,
                scored.parts,
                scored.kept,
                Amount(duration(scored.seconds)),
                Amount(data_size(scored.peak_bytes)) if scored.peak_bytes else None,
            )
        ],
    )

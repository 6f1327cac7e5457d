"""cofill doctor"""

import argparse
from typing import TYPE_CHECKING

from cofill.cli.options import add_json
from cofill.cli.output import Amount, note, print_json, print_table
from cofill.extras import command
from cofill.memory import data_size
from cofill.progress import share_done

if TYPE_CHECKING:
    from cofill.doctor import Examination


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.doctor import examine

    with share_done("trying cofill", options.quiet or options.json) as report:
        found = examine(report)
    if options.json:
        print_json(found.as_json())
    else:
        _show(found)
    return 0 if found.ok else 1


def _show(found: "Examination") -> None:
    print_table(
        "Self-test",
        ("what", "works", "time", "found"),
        [(one.what, one.ok, Amount(f"{one.seconds:.1f} s"), one.said) for one in found.verdicts],
    )
    print_table("Versions", ("package", "version"), [(one.name, one.version or "missing") for one in found.versions])
    extras = []
    for name, brought in found.extras.items():
        missing = [one.name for one in brought if not one.version]
        there = ", ".join(f"{one.name} {one.version}" for one in brought if one.version)
        extras.append((name, there or None, command(name) if missing else None))
    print_table("Extras", ("extra", "installed", "to install"), extras)
    machine = dict(found.machine)
    for name in ("memory", "memory_available", "memory_of_container"):
        machine[name] = None if machine[name] is None else data_size(machine[name])
    for of, limit in (("cores_of_container", "not limited"), ("memory_of_container", "not limited")):
        machine[of] = limit if machine[of] is None else machine[of]
    for title, facts in (("Machine", machine), ("Folders", found.folders)):
        rows = [(name.replace("_", " "), _words(value)) for name, value in facts.items()]
        print_table(title, ("what", "value"), rows)
    if found.environment:
        print_table("Environment", ("variable", "value"), list(found.environment.items()))
    print_table(
        "Libraries with threads",
        ("for", "library", "version", "threads"),
        [
            (one.get("user_api"), one.get("internal_api"), one.get("version"), one.get("num_threads"))
            for one in found.libraries
        ],
    )
    if found.ok:
        note("all is well; for a bug report, add the output of this command, or of `cofill doctor --json`")
    else:
        note("something is wrong above; for a bug report, add the output of this command, or of `cofill doctor --json`")


def _words(value: object) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else None if value is None else str(value)

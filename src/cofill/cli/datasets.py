"""cofill datasets list|fetch|make"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cofill.cli.options import SHAPES, add_json, add_seed, count, size
from cofill.cli.output import note, print_json, print_table
from cofill.data.datasets.catalogue import SideSource
from cofill.errors import DataError, SettingsError

_WORLD_MARK = "truth.safetensors"  # only a world has it
_CHOICE_HELP = (
    "how much people choose films by taste beside popularity, from 0 (by popularity alone) to 10 "
    "(default 2, as in MovieLens)"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    listing = actions.add_parser("list", help="list the data sets whose names can stand in place of a ratings file")
    listing.add_argument("--licences", action="store_true", help="show their licences and checksums instead")
    add_json(listing)
    fetch = actions.add_parser("fetch", help="download a data set")
    fetch.add_argument("name", metavar="NAME", help="such as ml-1m")
    fetch.add_argument("--quiet", action="store_true", help="show no progress and no licence notice")
    make = actions.add_parser("make", help="generate synthetic films, people and ratings")
    make.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for its files")
    make.add_argument("--like", choices=SHAPES, help="the shape of a published data set")
    make.add_argument("--size", type=size, help="with --like: share of that shape's ratings (default 1)")
    make.add_argument("--users", type=count, help="how many people")
    make.add_argument("--items", type=count, help="how many films")
    make.add_argument("--ratings", type=count, help="how many ratings")
    make.add_argument("--choice", type=_choice, metavar="STRENGTH", help=_CHOICE_HELP)
    make.add_argument("--events", action="store_true", help="also write events.csv: what people view and buy")
    add_seed(make, "same seed, same world")
    make.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(make)


def run(options: argparse.Namespace) -> int:
    if options.action == "list":
        return _list(options)
    if options.action == "fetch":
        return _fetch(options)
    return _make(options)


def _choice(text: str) -> float:
    """A strength from 0 to 10."""
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 10:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 10, got {text!r}")
    return number


def _list(options: argparse.Namespace) -> int:
    from cofill.data import datasets

    columns = ("name", "title", "users", "items", "ratings", "on this machine")
    rows, documents, entries = [], [], list(datasets.catalogue().values())
    for entry in entries:
        name = entry.name
        row = (name, entry.title, entry.users, entry.items, entry.ratings, datasets.locate(name) is not None)
        told = {"items": _told(entry.about_items), "users": _told(entry.about_users)}
        terms = {"licence": entry.licence, "md5": entry.md5, "second-hand": list(entry.second_hand)}
        documents.append(dict(zip(columns, row, strict=True)) | {"side information": told} | terms)
        items, users = (", ".join(words) for words in told.values())
        rows.append((name, *row[2:-1], f"{items} | {users}".strip() if users else items, row[-1]))
    if options.json:
        print_json(documents)
    elif options.licences:
        title = (
            "Data sets, their licences, and what of that is second-hand: quoted by others, not read at the publisher"
        )
        terms_of = ((entry.name, entry.licence, entry.md5, ", ".join(entry.second_hand)) for entry in entries)
        print_table(title, ("name", "licence", "MD5", "second-hand"), list(terms_of))
    else:
        title = "Data sets, what they tell about items | users, and whether they are here"
        print_table(title, ("name", *columns[2:-1], "side information", "here"), rows)
    return 0


def _told(sources: Sequence[SideSource]) -> list[str]:
    return [what for source in sources for what in source.brings]


def _fetch(options: argparse.Namespace) -> int:
    from cofill.data import datasets

    path = datasets.fetch(options.name, quiet=options.quiet)
    sys.stdout.write(f"{path}\n")
    if not options.quiet:
        note(f"next: cofill train {options.name} --out model")
    return 0


def _make(options: argparse.Namespace) -> int:
    from cofill.data.datasets.world import CHOICE, make_world, make_world_like
    from cofill.progress import share_done

    counts = {name: getattr(options, name) for name in ("users", "items", "ratings")}
    given = [name for name, value in counts.items() if value is not None]
    if options.like and given:
        raise SettingsError(f"--like gives the shape already; leave out --{given[0]}")
    if not options.like and len(given) < len(counts):
        raise SettingsError("give --like, or all of --users, --items and --ratings")
    if not options.like and options.size is not None:
        raise SettingsError("--size goes with --like; leave it out")
    share = 1.0 if options.size is None else options.size
    out: Path = options.out
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / _WORLD_MARK).exists())):
        raise DataError(f"{out}: exists and is not an earlier world; choose another --out")
    choice = CHOICE if options.choice is None else options.choice
    with share_done("making the world", options.quiet) as progress:
        if options.like:
            world = make_world_like(options.like, share, options.seed, choice=choice, progress=progress)
        else:
            world = make_world(**counts, seed=options.seed, choice=choice, progress=progress)
    world.write(out, events=options.events)
    summary = {"folder": str(out), **world.ratings.summary(), "noise": world.noise}
    if options.json:
        print_json(summary)
    else:
        names = ("folder", "users", "items", "ratings", "mean", "noise")
        print_table("A world of films", ("what", "value"), [(name, summary[name]) for name in names])
        if not options.quiet:
            about = f"--item-features {out / 'movies.csv'} --user-features {out / 'users.csv'}"
            note(f"next: cofill train {out / 'ratings.csv'} {about} --out model")
    return 0

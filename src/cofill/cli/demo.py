"""cofill demo --out DIR"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from cofill.cli.options import add_output, add_seed, count
from cofill.cli.output import note, print_json, print_table
from cofill.errors import CofillError

if TYPE_CHECKING:
    from cofill.cli.tour import Recommended


_SHOWN = 5  # recommendations; the report has all


def add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), metavar="DIR", help="folder for everything (default demo)"
    )
    parser.add_argument("--users", type=count, default=1500, help="people in the world (default 1500)")
    parser.add_argument("--items", type=count, default=800, help="films in the world (default 800)")
    parser.add_argument("--ratings", type=count, default=150_000, help="ratings in the world (default 150000)")
    add_seed(parser, "same seed, same demo")
    add_output(parser)


def run_demo(options: argparse.Namespace) -> int:
    from cofill.cli.tour import LISTED, MEASURED, make_demo

    out: Path = options.out
    ours = (out / "report.html", out / "world" / "ratings.csv")  # of a demo, or of one that was stopped
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not any(path.exists() for path in ours))):
        raise CofillError(f"{out}: exists and is not an earlier demo; choose another --out")
    result = make_demo(
        out,
        users=options.users,
        items=options.items,
        ratings=options.ratings,
        seed=options.seed,
        quiet=options.quiet,
    )
    if options.json:
        print_json({"folder": str(out), **asdict(result)})
        return 0
    print_table("RMSE of predictions on held-out ratings (lower is better)", MEASURED, result.measures)
    print_table("Lists of ten, on held-out ratings (higher is better)", LISTED, result.lists)
    rated = ", ".join(f"{film} {rating:g}" for film, rating in result.newcomer)
    _print_recommended(f"A new user who rated three films: {rated}", result.recommendations)
    described = result.described[0]
    _print_recommended(f"A new user who rated nothing: {described.who}", described.recommendations)
    if options.quiet:
        return 0
    model = quote(str(out / "model"))
    words = [f"--describe {quote(f'{column}={value}')}" for column, value in result.described[0].features.items()]
    note(f"\n{result.verdict}\n")
    note(f"report: {out / 'report.html'}")
    note(f"next:   cofill recommend {model} --user 1")
    note(f"        cofill recommend {model} {' '.join(words)}")
    note(f"        cofill similar {model} --item 1")
    note(f"page:   cofill serve {model}")
    note("        (open the address that it prints, and rate a few films)")
    return 0


def _print_recommended(title: str, recommended: Sequence["Recommended"]) -> None:
    rows = [(rank, *one) for rank, one in enumerate(recommended[:_SHOWN], 1)]
    print_table(title, ("", "film", "predicted", "truth"), rows)

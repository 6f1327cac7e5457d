"""cofill benchmark speed|growth"""

import argparse
from typing import Any

from cofill.cli.options import SHAPES, add_json, add_seed, count, count_or_zero, size
from cofill.cli.output import note, print_json, print_table


def add_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(metavar="WHAT", required=True, dest="what")
    speed = kinds.add_parser("speed", help="training speed, memory and fold-in latency at one shape")
    speed.add_argument(
        "--like", choices=SHAPES, default="ml-10m", help="shape of the generated ratings (default ml-10m)"
    )
    speed.add_argument("--size", type=size, default=1.0, help="share of that shape's ratings (default 1)")
    growth = kinds.add_parser("growth", help="ratings per second at 20 million ratings against 1 million")
    growth.add_argument("--rounds", type=count, default=3, help="how often each is measured (default 3)")
    for kind, hidden in ((speed, 770), (growth, 584)):
        kind.add_argument("--hidden", type=count, default=hidden, help=f"width of the hidden layer (default {hidden})")
        kind.add_argument("--batch", type=count, default=35, help="rows in a minibatch (default 35)")
        kind.add_argument(
            "--orientation", choices=("user", "item"), default="item", help="what a row is (default item)"
        )
        kind.add_argument(
            "--threads", type=count_or_zero, default=0, help="threads of the kernels (default: all cores at hand)"
        )
        add_seed(kind, "start of every random draw")
        add_json(kind)


def run(options: argparse.Namespace) -> int:
    from cofill.benchmark.speed import measure_growth, measure_speed

    settings = {name: getattr(options, name) for name in ("hidden", "batch", "orientation", "threads", "seed")}
    if options.what == "growth":
        result = measure_growth(settings, rounds=options.rounds, seed=options.seed, say=note)
        rows = [(f"ratings per second like {like}", f"{v:,.0f}") for like, v in result["ratings_per_second"].items()]
        rows.append(("share of the speed that is kept", f"{result['share_kept']:.0%}"))
        rows.append(("peak memory", _megabytes(result["peak_bytes"])))
    else:
        result = measure_speed(options.like, settings, scale=options.size, seed=options.seed, say=note)
        rows = _speed_rows(result)
    if options.json:
        print_json(result)
    else:
        print_table(f"Benchmark {options.what}", ("what", "measured"), rows)
    return 0


def _speed_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("users x items, ratings", f"{result['users']:,} x {result['items']:,}, {result['ratings']:,}"),
        ("seconds an epoch", ", ".join(f"{seconds:.2f}" for seconds in result["epoch_seconds"])),
        ("ratings per second", f"{result['ratings_per_second']:,.0f}"),
        ("times the speed of densified torch", f"{result['times_densified_torch']:.1f}"),
        ("triad", f"{result['triad_bandwidth'] / 1e9:.1f} GB/s"),
        ("share of the triad's bandwidth", f"{result['share_of_triad']:.0%}"),
        (f"time of an epoch with {result['features']} features", f"{result['times_seconds_with_features']:.2f} times"),
        ("peak memory of training, all told", _megabytes(result["peak_bytes"])),
    ]
    for orientation, found in result["fold_in"].items():
        ours, numpy = found["ours"], found["numpy"]
        rows.append(
            (
                f"fold-in and top 10 of {found['matrix'][0]:,}, {orientation} rows",
                f"p50 {ours['p50'] * 1e3:.2f} ms, p99 {ours['p99'] * 1e3:.2f} ms; numpy pass p50 "
                f"{numpy['p50'] * 1e3:.2f} ms, p99 {numpy['p99'] * 1e3:.2f} ms; "
                f"ratio {ours['p50'] / numpy['p50']:.1f} and {ours['p99'] / numpy['p99']:.1f}",
            )
        )
    return rows


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"

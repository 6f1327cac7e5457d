"""cofill benchmark speed|growth|serving|cluster"""

import argparse
from typing import Any

from cofill.cli.cluster_options import add_ray
from cofill.cli.options import SHAPES, add_json, add_seed, count, count_or_zero, size
from cofill.cli.output import note, print_json, print_table
from cofill.memory import data_size


def add_options(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(metavar="WHAT", required=True, dest="what")
    speed = kinds.add_parser("speed", help="training speed, memory, lists and fold-in latency at one shape")
    speed.add_argument(
        "--like", choices=SHAPES, default="ml-10m", help="shape of the generated ratings (default ml-10m)"
    )
    speed.add_argument("--size", type=size, default=1.0, help="share of that shape's ratings (default 1)")
    growth = kinds.add_parser("growth", help="ratings per second at 20 million ratings against 1 million")
    growth.add_argument("--rounds", type=count, default=3, help="how many times to measure each (default 3)")
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

    _add_cluster(
        kinds.add_parser("cluster", help="what several workers cost: processor time, bytes, memory, a killed worker")
    )
    _add_serving(
        kinds.add_parser("serving", help="latency of a server under load, compared with scoring in the same process")
    )


def _add_serving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--like", choices=SHAPES, default="ml-10m", help="shape of the served model (default ml-10m)")
    parser.add_argument("--size", type=size, default=1.0, help="share of that shape's ratings (default 1)")
    parser.add_argument("--seconds", type=count, default=60, help="how long to send reads and writes (default 60)")
    parser.add_argument("--hidden", type=count, help="width of the hidden layer (default: as in training)")
    parser.add_argument("--orientation", choices=("user", "item"), default="item", help="what a row is (default item)")
    add_seed(parser, "start of every random draw")
    add_json(parser)


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--like", choices=SHAPES, default="ml-10m", help="shape of the ratings (default ml-10m)")
    parser.add_argument("--size", type=size, default=1.0, help="share of that shape's ratings (default 1)")
    parser.add_argument(
        "--workers", type=count, nargs="+", default=[1, 2, 4], help="numbers of workers to compare (default 1 2 4)"
    )
    parser.add_argument("--hidden", type=count, default=770, help="width of the hidden layer (default 770)")
    parser.add_argument("--batch", type=count, default=35, help="rows in a minibatch (default 35)")
    parser.add_argument("--threads", type=count, default=1, help="threads of each worker (default 1)")
    parser.add_argument(
        "--memory", action="store_true", help="also train whole models with the fewest and the most workers: slow"
    )
    add_ray(parser, "the Ray cluster to measure")
    add_seed(parser, "start of every random draw")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    if options.what == "serving":
        return _run_serving(options)
    if options.what == "cluster":
        return _run_cluster(options)

    from cofill.benchmark.speed import measure_growth, measure_speed

    settings = {name: getattr(options, name) for name in ("hidden", "batch", "orientation", "threads", "seed")}
    if options.what == "growth":
        result = measure_growth(settings, rounds=options.rounds, seed=options.seed, say=note)
        rows = [(f"ratings per second like {like}", f"{v:,.0f}") for like, v in result["ratings_per_second"].items()]
        rows.append(("share of the speed that is kept", f"{result['share_kept']:.0%}"))
        rows.append(("peak memory", data_size(result["peak_bytes"])))
    else:
        result = measure_speed(options.like, settings, scale=options.size, seed=options.seed, say=note)
        rows = _speed_rows(result)
    if options.json:
        print_json(result)
    else:
        print_table(f"Benchmark {options.what}", ("what", "measured"), rows)
    return 0


def _run_serving(options: argparse.Namespace) -> int:
    from cofill.benchmark.serving import measure_serving
    from cofill.serving.settings import require_server

    require_server()
    settings = {name: getattr(options, name) for name in ("hidden", "orientation") if getattr(options, name)}
    result = measure_serving(
        options.like, settings, scale=options.size, seconds=options.seconds, seed=options.seed, say=note
    )
    if options.json:
        print_json(result)
        return 0
    asked = {
        "one at a time": result["one_at_a_time"],
        f"{result['at_once']} at a time": result["several_at_a_time"],
        "one at a time, with writes": {kind: result["with_writes"][kind] for kind in ("known", "new")},
    }
    rows = [_serving_row(f"{who}, {how}", found) for how, kinds in asked.items() for who, found in kinds.items()]
    title = f"Benchmark serving: {result['users']:,} users, {result['items']:,} items; milliseconds"
    columns = ("user", "a second", "p50", "p99", "in process p50", "p99", "ratio p50", "p99")
    print_table(title, columns, rows)
    wrote, memory = result["with_writes"]["writes"], result["with_writes"]["memory_bytes"]
    print_table(
        f"{result['with_writes']['seconds']} seconds with writes",
        ("what", "measured"),
        [
            ("ratings put", f"{wrote['number']:,}, p50 {wrote['p50'] * 1e3:.1f} ms, p99 {wrote['p99'] * 1e3:.1f} ms"),
            *((f"memory of the server, {when}", data_size(found)) for when, found in memory.items() if found),
        ],
    )
    return 0


def _run_cluster(options: argparse.Namespace) -> int:
    from cofill.benchmark.cluster import measure_cluster
    from cofill.cluster.session import require_ray

    require_ray()
    settings = {name: getattr(options, name) for name in ("hidden", "batch", "threads", "seed")}
    result = measure_cluster(
        options.like,
        settings | {"orientation": "item"},
        scale=options.size,
        seed=options.seed,
        workers=sorted(set(options.workers)),
        address=options.ray,
        memory=options.memory,
        say=note,
    )
    if options.json:
        print_json(result)
        return 0
    rows = [
        (
            workers,
            f"{costs['processor_seconds']:.1f}",
            f"{costs['processor_seconds_of_one']:.1f}",
            f"{costs['times_one']:.2f}",
            f"{costs['bytes_a_minibatch'] / 1e3:,.0f}",
            f"{costs['share_in_exchange']:.0%}",
            data_size(max(costs["peak_bytes"])),
        )
        for workers, costs in result["workers"].items()
    ]
    title = f"Benchmark cluster: {result['users']:,} users, {result['items']:,} items, {result['ratings']:,} ratings"
    columns = (
        "workers",
        "CPU s",
        "in one",
        "ratio",
        "kB sent",
        "exchange",
        "memory",
    )
    print_table(title, columns, rows)
    note(
        "processor seconds of an epoch, summed over workers, and in one process with as many threads; what a worker "
        "sends for a minibatch; share of time in exchange; memory of a worker"
    )
    recovery = result["recovery"]
    rest: list[tuple[str, str]] = [
        ("cutting the ratings into buckets", f"{result['partition_seconds']:.1f} s"),
        (
            "from kill -9 of a worker to the end of the next epoch",
            f"{recovery['seconds']:.1f} s; an epoch takes {recovery['epoch_seconds']:.1f} s",
        ),
    ]
    for workers, peaks in result["memory"].items():
        rest.append(
            (
                f"memory of a whole training, a worker of {workers}",
                f"{data_size(max(peaks['peak_bytes']))}, {peaks['of_one']:.2f} of one",
            )
        )
    print_table("Besides", ("what", "measured"), rest)
    return 0


def _serving_row(what: str, found: dict[str, Any]) -> tuple[str, ...]:
    milliseconds = (1e3 * times[p] for times in (found, found["in_process"]) for p in ("p50", "p99"))
    ratios = (found["ratio"][p] for p in ("p50", "p99"))
    speed = f"{found['requests_per_second']:,.0f}"
    return (what, speed, *(f"{time:.2f}" for time in milliseconds), *(f"{ratio:.2f}" for ratio in ratios))


def _speed_rows(result: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [
        ("users x items, ratings", f"{result['users']:,} x {result['items']:,}, {result['ratings']:,}"),
        ("seconds an epoch", ", ".join(f"{seconds:.2f}" for seconds in result["epoch_seconds"])),
        ("ratings per second", f"{result['ratings_per_second']:,.0f}"),
        ("times the speed of densified torch", f"{result['times_densified_torch']:.1f}"),
        ("triad", f"{result['triad_bandwidth'] / 1e9:.1f} GB/s"),
        ("share of the triad's bandwidth", f"{result['share_of_triad']:.0%}"),
        (f"time of an epoch with {result['features']} features", f"{result['times_seconds_with_features']:.2f} times"),
        ("peak memory of training, all told", data_size(result["peak_bytes"])),
    ]
    lists, everybody = result["list_scorer"], result["lists_for_everybody"]
    rows += [
        (
            f"fit of the list scorer, rank {lists['rank']:,}",
            f"{lists['seconds']:.1f} s, {lists['share_of_epochs']:.2f} of the time of {lists['epochs']} epochs",
        ),
        ("peak memory of that fit, with the ratings", data_size(lists["peak_bytes"])),
        (
            f"lists for everybody, {everybody['matrix'][0]:,} items",
            f"{everybody['users_per_second']:,.0f} users per second, {everybody['share_of_product']:.0%} of the speed "
            f"of the matrix product alone; memory grew by {data_size(everybody['growth_bytes'])}",
        ),
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

"""How long ten million lines `user::item::rating::time` take to become Ratings, beside polars alone.

polars cannot cut at two characters, so its yardstick cuts at ':' and keeps every other column, typed. Both
run in fresh processes, by turns, on the same generated file; imports are not counted. The ratio is of the
medians.

    python benchmarks/read_ratings.py --rows 10_000_000 --rounds 3 --json result.json
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

USERS_A_MILLION = 6_988  # MovieLens-10M: 69,878 users, 10,677 items
ITEMS = 10_677
LIMIT_RATIO = 3.0
LIMIT_BYTES = 2_000_000_000


def write_file(path: Path, rows: int, seed: int = 0) -> None:
    """Ratings in the shape of MovieLens-10M: sorted by user, then by time; no pair twice."""
    import polars as pl

    rng = np.random.default_rng(seed)
    users = max(2, rows * USERS_A_MILLION // 1_000_000)
    pairs = np.empty(0, np.int64)
    while len(pairs) < rows:
        user = (rng.beta(0.5, 2.0, rows) * users).astype(np.int64)
        item = (rng.beta(0.4, 3.0, rows) * ITEMS).astype(np.int64)
        pairs = np.unique(np.concatenate([pairs, user * ITEMS + item]))
    pairs = np.sort(rng.choice(pairs, rows, replace=False))
    times = rng.integers(789_652_009, 1_231_131_736, rows)
    order = np.lexsort((times, pairs // ITEMS))
    half_stars = np.array(["0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5", "5"])
    frame = pl.DataFrame(
        {
            "user": pairs[order] // ITEMS + 1,
            "item": (pairs[order] % ITEMS) * 6 + 1,  # ids with gaps, up to 64,057
            "rating": pl.Series(half_stars).gather(rng.integers(0, 10, rows)),
            "time": times[order],
        }
    )
    line = pl.format("{}::{}::{}::{}", "user", "item", "rating", "time")
    frame.select(line).write_csv(path, include_header=False, quote_style="never")


def yardstick(path: Path) -> int:
    """polars alone."""
    import polars as pl

    dtypes = {"column_1": pl.Int64, "column_3": pl.Int64, "column_5": pl.Float32, "column_7": pl.Int64}
    columns = [0, 2, 4, 6]
    return pl.read_csv(path, separator=":", has_header=False, columns=columns, schema_overrides=dtypes).height


def whole_way(path: Path) -> int:
    """The whole way: parsed, checked, indexed, sorted, without duplicates."""
    from cofill.data.ratings import Ratings

    return len(Ratings.read(path))


def timed(what: str, path: Path) -> None:
    """Print seconds, peak memory and rows of one run, as JSON; in a process of its own."""
    import polars  # noqa: F401
    import scipy.sparse  # noqa: F401

    import cofill.data.ratings  # noqa: F401

    begin, cpu_begin = time.perf_counter(), time.process_time()
    rows = yardstick(path) if what == "polars" else whole_way(path)
    seconds, cpu_seconds = time.perf_counter() - begin, time.process_time() - cpu_begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in kilobytes
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": peak, "rows": rows}))


def in_a_process(what: str, path: Path, rows: int) -> str:
    """What this file prints for one task in a fresh process.

    Writing takes one too: a process begins with the peak memory of the one that started it.
    """
    command = [sys.executable, __file__, "--rows", str(rows), "--task", what, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> int:
    """Write the file, time both by turns, print the ratio; 1 if a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="lines in the generated file")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is timed")
    parser.add_argument("--json", type=Path, help="write the result here too")
    parser.add_argument("--task", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        what, path = options.task[0], Path(options.task[1])
        if what == "write":
            write_file(path, options.rows)
        else:
            timed(what, path)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.dat"
        in_a_process("write", path, options.rows)
        size = path.stat().st_size
        runs: dict[str, list[dict[str, Any]]] = {"polars": [], "cofill": []}
        for _ in range(options.rounds):
            for what, results in runs.items():
                results.append(json.loads(in_a_process(what, path, options.rows)))
                run = results[-1]
                print(
                    f"{what:7} {run['seconds']:6.2f} s  "
                    f"({run['cpu_seconds']:.2f} s of CPU)  {run['peak_bytes'] / 1e6:.0f} MB"
                )
    medians = {what: statistics.median(run["seconds"] for run in results) for what, results in runs.items()}
    peak = max(run["peak_bytes"] for run in runs["cofill"])
    ratio = medians["cofill"] / medians["polars"]
    result = {
        "rows": options.rows,
        "bytes": size,
        "runs": runs,
        "medians": medians,
        "ratio": ratio,
        "peak_bytes": peak,
    }
    print(f"ratio {ratio:.2f} (limit {LIMIT_RATIO:g}), peak {peak / 1e6:.0f} MB (limit {LIMIT_BYTES / 1e6:.0f} MB)")
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return int(ratio > LIMIT_RATIO or peak > LIMIT_BYTES)


if __name__ == "__main__":
    sys.exit(main())

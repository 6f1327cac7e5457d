"""The whole default training at the shapes of the paper's data sets: seconds, memory, and the share of each phase.

    python benchmarks/scale.py ml-1m ml-10m ml-20m wide [--orientation item user] [--old FOLDER] [--rounds N] [--json]
    python benchmarks/scale.py 100m/40 100m/20 100m/10

Ratings are generated with the numbers of users, items and ratings of the published sets. `wide` has 73,000 users,
173,000 items with two ratings each and a long tail. `100m/20` is a twentieth of 1,000,000 users, 500,000 items and
100,000,000 ratings; from several such parts, seconds and memory of the whole are extrapolated phase by phase, by the
power of growth between the two largest. Every training is a process of its own: its peak memory, with
libraries and ratings, is its own. With `--old`, a checkout of another commit trains on the same file, by turns.
The paper's seconds are those of one GTX 980.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
SHAPES = ("ml-1m", "ml-10m", "ml-20m", "wide")
WHOLE = 1_000_000, 500_000, 100_000_000  # users, items, ratings
PAPER = {"item": {"ml-1m": 123, "ml-10m": 1114, "ml-20m": 2085}, "user": {"ml-1m": 437, "ml-10m": 2091, "ml-20m": 3575}}
# Runs in the process that is measured, on whichever commit PYTHONPATH names.
TRAINING = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
from cofill import CFN, Ratings
path, orientation = sys.argv[1:]
ratings = Ratings.read(path)
phases, last = {}, [time.perf_counter(), "preparing"]
def progress(step):
    now = time.perf_counter()
    phases[step.what] = phases.get(step.what, 0) + now - last[0]
    last[:] = now, step.what
read = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
started = time.perf_counter(), time.process_time()
model = CFN(orientation=orientation).fit(ratings, progress=progress)
print(json.dumps({
    "seconds": time.perf_counter() - started[0], "processor": time.process_time() - started[1],
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "read_bytes": read,
    "parameters": model.parameters(), "ratings": len(ratings), "phases": phases,
    "epochs": [record.ratings_per_second for record in model.history][-1:],
}))
"""


def part_of_the_whole(shape: str) -> float:
    """N of "100m/N"; 0 of another shape."""
    name, _, part = shape.partition("/")
    return float(part) if name == "100m" else 0.0


def known_shape(text: str) -> str:
    with contextlib.suppress(ValueError):
        if text in SHAPES or part_of_the_whole(text) >= 1:
            return text
    raise argparse.ArgumentTypeError(f"expected one of {', '.join(SHAPES)}, or 100m/N with N of at least 1")


def write_ratings(shape: str, path: Path, seed: int) -> None:
    from cofill import Ratings
    from cofill.data.datasets.world import make_world, make_world_like

    if part := part_of_the_whole(shape):
        users, items, ratings = (round(count / part) for count in WHOLE)
        make_world(users=users, items=items, ratings=ratings, seed=seed).ratings.write(path)
        return
    if shape != "wide":
        make_world_like(shape, 1.0, seed).ratings.write(path)
        return
    rng, users, items = np.random.default_rng(seed), 73_000, 173_000

    def drawn(count: int, power: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        weights = 1 / np.arange(1, count + 1) ** power
        return rng.choice(count, 430_000, p=weights / weights.sum())

    pairs = np.unique(drawn(users, 0.8) * items + drawn(items, 0.75))  # about 390,000
    user, item = pairs // items, pairs % items
    tastes, traits = rng.normal(size=(users, 4)), rng.normal(size=(items, 4))
    said = 7.2 + 0.9 * rng.normal(size=users)[user] + 0.7 * rng.normal(size=items)[item]
    said += 0.3 * (tastes[user] * traits[item]).sum(1) + 1.3 * rng.normal(size=len(pairs))
    Ratings.read((user, item, np.clip(np.round(said), 1, 10))).write(path)


def train(root: Path, path: Path, orientation: str) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    command = [sys.executable, "-c", TRAINING, str(path), orientation]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="+", type=known_shape, metavar="SHAPE", help=f"{', '.join(SHAPES)}, 100m/N")
    parser.add_argument("--orientation", nargs="+", default=["item"], choices=["item", "user"])
    parser.add_argument("--old", type=Path, metavar="FOLDER", help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="trainings of each, by turns")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each training")
    options = parser.parse_args()
    parts: dict[str, list[tuple[float, dict[str, Any]]]] = {}
    roots = {"new": ROOT} | ({"old": options.old} if options.old else {})
    for shape in options.shapes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "ratings.parquet"
            write_ratings(shape, path, options.seed)
            for orientation in options.orientation:
                for _ in range(options.rounds):
                    for which, root in roots.items():
                        found = train(root, path, orientation)
                        if part := part_of_the_whole(shape):
                            parts.setdefault(f"{orientation:<5} {which}", []).append((part, found))
                        if options.json:
                            told = {"shape": shape, "orientation": orientation, "commit": which, **found}
                            print(json.dumps(told), flush=True)
                        else:
                            _tell(shape, orientation, which, found)
    for of, measured in parts.items():
        if len({part for part, _ in measured}) > 1:
            _extrapolate(of, measured)


def _tell(shape: str, orientation: str, which: str, found: dict[str, Any]) -> None:
    published = PAPER[orientation].get(shape)
    weights = (4 * found["parameters"] + 12 * found["ratings"]) / 2**20
    phases = found["phases"]
    print(
        f"{shape:<7} {orientation:<5} {which}  {found['seconds']:7.1f} s  {found['processor']:7.1f} processor s  "
        f"peak {found['peak_bytes'] / 2**20:6,.0f} MB  (weights and ratings {weights:6,.0f} MB)  "
        f"{f'paper {published:,} s  ' if published else ''}"
        + ", ".join(f"{name} {seconds / found['seconds']:.0%}" for name, seconds in phases.items() if seconds),
        flush=True,
    )


def _extrapolate(of: str, measured: list[tuple[float, dict[str, Any]]]) -> None:
    """Seconds of each phase, and memory, of the whole: from the largest part, by the power of growth up to it."""
    (smaller, before), (part, last) = sorted(measured, key=lambda one: -one[0])[-2:]
    if smaller == part:
        return

    def whole(old: float, new: float) -> tuple[float, float]:
        power = float(np.log(max(new, 1e-9) / max(old, 1e-9)) / np.log(smaller / part))
        return new * part**power, power

    phases = {name: whole(before["phases"].get(name, 0.0), seconds) for name, seconds in last["phases"].items()}
    print(
        f"100m    {of}  {sum(seconds for seconds, _ in phases.values()):,.0f} s extrapolated from 100m/{part:g}: "
        + ", ".join(
            f"{name} {seconds:,.0f} s (power {power:.2f})" for name, (seconds, power) in phases.items() if seconds >= 1
        )
    )
    peak, power = whole(before["peak_bytes"], last["peak_bytes"])
    print(f"100m    {of}  peak {peak / 2**20:,.0f} MB extrapolated (power {power:.2f})", flush=True)


if __name__ == "__main__":
    main()

"""How long is it from `pip install` to the first recommendation on a file of one's own, and how many MB are installed?

    python benchmarks/install.py                    # the plain install, and its first recommendation
    python benchmarks/install.py --extra serve --extra tune      # and what these add to it
    python benchmarks/install.py --all --json

An empty virtual environment is made, the wheel of this repository is installed there by pip, with everything it needs,
and `cofill train` and `cofill recommend` are run on a CSV file as somebody would write it. An extra is installed in an
environment that sees the plain one, so what is counted is what it adds. Sizes are bytes of files with their byte code;
1 MB is 10^6 bytes. Seconds include downloads and depend on what else the machine does; seconds of the processor do not.
"""

import argparse
import csv
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
FOR_DEVELOPERS = {"dev", "docs", "peers"}
SHAPE = {"users": 500, "items": 200, "ratings": 20_000}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--extra", action="append", default=[], choices=extras(), help="measure this one too; repeatable"
    )
    parser.add_argument("--all", action="store_true", help="measure all extras")
    parser.add_argument("--python", default=sys.executable, help="the Python to make environments with")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), options.python, extras() if options.all else options.extra)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"\nPython {found['python']}, {found['packages']} packages")
    for name, took in found["seconds"].items():
        print(f"{took['passed']:8.1f} s  ({took['processor']:5.1f} s of the processor)  {name}")
    total, busy = (sum(took[kind] for took in found["seconds"].values()) for kind in ("passed", "processor"))
    print(f"{total:8.1f} s  ({busy:5.1f} s of the processor)  from nothing to the first recommendation\n")
    for name, size in found["MB"].items():
        print(f"{size:8.1f} MB  {name}")
    print()
    for name, size in found["largest MB"].items():
        print(f"{size:8.1f} MB  of the plain install: {name}")


def extras() -> list[str]:
    """Those for whoever uses cofill."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return sorted(project["optional-dependencies"].keys() - FOR_DEVELOPERS)


def measure(folder: Path, python: str, wanted: list[str]) -> dict[str, Any]:
    seconds: dict[str, dict[str, float]] = {}
    pip("wheel", "--no-deps", "--wheel-dir", str(folder), str(REPOSITORY))
    (wheel,) = folder.glob("*.whl")
    write_ratings(folder / "ratings.csv")

    def timed(name: str, *words: str | Path) -> None:
        print(f"{name} ...", file=sys.stderr)
        start, busy = time.perf_counter(), processor_seconds()
        done = subprocess.run(words, cwd=folder, check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name} failed:\n{done.stdout}{done.stderr}")
        seconds[name] = {
            "passed": round(time.perf_counter() - start, 1),
            "processor": round(processor_seconds() - busy, 1),
        }

    home = folder / "plain"
    timed("python -m venv", python, "-m", "venv", "--without-pip", home)
    packages = packages_of(home)
    timed("pip install cofill", *PIP, "--python", home / "bin" / "python", "install", "--quiet", wheel)
    sizes = {"plain": megabytes(packages)}
    names = {path for path in packages.iterdir() if path.suffix not in (".dist-info", ".pth")}
    count = len(list(packages.glob("*.dist-info")))
    largest = sorted(((megabytes(path), path.name) for path in names), reverse=True)[:8]
    cofill = home / "bin" / "cofill"
    timed("cofill train ratings.csv --out model", cofill, "train", "ratings.csv", "--out", "model", "--quiet")
    timed("cofill recommend model --user 42", cofill, "recommend", "model", "--user", "42")
    first = dict(seconds)
    timed("the same train again", cofill, "train", "ratings.csv", "--out", "again", "--quiet")
    version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    for extra in wanted:
        print(f"cofill[{extra}] ...", file=sys.stderr)
        more = folder / extra
        subprocess.run([python, "-m", "venv", "--without-pip", more], check=True)
        (packages_of(more) / "plain.pth").write_text(f"{packages}\n")
        pip("--python", str(more / "bin" / "python"), "install", "--quiet", f"{wheel}[{extra}]")
        sizes[f"cofill[{extra}] adds"] = megabytes(packages_of(more))
    return {
        "python": version,
        "packages": count,
        "ratings": SHAPE,
        "seconds": first,
        "seconds of the same train again": seconds["the same train again"],
        "MB": sizes,
        "largest MB": {name: size for size, name in largest},
    }


def processor_seconds() -> float:
    """Of all processes that were run."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def pip(*words: str) -> None:
    subprocess.run([*PIP, *words], check=True, stdout=subprocess.DEVNULL)


def packages_of(environment: Path) -> Path:
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def megabytes(path: Path) -> float:
    files = path.rglob("*") if path.is_dir() else [path]
    return round(sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink()) / 1e6, 1)


def write_ratings(path: Path) -> None:
    """Stars that people of two tastes give to things of two kinds."""
    draw = random.Random(1)
    pairs = draw.sample(range(SHAPE["users"] * SHAPE["items"]), SHAPE["ratings"])
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["customer", "product", "stars"])
        for pair in pairs:
            user, item = divmod(pair, SHAPE["items"])
            likes = user % 2 == item % 2
            table.writerow([user, f"P{item:03}", min(5, max(1, draw.choice([4, 5, 5, 3] if likes else [1, 2, 2, 3])))])


if __name__ == "__main__":
    main()

"""The peers in one table: other people's libraries beside cofill, on the same splits, by the same measures.

    COFILL_DATA=folder python benchmarks/peers.py                       everything: hours; a second call goes on
    COFILL_DATA=folder python benchmarks/peers.py --datasets ml-100k --only cofill surprise-svd implicit-als
    COFILL_DATA=folder python benchmarks/peers.py --table peers.md --no-runs         the table of what was run

Every library is installed into a virtual environment of its own under --venv, with pip; what does not install is said
in the table, and everything else goes on. Splits are random 90/10, seeds 0 to --splits - 1. Every model is trained and
asked in a process of its own, one after the other, with one thread (OMP_NUM_THREADS=1 and its like): seconds of the
processor and on the clock, and the peak memory of the process, are its own. Predictions and lists are measured by
cofill's own evaluation. Intervals are at 95 %, over users.

Results are small files under --out, written as soon as a run ends. What is there is not run again, unless its settings
or its data have changed; what failed, hit the limit of --minutes or did not install is tried again with --retry.
"""

import argparse
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cofill.data.datasets import UnpublishedFileWarning
from cofill.errors import CofillError
from cofill.experiments.runs import version as own_version
from cofill.files import replacing
from peer_libraries import measuring, problems
from peer_libraries.catalogue import LIBRARIES, OWN, PEERS
from peer_libraries.environments import NotInstalled, interpreter, last_reason
from peer_libraries.results import DONE, FAILED, LIMIT, MISSING, Result, Store, as_json
from peer_libraries.tables import settings_table, tables, versions

HERE = Path(__file__).resolve().parent
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS",
           "LK_NUM_THREADS", "LK_NUM_BACKEND_THREADS", "POLARS_MAX_THREADS")  # fmt: skip

SLACK = 8  # times the limit of processor time that a run may take on the clock
LIMITED = """\
import os, resource, sys
seconds = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 30))
os.execv(sys.argv[2], sys.argv[2:])
"""


def tell(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def run_peer(name: str, dataset: str, split: int, options: argparse.Namespace, python: Path, store: Store) -> Result:
    """Train and ask one model in a process of its own, and measure what it answers."""
    peer, part = PEERS[name], problems.part(dataset, split)
    path = problems.write(part.problem, options.out / "problems")
    result = Result(dataset, split, name, FAILED, path.stem, peer.settings, code(name), part=part.describe(),
                    load=os.getloadavg()[0])  # fmt: skip
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        target, log = Path(folder) / "answer.npz", Path(folder) / "log"
        command = [str(python), "-m", "peer_libraries.answering", str(path.resolve()), peer.place,
                   ",".join(peer.kinds), str(split), str(target)]  # fmt: skip
        ended = run_process(command, environment(peer.library), Path(folder), log, 60 * options.minutes)
        result = replace(result, minutes=(time.perf_counter() - begun) / 60)
        if ended is None:
            return replace(result, state=LIMIT, reason=f"stopped after {options.minutes:g} minutes of processor time")
        if ended != 0 or not target.exists():
            reason = last_reason(log.read_text(encoding="utf-8", errors="replace"))
            return replace(result, reason=reason if ended > 0 else f"killed by signal {-ended}; {reason}")
        with np.load(target, allow_pickle=False) as kept:
            answers = {key: kept[key] for key in kept.files}
    return measured(result, answers, part, store)


def measured(result: Result, answers: dict[str, Any], part: problems.Part, store: Store) -> Result:
    """The measures of its answers; values of users are stored."""
    told = json.loads(str(answers["told"]))
    peer = PEERS[result.peer]
    try:
        found = [measuring.ratings(part, answers["predictions"])] if "ratings" in peer.kinds else []
        found += [measuring.lists(part, answers["lists"])] if "lists" in peer.kinds else []
    except (ArithmeticError, ValueError, CofillError) as error:
        return replace(result, reason=str(error))
    done = replace(
        result, state=DONE, measures={key: value for one in found for key, value in one.measures.items()},
        seconds={key: told[key] for key in ("fit", "predict", "list") if key in told},
        peak_bytes=told["peak_bytes"], chosen=told["chosen"], version=version(peer.library, told["versions"]),
        fallback=int(answers.get("fallback", 0)),
    )  # fmt: skip
    store.write(done, {key: values for one in found for key, values in one.of_users.items()})
    return done


def version(library: str, installed: dict[str, str]) -> str:
    name = OWN if library == OWN else LIBRARIES[library].packages[-1]
    return next((of for found, of in installed.items() if found.lower().replace("_", "-") == name), "")


def environment(library: str) -> dict[str, str]:
    """One thread; and the path to these modules, but to cofill for cofill alone."""
    own = os.environ.get("PYTHONPATH", "") if library == OWN else ""
    quiet = {"PYTHONPATH": os.pathsep.join(filter(None, (str(HERE), own))), "PYTHONWARNINGS": "ignore"}
    return dict(os.environ) | dict.fromkeys(THREADS, "1") | quiet


def run_process(command: list[str], env: dict[str, str], folder: Path, log: Path, seconds: float) -> int | None:
    """Its exit code; None if it was stopped at the limit, with all that it had started.

    The limit is one of processor time, so that a busy machine stops nobody; on the clock it is SLACK times as long.
    """
    limit = math.ceil(seconds)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", LIMITED, str(limit), *command],
            env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
        try:
            ended = process.wait(SLACK * seconds)
            return None if ended == -signal.SIGXCPU else ended
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def is_kept(found: Result | None, options: argparse.Namespace) -> bool:
    """Whether a run need not be repeated."""
    if found is None or found.settings != PEERS[found.peer].settings or (options.retry and found.state != DONE):
        return False
    if found.code != code(found.peer):
        return False
    return found.state == MISSING or found.problem == fingerprint(found.dataset, found.split, options.out)


def code(name: str) -> str:
    """The version and the commit of cofill's own algorithms: a result is one of the code that is here."""
    return own_version() if PEERS[name].library == OWN else ""


@cache
def fingerprint(dataset: str, split: int, out: Path) -> str:
    return problems.write(problems.part(dataset, split).problem, out / "problems").stem


def run_all(options: argparse.Namespace, store: Store) -> None:
    """Data set by data set, split by split, one model after the other."""
    wanted = [
        (dataset, split, name) for dataset in options.datasets for split in range(options.splits)
        for name in options.only if not is_kept(store.read(dataset, split, name), options)
    ]  # fmt: skip
    total, taken = len(options.datasets) * options.splits * len(options.only), [0.0]
    if len(wanted) < total:
        tell(f"{total - len(wanted)} of {total} runs are there already")
    tried: dict[str, Path | NotInstalled] = {}
    for number, (dataset, split, name) in enumerate(wanted):
        library = PEERS[name].library
        if library not in tried:
            tried[library] = installed(library, options)
        left = sum(taken) / max(1, number) * (len(wanted) - number) / 60
        tell(f"{number + 1} of {len(wanted)}: {dataset}, split {split}, {name}"
             + (f" (about {left:.0f} minutes left)" if number else ""))  # fmt: skip
        begun, python = time.perf_counter(), tried[library]
        if isinstance(python, NotInstalled):
            result = Result(dataset, split, name, MISSING, settings=PEERS[name].settings, reason=str(python))
        else:
            result = run_peer(name, dataset, split, options, python, store)
        if result.state != DONE:
            store.write(result)
            tell(f"  {result.state}: {result.reason}")
        else:
            tell("  " + ", ".join(f"{key} {value:.4f}" for key, value in result.measures.items())
                 + f", fit {result.seconds['fit']['processor']:.1f} s")  # fmt: skip
        taken.append(time.perf_counter() - begun)
        show(options, store)


def installed(library: str, options: argparse.Namespace) -> Path | NotInstalled:
    try:
        if library != OWN:
            tell(f"installing {library}, unless it is there")
        return interpreter(library, options.venv.resolve(), retry=options.retry)
    except NotInstalled as error:
        return error


def show(options: argparse.Namespace, store: Store) -> str:
    """The table and the JSON as they stand, into their files."""
    command = "COFILL_DATA=folder python benchmarks/peers.py " + shlex.join(options.typed)
    text = tables(store, options.datasets, options.splits, options.only, command.strip())
    text += "\n" + settings_table(options.only)
    text += f"\nVersions: {versions(store, options.datasets, options.splits, options.only)}.\n"
    if options.table:
        with replacing(options.table) as beside:
            beside.write_text(text, encoding="utf-8")
    if options.json:
        found = store.all(tuple(options.datasets), options.splits, tuple(options.only))
        with replacing(options.json) as beside:
            beside.write_text(json.dumps({"results": as_json(found)}, indent=1), encoding="utf-8")
    return text


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", choices=tuple(problems.DATASETS), default=list(problems.USUAL),
                        metavar="NAME", help=", ".join(problems.DATASETS))  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=tuple(PEERS), default=list(PEERS), metavar="MODEL",
                        help=", ".join(PEERS))  # fmt: skip
    parser.add_argument("--splits", type=int, default=1, help="how many, with the seeds 0, 1, ...")
    parser.add_argument("--minutes", type=float, default=15.0, help="limit of one run, of processor time (15)")
    parser.add_argument("--venv", type=Path, default=Path(".venv-peers"), metavar="FOLDER", help="of environments")
    parser.add_argument("--out", type=Path, default=Path("results/peers"), metavar="FOLDER", help="of results")
    parser.add_argument("--table", type=Path, metavar="FILE", help="Markdown, written after every run")
    parser.add_argument("--json", type=Path, metavar="FILE", help="written after every run")
    parser.add_argument("--retry", action="store_true", help="what failed, hit the limit or did not install")
    parser.add_argument("--no-runs", action="store_true", help="only show what was run before")
    options = parser.parse_args(arguments)
    for name in ("splits", "minutes"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name} must be above 0. Got {getattr(options, name):g}")
    absent = [name for name in options.datasets if not problems.at_hand(name)]
    if absent and not options.no_runs:
        parser.error(f"not at hand: {', '.join(absent)}; name the folder of data sets in COFILL_DATA")
    options.typed = list(sys.argv[1:] if arguments is None else arguments)
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    store = Store(options.out / "runs")
    if not options.no_runs:
        run_all(options, store)
    print(show(options, store))


if __name__ == "__main__":
    main()

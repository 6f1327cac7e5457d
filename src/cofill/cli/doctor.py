"""cofill doctor: what a bug report should say of a machine, and whether cofill works there.

Nothing that names a user: no host, no login; folders below the home folder begin with ~, and of variables of the
environment that may hold a password only the name is shown.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from cofill import __version__
from cofill.charts.markup import Amount
from cofill.cli.options import add_output
from cofill.cli.output import note, print_json, print_table
from cofill.errors import CofillError
from cofill.extras import command, packages
from cofill.files import temporary_folder
from cofill.memory import data_size
from cofill.progress import share_done

_KERNELS = "cofill.models.cfn.kernels"
_CGROUP = Path("/sys/fs/cgroup")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER")
_FOLDERS = ("COFILL_DATA", "COFILL_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")


def add_doctor(parser: argparse.ArgumentParser) -> None:
    add_output(parser)


def run_doctor(options: argparse.Namespace) -> int:
    with share_done("trying cofill", options.quiet or options.json) as report:
        found = _examined(report)
    if options.json:
        print_json(found)
    else:
        _show(found)
    return 0 if found["ok"] else 1


def _examined(report: Callable[[float], None] | None) -> dict[str, Any]:
    """Everything that the command shows, as JSON; `report` is called with the share done."""
    verdicts = []
    for number, (what, test) in enumerate(_TESTS.items(), 1):
        verdicts.append(_tried(what, test))
        if report is not None:
            report(number / len(_TESTS))
    there = {extra: {one.name: one.version for one in brought} for extra, brought in packages().items()}
    python = f"{platform.python_version()} ({platform.python_implementation()})"
    versions = {"cofill": __version__, "python": python, **there.pop("")}
    return {
        "ok": all(one["ok"] for one in verdicts) and all(versions.values()),
        "versions": versions,
        "extras": {
            extra: {"installed": all(brought.values()), "versions": brought, "command": command(extra)}
            for extra, brought in there.items()
        },
        "machine": _machine(),
        "libraries": _libraries(),  # after the tests, which have loaded them
        "folders": _folders(),
        "environment": dict(_environment()),
        "verdicts": verdicts,
    }


def _show(found: dict[str, Any]) -> None:
    verdicts = [(one["what"], one["ok"], Amount(f"{one['seconds']:.1f} s"), one["said"]) for one in found["verdicts"]]
    print_table("Self-test", ("what", "works", "time", "found"), verdicts)
    versions = [(name, version or "missing") for name, version in found["versions"].items()]
    print_table("Versions", ("package", "version"), versions)
    extras = []
    for name, about in found["extras"].items():
        there = ", ".join(f"{package} {version}" for package, version in about["versions"].items() if version)
        extras.append((name, there or None, None if about["installed"] else about["command"]))
    print_table("Extras", ("extra", "installed", "to install"), extras)
    for title in ("Machine", "Folders", "Environment"):
        rows = [(name.replace("_", " "), _words(name, value)) for name, value in found[title.lower()].items()]
        if rows:
            print_table(title, ("what", "value"), rows)
    names = ("user_api", "internal_api", "version", "num_threads")
    libraries = [tuple(one.get(name) for name in names) for one in found["libraries"]]
    print_table("Libraries with threads", ("for", "library", "version", "threads"), libraries)
    how = "all is well" if found["ok"] else "something is wrong above"
    note(f"{how}; for a bug report, add the output of this command, or of `cofill doctor --json`")


def _words(name: str, value: Any) -> str | None:
    if value is None:
        return "not limited" if name.endswith("of_container") else None
    if name.startswith("memory"):
        return data_size(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)


def _private(text: object) -> str:
    """A text without the name of the home folder."""
    home = str(Path.home())
    return str(text) if home in ("", "/") else str(text).replace(home, "~")


# What is there


def _machine() -> dict[str, Any]:
    from cofill.workers import cores

    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    quota, period = (_line(_CGROUP / "cpu.max") or "max 1").split()
    memory, available = _line(_CGROUP / "memory.max"), _line(Path("/proc/meminfo"), "MemAvailable:")
    return {
        "platform": platform.platform(),
        "processor": _line(Path("/proc/cpuinfo"), "model name").lstrip("\t: ") or platform.machine(),
        "cores": os.cpu_count(),
        "cores_of_process": cores(),
        "cores_of_container": None if quota == "max" else int(quota) / int(period),
        "memory": pages * os.sysconf("SC_PAGE_SIZE") if pages else None,
        "memory_available": int(available.split()[0]) * 1024 if available else None,
        "memory_of_container": int(memory) if memory.isdecimal() else None,
        "64_bit": sys.maxsize > 2**32,
    }


def _line(path: Path, begin: str = "") -> str:
    """What follows in the first line that begins so; nothing if there is none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.removeprefix(begin).strip() for line in lines if line.startswith(begin)), "")


def _libraries() -> list[dict[str, Any]]:
    """Libraries with threads of their own that this process has loaded."""
    import scipy.linalg  # noqa: F401  # has a BLAS of its own
    from threadpoolctl import threadpool_info

    known = ("user_api", "internal_api", "version", "num_threads", "threading_layer", "architecture")
    return [{name: one[name] for name in known if one.get(name) is not None} for one in threadpool_info()]


def _folders() -> dict[str, Any]:
    from cofill.data import datasets

    found: dict[str, Any] = {
        "cofill": _private(Path(__file__).parents[1]),
        "data": _private(os.environ.get("COFILL_DATA", "")) or None,
        "cache": _private(datasets.cache_folder()),
    }
    try:
        found["data_sets"] = [name for name in datasets.catalogue() if datasets.locate(name) is not None]
    except (CofillError, OSError) as error:
        found["data_sets"] = _private(error)
    try:
        from cofill.compiling import kept_code

        code = kept_code(import_module(_KERNELS))
    except ImportError as error:
        return found | {"machine_code": _private(error)}
    if code is None:
        return found
    return found | {
        "machine_code": _private(code.folder),
        "kernels": code.kernels,
        "kernels_compiled": code.kept,
        "machine_code_writable": os.access(code.folder, os.W_OK),
    }


def _environment() -> Iterator[tuple[str, str]]:
    for name in sorted(os.environ):
        if name in _THREADS:
            yield name, os.environ[name]
        elif name in _FOLDERS:
            yield name, _private(os.environ[name])
        elif name.startswith("COFILL_"):
            yield name, "is set"


# Whether it works


def _tried(what: str, test: Callable[[], str]) -> dict[str, Any]:
    began = time.perf_counter()
    try:
        said, ok = test(), True
    except Exception as error:
        said, ok = f"{type(error).__name__}: {' '.join(str(error).split())}", False
    return {"what": what, "ok": ok, "seconds": round(time.perf_counter() - began, 2), "said": _private(said)}


def _lists() -> str:
    from cofill.models.bias_models import ListModel

    return _kept_and_asked(ListModel())


def _network() -> str:
    from cofill.models.cfn.model import CFN

    return _kept_and_asked(CFN(epochs=2, hidden=8, threads=1))


def _kept_and_asked(model: Any) -> str:
    """Train a model on a tiny world, save it, load it, and ask both for a list."""
    from cofill.data.datasets.world import make_world
    from cofill.models.recommender import Recommender

    model.fit(make_world(users=40, items=30, ratings=600, seed=0).ratings)
    with temporary_folder("cofill-doctor") as folder:
        model.save(folder / "model")
        again = Recommender.load(folder / "model")
    ours, theirs = model.recommend(1, n=3), again.recommend(1, n=3)
    if [entry.item for entry in ours] != [entry.item for entry in theirs] or len(ours) != 3:
        raise CofillError(f"the model recommends {ours}, and after it was saved and loaded {theirs}")
    return "trained, saved, loaded, and recommended the same"


_TESTS = {"lists": _lists, "network": _network}

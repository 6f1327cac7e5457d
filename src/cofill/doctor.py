"""What a bug report should say of a machine: versions, cores, memory, libraries, folders; and whether cofill works.

Nothing that names somebody: no host, no user; folders below the home folder begin with ~, and of variables of the
environment that may hold a password only the name is told.
"""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from cofill import __version__
from cofill.errors import CofillError
from cofill.extras import Package, command, packages
from cofill.files import temporary_folder
from cofill.workers import cores

_KERNELS = "cofill.models.cfn.kernels"
_CGROUP = Path("/sys/fs/cgroup")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "NUMBA_THREADING_LAYER")
_FOLDERS = ("COFILL_DATA", "COFILL_CACHE", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
_UNLIMITED = 1 << 60  # what the first version of control groups writes for no limit


class Verdict(NamedTuple):
    """How one part of the self-test went."""

    what: str
    ok: bool
    seconds: float
    said: str
    """What was seen, or what is wrong."""


class Examination(NamedTuple):
    """All that was found."""

    versions: list[Package]
    extras: dict[str, list[Package]]
    machine: dict[str, Any]
    libraries: list[dict[str, Any]]
    """Those with threads of their own, such as BLAS."""
    folders: dict[str, Any]
    environment: dict[str, str]
    verdicts: list[Verdict]

    @property
    def ok(self) -> bool:
        return all(verdict.ok for verdict in self.verdicts) and all(one.version for one in self.versions)

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "versions": {one.name: one.version for one in self.versions},
            "extras": {
                name: {
                    "installed": all(one.version for one in brought),
                    "versions": {one.name: one.version for one in brought},
                    "command": command(name),
                }
                for name, brought in self.extras.items()
            },
            "machine": self.machine,
            "libraries": self.libraries,
            "folders": self.folders,
            "environment": self.environment,
            "verdicts": [verdict._asdict() for verdict in self.verdicts],
        }


def examine(report: Callable[[float], None] | None = None) -> Examination:
    """Look at everything, and try cofill on a tiny world; `report` is called with the share done."""
    found = packages()
    verdicts = []
    for number, (what, test) in enumerate(_TESTS.items(), 1):
        verdicts.append(_tried(what, test))
        if report is not None:
            report(number / len(_TESTS))
    python = Package("python", f"{platform.python_version()} ({platform.python_implementation()})")
    return Examination(
        [Package("cofill", __version__), python, *found.pop("")],
        found,
        _machine(),
        _libraries(),  # after the tests, which have loaded them
        _folders(),
        dict(_environment()),
        verdicts,
    )


def private(text: object) -> str:
    """A text without the name of the home folder."""
    home = str(Path.home())
    return str(text) if home in ("", "/") else str(text).replace(home, "~")


# What is there


def _machine() -> dict[str, Any]:
    pages = os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores_of_process": cores(),
        "cores_of_container": _container_cores(),
        "memory": pages * os.sysconf("SC_PAGE_SIZE") if pages else None,
        "memory_available": _available(),
        "memory_of_container": _container_memory(),
        "64_bit": sys.maxsize > 2**32,
    }


def _processor() -> str:
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _container_cores() -> float | None:
    """How many cores' worth of time a container may use; None if it is not limited."""
    quota, period = (_lines(_CGROUP / "cpu.max") or ["max 1"])[0].split()[:2]
    if quota == "max":
        quota = (_lines(_CGROUP / "cpu/cpu.cfs_quota_us") or ["-1"])[0]
        period = (_lines(_CGROUP / "cpu/cpu.cfs_period_us") or ["1"])[0]
    return int(quota) / int(period) if int(quota) > 0 else None


def _container_memory() -> int | None:
    """Bytes that a container may use; None if they are not limited."""
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        said = (_lines(_CGROUP / file) or ["max"])[0].strip()
        if said.isdecimal() and int(said) < _UNLIMITED:
            return int(said)
    return None


def _available() -> int | None:
    for line in _lines(Path("/proc/meminfo")):
        if line.startswith("MemAvailable"):
            return int(line.split()[1]) * 1024
    return None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _libraries() -> list[dict[str, Any]]:
    """Libraries with threads of their own that this process has loaded."""
    import scipy.linalg  # noqa: F401  # has a BLAS of its own
    from threadpoolctl import threadpool_info

    known = ("user_api", "internal_api", "version", "num_threads", "threading_layer", "architecture")
    return [{name: one[name] for name in known if one.get(name) is not None} for one in threadpool_info()]


def _folders() -> dict[str, Any]:
    from cofill.data import datasets

    found: dict[str, Any] = {
        "cofill": private(Path(__file__).parent),
        "data": private(os.environ.get("COFILL_DATA", "")) or None,
        "cache": private(datasets.cache_folder()),
    }
    try:
        found["data_sets"] = [name for name in datasets.catalogue() if datasets.locate(name) is not None]
    except (CofillError, OSError) as error:
        found["data_sets"] = private(error)
    try:
        from cofill.compiling import kept_code

        code = kept_code(import_module(_KERNELS))
    except ImportError as error:
        found["machine_code"] = private(error)
    else:
        if code is not None:
            found |= {
                "machine_code": private(code.folder),
                "kernels": code.kernels,
                "kernels_compiled": code.kept,
                "machine_code_writable": os.access(code.folder, os.W_OK),
            }
    return found


def _environment() -> Iterator[tuple[str, str]]:
    for name in sorted(os.environ):
        if name in _THREADS:
            yield name, os.environ[name]
        elif name in _FOLDERS:
            yield name, private(os.environ[name])
        elif name.startswith("COFILL_"):
            yield name, "is set"


# Whether it works


def _tried(what: str, test: Callable[[], str]) -> Verdict:
    began = time.perf_counter()
    try:
        said, ok = test(), True
    except Exception as error:
        said, ok = f"{type(error).__name__}: {' '.join(str(error).split())}", False
    return Verdict(what, ok, round(time.perf_counter() - began, 2), private(said))


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

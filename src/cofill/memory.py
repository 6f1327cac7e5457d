"""How much memory this process uses, and has used at most; and how it gives back what it no longer needs."""

import ctypes
import gc
import resource
import sys
from contextlib import suppress
from pathlib import Path

_M_MMAP_THRESHOLD = -3  # of mallopt, in malloc.h of glibc
_LARGE = 1_000_000


def data_size(count: float) -> str:
    """Bytes as people write them: 340 kB, 12 MB, 1.2 GB."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.1f} {name}" if count < 9.95 * unit else f"{count / unit:,.0f} {name}"
    return f"{count:.0f} bytes"


def give_back_large_arrays() -> None:
    """From now on large arrays get pages of their own, which the system has back when they are freed.

    Otherwise the C library of Linux takes them from its heap, once it has seen a few that large. What is kept of a
    batch then lies between the holes that its large arrays have left, and the heap grows with every batch: learning
    the amplitudes for 34,600 people of MovieLens-20M's shape took 4.1 GB so, and takes 1.5.
    """
    with suppress(OSError, AttributeError):  # another C library has its own ways
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE)


def give_back_freed() -> None:
    """Give the system back what the C library keeps of arrays that are freed, above all those of ended threads."""
    with suppress(OSError, AttributeError):  # another C library has its own ways
        ctypes.CDLL(None).malloc_trim(0)


def reset_peak() -> int:
    """Reset `peak_bytes`, where the system allows it; returns the memory in use now, 0 if unknown."""
    gc.collect()
    with suppress(OSError):  # none but Linux has it, and not in every container
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _from_status("VmRSS") or 0


def peak_bytes() -> int:
    """Peak memory of this process since `reset_peak`, or since its start if it could not be reset.

    Linux counts what the parent had into a child's ru_maxrss, so it is asked in another way.
    """
    found = _from_status("VmHWM")
    if found is not None:
        return found
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _from_status(name: str) -> int | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="ascii").splitlines() if ":" in line)
    return int(lines[name].split()[0]) * 1024

"""A virtual environment for every library, one after the other: what one of them pins is nobody else's business.

What does not install is remembered with the last line of the reason, and is not tried again until `retry`.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cofill.files import replacing
from peer_libraries.catalogue import LIBRARIES, OWN, Library

MINUTES_TO_INSTALL = 30


class NotInstalled(Exception):
    """Why a library cannot be had here, in one line."""


Run = Callable[[list[str], Path], None]
"""Runs a command, its output into a file; raises NotInstalled."""


def run_logged(command: list[str], log: Path) -> None:
    with log.open("a", encoding="utf-8") as out:
        out.write(f"$ {' '.join(command)}\n")
        out.flush()
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False,
                timeout=60 * MINUTES_TO_INSTALL, env=os.environ | {"PYTHONPATH": "", "MAKEFLAGS": "-j1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NotInstalled(f"not done after {MINUTES_TO_INSTALL} minutes: {command[-1]}") from None
        except OSError as error:
            raise NotInstalled(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise NotInstalled(last_reason(log.read_text(encoding="utf-8", errors="replace")))


def last_reason(log: str) -> str:
    """The last line that says what is wrong; pip ends with notes and hints that do not."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() and not line.lower().startswith(("note:", "hint:"))]
    own = [line for line in telling if not line.endswith(("subprocess-exited-with-error", ":"))]
    return (own or telling or lines or ["no reason was given"])[-1][:200]


def interpreter(library: str, folder: Path, *, retry: bool = False, run: Run | None = None) -> Path:
    """The Python that has this library; it is installed first where it is not yet."""
    if library == OWN:
        return Path(sys.executable)
    wanted = LIBRARIES[library]
    home = folder / library
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    state = folder / f"{library}.json"
    run = run or run_logged
    known = read_state(state, wanted)
    if known == "ready" and python.exists():
        return python
    if known is not None and known != "ready" and not retry:
        raise NotInstalled(known)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{library}.log"
    log.unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    try:
        run([sys.executable, "-m", "venv", str(home)], log)
        for package in wanted.packages:
            run([str(python), "-m", "pip", "install", "--disable-pip-version-check", package], log)
        run([str(python), "-c", f"import numpy, {wanted.imports}"], log)
    except NotInstalled as error:
        write_state(state, wanted, str(error))
        raise
    write_state(state, wanted, "ready")
    return python


def read_state(path: Path, library: Library) -> str | None:
    """ "ready", or why not; None if it was not tried, or with other packages."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return str(kept["state"]) if kept["packages"] == list(library.packages) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_state(path: Path, library: Library, state: str) -> None:
    with replacing(path) as beside:
        beside.write_text(json.dumps({"packages": library.packages, "state": state}), encoding="utf-8")

"""Virtual environments to install cofill into, from which nothing of the repository can be seen."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SECONDS = 1800.0  # for whatever is run: the machine may be busy, and registries slow


def copied_tree(repository: Path, folder: Path) -> Path:
    """What a build sees of the repository, in a folder of its own: builds leave nothing behind in the repository."""
    ignored = shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__", ".hypothesis", "dist", "demo")
    return Path(shutil.copytree(repository, folder, ignore=ignored))


def build(tree: Path, out: Path, *kinds: str) -> Path:
    """Build a distribution, `--sdist` or `--wheel`, with the backend that is installed here."""
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", out, tree],
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.iterdir()
    return built


def require_registry(folder: Path) -> None:
    """Skip where no registry of packages answers: a small package is asked for, of which ours need a version anyway."""
    words = ["download", "--quiet", "--no-deps", "--no-cache-dir", "--retries", "1", "--timeout", "30"]
    done = _pip(*words, "--dest", str(folder), "mdurl")
    if done.returncode:
        pytest.skip(f"no registry of packages can be reached: {_last_line(done)}")


class Environment:
    """A virtual environment; what is installed in those `below` can be seen there, too."""

    def __init__(self, folder: Path, *below: "Environment", python: str = sys.executable) -> None:
        # Without pip: that of the tests is told which environment to install into, which saves seconds each time.
        done = subprocess.run(
            [python, "-m", "venv", "--without-pip", folder], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.folder = folder
        self.python = folder / "bin" / "python"
        (self.packages,) = folder.glob("lib/python*/site-packages")
        if below:
            (self.packages / "below.pth").write_text("".join(f"{one.packages}\n" for one in below))

    def install(self, *requirements: str) -> None:
        """pip puts there what is missing. Byte code is left to the imports: most of it is never needed."""
        done = _pip("--python", str(self.python), "install", "--quiet", "--no-compile", *requirements)
        assert done.returncode == 0, done.stdout + done.stderr

    def ran(self, *words: str | Path, folder: Path, code: int = 0) -> str:
        """What `python ...` prints in that folder, both ways out."""
        done = subprocess.run(
            [self.python, *words], cwd=folder, env=clean_environment(), capture_output=True, text=True, check=False,
            timeout=SECONDS,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        return said

    def cofill(self, *words: str | Path, folder: Path, code: int = 0) -> str:
        return self.ran("-m", "cofill.cli", *words, folder=folder, code=code)


def clean_environment() -> dict[str, str]:
    """Ours without what leads Python or cofill to the repository and to data at hand."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COFILL", "VIRTUAL_"))}


def interpreter(version: str) -> str:
    """The Python of that version, such as 3.12; skip where there is none."""
    places = [Path.home() / ".pyenv" / "versions"]
    found = [path for place in places for path in place.glob(f"{version}.*/bin/python{version}")]
    on_path = shutil.which(f"python{version}")
    for candidate in [*map(str, sorted(found)), *([on_path] if on_path else [])]:
        asked = subprocess.run(
            [candidate, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if asked.returncode == 0 and asked.stdout.strip() == version:  # a shim may stand for nothing
            return candidate
    pytest.skip(f"there is no Python {version} on this machine")


def _pip(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *words],
        capture_output=True, text=True, check=False, timeout=SECONDS,
    )  # fmt: skip


def _last_line(done: "subprocess.CompletedProcess[str]") -> str:
    lines: Sequence[str] = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1] if lines else f"pip ended with {done.returncode}"

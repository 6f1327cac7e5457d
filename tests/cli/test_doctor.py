"""What a bug report is asked for: it works everywhere, and names nobody."""

import getpass
import json
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from cofill import extras
from cofill.cli import doctor
from cofill.errors import CofillError
from tests.cli.conftest import Run


@pytest.fixture
def untested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_TESTS", {"nothing": lambda: "done"})


def test_all_is_well_here(run: Run) -> None:
    result = run("doctor", "--json")
    assert result.code == 0, result.out
    found = json.loads(result.out)
    assert found["ok"]
    assert [one["what"] for one in found["verdicts"]] == ["lists", "network"]
    assert all(one["said"] == "trained, saved, loaded, and recommended the same" for one in found["verdicts"])
    assert found["versions"]["python"].startswith(platform.python_version())
    assert found["versions"]["numpy"]
    assert {"pandas", "serve", "tune"} <= found["extras"].keys()
    assert found["extras"]["tune"]["command"] == "pip install 'cofill[tune]'"
    assert found["machine"]["cores_of_process"] >= 1
    assert found["machine"]["memory"] > 1e8
    assert any(one["user_api"] == "blas" for one in found["libraries"])
    assert found["folders"]["kernels_compiled"] > 0


@pytest.mark.usefixtures("untested")
def test_nobody_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = tmp_path / "jane-doe"
    (home / "data").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COFILL_DATA", str(home / "data"))
    monkeypatch.setenv("COFILL_DATABASE", "postgresql://jane:hunter2@db/shop")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("COFILL_CACHE", raising=False)
    monkeypatch.setattr(doctor, "_TESTS", {"failing": lambda: _fail(f"{home}/secret: no such file")})
    for words in (("doctor",), ("doctor", "--json")):
        result = run(*words)
        assert result.code == 1
        told = result.out + result.err
        assert "jane" not in told
        assert "hunter2" not in told
        assert platform.node() not in told.split()
        assert getpass.getuser() == "root" or getpass.getuser() not in told
        assert "CofillError: ~/secret: no such file" in told
        assert "~/.cache/cofill" in told
    assert json.loads(result.out)["environment"]["COFILL_DATABASE"] == "is set"


@pytest.mark.usefixtures("untested")
def test_missing_packages_come_with_their_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    there = extras._version
    monkeypatch.setattr(extras, "_version", lambda name: None if name in ("pandas", "fastapi") else there(name))
    result = run("doctor", "--quiet")
    assert result.code == 0
    for extra in ("pandas", "serve"):
        assert f"pip install 'cofill[{extra}]'" in result.out
    assert "pip install 'cofill[tune]'" not in result.out
    monkeypatch.setattr(extras, "_version", lambda name: None if name == "numpy" else there(name))
    assert run("doctor", "--quiet").code == 1  # cofill cannot do without


@pytest.mark.parametrize(
    ("cpu", "memory", "found"),
    [("150000 100000\n", "2147483648\n", (1.5, 2 << 30)), ("max 100000\n", "max\n", (None, None))],
)
def test_limits_of_containers(
    cpu: str, memory: str, found: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cpu.max").write_text(cpu)
    (tmp_path / "memory.max").write_text(memory)
    monkeypatch.setattr(doctor, "_CGROUP", tmp_path)
    machine = doctor._machine()
    assert (machine["cores_of_container"], machine["memory_of_container"]) == found


def test_a_source_tree_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> Callable[..., Any]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "metadata", nowhere)
    assert extras.packages() == {"": []}


def _fail(words: str) -> str:
    raise CofillError(words)

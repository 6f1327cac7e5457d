"""What can be imported, and that asking for help does not wait for torch."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import cofill
import cofill.nn

HEAVY = ("dataclasses", "torch", "numba", "polars", "scipy", "pandas", "pydantic", "rich")


def test_all_is_importable() -> None:
    assert len(set(cofill.__all__)) == len(cofill.__all__)
    for name in cofill.__all__:
        value = getattr(cofill, name)
        assert value.__module__.startswith("cofill."), name
        assert value.__doc__, name


def test_all_is_what_is_visible() -> None:
    assert set(dir(cofill)) == {*cofill.__all__, "__version__"}


def test_every_name_has_one_home() -> None:
    assert list(cofill._HOMES) == cofill.__all__
    for name, home in cofill._HOMES.items():
        module, _, original = home.partition(":")
        assert getattr(importlib.import_module(module), original or name) is getattr(cofill, name)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'cofill' has no attribute 'CNF'"):
        cofill.CNF  # noqa: B018
    with pytest.raises(ImportError):
        from cofill import CNF  # noqa: F401


def test_names_of_the_parts() -> None:
    assert cofill.nn.__all__ == sorted(cofill.nn.__all__)
    for name in cofill.nn.__all__:
        assert getattr(cofill.nn, name).__doc__


@pytest.mark.parametrize(
    "code",
    [
        "import cofill, cofill.errors, cofill.cli",
        "import cofill.cli\ntry: cofill.cli.main(['--help'])\nexcept SystemExit as end: assert end.code == 0",
        "import cofill.cli\ntry: cofill.cli.main(['--version'])\nexcept SystemExit as end: assert end.code == 0",
    ],
    ids=["import", "help", "version"],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    check = f"\nimport sys\nheavy = [n for n in {HEAVY!r} if n in sys.modules]\nassert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code + check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_inside_nothing_but_the_version_is_taken_from_the_package_itself() -> None:
    """So that the layers, which `make check` looks at, cannot be gone round."""
    package = Path(cofill.__file__).parent
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module == "cofill" and not node.level:
                assert [name.name for name in node.names] == ["__version__"], path

"""What can be imported, and that asking for help does not wait for torch."""

import ast
import doctest
import importlib
import re
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


def test_what_the_package_shows_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(user, film, 1 + (user + len(film)) % 5) for user in range(40, 50) for film in ("Alien", "Notting Hill")]
    lines = [",".join(map(str, row)) for row in [("user", "item", "rating"), *rows]]
    Path("ratings.csv").write_text("\n".join(lines), encoding="utf-8")
    Path("plays.csv").write_text("user,item,plays\n" + "\n".join(lines[1:]), encoding="utf-8")
    Path("movies.csv").write_text("item,year\nAlien,1979\nNotting Hill,1999\n", encoding="utf-8")
    names: dict[str, object] = {}
    for example in doctest.DocTestParser().get_examples(cofill.__doc__ or ""):
        exec(example.source.replace("CFN()", "CFN(epochs=2, hidden=4)"), names)


def test_a_model_of_ratings_names_what_learns_from_interactions() -> None:
    plays = cofill.Interactions.read([(1, 2), (1, 3), (2, 3)])
    with pytest.raises(cofill.CofillError) as refused:
        cofill.CFN().fit(plays)
    named = re.findall(r"'([^']+)'", str(refused.value).partition(";")[2])
    assert named[0] == "lists"
    assert all(cofill.algorithm(name).takes_interactions for name in named)


def test_all_is_what_is_visible() -> None:
    assert set(dir(cofill)) == {*cofill.__all__, "__version__"}


def test_every_name_has_one_home() -> None:
    assert sorted(cofill._HOMES) == sorted(cofill.__all__)
    for name, (module, original) in cofill._HOMES.items():
        assert getattr(importlib.import_module(module), original) is getattr(cofill, name)


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

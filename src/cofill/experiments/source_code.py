"""Which code a result depends on: a change of an algorithm makes its own results stale, and no others.

What belongs to an algorithm is found by following imports, from the module of its class and from the modules that
measure it. Imports that only type checkers see do not count, and neither do those inside functions, where what is
needed now and then is loaded (a file format, a plot), but for those that compute a result.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path

from cofill.models import algorithms

# Modules that train a model, and are imported inside a function, because they need torch.
_WHEN_ASKED_FOR = {"cofill.models.cfn.fit": ("cofill.models.cfn.torch",)}
# What is between the ratings, whose fingerprint is part of a run's name already, and a measured result.
_MEASURING = ("cofill.experiments.measuring", "cofill.evaluation.ratings", "cofill.evaluation.ranking")


@cache
def code_of(algorithm: str) -> str:
    """A hash of the statements of an algorithm's modules, without comments and docstrings."""
    digest = hashlib.sha256()
    for name in modules_of(algorithm):
        digest.update(f"{name}\n{statements(_source(name))}\n".encode())
    return digest.hexdigest()[:12]


def modules_of(algorithm: str) -> list[str]:
    """The modules that a result of the algorithm depends on, in order; those of its own package and of cofill.

    A package's own file passes names on: it is followed, and does not count itself. So the registry, which knows every
    algorithm by name, makes none depend on another.
    """
    home = algorithms()[algorithm].home.partition(":")[0]
    inside = {home.partition(".")[0], "cofill"}
    found: set[str] = set()
    waiting = [home, *_MEASURING]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _WHEN_ASKED_FOR.get(name, ())
            waiting += (other for other in _imports(name) if other.partition(".")[0] in inside)
    return sorted(name for name in found if not _is_package(name))


@cache
def _imports(name: str) -> tuple[str, ...]:
    """The modules that a module imports when it is loaded."""
    package = name if _is_package(name) else name.rpartition(".")[0]
    named: list[str] = []
    for node in _when_loaded(ast.parse(_source(name)).body):
        if isinstance(node, ast.Import):
            named += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            of = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
            named += (of, *(f"{of}.{alias.name}" for alias in node.names))
    return tuple(module for module in named if _is_module(module))


def _when_loaded(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that are carried out when a module is loaded."""
    for node in body:
        yield node
        for inner in ("body", "orelse", "finalbody"):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _for_type_checkers(node):
                yield from _when_loaded(getattr(node, inner, []))


def _for_type_checkers(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


@cache
def _is_module(name: str) -> bool:
    try:
        found = find_spec(name)
    except (ModuleNotFoundError, ValueError):  # a name that a module has, and no module itself
        return False
    return found is not None and found.has_location


def _is_package(name: str) -> bool:
    found = find_spec(name)
    return found is not None and found.submodule_search_locations is not None


def _source(name: str) -> bytes:
    found = find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_bytes() if found.origin.endswith(".py") else b""


def statements(source: bytes) -> str:
    """The statements of a module, without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [statement for statement in node.body if not _is_text(statement)]
    return ast.dump(tree)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )

"""Which code a result depends on: a change of an algorithm makes its own results stale, and no others."""

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent

# What is between the ratings, whose fingerprint is part of a run's name already, and a measured result.
_SHARED = (
    "models/answers.py",
    "compiling.py",
    "models/recommender.py",
    "models/cfn/feature_ridge.py",
    "models/means.py",
    "data/described.py",
    "data/features/known.py",
    "data/features/matching.py",
    "data/known.py",
    "data/ratings.py",
    "data/sparse.py",
    "data/splits.py",
    "data/vocabulary.py",
    "evaluation/ranking.py",
    "evaluation/ratings.py",
    "experiments/data.py",
    "experiments/measuring.py",
)
_RIVAL = ("models/rivals/factors.py", "models/rivals/rival.py", "models/rivals/row_shards.py")
_NETWORK = ("models/cfn",)
_OWN = {
    "cfn": _NETWORK,
    "autorec": (*_NETWORK, "models/rivals/autorec.py"),
    "means": (*_RIVAL, "models/rivals/means.py"),
    "als-wr": (*_RIVAL, "models/rivals/als_wr.py"),
    "svdfeature": (*_RIVAL, "models/rivals/svdfeature.py"),
    "bpmf": (*_RIVAL, "models/rivals/bpmf.py"),
    "llorma": (*_RIVAL, "models/rivals/llorma.py"),
}


@lru_cache
def code_of(algorithm: str) -> str:
    """The same as long as the statements of its modules are: comments and docstrings do not count."""
    digest = hashlib.sha256()
    for path in sources(algorithm):
        digest.update(f"{path.relative_to(_PACKAGE).as_posix()}\n{statements(path.read_bytes())}\n".encode())
    return digest.hexdigest()[:12]


def sources(algorithm: str) -> list[Path]:
    """The files that a result of the algorithm depends on."""
    return sorted({path for name in (*_SHARED, *_OWN[algorithm]) for path in _files(_PACKAGE / name)})


def _files(path: Path) -> Iterator[Path]:
    return path.rglob("*.py") if path.is_dir() else iter((path,))


def statements(source: bytes) -> str:
    """What of a module is carried out."""
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

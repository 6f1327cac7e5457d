"""The distributions, built once."""

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.release.environments import build, copied_tree

REPOSITORY = Path(__file__).parents[2]


class Distributions(NamedTuple):
    tree: Path
    """The copy that they were built from."""
    wheel: Path
    sdist: Path


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("distributions")
    tree = copied_tree(REPOSITORY, folder / "tree")
    return Distributions(tree, build(tree, folder / "wheel", "--wheel"), build(tree, folder / "sdist", "--sdist"))

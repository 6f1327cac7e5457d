"""Results depend on the code that made them, each on its own."""

from pathlib import Path

import pytest

import cofill
from cofill.experiments.source_code import code_of, modules_of, statements
from cofill.models import algorithms

NAMES = tuple(algorithms())


def test_every_module_of_a_model_belongs_to_an_algorithm() -> None:
    package = Path(cofill.__file__).parent
    known = {module for name in NAMES for module in modules_of(name)}
    for folder in ("cfn", "baselines"):
        files = {path for path in (package / "models" / folder).rglob("*.py") if path.name != "__init__.py"}
        modules = {".".join(path.relative_to(package.parent).with_suffix("").parts) for path in files}
        assert modules <= known
    homes = {entry.home.partition(":")[0] for entry in algorithms().values()}  # some share a module
    assert len({code_of(name) for name in NAMES}) == len(homes)


def test_what_every_result_depends_on_is_found() -> None:
    for name in NAMES:
        assert {
            *("cofill.models.recommender", "cofill.models.predictor", "cofill.models.observed", "cofill.models.biases"),
            *("cofill.data.ratings", "cofill.data.sparse", "cofill.data.splits", "cofill.data.vocabulary"),
            *("cofill.evaluation.ranking", "cofill.evaluation.ratings", "cofill.experiments.measuring"),
        } <= set(modules_of(name))


def test_a_baseline_does_not_depend_on_another_nor_the_network_on_baselines() -> None:
    assert "cofill.models.baselines.als_wr" in modules_of("als-wr")
    assert not any("cofill.models.baselines.als_wr" in modules_of(name) for name in NAMES if name != "als-wr")
    for name in ("autorec", "cfn"):
        assert "cofill.models.cfn.kernels" in modules_of(name)
    assert "cofill.models.cfn.kernels" not in modules_of("als-wr")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (b'"""Said otherwise."""\n\ndef f(x):\n    return x + 1  # why\n', True),
        (b'def f(x):\n    """One more."""\n    return (x + 1)\n', True),
        (b"def f(x):\n    return x + 2\n", False),
    ],
)
def test_only_statements_count(other: bytes, same: bool) -> None:
    assert (statements(b'"""Adds."""\ndef f(x):\n    return x + 1\n') == statements(other)) is same

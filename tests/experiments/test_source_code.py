"""Results depend on the code that made them, each on its own."""

from pathlib import Path

import pytest

import cofill
from cofill.experiments.source_code import code_of, sources, statements
from cofill.models import NAMES


def test_every_module_of_a_model_belongs_to_an_algorithm() -> None:
    package = Path(cofill.__file__).parent
    known = {path for name in NAMES for path in sources(name)}
    assert all(path.is_file() for path in known)
    for folder in ("models/cfn", "models/rivals"):
        assert {path for path in (package / folder).rglob("*.py") if path.name != "__init__.py"} <= known
    assert len({code_of(name) for name in NAMES}) == len(NAMES)


def test_a_rival_does_not_depend_on_another_nor_the_network_on_rivals() -> None:
    def names(algorithm: str) -> set[str]:
        return {path.name for path in sources(algorithm)}

    assert "als_wr.py" in names("als-wr")
    assert not any("als_wr.py" in names(name) for name in NAMES if name != "als-wr")
    assert "kernels.py" in names("autorec") & names("cfn")
    assert "kernels.py" not in names("als-wr")


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

"""Machine code that is kept on disk follows the code that it was made of."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

CALLER = """
from cofill.compiling import compiled
from {callee} import rule

@compiled
def applied(x):
    return rule(x) + 1
"""
CALLEE = """
from cofill.compiling import compiled

FACTOR = {factor}

@compiled
def rule(x):
    return {rule}
"""


@pytest.fixture
def applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a kernel anew, as another run would, whose module stays as it is while the one it calls changes."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "kernel_of_test.py").write_text(CALLER.format(callee="rule_of_test"))

    def import_it(rule: str, factor: int = 1) -> Any:
        (tmp_path / "rule_of_test.py").write_text(CALLEE.format(rule=rule, factor=factor))
        for name in ("kernel_of_test", "rule_of_test"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("kernel_of_test").applied

    return import_it


def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(applied: Any) -> None:
    assert applied("x * 2")(5) == 11
    assert applied("x * 3")(5) == 16  # another constant
    assert applied("x + 3")(5) == 9  # another instruction
    assert applied("abs(x) * FACTOR", 4)(-5) == 21
    assert applied("int(x) * FACTOR", 4)(-5) == -19  # another name
    assert applied("int(x) * FACTOR", 6)(-5) == -29  # another constant of its module


def test_and_otherwise_it_is_not(applied: Any) -> None:
    assert applied("x * 2")(5) == 11
    again = applied("x * 2")
    assert again(5) == 11
    assert sum(again.made.stats.cache_hits.values()) == 1
    assert not again.made.stats.cache_misses

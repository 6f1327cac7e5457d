"""The code in the docs runs, and what README promises is there."""

import re
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parent.parent


def python_blocks(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL)


def test_the_network_of_the_docs_learns() -> None:
    names: dict[str, Any] = {}
    (source,) = python_blocks("docs/network.md")
    exec(compile(source, "docs/network.md", "exec"), names)
    assert len([line for line in source.splitlines() if line.strip()]) <= 26
    torch.manual_seed(0)  # the dropout of the example draws from the global generator
    known = torch.rand(30, 20) < 0.5
    rows, columns = known.nonzero(as_tuple=True)
    values = torch.where((rows + columns) % 2 == 0, 0.8, -0.8)
    network = names["MyNetwork"](20)
    first = names["train"](network, rows, columns, values, 30, steps=1)
    assert names["train"](network, rows, columns, values, 30) < first / 3


def test_readme_names_both_commands_and_every_document() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    for link in re.findall(r"\]\(([^)#]+\.md)[^)]*\)", readme):
        assert (ROOT / link).exists(), link

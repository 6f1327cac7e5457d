"""The example of docs/explanation/measures.md runs, and the document names every measure."""

import re
from pathlib import Path

import numpy as np
import pytest

from cofill.evaluation.cross_validation import RANKING_MEASURES, RATING_MEASURES

DOCUMENT = (Path(__file__).parents[2] / "docs" / "explanation" / "measures.md").read_text(encoding="utf-8")


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [f"{user},{item},{rng.integers(1, 6)}" for user in range(20) for item in range(15)]
    Path("ratings.csv").write_text("\n".join(["user,item,rating", *lines]), encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    exec(
        compile(source.replace("CFN(", "CFN(epochs=2, hidden=6, threads=1, "), "docs/explanation/measures.md", "exec"),
        {},
    )
    interval, rating, ranking = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"\d\.\d{4} ± \d\.\d{4}", interval)
    for line in (rating, ranking):
        assert line.startswith(("better, ", "worse, ", "no difference beyond chance, "))


def test_every_measure_is_explained() -> None:
    text = DOCUMENT.lower()
    assert [name for name in RATING_MEASURES + RANKING_MEASURES if name not in text] == []

"""`cofill benchmark serving` on a shape so small that only its form can be looked at."""

import json
from pathlib import Path
from typing import Any

import pytest

from cofill.cli import main
from tests.warm_processes import run_warm

pytestmark = pytest.mark.slow

WORDS = ["benchmark", "serving", "--like", "ml-1m", "--size", "0.001", "--seconds", "1", "--hidden", "4"]


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    done = run_warm([*WORDS, "--json"], timeout=300)
    assert done.returncode == 0, done.stderr
    assert "asking it one by one and 8 at a time, then 1 seconds with writes" in done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("how", ["one_at_a_time", "several_at_a_time", "with_writes"])
@pytest.mark.parametrize("who", ["known", "new"])
def test_every_latency_stands_beside_the_same_scoring_in_process(result: dict[str, Any], how: str, who: str) -> None:
    found = result[how][who]
    assert found["requests"] == 400 or how == "with_writes"
    for part in (found, found["in_process"]):
        assert 0 < part["p50"] <= part["p99"]
    for percentile in ("p50", "p99"):
        assert found["ratio"][percentile] == pytest.approx(found[percentile] / found["in_process"][percentile])
    assert found["requests_per_second"] > 0
    if how == "one_at_a_time":
        assert found["p50"] > found["in_process"]["p50"]  # the same, and a way there and back


def test_writes_and_memory(result: dict[str, Any]) -> None:
    found = result["with_writes"]
    assert found["writes"]["number"] == 10
    if Path("/proc/self/statm").exists():
        assert list(found["memory_bytes"]) == ["before any write", "start", "half", "end"]
        assert all(memory > 50e6 for memory in found["memory_bytes"].values())
    assert (result["users"], result["items"], result["at_once"]) == (191, 117, 8)


def test_the_table(result: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("cofill.benchmark.serving.measure_serving", lambda *_, **__: result)
    assert main(WORDS) == 0
    printed = capsys.readouterr().out
    assert "Benchmark serving: 191 users, 117 items; milliseconds" in printed
    for who in ("known", "new"):
        for how in ("one at a time", "8 at a time", "one at a time, with writes"):
            assert f" {who}, {how} " in printed
    assert "ratings put" in printed

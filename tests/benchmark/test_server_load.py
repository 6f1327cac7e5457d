"""benchmarks/server_load.py on a shape so small that only its form can be looked at."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "server_load.py"
WORDS = ["--like", "ml-1m", "--size", "0.001", "--seconds", "1", "--hidden", "4"]


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, SCRIPT, *WORDS, "--json"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
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

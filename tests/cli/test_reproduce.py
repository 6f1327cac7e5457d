"""cofill reproduce: from the command line to the files, also after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.experiments.conftest import TINY


@pytest.fixture
def words(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The options of a quick look that is quicker still, at a described file."""
    monkeypatch.setattr("cofill.experiments.plan.QUICK", {**TINY, "cfn": {"epochs": 2, "hidden": 30}})
    described = ["--user-features", world / "users.csv", "--feature-kind", "age=number"]
    return ["--dataset", world / "ratings.csv", *described, "--quick", "--quiet", "--out", tmp_path / "out"]


def test_a_picture_a_table_and_json(run: Run, words: list[object], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = run("reproduce", "training-ratio", *words, "--only", "fitted means", "V-CFN")
    assert result.code == 0, result.err
    folder = tmp_path / "out" / "training-ratio-ratings-quick"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"training-ratio.{ending}" for ending in ("json", "md", "png")
    ]
    page = (folder / "training-ratio.md").read_text(encoding="utf-8")
    assert "**A quick look: few epochs, small models, few splits. Not the result.**" in page
    assert "![ratings: RMSE against the share trained on](training-ratio.png)" in page
    assert "- ALS-WR at 10%, ALS-WR at 50%, ALS-WR at 90%, SVDFeature at 10%, " in page
    document = json.loads((folder / "training-ratio.json").read_text(encoding="utf-8"))
    assert [line["label"] for line in document["chart"]["lines"]] == ["fitted means", "V-CFN"]
    world = str(words[1]).removesuffix("/ratings.csv")
    assert document["command"] == (
        f"cofill reproduce training-ratio --dataset {world}/ratings.csv --folds 1 --quick "
        f"--user-features {world}/users.csv --feature-kind age=number"
    )
    assert f"{document['tables'][0]['rows'][0]['V-CFN']['mean']:.4f}" in result.out
    again = run("reproduce", "training-ratio", *words, "--only", "fitted means", "V-CFN", "--json")
    assert json.loads(again.out) == document


def test_cost_is_measured_in_processes(run: Run, words: list[object], tmp_path: Path) -> None:
    result = run("reproduce", "cost", *words, "--only", "fitted means", "V-CFN", "--json")
    assert result.code == 0, result.err
    rows = {row["algorithm"]: row for row in json.loads(result.out)["tables"][0]["rows"]}
    assert rows["V-CFN"]["times V-CFN"] == 1.0
    assert rows["fitted means"]["times V-CFN"] < 1.0
    assert rows["fitted means"]["parameters"] == 2 * (60 + 40) + 2


def test_a_killed_experiment_goes_on(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "cofill.cli", "reproduce", "rmse", "--dataset", str(world / "ratings.csv")]
    command += ["--quick", "--folds", "4", "--only", "fitted means", "V-CFN", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    runs = out / "runs"
    deadline = time.monotonic() + 300
    while len(list(runs.glob("*.json")) if runs.exists() else []) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in runs.glob("*.json")}
    assert 2 <= len(before) < 8
    done = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True)
    after = {path.name: path.stat().st_mtime_ns for path in runs.glob("*.json")}
    assert len(after) == 8
    assert before.items() <= after.items()
    rows = {row["algorithm"]: row for row in json.loads(done.stdout)["tables"][0]["rows"]}
    assert len(rows["V-CFN"]["RMSE"]["values"]) == 4
    assert "8 of 8 runs" in done.stderr


Refused = Callable[..., str]


def test_what_is_refused(refused: Refused, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "rmse, side-information, loss, training-ratio, convergence, non-linearity, cost, ranking"
    assert refused("reproduce", "rsme") == f"there is no experiment 'rsme'; there are {names}\n"
    only = refused("reproduce", "loss", "--only", "BPMF", "--dataset", world / "ratings.csv")
    assert only == "--only BPMF: not in loss; there are V-CFN, U-CFN\n"
    monkeypatch.setenv("COFILL_DATA", str(tmp_path))
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path))
    assert refused("reproduce", "rmse", "--dataset", "douban").startswith("douban cannot be downloaded.")
    assert refused("reproduce", "rmse", "--dataset", "ml1m").startswith("ml1m: neither a file nor a data set")

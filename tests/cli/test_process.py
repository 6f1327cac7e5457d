"""The command line as a real process: killed, interrupted, read by nobody."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import HYBRID, Run
from tests.cli.test_train import weights
from tests.warm_processes import WarmProcess, run_warm

COFILL = (sys.executable, "-m", "cofill.cli")
# Long enough to be stopped on the way; one thread, so that other tests may use the other cores.
LONG = ("--epochs", "150", "--patience", "150", "--hidden", "8", "--threads", "1", "--checkpoint-seconds", "0")


FIRST, SECOND = "checkpoint.safetensors", ".checkpoint.second.safetensors"


def start_and_wait_for_checkpoint(world: Path, out: Path, *flags: str, name: str = FIRST) -> WarmProcess:
    process = WarmProcess(["train", str(world / "ratings.csv"), "--out", str(out), *LONG, *flags])
    while not (out / name).exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    return process


def test_resume_after_a_kill(run: Run, world: Path, tmp_path: Path) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = start_and_wait_for_checkpoint(world, killed)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (killed / "model.json").exists()
    other = run("train", world / "ratings.csv", "--out", killed, *LONG, "--seed", "1", "--resume", "--quiet")
    assert other.code == 1
    assert "the checkpoint belongs to other ratings, side information or settings" in other.err
    resumed = run("train", world / "ratings.csv", "--out", killed, *LONG, "--resume")
    assert resumed.code == 0
    assert "nothing to resume" not in resumed.err
    assert "training for validation: epoch 1 of" not in resumed.err
    assert run("train", world / "ratings.csv", "--out", whole, *LONG, "--quiet").code == 0
    assert weights(killed) == weights(whole)
    assert sorted(path.name for path in killed.iterdir()) == sorted(path.name for path in whole.iterdir())


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_resume_two_networks_after_a_kill(run: Run, world: Path, tmp_path: Path, name: str) -> None:
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    both = ("--orientation", "both", "--epochs", "40", "--patience", "40")
    process = start_and_wait_for_checkpoint(world, killed, *both, name=name)
    process.kill()
    process.communicate()
    for draft in (f".{SECOND}.draft", ".tmpaB3xY9"):  # as a kill while it is written leaves them behind
        (killed / draft).touch()
    resumed = run("train", world / "ratings.csv", "--out", killed, *LONG, *both, "--resume")
    assert resumed.code == 0, resumed.err
    assert "training for validation, rows are items: epoch 1 of" not in resumed.err
    assert ("rows are items: epoch" in resumed.err) == (name == FIRST)
    assert run("train", world / "ratings.csv", "--out", whole, *LONG, *both, "--quiet").code == 0
    assert weights(killed) == weights(whole)
    assert sorted(path.name for path in killed.iterdir()) == sorted(path.name for path in whole.iterdir())


def test_interrupt(world: Path, tmp_path: Path) -> None:
    process = start_and_wait_for_checkpoint(world, tmp_path / "m")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.endswith("the same command with --resume goes on from the last checkpoint\ncofill: stopped\n")
    assert "Traceback" not in err


def test_from_features_to_somebody_new(some: Path, about: list[str], tmp_path: Path) -> None:
    """The whole way in processes of their own: nothing is carried over but the files."""

    def run(*words: str) -> str:
        done = run_warm([*words])
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    model = str(tmp_path / "m")
    run("train", str(some), "--out", model, "--quiet", *about, *HYBRID)
    told = json.loads(run("features", model, "--json"))
    assert [line["column"] for line in told["users"]["about"]] == ["age", "occupation", "links"]
    describe = [f"--describe={column}" for column in ("age=70", "occupation=retired", "links=")]
    old = json.loads(run("recommend", model, *describe, "--rank-by=rating", "--json"))
    describe[:2] = ["--describe=age=15", "--describe=occupation=pupil"]
    young = json.loads(run("recommend", model, *describe, "--rank-by=rating", "--json"))
    year_of_old, year_of_young = (
        sum(int(entry["title"][-5:-1]) for entry in found) / 10  # titles end in (1995)
        for found in (old, young)
    )
    assert year_of_old < year_of_young - 5


def test_a_reader_that_goes_away(model: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = WarmProcess(["recommend", str(model), "--all"], stdout=writing)
    os.close(writing)
    assert process.communicate() == ("", "")
    assert process.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_to_a_full_disk() -> None:
    with Path("/dev/full").open("w") as full:
        words = [*COFILL, "datasets", "list"]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("cofill: No space left on device; ")
    assert done.stderr.count("\n") == 1


def test_output_that_cannot_show_a_title(model: Path) -> None:
    words = [*COFILL, "recommend", str(model), "--user", "1", "--include-known", "-n", "40"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    assert "Die unendliche Geschichte \\u7d42" in done.stdout

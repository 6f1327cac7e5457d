"""cofill tune: in real processes, interrupted, killed and resumed, and several at once."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from cofill.cli import main
from cofill.tuning import requirements
from tests.cli.conftest import Run

COFILL = (sys.executable, "-m", "cofill.cli")
TRIALS = 12
SMALL = ("--epochs", "20", "--patience", "20", "--hidden", "6")


def words(world: Path, out: Path, *more: object) -> list[str]:
    return [str(word) for word in ("tune", world / "ratings.csv", "--out", out, "--trials", TRIALS, *SMALL, *more)]


@pytest.fixture(scope="module")
def tuned(world: Path) -> Path:
    out = world.parent / "tuned"
    assert main(words(world, out, "--workers", 1, "--quiet", "--json")) == 0
    return out


def trials_of(out: Path, *states: TrialState) -> list[optuna.trial.FrozenTrial]:
    study = optuna.load_study(study_name="cofill", storage=f"sqlite:///{out / 'study.db'}")
    return study.get_trials(states=states or None)


def count_finished(out: Path) -> int:
    """In a study that may still be in the making; a look that costs next to nothing."""
    try:
        with closing(sqlite3.connect(f"file:{out / 'study.db'}?mode=ro", uri=True)) as database:
            (found,) = database.execute("SELECT count(*) FROM trials WHERE state IN ('COMPLETE', 'PRUNED')").fetchone()
            return int(found)
    except sqlite3.OperationalError:  # no file or no tables yet
        return 0


def finished(out: Path) -> list[tuple[dict[str, Any], float | None]]:
    """Settings and score of each, by its place in its generation."""
    trials = trials_of(out, TrialState.COMPLETE, TrialState.PRUNED)
    trials.sort(key=lambda trial: int(trial.system_attrs["genetic:turn"]))
    return [(trial.params, trial.value) for trial in trials]


def start_and_wait(world: Path, out: Path, least: int) -> "subprocess.Popen[str]":
    """A search as a process of its own, with some trials finished."""
    command = [*COFILL, *words(world, out, "--workers", 1)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    while count_finished(out) < least:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    return process


def test_what_is_written(tuned: Path, run: Run, world: Path) -> None:
    assert sorted(path.name for path in tuned.iterdir()) == ["best.toml", "search.png", "study.db", "trials.json"]
    told = json.loads((tuned / "trials.json").read_text())
    assert len(told) == TRIALS
    assert {entry["state"] for entry in told} == {"complete"}
    again = run(*words(world, tuned, "--workers", 1, "--json", "--quiet"))  # nothing is left to do
    summary = json.loads(again.out)
    assert (again.code, again.err) == (0, "")
    assert (summary["complete"], summary["stopped_early"], summary["failed"]) == (TRIALS, 0, 0)
    assert summary["best"]["validation_rmse"] == min(entry["validation_rmse"] for entry in told)
    shown = run(*words(world, tuned))
    assert "validation RMSE" in shown.out
    assert "900 ratings; searching beta, noise_ratio, learning_rate" in shown.err
    assert f"searching: {TRIALS} of {TRIALS} trials  best validation RMSE" in shown.err
    assert shown.err.endswith(
        f"next: cofill train {world / 'ratings.csv'} --config {tuned / 'best.toml'} --out model\n"
    )


def test_the_best_settings_train(tuned: Path, run: Run, world: Path, tmp_path: Path) -> None:
    """To exactly the validation RMSE that the search has found."""
    config = tuned / "best.toml"
    done = run(
        *("train", world / "ratings.csv", "--config", config, "--out", tmp_path / "m"),
        *("--threads", "1", "--quiet", "--json"),
    )
    best = min(value for _, value in finished(tuned) if value is not None)
    assert json.loads(done.out)["validation_rmse"] == best
    assert config.read_text().startswith(f"# validation RMSE {best:.5f} in trial ")
    assert f"# cofill tune {world / 'ratings.csv'} --sampler genetic --ranges cofill --trials {TRIALS}\n" in (
        config.read_text()
    )


def test_interrupted_then_killed_then_resumed(tuned: Path, run: Run, world: Path, tmp_path: Path) -> None:
    """With one worker the search is the one that was never stopped, trial by trial."""
    out = tmp_path / "t"
    process = start_and_wait(world, out, 2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130
    assert err.endswith("the same command goes on where this search stopped\ncofill: stopped\n")
    assert "Traceback" not in err
    assert not trials_of(out, TrialState.RUNNING)  # the worker has given back what it had begun
    assert {"best.toml", "trials.json"} <= {path.name for path in out.iterdir()}

    process = start_and_wait(world, out, max(4, count_finished(out) + 1))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    resumed = run(*words(world, out, "--workers", 1, "--quiet"))
    assert (resumed.code, resumed.err) == (0, "")
    assert finished(out) == finished(tuned)


def test_two_commands_on_one_storage(world: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    commands = [
        subprocess.Popen(
            [*COFILL, *words(world, tmp_path / name, "--workers", 1, "--storage", url, "--quiet", "--json")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    told = []
    for command in commands:
        out, err = command.communicate()
        assert (command.returncode, err) == (0, "")
        told.append(json.loads(out))
    trials = trials_of(tmp_path, TrialState.COMPLETE, TrialState.PRUNED)
    assert len(trials) == TRIALS
    assert len({trial.user_attrs["worker"] for trial in trials}) == 2
    assert len({tuple(trial.params.values()) for trial in trials}) == TRIALS  # nothing was tried twice
    assert told[0]["best"] == told[1]["best"]


def test_other_ratings_are_refused(tuned: Path, refused: Callable[..., str], world: Path, some: Path) -> None:
    message = refused("tune", some, "--out", tuned, "--trials", TRIALS, *SMALL)
    assert "is about other ratings or side information; go on with what it is about, or begin another" in message


def test_a_worker_tells_what_is_wrong(refused: Callable[..., str], world: Path, tmp_path: Path) -> None:
    message = refused(*words(world, tmp_path / "t", "--device", "nowhere", "--quiet"))
    assert message.startswith("the setting 'device' must name a device that torch can use here")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--validation 0", "set validation above 0, such as 0.1"),
        ("--storage nonsense://x", "--storage: no study can be kept there"),
        ("--config nowhere.toml", "no such settings file"),
    ],
)
def test_bad_flags(refused: Callable[..., str], world: Path, tmp_path: Path, flags: str, says: str) -> None:
    assert says in refused(*words(world, tmp_path / "t", *flags.split()))


def test_without_optuna(refused: Callable[..., str], world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    message = refused("tune", world / "ratings.csv")
    assert message == "the search is run by Optuna, which is not installed. Run: pip install 'cofill[tune]'\n"


def test_help_does_not_need_optuna() -> None:
    code = "import sys; sys.modules['optuna'] = None; from cofill.cli import main; main(['tune', '--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "--storage URL" in done.stdout

"""cofill tune: in real processes, interrupted, killed and resumed, and several at once."""

import json
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import optuna
import pytest
from optuna.trial import TrialState

from cofill import extras
from cofill.cli import main
from cofill.config import CFNSettings
from cofill.data.ratings import Ratings
from cofill.tuning.search import run_trials
from cofill.tuning.search_data import SearchData
from cofill.tuning.study import Plan, open_study, storage_url
from tests.cli.conftest import Run
from tests.waiting import wait_until
from tests.warm_processes import WarmProcess

TRIALS = 10  # all of the first generation, in which no trial depends on another
SMALL = ("--epochs", "6", "--patience", "6", "--hidden", "6")


def words(world: Path, out: Path, *more: object) -> list[str]:
    return [str(word) for word in ("tune", world / "ratings.csv", "--out", out, "--trials", TRIALS, *SMALL, *more)]


def start(world: Path, out: Path, *more: object) -> WarmProcess:
    """A search as a process of its own, with one worker."""
    return WarmProcess(words(world, out, "--workers", 1, *more))


def trials_of(out: Path, *states: TrialState) -> list[optuna.trial.FrozenTrial]:
    study = optuna.load_study(study_name="cofill", storage=storage_url(out))
    return study.get_trials(states=states or None)


def count_finished(out: Path) -> int:
    """In a study that may still be in the making; a look that costs next to nothing."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(out / 'study.db'))}?mode=ro", uri=True)) as database:
            ((count,),) = database.execute("SELECT COUNT(*) FROM trials WHERE state IN ('COMPLETE', 'PRUNED')")
            return int(count)
    except sqlite3.OperationalError:  # no file or no tables yet
        return 0


def finished(trials: list[optuna.trial.FrozenTrial]) -> list[tuple[dict[str, Any], float | None]]:
    """Settings and score of each, by the place of the settings in their generation."""
    trials = [trial for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    trials.sort(key=lambda trial: int(trial.system_attrs.get("failed_trial", trial.number)))
    return [(trial.params, trial.value) for trial in trials]


def search_here(data: SearchData, plan: Plan, *, url: str, name: str, trials: int, **_: Any) -> None:
    """What workers do, without the seconds that a process takes to start."""
    run_trials(open_study(url, name, plan), plan, data, trials)


@dataclass(frozen=True)
class Interrupted:
    """What a search left behind that was stopped by Ctrl-C."""

    out: Path
    code: int
    err: str
    names: set[str]
    running: int


@pytest.fixture(scope="module")
def interrupted(world: Path) -> Interrupted:
    out = world.parent / "tuned?x"  # which would end an address
    process = start(world, out)
    while count_finished(out) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    names = {path.name for path in out.iterdir()}
    return Interrupted(out, process.wait(), err, names, len(trials_of(out, TrialState.RUNNING)))


@dataclass(frozen=True)
class Tuned:
    """A study that was stopped, and then worked on by two commands at once."""

    out: Path
    config: Path


@pytest.fixture(scope="module")
def tuned(world: Path, interrupted: Interrupted) -> Tuned:
    beside = start(world, interrupted.out)
    shared = ("--workers", 1, "--storage", storage_url(interrupted.out), "--quiet")
    assert main(words(world, world.parent / "other", *shared)) == 0
    beside.communicate()
    assert beside.wait() == 0
    return Tuned(interrupted.out, world.parent / "other" / "best.toml")


def test_ctrl_c(interrupted: Interrupted) -> None:
    assert interrupted.code == 130
    assert interrupted.err.endswith("the same command goes on where this search stopped\ncofill: stopped\n")
    assert "Traceback" not in interrupted.err
    assert interrupted.running == 0  # the worker has given back what it had begun
    assert {"best.toml", "trials.json"} <= interrupted.names


def test_stopped_and_shared_it_is_the_search_that_never_stopped(tuned: Tuned, world: Path) -> None:
    """Trial by trial: nothing is lost, and nothing is tried twice. The two commands may run one trial more."""
    data = SearchData.of(Ratings.read(world / "ratings.csv"))
    plan = Plan.of("rmse", data, CFNSettings(epochs=6, patience=6, hidden=(6,)))
    study = open_study("sqlite:///:memory:", "s", plan)
    found = finished(trials_of(tuned.out))
    assert TRIALS <= len(found) <= TRIALS + 1
    run_trials(study, plan, data, len(found))
    assert found == finished(study.get_trials())
    assert not trials_of(tuned.out, TrialState.RUNNING)


def test_a_killed_search_goes_on(world: Path, tmp_path: Path, run: Run) -> None:
    doomed = start(world, tmp_path / "t")
    wait_until(lambda: count_finished(tmp_path / "t") > 0 or doomed.poll() is not None)
    assert doomed.poll() is None, doomed.communicate()
    doomed.kill()
    doomed.communicate()
    again = run(*words(world, tmp_path / "t", "--workers", 1, "--json", "--quiet"))
    assert (again.code, json.loads(again.out)["complete"]) == (0, TRIALS)


def test_what_is_written(tuned: Tuned, run: Run, world: Path) -> None:
    again = run(*words(world, tuned.out, "--workers", 1, "--json", "--quiet"))  # nothing is left to do
    summary = json.loads(again.out)
    assert (again.code, again.err) == (0, "")
    assert sorted(path.name for path in tuned.out.iterdir()) == ["best.toml", "search.svg", "study.db", "trials.json"]
    told = json.loads((tuned.out / "trials.json").read_text())
    complete = [entry for entry in told if entry["state"] == "complete"]
    assert all(entry["state"] == "failed" and entry["reason"] for entry in told if entry not in complete)
    assert (summary["complete"], summary["stopped_early"]) == (len(complete), 0)
    assert summary["failed"] == len(told) - len(complete)
    assert summary["best"]["validation_rmse"] == min(entry["validation_rmse"] for entry in complete)
    shown = run(*words(world, tuned.out))
    assert "validation RMSE" in shown.out
    assert "900 ratings; searching beta, noise_ratio, learning_rate" in shown.err
    assert f"searching: {len(complete)} of {TRIALS} trials  best validation RMSE" in shown.err
    assert shown.err.endswith(
        f"next: cofill train {world / 'ratings.csv'} --out model --config '{tuned.out / 'best.toml'}'\n"
    )


def test_the_best_settings_train(tuned: Tuned, run: Run, world: Path, tmp_path: Path) -> None:
    """To exactly the validation RMSE that the search has found."""
    done = run(
        *("train", world / "ratings.csv", "--config", tuned.config, "--out", tmp_path / "m"),
        *("--threads", "1", "--quiet", "--json"),
    )
    best = min(value for _, value in finished(trials_of(tuned.out)) if value is not None)
    assert json.loads(done.out)["validation_rmse"] == best
    assert tuned.config.read_text().startswith(f"# validation RMSE {best:.5f} in trial ")


def test_the_commands_that_are_told_do_the_same_again(
    run: Run, some: Path, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With orientation, seed, settings of a file, side information, and how the ratings are read."""
    monkeypatch.setattr("cofill.tuning.search.search", search_here)
    odd = tmp_path / "odd ratings.txt"
    odd.write_text(some.read_text().replace(",", "\t").replace("rating", "stars").replace("item", "film"))
    fixed = tmp_path / "fixed.toml"
    fixed.write_text("beta = 0.123456789\nlearning_rate_decay = 0.0\nrefit = false\n")
    done = run(
        *("tune", odd, "--out", tmp_path / "t", "--trials", 1, "--sampler", "random", "--config", fixed),
        *("--orientation", "user", "--seed", 0, "--epochs", 2, "--hidden", "7,5", "--threads", 1, "--workers", 1),
        *("--rating-column", "stars", "--item-column", 1, "--separator", "\t", "--scale", 0, "5.5"),
        *("--user-features", world / "users.csv", "--item-tags", world / "tags.csv", "--feature-size", 3),
    )
    assert done.code == 0, done
    (again,) = (line[2:] for line in (tmp_path / "t" / "best.toml").read_text().splitlines() if "cofill tune" in line)
    assert "--seed 0" in again
    repeated = run(*shlex.split(again)[1:], "--out", tmp_path / "t", "--quiet", "--json")
    assert (repeated.code, repeated.err) == (0, "")  # a study refuses to go on with anything else
    assert json.loads(repeated.out)["complete"] == 1
    monkeypatch.chdir(tmp_path)
    trained = run(*shlex.split(done.err.splitlines()[-1].removeprefix("next: "))[1:], "--quiet", "--json")
    assert trained.code == 0, trained
    assert json.loads(trained.out)["validation_rmse"] == json.loads(repeated.out)["best"]["validation_rmse"]


def test_sigterm_ends_in_order(run: Run, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.tuning.search.search", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM))
    stopped = run(*words(world, tmp_path / "t", "--quiet"))
    assert (stopped.code, stopped.err) == (143, "the same command goes on where this search stopped\n")
    assert json.loads((tmp_path / "t" / "trials.json").read_text()) == []


def test_a_broken_study(refused: Callable[..., str], world: Path, tmp_path: Path) -> None:
    (tmp_path / "study.db").write_text("something else entirely " * 50)
    message = refused(*words(world, tmp_path, "--quiet"))
    assert message.startswith(f"sqlite:///{tmp_path / 'study.db'}: the study there cannot be read or written (file is")
    assert message.endswith("or begin another with out=... or storage=...\n")


def test_other_ratings_are_refused(tuned: Tuned, refused: Callable[..., str], some: Path) -> None:
    message = refused("tune", some, "--out", tuned.out, "--trials", TRIALS, *SMALL)
    assert "is about other ratings or side information; go on with what it is about, or begin another" in message


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--validation 0", "set validation above 0, such as 0.1"),
        ("--storage nonsense://x", "no study can be kept at that address"),
        ("--config nowhere.toml", "no such settings file"),
    ],
)
def test_bad_flags(refused: Callable[..., str], world: Path, tmp_path: Path, flags: str, says: str) -> None:
    assert says in refused(*words(world, tmp_path / "t", *flags.split()))


def test_without_optuna(refused: Callable[..., str], world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    message = refused("tune", world / "ratings.csv")
    assert message == "cofill tune needs optuna, which is not installed. Run: pip install 'cofill[tune]'\n"


def test_help_does_not_need_optuna() -> None:
    code = "import sys; sys.modules['optuna'] = None; from cofill.cli import main; main(['tune', '--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "--storage URL" in done.stdout

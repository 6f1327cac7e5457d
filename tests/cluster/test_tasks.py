"""Tasks on Ray: those of processes of this machine, replaced where one dies; searches and experiments use them."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from cofill import workers
from cofill.cluster.session import workplace
from cofill.data.datasets.world import make_world
from cofill.errors import ClusterError, SettingsError
from cofill.tuning.study import absolute_url, check_within_reach
from cofill.workers import Outcome, map_unordered
from tests.cluster.conftest import members
from tests.waiting import wait_until
from tests.warm_processes import run_warm

pytestmark = pytest.mark.slow

FUNCTION = "tests.cluster.bad_workers:begin_work"


def outcomes_of(tasks: list[dict[str, Any]], **how: Any) -> list[Outcome]:
    with map_unordered(FUNCTION, tasks, on_ray=True, **{"workers": 2} | how) as outcomes:
        return sorted(outcomes, key=lambda one: one.task)


def test_tasks_on_ray_come_to_what_they_come_to_here(joined: str, tmp_path: Path) -> None:
    tasks: list[dict[str, Any]] = [
        {"do": "add", "numbers": [1, 2]},
        {"do": "refuse"},
        {"do": "threads"},
        {"do": "die once", "mark": str(tmp_path / "died")},
        {"do": "die"},
    ]
    found = outcomes_of(tasks, shared=b"x" * 300_000)
    assert (found[0].result["sum"], found[0].result["of"]) == (3, 300_000)
    assert [one.result for one in found[1:]] == [None, [1, 1, "1"], "the second time", None]
    assert [one.problem for one in found[:4]] == [None, "no good, give another", None, None]
    assert found[4].problem is not None
    assert [one.killed for one in found] == [False] * 4 + [True]


def test_a_task_that_is_stopped_can_end_in_order(joined: str, tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def look() -> None:
        if (tmp_path / "begun").exists():
            raise Enough

    task = {"do": "wait", "begun": str(tmp_path / "begun"), "ended": str(tmp_path / "ended")}
    with pytest.raises(Enough):
        outcomes_of([task], shared=b"patient", look=look)
    wait_until((tmp_path / "ended").exists, "the end of the task")
    wait_until(lambda: not members(), "the end of the worker")


def test_what_cannot_work_is_told(joined: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match=r"a task takes 64 cores.*has 2"):
        outcomes_of([{"do": "threads"}], threads=64)
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(ClusterError, match=rf"works on the Ray cluster at {joined}, not at .*; leave it first"),
        workplace(f"127.0.0.1:{other.getsockname()[1]}"),
    ):
        pass
    monkeypatch.setattr(workers, "__version__", "7.0")
    with pytest.raises(ClusterError, match=r"has cofill .*, and this one 7\.0; install the same on all"):
        outcomes_of([{"do": "threads"}])
    with pytest.raises(SettingsError, match=r"give storage='postgresql://"):
        check_within_reach("sqlite:///study.db", joined)
    check_within_reach("sqlite:///study.db", "local")
    assert absolute_url("sqlite:///study.db") == f"sqlite:///{Path.cwd()}/study.db"


def test_a_search_on_ray_with_postgresql(ray_cluster: str, postgresql: str, tmp_path: Path) -> None:
    world = make_world(users=40, items=30, ratings=500, seed=1).write(tmp_path / "world")
    words = ["tune", world / "ratings.csv", "--ray", ray_cluster, "--storage", postgresql, "--out", tmp_path / "t"]
    words += ["--trials", 4, "--workers", 2, "--epochs", 2, "--hidden", 5, "--quiet", "--json"]
    done = run_warm([*map(str, words)], timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    finished = found["complete"] + found["stopped_early"]
    assert finished in (4, 5)  # the other worker may have begun one more
    trials = json.loads((tmp_path / "t" / "trials.json").read_text(encoding="utf-8"))
    assert sum(trial["state"] != "failed" for trial in trials) == finished
    wait_until(lambda: not members(), "the end of the workers")


def test_the_command_of_an_experiment_on_ray_finds_what_it_finds_without(ray_cluster: str, tmp_path: Path) -> None:
    world = make_world(users=40, items=30, ratings=500, seed=1).write(tmp_path / "world")
    words = ["reproduce", "rmse", "--dataset", world / "ratings.csv", "--folds", 2, "--only", "fitted means", "--json"]
    found = []
    for place in (["--ray", ray_cluster], []):
        out = tmp_path / ("ray" if place else "here")
        done = run_warm([*map(str, [*words, "--quiet", "--out", out, *place])], timeout=300)
        assert done.returncode == 0, done.stderr
        (row,) = (each for each in json.loads(done.stdout)["tables"][0]["rows"] if each["RMSE"] is not None)
        found.append((row["algorithm"], row["RMSE"]["values"]))
    assert found == [("fitted means", pytest.approx(found[1][1], rel=1e-6))] * 2
    wait_until(lambda: not members(), "the end of the workers")

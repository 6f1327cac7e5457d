"""A crew on Ray tells the news of one of processes, replaces who dies, and stops; searches and experiments use it."""

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cofill.cluster.ray_crew import workplace
from cofill.crew import Advanced, Done, Failed, News, crew_for

from cofill.cluster import ray_crew
from cofill.data.datasets.world import make_world
from cofill.data.described import SideInformation
from cofill.data.ratings import Ratings
from cofill.errors import ClusterError, SettingsError
from cofill.experiments.experiment_data import ExperimentData
from cofill.experiments.missing_runs import finish
from cofill.experiments.runs import Part, Run, Store
from cofill.tuning.storage import absolute_url, check_within_reach
from tests.cluster.conftest import members
from tests.waiting import wait_until
from tests.warm_processes import run_warm

pytestmark = pytest.mark.slow

FUNCTION = "tests.cluster.bad_workers:begin_work"


def all_news(address: str, tasks: list[dict[str, Any]], said: list[str] | None = None, **how: Any) -> list[News]:
    of_place = {name: how.pop(name) for name in ("attempts", "silence") if name in how}
    say = None if said is None else said.append
    with (
        workplace(address, say=say, **of_place) as place,
        place.crew_for(tasks, FUNCTION, **{"workers": 2, "threads": 1} | how) as heard,
    ):
        return [news for news in heard if news is not None]


def test_a_crew_on_ray_tells_what_a_crew_of_processes_tells(narrow: str) -> None:
    add: list[dict[str, Any]] = [{"do": "add", "numbers": [at, 1]} for at in range(4)]
    tasks = [*add, {"do": "refuse"}, {"do": "break"}, {"do": "threads"}]
    found = all_news(narrow, tasks, equipment=b"x" * 300_000)
    with crew_for(tasks, FUNCTION, workers=1, threads=1, equipment=b"x" * 300_000) as heard:
        expected = [news for news in heard if news is not None]
    for news in (found, expected):
        done = {each.task: each.result for each in news if isinstance(each, Done)}
        assert {at: (done[at]["sum"], done[at]["of"]) for at in range(4)} == {at: (at + 1, 300_000) for at in range(4)}
        assert done[6] == [1, "1", "1"]
        assert sorted((each.task, each.problem, each.killed) for each in news if isinstance(each, Failed)) == [
            (4, "no good, give another", False),
            (5, "KeyError: 'what'", False),
        ]
        advanced = [(each.task, each.share) for each in news if isinstance(each, Advanced)]
        assert {(at, 0.0) for at in range(7)} <= {*advanced}
        assert {share for _, share in advanced} <= {0.0, 0.2, 0.4, 0.5}
        assert all(each.seconds > 0 for each in news if isinstance(each, Done))


def test_a_task_that_ends_its_thread_is_missed(narrow: str) -> None:
    """Panics of libraries in other languages are no `Exception`."""
    (failed,) = (each for each in all_news(narrow, [{"do": "panic"}]) if isinstance(each, Failed))
    assert failed == Failed(0, "SystemExit: a library gave up", killed=False)


def test_who_dies_or_falls_silent_is_replaced_and_not_for_ever(narrow: str, tmp_path: Path) -> None:
    said: list[str] = []
    tasks = [
        {"do": "die once", "mark": str(tmp_path / "died")},
        {"do": "freeze once", "mark": str(tmp_path / "frozen")},
        {"do": "die"},
    ]
    news = all_news(narrow, tasks, said, silence=4.0, attempts=2)
    assert {each.task: each.result for each in news if isinstance(each, Done)} == dict.fromkeys(
        (0, 1), "the second time"
    )
    (failed,) = (each for each in news if isinstance(each, Failed))
    assert failed == Failed(2, "its process was killed, perhaps for want of memory, 2 times", killed=True)
    said = [word for word in said if not word.startswith("waiting for a machine")]  # on a busy one, that is told too
    assert len(said) == 3, said
    assert sum("nothing was heard of it for 4 s" in word for word in said) == 1
    wait_until(lambda: not members(), "the end of all workers")


def test_who_is_told_to_stop_ends_in_order_if_it_wants_to(narrow: str, tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    task = {"do": "wait", "begun": str(begun), "ended": str(ended)}
    with (
        workplace(narrow) as place,
        place.crew_for([task], FUNCTION, workers=1, threads=1, equipment=b"patient", look_every=0.05) as heard,
    ):
        assert [isinstance(next(heard), Advanced), next(heard)] == [True, None]
        for _ in heard:
            if begun.exists():
                break
    assert ended.exists()
    wait_until(lambda: not members(), "the end of the worker")


def test_an_interrupt_ends_all_workers(narrow_cluster: str, tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    task = {"do": "wait", "begun": str(begun), "ended": str(ended)}
    code = (
        "from cofill.cluster.ray_crew import workplace\n"
        f"with workplace({narrow_cluster!r}) as place:\n"
        f"    with place.crew_for([{task}], {FUNCTION!r}, workers=1, threads=1, equipment=b'patient') as heard:\n"
        "        list(heard)\n"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True
    )
    wait_until(begun.exists, "the begin of the task")
    driver.send_signal(signal.SIGINT)
    _, printed = driver.communicate(timeout=120)
    assert "KeyboardInterrupt" in printed
    assert ended.exists()
    wait_until(lambda: not members(), "the end of the worker")


def test_what_cannot_work_is_told(narrow: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match=r"a worker takes 64 cores.*has 1"):
        all_news(narrow, [{"do": "threads"}], threads=64)
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        pytest.raises(
            ClusterError, match=rf"works on the Ray cluster at {narrow}, and not at .*; leave that one first"
        ),
        workplace(f"127.0.0.1:{other.getsockname()[1]}"),
    ):
        pass
    monkeypatch.setattr(ray_crew, "__version__", "7.0")
    with pytest.raises(ClusterError, match=r"has cofill .*, and this one 7\.0; install the same on all"):
        all_news(narrow, [{"do": "threads"}])
    with pytest.raises(SettingsError, match=r"give storage='postgresql://"):
        check_within_reach("sqlite:///study.db", narrow)
    check_within_reach("sqlite:///study.db", "local")
    assert absolute_url("sqlite:///study.db") == f"sqlite:///{Path.cwd()}/study.db"


def test_a_search_on_ray_with_postgresql(narrow_cluster: str, postgresql: str, tmp_path: Path) -> None:
    world = make_world(users=40, items=30, ratings=500, seed=1).write(tmp_path / "world")
    words = ["tune", world / "ratings.csv", "--ray", narrow_cluster, "--storage", postgresql, "--out", tmp_path / "t"]
    words += ["--trials", 4, "--workers", 2, "--epochs", 2, "--hidden", 5, "--quiet", "--json"]
    done = run_warm([*map(str, words)], timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["complete"] + found["stopped_early"] == 4
    trials = json.loads((tmp_path / "t" / "trials.json").read_text(encoding="utf-8"))
    assert sorted(trial["number"] for trial in trials if trial["state"] != "failed") == [0, 1, 2, 3]
    wait_until(lambda: not members(), "the end of the workers")


def test_the_command_of_an_experiment_on_ray_finds_what_it_finds_without(narrow_cluster: str, tmp_path: Path) -> None:
    world = make_world(users=40, items=30, ratings=500, seed=1).write(tmp_path / "world")
    words = ["reproduce", "rmse", "--dataset", world / "ratings.csv", "--folds", 2, "--only", "fitted means", "--json"]
    found = []
    for place in (["--ray", narrow_cluster], []):
        out = tmp_path / ("ray" if place else "here")
        done = run_warm([*map(str, [*words, "--quiet", "--out", out, *place])], timeout=300)
        assert done.returncode == 0, done.stderr
        (row,) = (each for each in json.loads(done.stdout)["tables"][0]["rows"] if each["RMSE"] is not None)
        found.append((row["algorithm"], row["RMSE"]["values"]))
    assert found == [("fitted means", pytest.approx(found[1][1], rel=1e-6))] * 2
    wait_until(lambda: not members(), "the end of the workers")


def test_an_experiment_on_ray_finds_what_one_process_finds(narrow: str, tmp_path: Path) -> None:
    ratings: Ratings = make_world(users=40, items=30, ratings=500, seed=1).ratings
    data = ExperimentData(ratings, SideInformation(None, None))
    kinds = {"means": {}, "als-wr": {"rank": 2, "iterations": 2}}
    runs = [
        Run(kind, "measure", kind, settings, Part("random", 0.8, seed), data.fingerprint(), None)
        for kind, settings in kinds.items()
        for seed in (0, 1)
    ]
    stores = {address: Store(tmp_path / str(number)) for number, address in enumerate((None, narrow))}
    for address, store in stores.items():
        finish(runs, data, store, watch=lambda event: None, ray=address)
    for run in runs:
        one, other = (store.find(run) for store in stores.values())
        assert one is not None
        assert other is not None
        assert one["result"]["rmse"] == pytest.approx(other["result"]["rmse"], rel=1e-6)
        assert one["result"]["ranking"]["ndcg"] == pytest.approx(other["result"]["ranking"]["ndcg"], rel=1e-6)

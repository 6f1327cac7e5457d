"""Tasks in other processes: each is done once, in any order, and named if it fails; and all processes are stopped."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cofill.workers import Outcome, how_it_ended, map_unordered, orderly_termination, stop_workers

HERE = "tests.cluster.bad_workers:begin_work"


def outcomes_of(tasks: list[dict[str, Any]], workers: int = 1, **how: Any) -> list[Outcome]:
    with map_unordered(HERE, tasks, workers=workers, **how) as outcomes:
        return list(outcomes)


def test_every_task_is_done_once_and_tells_how_far_it_is() -> None:
    tasks = [{"do": "add", "numbers": [at, 1]} for at in range(7)]
    shared = os.urandom(300_000)  # more than a pipe holds
    told: list[tuple[int, float]] = []
    done = outcomes_of(tasks, 2, shared=shared, report=lambda task, share: told.append((task, share)))
    results = {each.task: each.result for each in done}
    assert {at: (result["sum"], result["of"]) for at, result in results.items()} == {
        at: (at + 1, 300_000) for at in range(7)
    }
    assert len(done) == 7
    assert 1 <= len({result["in"] for result in results.values()}) <= 2
    assert sorted(told) == [(at, share) for at in range(7) for share in (0.0, 0.5)]
    assert all(each.seconds > 0 for each in done)


def test_workers_have_the_threads_that_they_are_given() -> None:
    assert outcomes_of([{"do": "threads"}])[0].result == [1, 1, "1"]
    assert outcomes_of([{"do": "threads"}], threads=3)[0].result == [3, 3, "3"]


def test_a_task_that_fails_is_named_and_the_others_are_done() -> None:
    tasks: list[dict[str, Any]] = [{"do": "refuse"}, {"do": "break"}, {"do": "leave"}, {"do": "add", "numbers": [1]}]
    done = outcomes_of(tasks)
    assert [(each.task, each.problem, each.killed) for each in done] == [
        (0, "no good, give another", False),
        (1, "KeyError: 'what'", False),
        (2, "its process ended with exit code 3", False),
        (3, None, False),
    ]


def test_a_killed_process_is_replaced_and_not_for_ever(tmp_path: Path) -> None:
    adding: list[dict[str, Any]] = [{"do": "add", "numbers": [at]} for at in range(4)]
    tasks = [{"do": "die"}, {"do": "die once", "mark": str(tmp_path / "mark")}, *adding]
    done = {each.task: each for each in outcomes_of(tasks, 2)}
    assert sorted(done) == [0, 1, 2, 3, 4, 5]
    assert (done[0].problem, done[0].killed) == (how_it_ended(-9, 2), True)
    assert done[1].result == "the second time"
    assert all(done[at].problem is None for at in range(1, 6))


def waiting(folder: Path) -> dict[str, Any]:
    return {"do": "wait", "begun": str(folder / "begun"), "ended": str(folder / "ended")}


def test_a_worker_that_is_stopped_ends_in_order_if_it_wants_to(tmp_path: Path) -> None:
    class Enough(Exception):
        pass

    def look() -> None:
        if (tmp_path / "begun").exists():
            raise Enough

    with pytest.raises(Enough), map_unordered(HERE, [waiting(tmp_path)], workers=1, shared=b"patient", look=look) as it:
        list(it)
    assert (tmp_path / "ended").exists()


def test_a_worker_ends_when_its_parent_does(tmp_path: Path) -> None:
    task = waiting(tmp_path)
    code = f"from cofill.workers import *\nwith map_unordered({HERE!r}, [{task}], workers=1) as found: list(found)"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[1])
    wait_for(tmp_path / "begun")
    parent.kill()
    parent.wait()
    wait_for(tmp_path / "ended")


def test_an_interrupt_ends_all_workers(tmp_path: Path) -> None:
    """A terminal sends it to everybody; the parent decides."""
    task = waiting(tmp_path)
    code = f"from cofill.workers import *\nwith map_unordered({HERE!r}, [{task}], workers=1) as found: list(found)"
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[1], stderr=subprocess.PIPE, start_new_session=True
    )
    wait_for(tmp_path / "begun")
    os.killpg(parent.pid, signal.SIGINT)
    _, said = parent.communicate(timeout=60)
    assert said.rstrip().endswith(b"KeyboardInterrupt")
    assert not Path(f"/proc/{(tmp_path / 'begun').read_text()}").exists()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or (path.name == "begun" and not path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_who_does_not_stop_is_killed() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    stubborn = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert stubborn.stdout is not None
    stubborn.stdout.readline()
    willing = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    stop_workers([stubborn, willing], seconds=1.0)
    assert (stubborn.returncode, willing.returncode) == (-signal.SIGKILL, -signal.SIGTERM)
    stubborn.stdout.close()


def test_how_a_worker_ended() -> None:
    assert how_it_ended(-9, 2) == "its process was killed, perhaps for want of memory: use fewer workers"
    assert how_it_ended(-9, 1) == "its process was killed, perhaps for want of memory"
    assert how_it_ended(-11, 1) == "its process was ended by SIGSEGV"
    assert how_it_ended(3, 1) == "its process ended with exit code 3"


def test_termination_runs_what_tidies_up() -> None:
    before, tidied = signal.getsignal(signal.SIGTERM), list[str]()

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # once is enough
            tidied.append("yes")

    with pytest.raises(SystemExit) as exit, orderly_termination():
        work()
    assert exit.value.code == 143
    assert tidied == ["yes"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_in_a_thread_signals_are_left_alone() -> None:
    found: list[object] = []

    def ask() -> None:
        with orderly_termination():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]

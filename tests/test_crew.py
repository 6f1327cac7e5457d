"""A crew does its tasks, tells of those that fail, and stops; and a process that is told to end does so in order."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofill.crew import (
    Advanced,
    Done,
    Duty,
    Failed,
    News,
    StoppedError,
    crew_for,
    how_it_ended,
    orderly_termination,
    start_worker,
    stop_workers,
)
from cofill.errors import DataError

HERE = f"{__name__}:begin_work"


def begin_work(duty: Duty, equipment: bytes) -> Callable[[Any], Any]:
    """What the workers of these tests can do."""
    if equipment == b"patient":
        duty.stop_between_steps()

    def do(task: dict[str, Any]) -> Any:
        match task["do"]:
            case "add":
                duty.report(0.5)
                print("not an answer")  # noqa: T201
                return {"sum": sum(task["numbers"]), "of": len(equipment), "in": os.getpid()}
            case "threads":
                return [duty.threads, os.environ["OMP_NUM_THREADS"], os.environ["NUMBA_NUM_THREADS"]]
            case "refuse":
                raise DataError("no good,\n  give another")
            case "break":
                raise KeyError("what")
            case "die":
                os.kill(os.getpid(), signal.SIGKILL)
            case "leave":
                sys.stderr.write("first words\nlast words\n")
                os._exit(3)
            case "wait":
                Path(task["begun"]).touch()
                while duty.wanted():
                    time.sleep(0.01)
                Path(task["ended"]).touch()
                raise StoppedError
        raise AssertionError(task)

    return do


def all_news(tasks: list[dict[str, Any]], workers: int = 1, **how: Any) -> list[News]:
    with crew_for(tasks, HERE, workers=workers, **how) as heard:
        return [news for news in heard if news is not None]


def test_a_crew_does_every_task_once_and_tells_how_far_it_is() -> None:
    tasks = [{"do": "add", "numbers": [at, 1]} for at in range(7)]
    equipment = os.urandom(300_000)  # more than a pipe holds
    news = all_news(tasks, 2, equipment=equipment)
    done = {each.task: each.result for each in news if isinstance(each, Done)}
    assert {at: (result["sum"], result["of"]) for at, result in done.items()} == {
        at: (at + 1, 300_000) for at in range(7)
    }
    assert 1 <= len({result["in"] for result in done.values()}) <= 2
    assert sorted((each.task, each.share) for each in news if isinstance(each, Advanced)) == [
        (at, share) for at in range(7) for share in (0.0, 0.5)
    ]
    assert len(news) == 21
    assert all(each.seconds > 0 for each in news if isinstance(each, Done))


def test_workers_have_the_threads_that_they_are_given() -> None:
    (_, done) = all_news([{"do": "threads"}], threads=3)
    assert isinstance(done, Done)
    assert done.result == [3, "3", "3"]


def test_a_task_that_fails_is_told_of_and_its_worker_goes_on() -> None:
    news = all_news([{"do": "refuse"}, {"do": "break"}, {"do": "add", "numbers": [1]}])
    assert [each for each in news if isinstance(each, Failed)] == [
        Failed(0, "no good, give another", killed=False),
        Failed(1, "KeyError: 'what'", killed=False),
    ]
    assert isinstance(news[-1], Done)


def test_a_worker_that_dies_is_told_of_and_the_others_go_on() -> None:
    tasks: list[dict[str, Any]] = [{"do": "die"}, *({"do": "add", "numbers": [at]} for at in range(4))]
    news = all_news(tasks, 2)
    assert [each for each in news if isinstance(each, Failed)] == [
        Failed(0, "its process was killed, perhaps for want of memory: use fewer workers", killed=True)
    ]
    assert sorted(each.task for each in news if isinstance(each, Done)) == [1, 2, 3, 4]
    alone = all_news([{"do": "die"}, {"do": "add", "numbers": [1]}])
    assert [each.problem for each in alone if isinstance(each, Failed)] == [how_it_ended(-9, 1), "no worker is left"]


def test_the_last_words_of_a_worker_that_nobody_hears() -> None:
    heard, muted = all_news([{"do": "leave"}]), all_news([{"do": "leave"}], muted=True)
    assert heard[-1] == Failed(0, "its process ended with exit code 3", killed=False)
    assert muted[-1] == Failed(0, "last words", killed=False)


def test_who_is_told_to_stop_ends_in_order_if_it_wants_to(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    task = {"do": "wait", "begun": str(begun), "ended": str(ended)}
    with crew_for([task], HERE, workers=1, equipment=b"patient", look_every=0.02) as heard:
        for _ in heard:
            if begun.exists():
                break
    assert ended.exists()


def test_a_worker_ends_when_its_parent_does(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    task = {"do": "wait", "begun": str(begun), "ended": str(ended)}
    code = f"from cofill.crew import crew_for\nwith crew_for([{task}], {HERE!r}, workers=1) as heard: list(heard)"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[1])
    wait_for(begun)
    parent.kill()
    parent.wait()
    wait_for(ended)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_worker_has_its_threads() -> None:
    statement = "import os; print(os.environ['OMP_NUM_THREADS'], os.environ['NUMBA_NUM_THREADS'])"
    worker = start_worker("timeit", "-n1", "-r1", statement, threads=3, stdout=subprocess.PIPE)
    assert worker.communicate()[0].startswith(b"3 3")
    assert worker.returncode == 0


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


def test_a_worker_hears_of_no_interrupt_from_its_first_moment() -> None:
    """A terminal sends it to everybody; only the parent decides."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # also where pytest itself was told to ignore it
    try:
        worker = start_worker("cofill.crew", "nothing:at_all", stderr=subprocess.PIPE)
        worker.send_signal(signal.SIGINT)
        _, said = worker.communicate()  # without a word about its duty: the parent has gone
    finally:
        signal.signal(signal.SIGINT, before)
    assert (worker.returncode, said) == (1, b"")

"""Workers are limited, stopped, and told of; and a process that is told to end does so in order."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from cofill.processes import how_it_ended, orderly_termination, start_worker, stop_workers


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
    assert how_it_ended(-9, 2) == "its process was killed, perhaps for want of memory: use fewer --workers"
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

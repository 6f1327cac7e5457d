"""Turns come in the order in which they were asked for, and whoever gives up holds up nobody."""

import threading
import time
from collections.abc import Callable

import pytest

from cofill.serving.live_model import Turns
from tests.waiting import wait_until


def _ask(turns: Turns, work: Callable[[], None]) -> threading.Thread:
    """A thread that has asked and waits."""
    before = len(turns._waiting)
    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: len(turns._waiting) > before)
    return thread


def test_whoever_asked_first_is_first() -> None:
    turns, order = Turns(), list[int]()
    assert turns.acquire(1)

    def wait(number: int) -> None:
        assert turns.acquire(10)
        order.append(number)
        turns.release()

    waiting = [_ask(turns, lambda number=number: wait(number)) for number in range(5)]  # type: ignore[misc]
    turns.release()
    assert turns.acquire(10)  # behind them all
    assert order == [0, 1, 2, 3, 4]
    turns.release()
    for thread in waiting:
        thread.join(10)


def test_whoever_gives_up_is_passed_over() -> None:
    turns, had = Turns(), list[bool]()
    assert turns.acquire(1)
    had.append(turns.acquire(0.01))
    assert had == [False]
    patient = _ask(turns, lambda: had.append(turns.acquire(10)))
    turns.release()
    patient.join(10)
    assert had == [False, True]
    assert not turns.acquire(0.01)  # the patient one has it
    turns.release()
    assert turns.acquire(0.01)


def test_it_is_never_had_twice() -> None:
    turns, inside, most, refused = Turns(), 0, 0, 0
    done = [0] * 8

    def work(number: int) -> None:
        nonlocal inside, most, refused
        for step in range(30):
            if not turns.acquire(0.0005 if step % 3 else 30):
                refused += 1
                continue
            inside += 1
            most = max(most, inside)
            time.sleep(0.0002)
            inside -= 1
            done[number] += 1
            turns.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1
    assert min(done) >= 10
    assert refused
    assert turns.acquire(0.01)


def test_a_wait_that_is_broken_off_leaves_nobody_in_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        """In place of the lock that a waiter waits for."""

        def acquire(self, timeout: float = -1) -> bool:
            if timeout >= 0:
                raise KeyboardInterrupt
            return True

    turns = Turns()
    assert turns.acquire(1)
    with monkeypatch.context() as patched:
        patched.setattr("cofill.serving.live_model.threading.Lock", Broken)
        with pytest.raises(KeyboardInterrupt):
            turns.acquire(1)
    turns.release()
    assert turns.acquire(0.01)


def test_whoever_is_handed_the_turn_in_the_last_moment_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns()

    class Late:
        """It says that time is up, and is handed over before its waiter can leave the queue."""

        def acquire(self, timeout: float = -1) -> bool:
            if timeout >= 0:
                turns.release()
                return False
            return True

        def release(self) -> None: ...

    assert turns.acquire(1)
    with monkeypatch.context() as patched:
        patched.setattr("cofill.serving.live_model.threading.Lock", Late)
        assert turns.acquire(1)
    assert not turns.acquire(0.01)


def test_any_number_of_seconds_can_be_waited() -> None:
    turns = Turns()
    assert turns.acquire(1)
    patient = _ask(turns, lambda: turns.release() if turns.acquire(1e300) else None)
    turns.release()
    patient.join(30)
    assert turns.acquire(0.01)

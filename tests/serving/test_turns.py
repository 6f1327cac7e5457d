"""Turns come in the order in which they were asked for, and whoever gives up holds up nobody."""

import threading
import time
from collections.abc import Callable

from cofill.serving.turns import Turns


def _ask(work: Callable[[], None]) -> threading.Thread:
    """A thread that has had time to ask."""
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.05)
    return thread


def test_whoever_asked_first_is_first() -> None:
    turns, order = Turns(), list[int]()
    assert turns.acquire(1)

    def wait(number: int) -> None:
        assert turns.acquire(10)
        order.append(number)
        turns.release()

    waiting = [_ask(lambda number=number: wait(number)) for number in range(5)]  # type: ignore[misc]
    turns.release()
    assert turns.acquire(10)  # behind them all
    assert order == [0, 1, 2, 3, 4]
    turns.release()
    for thread in waiting:
        thread.join(10)


def test_whoever_gives_up_is_passed_over() -> None:
    turns, had = Turns(), list[bool]()
    assert turns.acquire(1)
    impatient = _ask(lambda: had.append(turns.acquire(0.01)))
    impatient.join(10)
    assert had == [False]
    patient = _ask(lambda: had.append(turns.acquire(10)))
    turns.release()
    patient.join(10)
    assert had == [False, True]
    assert not turns.acquire(0.01)  # the patient one has it
    turns.release()
    assert turns.acquire(0.01)


def test_it_is_never_had_twice() -> None:
    turns, inside, most = Turns(), 0, 0
    done = [0] * 8

    def work(number: int) -> None:
        nonlocal inside, most
        for step in range(300):
            if not turns.acquire(0.0001 if step % 3 else 10):
                continue
            inside += 1
            most = max(most, inside)
            done[number] += 1
            inside -= 1
            turns.release()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == 1
    assert min(done) >= 100
    assert turns.acquire(0.01)

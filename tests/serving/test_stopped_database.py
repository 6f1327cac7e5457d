"""PostgreSQL that is stopped for a while under load, as on a machine that hangs: no read fails, no write is lost."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import make_url

from tests.serving.conftest import Start
from tests.serving.running_server import NO_TLS, PATIENCE, Server
from tests.waiting import wait_until

READERS, MINUTE = 3, 60.0


class Load:
    """Readers that ask all the time, and a writer; what they were answered."""

    def __init__(self, server: Server) -> None:
        self._address, self._end = server.told["address"], threading.Event()
        self.failed: list[str] = []
        self.fresh = self.stale = self.refused = 0
        self.acknowledged: list[int] = []
        self._threads = [threading.Thread(target=self._read, args=(user,)) for user in range(1, READERS + 1)]
        self._threads.append(threading.Thread(target=self._write))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _read(self, user: int) -> None:
        with httpx.Client(base_url=self._address, timeout=PATIENCE, verify=NO_TLS) as client:
            while not self._end.wait(0.01):
                answer = client.get("/v1/recommendations", params={"user": user})
                if answer.status_code != 200:
                    self.failed.append(answer.text)
                elif answer.json().get("stale"):
                    self.stale += 1
                else:
                    self.fresh += 1

    def _write(self) -> None:
        with httpx.Client(base_url=self._address, timeout=PATIENCE, verify=NO_TLS) as client:
            for number in range(10_000):
                if self._end.wait(0.1):
                    return
                event: dict[str, Any] = {"user": f"buyer-{number}", "item": 1, "kind": "buy", "id": number}
                answer = client.post("/v1/events", json={"events": [event]})
                assert answer.status_code in (200, 503), answer.text
                if answer.status_code == 200:
                    self.acknowledged.append(number)
                else:
                    self.refused += 1


def processes_of(url: str) -> list[int]:
    """Those of PostgreSQL, the first one before its children."""
    folder = Path(str(make_url(url).query["host"]))
    first = int((folder / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    return [first, *map(int, children)]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are listed in /proc")
@pytest.mark.slow
def test_no_read_fails_while_postgresql_is_stopped(model: Path, empty_postgresql: str, start: Start) -> None:
    """The short sister is in test_taking_in.py."""
    server = start(model, f"--database={empty_postgresql}", "--requests-per-second=0")
    load = Load(server)
    stopped: list[int] = []
    try:
        wait_until(lambda: len(load.acknowledged) >= 5 and load.fresh >= 20)
        stopped = processes_of(empty_postgresql)
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        began = time.monotonic()
        wait_until(lambda: load.stale >= 20 and time.monotonic() - began >= MINUTE, "stale answers")
        assert server.client.get("/ready").status_code == 200
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    fresh, written = load.fresh, len(load.acknowledged)
    wait_until(lambda: load.fresh >= fresh + 20 and len(load.acknowledged) >= written + 5, "fresh answers again")
    load.stop()
    assert load.failed == []
    for number in load.acknowledged:
        assert server.client.get("/v1/recommendations", params={"user": f"buyer-{number}"}).json()["known"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="children are listed in /proc")
@pytest.mark.slow
def test_a_server_ends_while_postgresql_is_stopped(model: Path, empty_postgresql: str, start: Start) -> None:
    server = start(model, f"--database={empty_postgresql}", "--requests-per-second=0")
    stopped = processes_of(empty_postgresql)
    try:
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        wait_until(lambda: server.client.get("/v1/recommendations?user=1").json().get("stale"), "stale answers")
        assert server.client.get("/v1/ratings?user=1").status_code == 503
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)

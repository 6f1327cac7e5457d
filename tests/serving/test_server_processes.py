"""The parent of several workers, with workers that do what the test wants."""

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cofill.errors import CofillError
from cofill.serving import processes as server_processes
from cofill.serving.settings import ServingSettings


def test_workers_that_cannot_be_replaced_end_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what started it, such as systemd, sees it."""
    monkeypatch.setattr(server_processes, "_SECONDS_BETWEEN_STARTS", 0.0)
    told = server_processes._Told()
    settings = ServingSettings(model=tmp_path / "model", workers=2)
    with socket.socket() as listening:
        crew = server_processes._Crew(settings, listening, str(tmp_path), told)
        begun: list[subprocess.Popen[bytes]] = []

        def begin() -> Any:
            """The first two start; the others do not."""
            starts = len(begun) < 2
            said = "print('{}', flush=True); __import__('time').sleep(1000)" if starts else "exit(3)"
            begun.append(subprocess.Popen([sys.executable, "-S", "-c", said], stdout=subprocess.PIPE))
            if starts:
                crew._listen_to(begun[-1])
            return begun[-1]

        monkeypatch.setattr(crew, "_begin", begin)
        crew.start(lambda summary: None)
        for worker in crew.workers:
            worker.kill()
        with pytest.raises(CofillError, match="a worker could not be started 3 times in a row"):
            crew.watch()
    for worker in begun:
        worker.wait()
        server_processes._let_go(worker)
    assert 5 <= len(begun) <= 6  # two are watched at the same time


def test_a_promoted_model_is_served_after_the_terminal_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server in the background outlives its terminal, unless that tells it to hang up."""
    told = server_processes._Told()
    with socket.socket() as listening:
        crew = server_processes._Crew(ServingSettings(model=tmp_path / "model"), listening, str(tmp_path), told)
    reloads: list[int] = []

    def reload() -> None:
        told.to_reload.clear()
        reloads.append(1)
        told.hear(signal.SIGHUP, None)

    monkeypatch.setattr(crew._terminal, "is_gone", lambda: True)
    monkeypatch.setattr(crew, "_reload", reload)
    told.to_reload.set()
    crew.watch()
    assert reloads == [1]
    assert not told.to_stop.is_set()

"""What operators see and rely on: logs that name nobody, a full disk, a server that keeps nothing."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cofill.cli import main
from cofill.serving.live.model import LiveModel
from cofill.serving.live.store import Store
from cofill.serving.ops.logs import PlainLines
from cofill.serving.settings import SHARED_FOLDER, ServingSettings
from tests.serving.running_server import ServedHere, Server, problem
from tests.serving.test_reloading import write_again
from tests.waiting import wait_until

SECRET = "somebody@example.org"


# A database on a disk that is soon full, and a log in JSON


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("small-disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    ) if os.geteuid() == 0 and shutil.which("mount") else None  # fmt: skip
    if mounted is None or mounted.returncode:
        pytest.skip("a disk of 2 MiB can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="module")
def logging_server(trained: Path, small_disk: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    model = shutil.copytree(trained, tmp_path_factory.mktemp("logging") / "model")
    options = ["--log-format=json", "--access-log", f"--database=sqlite:///{small_disk}/live.sqlite"]
    running = Server(model, *options, "--requests-per-second=0")
    yield running
    assert running.stop() == 0, running.errors()
    assert [event["message"] for event in events(running) if event["level"] == "error"] == [
        f"sqlite:///{small_disk}/live.sqlite: the disk is full: writes fail until there is space"
    ]


def events(server: Server) -> list[dict[str, Any]]:
    """Whole lines alone: the last one may be being written."""
    return [json.loads(line) for line in server.errors().split("\n")[:-1]]


def requests(server: Server) -> list[dict[str, Any]]:
    return [event for event in events(server) if "route" in event]


def test_every_request_is_logged_and_nobody_is_named(logging_server: Server) -> None:
    client, before = logging_server.client, len(requests(logging_server))
    client.get("/v1/recommendations", params={"user": SECRET}, headers={"X-Request-Id": "from-the-shop-7"})
    client.get(f"/v1/people/{SECRET}")
    client.put("/v1/ratings", json={"user": SECRET, "ratings": [{"item": 1, "rating": 99}]})
    client.request("PATCH", "/v1/ratings")
    wait_until(lambda: len(requests(logging_server)) >= before + 4)
    logged = requests(logging_server)[before:]
    assert [(event["method"], event["route"], event["status"]) for event in logged[:2]] == [
        ("GET", "/v1/recommendations", 200),
        ("GET", "none", 404),
    ]
    assert (logged[2]["method"], logged[2]["route"]) == ("PUT", "/v1/ratings")
    assert logged[3]["method"] == "other"
    assert logged[0]["request_id"] == "from-the-shop-7"
    assert len({event["request_id"] for event in logged}) == len(logged)
    for event in logged:
        assert event["milliseconds"] >= 0
        assert event.keys() >= {"time", "level", "message", "process"}
        assert "address" not in event
    first = events(logging_server)[0]
    assert first["message"].startswith("serving ")
    assert (first["level"], first["live_ratings"]) == ("info", 0)
    assert SECRET not in logging_server.errors()
    assert "127.0.0.1" not in logging_server.errors()


def test_a_full_disk_is_told_and_reads_go_on(logging_server: Server, small_disk: Path) -> None:
    client = logging_server.client
    logging_server.rate(7, {1: 4.0})
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    ratings = [{"item": item, "rating": 2.0} for item in range(1, 81)]

    def write() -> httpx.Response:
        return client.put("/v1/ratings", json={"user": 8, "ratings": ratings})

    wait_until(lambda: write().status_code == 507)  # what is left of the last page of its log may still be written
    assert "the disk with the database is full" in problem(write(), 507)
    assert client.get("/ready").status_code == 200  # a load balancer shall not drop a server that answers
    assert logging_server.recommended(7)
    assert client.get("/health").status_code == 200
    figures = client.get("/metrics").text
    assert "\ncofill_disk_full 1.0\n" in figures
    assert "\ncofill_disk_free_bytes 0.0\n" in figures
    filler.unlink()
    assert write().status_code == 200
    wait_until(lambda: "\ncofill_disk_full 0.0\n" in client.get("/metrics").text)
    assert logging_server.ratings(8).keys() == set(range(1, 81))
    wait_until(lambda: "there is space on the disk again" in logging_server.errors())


# A server that keeps nothing


def test_nothing_can_be_written_and_everything_be_asked(model: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "cofill.serving")
    read_only = ServedHere(model, read_only=True, access_log=True, log_addresses=True)
    client = read_only.client
    assert client.get("/ready").status_code == 200
    assert read_only.recommended(7)
    assert read_only.ratings(7)
    about = client.get("/v1/model").json()
    assert (about["read_only"], about["ratings"]["live"]) == (True, 0)
    writes = [("PUT", "/v1/ratings"), ("DELETE", "/v1/ratings"), ("DELETE", "/v1/user?id=1"), ("PUT", "/v1/item")]
    for method, path in writes:
        assert "this server keeps nothing (--read-only)" in problem(client.request(method, path), 403)
    read_only.stop()
    lines = [PlainLines("%(message)s").format(record) for record in caplog.records]
    assert any("GET /v1/recommendations 200 " in line and "address=127.0.0.1" in line for line in lines)
    assert not [path for path in model.parent.iterdir() if "sqlite" in path.name]


def test_all_workers_follow_a_reload_without_a_database(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path))  # as several processes of one server have it
    settings = ServingSettings(model=model, read_only=True)
    stores = [Store.of(settings) for _ in range(2)]
    for store in stores:
        store.open()
    workers = [LiveModel(settings, store) for store in stores]
    for worker in workers:
        worker.start(lambda live, lag: None)
    write_again(model)
    card = workers[0].reload().card
    wait_until(lambda: workers[1].served.card == card)
    for worker, store in zip(workers, stores, strict=True):
        worker.stop()
        store.close()


def test_either_a_database_or_none(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(trained), "--read-only", "--database=sqlite:///x"]) == 1
    assert "read-only means without a database; leave out --database" in capsys.readouterr().err

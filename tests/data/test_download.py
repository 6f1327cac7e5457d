"""Downloads against a real server that behaves badly in every way that servers do."""

import hashlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from cofill.data.datasets.fetch import download, md5_of
from cofill.errors import DatasetError


class Publisher(ThreadingHTTPServer):
    """Serves one file, and misbehaves as told."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.content = np.random.default_rng(0).bytes(600_000)
        self.drops: list[int] = []  # the bytes after which the next answers break off
        self.statuses: list[int] = []  # what the next answers are instead of the file
        self.requests = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/set.zip"

    @property
    def md5(self) -> str:
        return hashlib.md5(self.content, usedforsecurity=False).hexdigest()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is part of the tests."""


class Answer(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        server = self.server
        server.requests += 1
        if server.statuses:
            self.send_error(server.statuses.pop(0))
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(server.content)))
        self.end_headers()
        self.wfile.write(server.content[: server.drops.pop(0)] if server.drops else server.content)

    def log_message(self, format: str, *args: object) -> None:
        """Quietly."""


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Publisher()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def get(publisher: Publisher, target: Path, **options: object) -> Path:
    settings: dict[str, object] = {"md5": publisher.md5, "quiet": True, "pause": 0.01} | options
    return download(publisher.address, target, **settings)  # type: ignore[arg-type]


def left_behind(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_whole_and_alone(publisher: Publisher, tmp_path: Path) -> None:
    target = get(publisher, tmp_path / "deep" / "cache" / "set.zip", size=600_000)
    assert target.read_bytes() == publisher.content
    assert md5_of(target) == publisher.md5
    assert left_behind(target.parent) == ["set.zip"]


def test_a_file_that_is_there_is_not_asked_for(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "set.zip").write_bytes(b"checked by an earlier run")
    get(publisher, tmp_path / "set.zip")
    assert publisher.requests == 0


def test_a_dropped_connection_is_tried_again(publisher: Publisher, tmp_path: Path) -> None:
    publisher.drops = [250_000, 0]
    assert get(publisher, tmp_path / "set.zip").read_bytes() == publisher.content
    assert left_behind(tmp_path) == ["set.zip"]
    publisher.drops = [250_000] * 9
    with pytest.raises(DatasetError, match=r"dropped after 250,000 of 600,000 bytes, 2 times\. Try again later"):
        get(publisher, tmp_path / "other.zip", attempts=2)
    assert left_behind(tmp_path) == ["set.zip"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"md5": "0" * 32}, r"MD5 of what arrived is \w{32}, the published one 0{32}; it was deleted"),
        ({"size": 600_001}, "600,000 bytes arrived instead of 600,001; it was deleted"),
        (
            {"md5": "0" * 32, "second_hand": True},
            r"second-hand, 0{32}; it was deleted. Compare it with the",
        ),
    ],
)
def test_a_wrong_file_is_deleted(
    publisher: Publisher, tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        get(publisher, tmp_path / "set.zip", **options)
    assert left_behind(tmp_path) == []


def test_content_that_fails_its_check_is_deleted(publisher: Publisher, tmp_path: Path) -> None:
    def refuse(path: Path) -> None:
        raise DatasetError(f"{path.name}: not what it should be")

    with pytest.raises(DatasetError, match=r"set.zip.*.part: not what it should be"):
        get(publisher, tmp_path / "set.zip", check=refuse)
    assert left_behind(tmp_path) == []


def test_404_is_final(publisher: Publisher, tmp_path: Path) -> None:
    publisher.statuses = [404]
    with pytest.raises(DatasetError, match=r"answered 404 Not Found.*COFILL_DATA"):
        get(publisher, tmp_path / "set.zip")
    assert publisher.requests == 1


def test_500_is_tried_again(publisher: Publisher, tmp_path: Path) -> None:
    publisher.statuses = [500, 503]
    assert get(publisher, tmp_path / "set.zip").read_bytes() == publisher.content
    publisher.statuses = [500] * 9
    with pytest.raises(DatasetError, match=r"answered 500 Internal Server Error, 3 times.*Try again later"):
        get(publisher, tmp_path / "other.zip", attempts=3)


def test_nobody_listens(publisher: Publisher, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"no connection, or it dropped \(.*refused"):
        download("http://127.0.0.1:9/set.zip", tmp_path / "set.zip", quiet=True, pause=0.01)


def test_no_such_server(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"server cannot be found.*Check the network.*, or download it by hand"):
        download("http://no-such-host.invalid/set.zip", tmp_path / "set.zip", quiet=True)


def test_a_full_disk(publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DatasetError, match=r"set.zip: not written, the disk is full; free some space"):
        get(publisher, tmp_path / "set.zip")


def test_two_at_once_do_not_disturb_each_other(publisher: Publisher, tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        targets = list(pool.map(lambda _: get(publisher, tmp_path / "set.zip"), range(4)))
    assert {target.read_bytes() for target in targets} == {publisher.content}
    assert left_behind(tmp_path) == ["set.zip"]


def test_what_it_says_where_there_is_no_terminal(
    publisher: Publisher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    get(publisher, tmp_path / "set.zip", quiet=False)
    said = capsys.readouterr()
    assert said.out == ""
    assert "set.zip" in said.err
    assert "0.6 of 0.6 MB" in said.err
    get(publisher, tmp_path / "other.zip")
    assert capsys.readouterr().err == ""

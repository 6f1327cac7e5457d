"""What outlives a process: ratings over a restart and a kill, a model over its replacement, workers over each other."""

import json
import os
import re
import shutil
import signal
import threading
from pathlib import Path

import httpx
import polars as pl
import pytest

from cofill.cli import main
from cofill.models.persistence import copy_model
from cofill.models.recommender import Recommender
from tests.serving.conftest import ITEMS, Start
from tests.serving.running_server import NO_TLS, Server, problem
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def narrow(world: Path, trained: Path) -> Path:
    """A model on a scale from 1, without side information."""
    folder, ratings = trained.parent / "narrow", trained.parent / "narrow.csv"
    pl.read_csv(world / "ratings.csv").with_columns(pl.col("rating").clip(1.0)).write_csv(ratings)
    words = ["--out", str(folder), "--epochs", "2", "--hidden", "8", "--threads", "1", "--quiet"]
    assert main(["train", str(ratings), *words]) == 0
    return folder


def test_a_restart_keeps_everything(model: Path, start: Start) -> None:
    server = start(model, "--open-catalogue")
    user = server.client.post("/v1/users", json={"features": {"age": 60}}).json()["id"]
    server.rate(user, {1: 5, 2: 0.5})
    taken = next(iter(server.ratings(3)))
    server.client.delete("/v1/ratings", params={"user": 3, "item": taken})
    server.client.put("/v1/item", json={"id": 700, "title": "New", "features": {"year": 2000, "genres": "Drama"}})
    server.rate(user, {5000: 4})
    assert server.client.put("/v1/item", json={"id": 5000, "title": "Late Title"}).status_code == 200
    before = [server.recommended(user, 100), server.recommended(3, 100), server.ratings(3)]
    server.process.kill()
    server.stop()
    again = start(model, "--open-catalogue")
    assert again.told["live_ratings"] == 3
    assert [again.recommended(user, 100), again.recommended(3, 100), again.ratings(3)] == before
    assert again.client.get("/v1/items", params={"query": "new"}).json()["items"][0]["id"] == 700
    assert again.client.get("/v1/items", params={"query": "late"}).json()["items"][0]["id"] == 5000
    assert again.new_user() != user
    # The model itself is as it was: live ratings are laid over it, not written into it.
    assert len(Recommender.load(model).users) == 120


def test_a_new_model_is_swapped_in_and_a_broken_one_is_refused(
    model: Path, other: Path, narrow: Path, start: Start
) -> None:
    server = start(model, "--requests-per-second", "0")
    server.rate(1, {5: 5})
    old = server.told["version"]
    failures: list[object] = []
    stop = threading.Event()

    def keep_asking() -> None:
        with httpx.Client(base_url=server.told["address"], timeout=60, verify=NO_TLS) as client:
            while not stop.is_set():
                answer = client.get("/v1/recommendations", params={"user": 1})
                if answer.status_code != 200:
                    failures.append(answer.text)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        card = (model / "model.json").read_text()
        (model / "model.json").write_text(card[:-20])
        assert "truncated or altered" in problem(server.client.post("/v1/model/reload"), 422)
        assert server.client.get("/v1/model").json()["version"] == old
        (model / "model.json").write_text(card)
        weights = next(model.glob("weights-*"))
        shutil.move(weights, model.parent / "aside")
        assert "missing" in problem(server.client.post("/v1/model/reload"), 422)
        os.kill(server.process.pid, signal.SIGHUP)
        wait_until(lambda: "the model stays as it was" in server.errors())
        assert server.ratings(1)[5] == 5.0
        copy_model(other, model)
        answer = server.client.post("/v1/model/reload")
        assert answer.status_code == 200
        new = answer.json()["version"]
        assert new != old
        assert server.client.get("/v1/model").json()["version"] == new
        assert server.ratings(1)[5] == 5.0
        shutil.move(model.parent / "aside", weights)
    finally:
        stop.set()
        asking.join()
    assert failures == []
    here = Recommender.load(other).add_ratings([(1, 5, 5.0)])
    assert [item["id"] for item in server.recommended(1)] == [one.item for one in here.recommend(1)]

    # One on another scale, swapped in by a signal: what does not fit it is left out.
    unknown = next(item for item in range(1, ITEMS) if item not in server.ratings(1))
    server.rate(1, {6: 0.5, unknown: 0.5})
    copy_model(narrow, model)
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: server.client.get("/v1/model").json()["scale"]["low"] == 1.0)
    assert server.ratings(1)[5] == 5.0
    assert server.ratings(1).get(6) != 0.5
    assert 'cofill_live_refused{model="model"} 2.0' in server.client.get("/metrics").text
    assert "left out, it does not fit the model: the rating of item '6': 0.5" in server.errors()
    assert unknown not in server.ratings(1)
    assert server.client.delete("/v1/ratings", params={"user": 1, "item": unknown}).status_code == 204
    assert server.client.get("/v1/model").json()["ratings"]["live"] == 2  # it does not come back with another model
    given = {"user": 1, "ratings": [{"item": 5, "rating": 0.5}]}
    assert "must be between 1 and 5" in problem(server.client.put("/v1/ratings", json=given), 422)
    assert server.stop(signal.SIGINT) == 0
    assert "Traceback" not in server.errors()


def test_two_workers_agree(model: Path, other: Path, start: Start) -> None:
    server = start(model, "--workers", "2", "--requests-per-second", "0")
    # Some of them meet either worker.
    clients = [httpx.Client(base_url=server.told["address"], timeout=60, verify=NO_TLS) for _ in range(12)]
    try:
        agree(server, clients)
        total = 'cofill_request_seconds_count{method="PUT",route="/v1/ratings",status="200"} 8.0'
        wait_until(lambda: total in clients[0].get("/metrics").text)  # a request is counted after its answer
    finally:
        for client in clients:
            client.close()
    # One that dies is replaced; whatever it finds in the folder, all serve it.
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    assert len(children) == 2
    copy_model(other, model)
    os.kill(int(children[0]), signal.SIGKILL)
    os.kill(server.process.pid, signal.SIGHUP)
    wait_until(lambda: "a worker is replaced: its process was killed" in server.errors())
    version = json.loads((other / "model.json").read_text())["sha256"][:16]
    wait_until(lambda: versions(server) == {version})
    assert server.client.get("/v1/ratings", params={"user": 1}).status_code == 200
    # All of them go when the parent is killed.
    server.process.kill()
    wait_until(lambda: ended(children[1]))


def ended(pid: str) -> bool:
    """Also one that nobody has asked how it ended: in some containers nobody does."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return True


def versions(server: Server) -> set[str]:
    """What is served by any of the workers, whichever is asked."""
    figures = httpx.get(server.told["address"] + "/metrics", timeout=60, verify=NO_TLS).text
    return set(re.findall(r'^cofill_model_info{.*,version="([0-9a-f]{16})".*} 1.0$', figures, re.MULTILINE))


def agree(server: Server, clients: list[httpx.Client]) -> None:
    """Whoever writes, all see it at once."""
    user = clients[0].post("/v1/users").json()["id"]
    for number in range(8):
        given = [{"item": number + 1, "rating": 0.5 * (number + 1)}]
        assert clients[number].put("/v1/ratings", json={"user": user, "ratings": given}).status_code == 200
        lists = [client.get("/v1/recommendations", params={"user": user}).text for client in clients]
        assert len(set(lists)) == 1
        rated = clients[-1].get("/v1/ratings", params={"user": user}).json()["ratings"]
        assert len(rated) == number + 1


@pytest.mark.parametrize("options", [["--database", "mysql://x/y"], ["--database", "nonsense"], ["--port", "x"]])
def test_calls_that_are_refused(model: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(model), *options]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") <= 2
    assert "Traceback" not in said


def test_a_password_on_the_command_line_is_told(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for url in ("mysql://jane:hunter2@host/shop", "mysql://host/shop?user=jane&password=hunter2"):
        assert main(["serve", str(model), "--database", url]) == 1
        said = capsys.readouterr().err
        assert "can read the password in --database; set $COFILL_DATABASE instead" in said
        assert "hunter2" not in said
    assert main(["serve", str(model), "--database", "mysql://jane@host/shop"]) == 1
    assert "can read the password" not in capsys.readouterr().err


def test_a_database_that_is_none_is_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (model.parent / "model.live.sqlite").write_text("this is no database, however long it may be" * 100)
    assert main(["serve", str(model), "--port", "0"]) == 1
    assert "live ratings cannot be kept there (file is not a database); check database=" in capsys.readouterr().err


def test_a_wrong_path_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "wrong"), "--port", "0"]) == 1
    assert "not a model, there is no model.json in it; check the path" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_refused(model: Path, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.told["address"].rpartition(":")[2]
    assert main(["serve", str(model), "--port", port]) == 1
    assert f"127.0.0.1:{port}: cannot listen there: Address already in use" in capsys.readouterr().err

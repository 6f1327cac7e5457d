"""What is said where Ray is not installed, too old, or not to be reached; the example files in deploy/ can be read."""

import builtins
import re
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cofill.cluster import session as module
from cofill.cluster.comm import run_team
from cofill.cluster.score import Division
from cofill.cluster.session import Workplace, cores_each, ray_session
from cofill.errors import ClusterError

DEPLOY = Path(__file__).parents[2] / "deploy"


def refusal(address: str | None = None) -> str:
    with pytest.raises(ClusterError) as refused, ray_session(address, cpus=1):
        pass
    return str(refused.value)


@pytest.fixture
def silent_port() -> Iterator[str]:
    """A port that listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture
def other_port() -> Iterator[str]:
    """A port where something other than Ray answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"HTTP/1.0 400 Bad request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        answering.join()


def test_without_ray_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "ray":
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert refusal().endswith("Run: pip install 'cofill[cluster]'")


@pytest.mark.parametrize("version", ["2.9.3", "3.0.0"])
def test_another_version_of_ray(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__=version))
    assert refusal().startswith(f"Ray {version} is installed, and from 2.50 up to 2.x is needed")


@pytest.mark.parametrize("address", ["somewhere", "host:", ":6379", "host:port"])
def test_no_address(address: str) -> None:
    assert "is no address of a Ray cluster; give HOST:PORT, auto or local" in refusal(address)


def test_nobody_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
    assert re.match(rf"no Ray can be reached at {address} \(Connection refused\); see whether", refusal(address))
    assert refusal("nowhere.invalid:6379").startswith("no Ray can be reached at nowhere.invalid:6379 (")


def test_an_address_that_does_not_answer(silent_port: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_TO_ANSWER", 0.2)
    assert refusal(silent_port).startswith(f"waited 0.2 s for an answer of Ray at {silent_port}; see whether")


def test_an_address_where_something_else_answers(other_port: str) -> None:
    assert refusal(other_port).startswith(f"what answers at {other_port} is not Ray")


def test_a_cluster_that_cannot_be_joined() -> None:
    told = module._why_not_joined("10.0.0.9:6379", RuntimeError("Version mismatch: The cluster was\nstarted with"))
    assert told.startswith(
        "the cluster at 10.0.0.9:6379 could not be joined (RuntimeError: Version mismatch: The cluster was started"
    )
    assert "belongs to no Ray cluster" in module._why_not_joined("auto", ConnectionError())


def test_a_team_without_workers() -> None:
    with pytest.raises(ClusterError, match="at least one worker, not 0"):
        run_team("a:b", {}, workers=0, address=None)


@pytest.mark.parametrize(
    ("machines", "workers", "each"),
    [([8, 8], 2, 8), ([8, 4], 2, 4), ([8, 8], 3, 4), ([8, 1], 4, 2), ([2], 5, 1), ([], 1, 1)],
)
def test_workers_have_as_many_cores_as_all_can_have(machines: list[int], workers: int, each: int) -> None:
    assert cores_each(machines, workers) == each


def test_machines_where_no_task_finds_a_place() -> None:
    assert Division("auto", cores=3).workers(Workplace(True, [8, 7, 2])) == 4
    with pytest.raises(ClusterError, match="a task takes 9 cores, and the greatest machine of the cluster has 8"):
        Division("auto", cores=9).workers(Workplace(True, [8, 7]))


def test_the_files_of_the_launcher_and_of_kubernetes_can_be_read() -> None:
    yaml = pytest.importorskip("yaml")
    machines = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text())
    assert machines["provider"]["type"] == "local"
    assert machines["max_workers"] == len(machines["provider"]["worker_ips"])
    assert any("cofill[cluster]" in command for command in machines["setup_commands"])
    for command in (machines["head_start_ray_commands"][-1], machines["worker_start_ray_commands"][-1]):
        assert command.startswith("RAY_AUTH_MODE=token ")
    job = yaml.safe_load((DEPLOY / "kuberay.yaml").read_text())
    assert job["kind"] == "RayJob"
    cluster = job["spec"]["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    assert f"--workers {cluster['workerGroupSpecs'][0]['replicas']} " in job["spec"]["entrypoint"]

"""A Ray cluster for the tests: two nodes of this machine with two places each.

It takes some seconds to start: each process of tests starts at most one. Joining it is quick; `joined` does it once
for a module.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cofill.cluster.session import SETTINGS_OF_OUR_OWN, ray_session

# Ray reads these once, when it is first imported, so they are set before any test: all clusters of this process have
# the same token, which is what joins a process to them.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
_MARK = ("COFILL_RAY_OF_TESTS", str(os.getpid()))  # in the environment of everything that a cluster below starts


@contextmanager
def _environment(**wanted: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[Any]:
    """The cluster itself, to which nodes can be added and from which they can be taken."""
    with _environment(**dict([_MARK]), **SETTINGS_OF_OUR_OWN):
        from ray.cluster_utils import Cluster

        # Where it notes the address of every cluster. A Ray of which a temporary folder is chosen does not make it.
        Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray").mkdir(
            parents=True, exist_ok=True
        )
        folder = tempfile.mkdtemp(prefix="cofill-ray-", dir="/tmp")  # short: there are sockets in it
        cluster: Any = Cluster()
        try:
            cluster.add_node(num_cpus=2, include_dashboard=False, temp_dir=folder)
            cluster.add_node(num_cpus=2)
            yield cluster
        finally:
            cluster.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_cluster(ray_nodes: Any) -> str:
    """The address of the cluster, as it is given to --ray."""
    return str(ray_nodes.address)


@pytest.fixture(scope="module")
def joined(ray_cluster: str) -> Iterator[str]:
    """The same, with this process joined to it for the whole module."""
    with ray_session(ray_cluster, cpus=1):
        yield ray_cluster


def members() -> set[int]:
    """The processes of this cluster that do tasks."""
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes() if folder.name.isdecimal() else b""
            member = words.startswith(b"ray::_do_on_ray")
            variables = (folder / "environ").read_bytes().split(b"\0") if member else []
        except OSError:  # it has ended meanwhile
            continue
        if "=".join(_MARK).encode() in variables:
            found.add(int(folder.name))
    return found


@dataclass(frozen=True)
class Host:
    """A network namespace that plays a machine of its own."""

    name: str
    address: str
    interface: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Before a command that shall run there."""
        return ("ip", "netns", "exec", self.name)

    def take_down(self) -> None:
        """Nothing arrives or leaves any more, without a word."""
        _ip("-n", self.name, "link", "set", self.interface, "down")


@pytest.fixture
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two machines with a cable between them, where this one allows that."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and iproute2")
    mark = secrets.token_hex(3)
    hosts = tuple(Host(f"cf{mark}{end}", f"10.213.7.{end + 1}", f"cf{mark}{end}") for end in range(2))
    try:
        try:
            for host in hosts:
                _ip("netns", "add", host.name)
            _ip("link", "add", hosts[0].interface, "type", "veth", "peer", "name", hosts[1].interface)
            for host in hosts:
                _ip("link", "set", host.interface, "netns", host.name)
                _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", host.interface)
                _ip("-n", host.name, "link", "set", host.interface, "up")
                _ip("-n", host.name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not allowed here: {error.stderr.strip()}")
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host.name], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

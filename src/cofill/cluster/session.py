"""A connection to Ray: to a cluster that runs, or to one of our own that ends with the session.

What was running before is never ended: a cluster that was joined is left, and a Ray that the caller has already
connected to is used as it is.
"""

import logging
import os
import re
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from cofill.errors import ClusterError, quoted
from cofill.interrupts import orderly_end, unfinished
from cofill.workers import cores, problem_of

INSTALL = "pip install 'cofill[cluster]'"
LOCAL = "local"
"""The address of a cluster that is this machine, started for one command and ended with it."""
OLDEST, NEWEST = 50, 2  # minor version within major version: ray>=2.50,<3
# Bytes of a Ray of our own. Next to nothing of a training goes through Ray, but this is the least that it takes;
# of a search or of an experiment, the data.
_LEAST_STORE, _STORE_OF_TASKS = 80 << 20, 1 << 30
_SECONDS_TO_ANSWER = 10.0
_LONGEST_FOLDER = 40  # the sockets in it have at most 107 characters
_CLIENT = "ray://"
# What opens a connection of HTTP/2, on which gRPC and Ray are built: a preface and empty settings.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_SETTINGS = 4
SETTINGS_OF_OUR_OWN = {  # variables for the processes of a Ray that we start
    "RAY_USAGE_STATS_ENABLED": "0",
    # Workers get an environment of their own; processes started in advance would only cost time.
    "RAY_prestart_worker_first_driver": "0",
    "RAY_enable_worker_prestart": "0",
    # Ray gives workers the least priority of the machine, and everything else there would come first.
    "RAY_worker_niceness": "0",
}


@dataclass(frozen=True)
class RaySession:
    """A connection that stands."""

    ray: Any
    """The module, for those who need no further import."""
    local: bool
    """It is a Ray of our own, on this machine alone."""

    def machines(self) -> list[int]:
        """The cores of each machine that lives now, most first; of those that offer any."""
        found = (int(node["Resources"].get("CPU", 0)) for node in self.ray.nodes() if node["Alive"])
        return sorted(filter(None, found), reverse=True)


class Workplace(NamedTuple):
    """Where tasks are done (`cofill.workers.map_unordered`)."""

    on_ray: bool
    machines: list[int]
    """The cores of each, most first."""

    @property
    def cores(self) -> int:
        return sum(self.machines)


def cores_each(machines: Sequence[int], workers: int) -> int:
    """The most cores that each worker can have; 1 where there are not enough: a cluster may grow by itself."""
    fitting = (each for each in range(max(machines, default=1), 1, -1) if sum(m // each for m in machines) >= workers)
    return next(fitting, 1)


@contextmanager
def workplace(address: str | None) -> Iterator[Workplace]:
    """This machine, or the Ray cluster at an address."""
    if address is None:
        yield Workplace(False, [cores()])
        return
    with ray_session(address, cpus=cores(), store_bytes=_STORE_OF_TASKS) as session:
        machines = session.machines()
        if not machines:
            raise ClusterError(f"no machine of the cluster at {address} offers a core; start one that does")
        yield Workplace(True, machines)


@contextmanager
def ray_session(address: str | None, *, cpus: int, store_bytes: int = _LEAST_STORE) -> Iterator[RaySession]:
    """Connect to the cluster at `address` (host:port, "auto" or ray://host:port), or start a Ray of our own, which is
    "local" too.

    Our own has `cpus` places for workers, and so much room for what they are sent. It listens on a port of this machine
    as every Ray does, and asks for the token that Ray keeps in ~/.ray; it sends no statistics of use.
    """
    ray = require_ray()
    address = None if address == LOCAL else address
    if ray.is_initialized():
        joined = ray.get_runtime_context().gcs_address
        # A host may have several names, so the port decides.
        if address is not None and ":" in address and address.rpartition(":")[2] != joined.rpartition(":")[2]:
            raise ClusterError(f"this process works on the Ray cluster at {joined}, not at {address}; leave it first")
        yield RaySession(ray, local=False)
        return
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    traced = bool(os.environ.get("COFILL_TRACE"))
    if not traced:
        logging.getLogger("ray").setLevel(logging.ERROR)  # it tells much while it starts
    with orderly_end(), ExitStack() as at_the_end:
        if address is None:
            usual = tempfile.gettempdir()
            place = usual if len(usual) + 20 <= _LONGEST_FOLDER else "/tmp"
            folder = Path(tempfile.mkdtemp(prefix="cofill-ray-", dir=place))  # sockets and logs
            if not traced:
                at_the_end.callback(shutil.rmtree, folder, ignore_errors=True)
                at_the_end.enter_context(unfinished(folder))
            for name, value in SETTINGS_OF_OUR_OWN.items():
                os.environ.setdefault(name, value)
            options |= {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": store_bytes}
            options["_temp_dir"] = str(folder)
        elif not address.startswith(_CLIENT) and address != "auto":
            _ask(address)
        at_the_end.callback(ray.shutdown)  # of what this process has started or joined, never of the machine
        try:
            with _own_handler_of_termination():
                # "local": not a cluster that RAY_ADDRESS or an earlier `ray start` may name
                ray.init(address or LOCAL, **options)
        except Exception as error:
            raise ClusterError(
                _why_not_joined(address, error)
                if address
                else f"no Ray could be started on this machine ({problem_of(error)[:300]}); "
                "see whether memory and the space in /tmp are enough"
            ) from error
        with _no_words_of_ray():
            yield RaySession(ray, local=address is None)


def require_ray() -> Any:
    """The module; ClusterError where it is not installed, or too old or new."""
    # Read when Ray is imported: without it, a warning about accelerators, which are not used here.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ClusterError(f"several workers need Ray, which is not installed. Run: {INSTALL}") from None
    major, minor = (int(part) for part in ray.__version__.split(".")[:2])
    if major != NEWEST or minor < OLDEST:
        raise ClusterError(
            f"Ray {ray.__version__} is installed, and from {NEWEST}.{OLDEST} up to {NEWEST}.x is needed. Run: {INSTALL}"
        )
    return ray


def _ask(address: str) -> None:
    """Whether something like Ray answers there. Ray itself would try for a quarter of an hour."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ClusterError(f"{quoted(address)} is no address of a Ray cluster; give HOST:PORT, auto or local")
    remedy = "see whether the cluster runs (`ray status` on its head) and the port is open to this machine"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            connection.sendall(_GREETING)
            answer = connection.recv(9)
    except TimeoutError:
        raise ClusterError(f"waited {_SECONDS_TO_ANSWER:g} s for an answer of Ray at {address}; {remedy}") from None
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ClusterError(f"no Ray can be reached at {address} ({reason}); {remedy}") from None
    if len(answer) < 4 or answer[3] != _SETTINGS:
        raise ClusterError(f"what answers at {address} is not Ray; give the address that `ray start --head` shows")


def _why_not_joined(address: str, error: Exception) -> str:
    if address == "auto" and isinstance(error, ConnectionError):
        return "this machine belongs to no Ray cluster; run `ray start --address=HOST:PORT`, or name HOST:PORT"
    return (
        f"the cluster at {address} could not be joined ({problem_of(error)[:300]}); see that Ray and Python have the "
        "same versions here, that RAY_AUTH_TOKEN or ~/.ray/auth_token has its token, and that this machine is part of "
        "it (`ray start --address=HOST:PORT`)"
    )


@contextmanager
def _no_words_of_ray() -> Iterator[None]:
    """Of a worker's death Ray tells on standard output, where a command writes its results."""
    printer: Any = None
    with suppress(ImportError, AttributeError):  # Ray's own affair, which may change
        printer = import_module("ray._private.ray_logging").stdout_deduplicator
    if printer is None or os.environ.get("COFILL_TRACE"):
        yield
        return
    before = getattr(printer, "skip_re", None)
    printer.skip_re = re.compile("")
    try:
        yield
    finally:
        printer.skip_re = before


@contextmanager
def _own_handler_of_termination() -> Iterator[None]:
    """Ray takes over SIGTERM; give it back."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            with suppress(TypeError):  # a handler that was not set from Python
                signal.signal(signal.SIGTERM, before)

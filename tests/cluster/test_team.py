"""A team on a real Ray does its work, goes on after failures with the same bits, and leaves no process behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from cofill.cluster.comm import run_team
from cofill.cluster.session import SETTINGS_OF_OUR_OWN
from cofill.errors import ClusterError, DataError, DataWarning
from cofill.progress import Step
from tests.cluster.conftest import Host
from tests.cluster.team_programs import STEPS
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

PROGRAMS = "tests.cluster.team_programs"


class Heard(list[Step]):
    """A Progress that remembers."""

    def __call__(self, step: Step) -> None:
        self.append(step)

    @property
    def notes(self) -> list[str]:
        return [step.note for step in self if step.note]


def add_up(folder: Path, address: str | None, workers: int = 2, **options: Any) -> tuple[list[Any], Heard]:
    heard = options.pop("heard", Heard())
    trouble = options.pop("trouble", None)
    settings: dict[str, Any] = {"exchange_seconds": 60.0, "threads": 1} | options
    arguments = {"folder": str(folder), "trouble": trouble}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the program
        results = run_team(
            f"{PROGRAMS}:add_up", arguments, workers=workers, address=address, progress=heard, **settings
        )
    return results, heard


def trouble(do: str, *attempts: int, on: int = 1, before: int = 3) -> dict[str, Any]:
    return {"do": do, "attempts": attempts, "on": on, "before": before}


@pytest.fixture(scope="module")
def undisturbed(joined: str, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """What two workers come to."""
    results, heard = add_up(tmp_path_factory.mktemp("undisturbed"), joined)
    assert [result["value"] for result in results] == [results[0]["value"]] * 2
    assert not heard.notes
    value: list[float] = results[0]["value"]
    return value


@pytest.fixture(autouse=True)
def nobody_is_left(tmp_path: Path) -> Iterator[None]:
    """Every worker of a test that noted its number has ended soon after it."""
    yield
    book = tmp_path / "processes.txt"
    wait_until(lambda: not alive(*(map(int, book.read_text().split()) if book.exists() else ())))


def processes() -> dict[int, list[str]]:
    """State, parent, group, session and so on of all that run. A zombie, whose parent has not asked yet, does not."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended meanwhile
                found[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
    return {process: status for process, status in found.items() if status[0] not in "ZX"}


def alive(*some: int) -> list[int]:
    return [*processes().keys() & set(some)]


def of_session(leader: int) -> list[int]:
    """Processes that it started, and theirs."""
    return [process for process, status in processes().items() if int(status[3]) == leader]


def descendants(process: int) -> set[int]:
    parents = {child: int(status[1]) for child, status in processes().items()}
    below = {process}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return below - {process}


def test_four_workers_on_two_machines(joined: str, tmp_path: Path) -> None:
    heard = Heard()
    with pytest.warns() as warned:
        results = run_team(f"{PROGRAMS}:add_up", {"folder": str(tmp_path)}, workers=4, address=joined, progress=heard)
    assert [result["rank"] for result in results] == [0, 1, 2, 3]
    assert len({result["process"] for result in results}) == 4
    assert [result["value"] for result in results] == [results[0]["value"]] * 4
    assert all(result["threads"] == [1, "1", "1"] for result in results), "one of a machine's two places each"
    # Of three numbers one each is added up by three workers; each is sent to the one that does, and to all others.
    assert [result["sent"] for result in results] == [STEPS * sent for sent in (12, 20, 20, 20)]
    adding = [step for step in heard if step.what == "adding"]
    assert [step.done for step in adding] == list(range(1, STEPS + 1))
    assert adding[-1].share == 1.0
    assert adding[-1].measures["loss"] == pytest.approx(results[0]["value"][0])
    assert [str(each.message) for each in warned] == ["numbers are small", "here: odd; give scale=..."]
    assert isinstance(warned[1].message, DataWarning)
    assert warned[1].message.about.remedy.arguments == {"scale": ...}


def test_killed_in_the_middle_and_again_at_once(joined: str, tmp_path: Path, undisturbed: list[float]) -> None:
    results, heard = add_up(tmp_path, joined, trouble=trouble("be killed", 1, 2))
    assert [result["value"] for result in results] == [undisturbed] * 2
    assert [(result["attempt"], result["began"]) for result in results] == [(3, 3)] * 2
    first, second = heard.notes
    for note in (first, second):
        assert note.startswith("worker 2 of 2 (")
        assert "killed" in note or "died" in note, note
        assert note.endswith("going on from the last checkpoint")


def test_an_exception_of_the_program_ends_the_run(joined: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as failure:
        add_up(tmp_path, joined, workers=1, trouble=trouble("raise", 1, on=0, before=0))
    assert str(failure.value) == (
        "worker 1 of 1 ended with an exception: ArithmeticError: one and one is three; "
        "what was saved is kept, go on with resume=True"
    )


def test_a_team_that_does_not_get_further_is_given_up(joined: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"failed 2 times, the last 2 without getting further; the last time worker"):
        add_up(tmp_path, joined, workers=1, trouble=trouble("be killed", *range(9), on=0, before=0), restarts=1)


def test_an_error_of_our_own_is_raised_as_it_is(joined: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refused:
        add_up(tmp_path, joined, trouble=trouble("refuse", 1))
    assert str(refused.value) == "ratings.csv: no good; give separator=';'"
    assert refused.value.worded(lambda name, value: f"--{name} {value}") == "ratings.csv: no good; give --separator ;"


def test_a_worker_that_hangs_is_replaced(joined: str, tmp_path: Path, undisturbed: list[float]) -> None:
    results, heard = add_up(tmp_path, joined, trouble=trouble("be stopped", 1), exchange_seconds=20.0)
    assert [result["value"] for result in results] == [undisturbed] * 2
    (note,) = heard.notes
    assert "worker 1 of 2 waited" in note
    assert "for a sum of (3,) float32, at most 20 s: Timed out" in note


def test_workers_of_another_version_are_told(joined: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.cluster.comm.__version__", "7.0")
    with pytest.raises(ClusterError, match=r"has cofill .*, and this one 7\.0; install the same"):
        add_up(tmp_path, joined, workers=1)


def test_places_that_do_not_come_are_not_waited_for_for_ever(joined: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as missing:
        add_up(tmp_path, joined, workers=5, resource_seconds=1.0)
    assert "waited 1 s for 5 workers with 1 CPU each; the cluster has 2 machines with 4 CPUs, 4 " in str(missing.value)


def test_a_machine_that_vanishes(joined: str, ray_nodes: Any, tmp_path: Path) -> None:
    third = ray_nodes.add_node(num_cpus=8)
    heard: list[str] = []

    def progress(step: Step) -> None:
        if step.note:
            heard.append(step.note)
        if step.what == "waiting to be lost" and not heard:
            heard.append("lost")
            ray_nodes.remove_node(third, allow_graceful=False)

    arguments = {"folder": str(tmp_path)}
    results = run_team(f"{PROGRAMS}:lose_a_machine", arguments, workers=1, address=joined, progress=progress)
    assert results == [0]
    lost, note = heard
    assert lost == "lost"
    assert note.startswith("worker 1 of 1 (")
    assert note.endswith("going on from the last checkpoint")


# Drivers in processes of their own


def driver(
    program: str,
    folder: Path,
    prefix: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
    **options: Any,
) -> subprocess.Popen[str]:
    arguments = {"folder": str(folder), "seconds": 600}
    return subprocess.Popen(
        [
            *prefix,
            sys.executable,
            "-m",
            "tests.cluster.drive_team",
            program,
            json.dumps(arguments),
            json.dumps(options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal sends an interrupt to the whole group
        env=os.environ | dict(environment or {}),
    )


@pytest.mark.parametrize(
    ("by", "own"),
    [(signal.SIGKILL, True), (signal.SIGINT, True), (signal.SIGTERM, False)],
    ids=["killed, its own Ray", "interrupted, its own Ray", "terminated, a cluster"],
)
def test_nothing_is_left_of_a_driver_that_ends(
    by: signal.Signals, own: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    address = None if own else request.getfixturevalue("ray_cluster")
    with TemporaryDirectory(dir="/tmp") as temporary:  # short: there are sockets in it
        process = driver("wait", tmp_path, (), {"TMPDIR": temporary}, workers=1, address=address, threads=1)
        try:
            wait_until(lambda: len(list(tmp_path.glob("*.begun"))) == 1 or process.poll() is not None)
            workers = {int(path.read_text()) for path in tmp_path.glob("*.pid")}
            assert len(alive(*workers)) == 1, process.communicate()
            theirs = descendants(process.pid) | workers
            assert (len(theirs) > 1) == own
            if by == signal.SIGKILL:
                process.kill()
            else:
                os.killpg(process.pid, by)
            told, complaint = process.communicate(timeout=60)
        finally:
            process.kill()
            process.communicate()
        wait_until(lambda: not alive(*theirs))
        assert told == ""
        if by != signal.SIGKILL:
            assert process.returncode == 128 + by
            assert "Traceback" not in complaint
            assert list(Path(temporary).iterdir()) == []


def test_a_network_that_hangs(two_hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """Two nodes on hosts of their own: the run goes on with what is left when the other cannot be reached."""
    here, there = two_hosts
    # Ray notices a machine that is gone after half a minute; here it may be quicker.
    quick = {
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "4000",
        "RAY_health_check_failure_threshold": "2",
        **SETTINGS_OF_OUR_OWN,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "f" * 64,
    }
    address = f"{here.address}:6379"
    temporary = Path(f"/tmp/{here.name}")  # short: there are sockets in it

    def node(host: Host, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=2", *words]
        return subprocess.Popen(
            [*host.prefix, *command, f"--node-ip-address={host.address}", "--object-store-memory=80000000"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=os.environ | quick,
        )

    nodes: list[subprocess.Popen[Any]] = [
        node(here, "--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={temporary}")
    ]
    try:
        wait_until(lambda: _answers(here, 6379))
        nodes.append(node(there, f"--address={address}"))
        options = {"workers": 2, "address": address, "threads": 1, "exchange_seconds": 20}
        options["machines"] = 2
        process = driver("lose_a_machine", tmp_path, here.prefix, quick, **options)
        nodes.append(process)
        wait_until(lambda: len(list(tmp_path.glob("*.begun"))) == 2 or process.poll() is not None)
        there.take_down()
        told, complaint = process.communicate(timeout=180)
    finally:
        everybody = {process for each in nodes for process in (each.pid, *descendants(each.pid))}
        for process_id in alive(*everybody):
            with suppress(ProcessLookupError):  # it has ended meanwhile, with its parent
                os.kill(process_id, signal.SIGKILL)
        for each in nodes:
            each.wait()
        wait_until(lambda: not alive(*everybody))
        shutil.rmtree(temporary, ignore_errors=True)
    assert process.returncode == 0, complaint
    *notes, results = told.splitlines()
    assert json.loads(results) == [0, 1]
    assert "going on from the last checkpoint" in notes[0]


def _answers(host: Host, port: int) -> bool:
    asked = f"import socket; socket.create_connection(({host.address!r}, {port}), 1)"
    return subprocess.run([*host.prefix, sys.executable, "-c", asked], check=False, capture_output=True).returncode == 0

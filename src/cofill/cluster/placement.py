"""Where the workers of a team go: one a machine where there are enough machines, else as evenly as possible."""

import os
import sys
import sysconfig
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cofill.cluster.ray_session import Machine, RaySession
from cofill.errors import ClusterError
from cofill.workers import THREADS_OF_LIBRARIES, cores

_LOOK_EVERY = 1.0  # seconds
_HANDED_ON = ("COFILL_", "NUMBA_CACHE_DIR")  # variables of the driver's environment, by how they begin


@dataclass(frozen=True)
class Plan:
    """What Ray is asked for."""

    strategy: str
    cpus: int
    """Of each worker."""


def planned(machines: Sequence[Machine], workers: int, threads: int = 0) -> Plan:
    """Each worker with as many cores as all can have, or as many as the `threads` that were asked for.

    STRICT_SPREAD, where every worker gets a machine of its own; else SPREAD. Where the machines that run do not
    suffice, one core is asked for: a cluster that grows by itself may still have them.
    """
    spread = sorted((each.cpus for each in machines), reverse=True)
    if len(spread) >= workers > 1 and spread[workers - 1] >= threads:
        return Plan("STRICT_SPREAD", threads or spread[workers - 1])
    fitting = (cpus for cpus in range(max(spread, default=0), 1, -1) if _fit(spread, cpus) >= workers)
    return Plan("SPREAD", threads or next(fitting, 1))


def _fit(cpus_of_machines: Sequence[int], cpus: int) -> int:
    return sum(each // cpus for each in cpus_of_machines)


@dataclass(frozen=True)
class Place:
    """Of one worker, in the group of places that Ray keeps for the team."""

    bundle: int
    machine: Machine
    cpus: int
    threads: int

    def options(self, group: Any) -> dict[str, Any]:
        """What Ray is told about the actor at this place."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        return {
            "num_cpus": self.cpus,
            "max_restarts": 0,  # a team is started anew as a whole
            "max_concurrency": 4,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=self.bundle),
            "runtime_env": {"env_vars": environment(self.threads)},
        }


def environment(threads: int) -> dict[str, str]:
    """For a worker: so many threads of each library, and what the driver can import, can be imported there too."""
    handed = {name: value for name, value in os.environ.items() if name.startswith(_HANDED_ON)}
    return handed | dict.fromkeys(THREADS_OF_LIBRARIES, str(threads)) | {"PYTHONPATH": _import_path()}


def _import_path() -> str:
    """Folders of the driver's modules that no installation has. Where another machine lacks them, they do no harm."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    own = (str(Path(entry or ".").resolve()) for entry in sys.path)
    folders = dict.fromkeys(entry for entry in own if Path(entry).is_dir() and not entry.startswith(tuple(installed)))
    return os.pathsep.join((*folders, "${PYTHONPATH}"))  # Ray puts in what the machine has


def reserve(
    session: RaySession, workers: int, threads: int, seconds: float, waiting: Callable[[str], None]
) -> tuple[Any, list[Place]]:
    """Ask Ray for the places of a team and wait for them, at most so long; the places of one machine stand together.

    While it waits, the machines may change: what is asked for follows them. `waiting` is told what is waited for.
    """
    deadline = time.monotonic() + seconds
    plan: Plan | None = None
    group: Any = None
    try:
        while True:
            now = Plan("PACK", 1) if session.local else planned(session.machines(), workers, threads)
            if now != plan:
                _release(group)
                plan, group = now, _asked_for(now, workers)
            if group.wait(_LOOK_EVERY):
                break
            what = f"{workers} workers with {_number(plan.cpus, 'CPU')} each"
            if time.monotonic() > deadline:
                raise ClusterError(f"waited {seconds:g} s for {what}; {_what_there_is(session)}")
            waiting(f"waiting for {what}")
        return group, _places(session, group, plan, workers, threads)
    except BaseException:
        _release(group)
        raise


def _asked_for(plan: Plan, workers: int) -> Any:
    from ray.util.placement_group import placement_group

    return placement_group([{"CPU": plan.cpus}] * workers, strategy=plan.strategy)


def _places(session: RaySession, group: Any, plan: Plan, workers: int, threads: int) -> list[Place]:
    from ray.util.placement_group import placement_group_table

    nodes: dict[int, str] = placement_group_table(group)["bundles_to_node_id"]
    machines = {machine.node: machine for machine in session.machines()}
    on = Counter(nodes.values())
    places = []
    for bundle in range(workers):
        machine = machines.get(nodes[bundle]) or Machine(nodes[bundle], "", plan.cpus)  # gone since
        all_cores = cores() if session.local else machine.cpus
        places.append(Place(bundle, machine, plan.cpus, threads or max(1, all_cores // on[machine.node])))
    return sorted(places, key=lambda place: (place.machine.address, place.machine.node, place.bundle))


def release(session: RaySession, group: Any) -> None:
    """Give the places back; what still runs there is ended by Ray."""
    if session.ray.is_initialized():
        _release(group)


def _release(group: Any) -> None:
    from ray.util.placement_group import remove_placement_group

    if group is not None:
        with suppress(Exception):  # of a cluster that is gone
            remove_placement_group(group)


def _what_there_is(session: RaySession) -> str:
    machines = session.machines()
    free = int(session.ray.available_resources().get("CPU", 0))
    return (
        f"the cluster has {_number(len(machines), 'machine')} with "
        f"{_number(sum(machine.cpus for machine in machines), 'CPU')}, {free} of them free; "
        "use fewer workers or threads, or add machines"
    )


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"

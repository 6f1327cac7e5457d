"""A driver in a process of its own: `python -m tests.cluster.drive_team PROGRAM ARGUMENTS OPTIONS`, both in JSON.

With "machines" among the options it waits until the cluster has so many.
"""

import json
import sys
import time
from contextlib import nullcontext

from cofill.cluster.comm import run_team
from cofill.cluster.session import ray_session
from cofill.interrupts import Watch
from cofill.progress import Step


def note(step: Step) -> None:
    if step.note:
        print(f"note: {step.note}", flush=True)  # noqa: T201


if __name__ == "__main__":
    program, arguments, options = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
    machines = options.pop("machines", 0)
    watch = Watch()  # as a command has one: Ray's callbacks swallow interrupts
    watch.begin()
    try:
        with ray_session(options["address"], cpus=options["workers"]) if machines else nullcontext() as session:
            while session is not None and len(session.machines()) < machines:
                time.sleep(0.1)
            results = run_team(f"tests.cluster.team_programs:{program}", arguments, progress=note, **options)
    except KeyboardInterrupt:
        watch.obeyed()
    print(json.dumps(results), flush=True)  # noqa: T201

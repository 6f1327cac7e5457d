"""One worker of a search: takes trials of a study, one after the other, until there are enough.

python -m cofill.tuning.worker    with a line of JSON on standard input, and then the data as safetensors
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from cofill.errors import CofillError, SettingsError, TrainingDivergedError
from cofill.processes import behave_as_worker

if TYPE_CHECKING:
    from optuna import Study, Trial

    from cofill.models.history import EpochRecord
    from cofill.tuning.data import SearchData
    from cofill.tuning.study import Plan

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 30.0


class StoppedError(Exception):
    """Whoever started this worker has gone, or has told it to stop."""


def run_trials(
    study: "Study", plan: "Plan", data: "SearchData", trials: int, still_wanted: Callable[[], bool] = lambda: True
) -> None:
    """Take part until the study has that many finished trials, in whichever process they ran.

    A trial may be running elsewhere when all the others are finished: it is waited for, as its worker may die.
    `still_wanted` is asked between trials and between epochs; after a no, a `StoppedError` is raised.
    """
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    from cofill.tuning.study import FINISHED, OWNER, fail_the_dead, this_worker

    space = plan.space()
    while True:
        _check(still_wanted)
        fail_the_dead(study)
        states = [trial.state for trial in study.get_trials(deepcopy=False)]
        finished = sum(state in FINISHED for state in states)
        if finished >= trials:
            return
        if finished + states.count(TrialState.RUNNING) >= trials:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            continue
        with suppress(UpdateFinishedTrialError):  # others took this worker for dead, and do its trial again
            trial = study.ask(space)
            trial.set_user_attr(OWNER, this_worker())
            earlier = [other for other in study.get_trials(deepcopy=False) if other.number < trial.number]
            if sum(other.state != TrialState.FAIL for other in earlier) >= trials:
                _give_up(study, trial, "others had begun the last trials at the same moment")
            else:
                _run(study, trial, plan, data, still_wanted)


def _run(study: "Study", trial: "Trial", plan: "Plan", data: "SearchData", still_wanted: Callable[[], bool]) -> None:
    """One trial: trained and scored, stopped early, or given up."""
    from optuna import TrialPruned
    from optuna.trial import TrialState

    from cofill.tuning.study import REASON

    try:
        with _signs_of_life(trial):
            value = score(trial, plan, data, still_wanted)
    except (TrialPruned, TrainingDivergedError) as end:
        trial.set_user_attr(REASON, str(end))
        study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
    except BaseException as problem:
        _give_up(study, trial, f"{type(problem).__name__}: {problem}".removesuffix(": "))
        raise
    else:
        study.tell(trial, value, skip_if_finished=True)


def score(trial: "Trial", plan: "Plan", data: "SearchData", still_wanted: Callable[[], bool]) -> float:
    """The least validation RMSE of a training with the settings of this trial, without a second training on all."""
    from optuna import TrialPruned

    from cofill.models.cfn.fitting import fit_matrix

    try:
        settings = plan.settings.changed({**trial.params, "refit": False, "threads": 1})
    except SettingsError as error:  # each is in its range, but they exclude each other
        raise TrialPruned(str(error)) from None

    def report(record: "EpochRecord", epochs: int) -> None:
        _check(still_wanted)
        if record.phase != "search" or record.validation_rmse is None:
            return
        trial.report(record.validation_rmse, record.epoch)
        if trial.should_prune():
            raise TrialPruned(f"stopped early in epoch {record.epoch}")

    fitted = fit_matrix(data.rows, data.scale, settings, features=data.features, report=report)
    assert fitted.validation_rmse is not None  # SearchData.check
    trial.set_user_attr("epochs", fitted.epochs)
    return fitted.validation_rmse


@contextmanager
def _signs_of_life(trial: "Trial") -> Iterator[None]:
    """Tell now and then that the trial is being worked on: an epoch may take long, and machines may die."""
    from cofill.tuning.study import SEEN

    ended = Event()

    def tell() -> None:
        while not ended.wait(_SECONDS_BETWEEN_SIGNS_OF_LIFE):
            with suppress(Exception):  # a storage that is busy for a moment is no reason to stop
                trial.set_user_attr(SEEN, time.time())

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _give_up(study: "Study", trial: "Trial", reason: str) -> None:
    from optuna.trial import TrialState

    from cofill.tuning.study import REASON

    trial.set_user_attr(REASON, reason)
    study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)


def _check(still_wanted: Callable[[], bool]) -> None:
    if not still_wanted():
        raise StoppedError("the search was stopped")


def main() -> int:
    """What runs in a process of its own; 0, or 1 with the problem on standard error."""
    behave_as_worker()
    told_to_stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())  # at the next epoch, not amid a word to the storage
    try:
        job = json.loads(sys.stdin.buffer.readline())
        content = sys.stdin.buffer.read()

        from cofill.tuning.data import SearchData
        from cofill.tuning.storage import storage_explained
        from cofill.tuning.study import Plan, open_study

        plan = Plan.from_json(job["plan"])
        study = open_study(job["url"], job["name"], plan)  # before torch, whose import takes seconds

        import torch

        torch.set_num_threads(1)
        with storage_explained(job["url"]):
            run_trials(
                *(study, plan, SearchData.from_bytes(content), job["trials"]),
                still_wanted=lambda: not told_to_stop.is_set() and os.getppid() == job["parent"],
            )
    except StoppedError:
        return 0
    except CofillError as error:
        sys.stderr.write(f"{' '.join(str(error).split())}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

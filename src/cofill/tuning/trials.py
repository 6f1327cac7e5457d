"""One worker of a search: runs trials of a study one by one, until there are enough.

Trials are asked for and told, not run by Optuna's `optimize`: that one counts the trials of a call, not those of a
study that several commands work on, and fails where others took a trial for lost and finished it. Optuna's heartbeats
belong to `optimize`, and wait for minutes also where the number of a process on this machine tells at once that it
is dead.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from cofill.errors import SettingsError
from cofill.progress import Step
from cofill.workers import StoppedError, Work

if TYPE_CHECKING:
    from optuna import Study, Trial

    from cofill.tuning.list_search_data import ListSearchData
    from cofill.tuning.search_data import SearchData
    from cofill.tuning.study import Plan

    Data = SearchData | ListSearchData

_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 30.0


def run_trials(
    study: "Study", plan: "Plan", data: "Data", trials: int, still_wanted: Callable[[], bool] = lambda: True
) -> None:
    """Run trials until the study has that many finished ones, counting those of all processes.

    If the last trial runs in another process, wait for it, because its worker may die.
    `still_wanted` is asked between trials and between epochs; after a no, a `StoppedError` is raised.
    """
    from optuna.exceptions import UpdateFinishedTrialError
    from optuna.trial import TrialState

    from cofill.tuning.study import FINISHED, fail_the_dead

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
            earlier = [other for other in study.get_trials(deepcopy=False) if other.number < trial.number]
            if sum(other.state != TrialState.FAIL for other in earlier) >= trials:
                _give_up(study, trial, "others had begun the last trials at the same moment")
            else:
                _run(study, trial, plan, data, still_wanted)


def _run(study: "Study", trial: "Trial", plan: "Plan", data: "Data", still_wanted: Callable[[], bool]) -> None:
    """Run one trial: train and score it, stop it early, or record its failure."""
    from optuna import TrialPruned
    from optuna.trial import TrialState

    from cofill.tuning.study import REASON

    try:
        _check(still_wanted)
        with _signs_of_life(trial):
            value = score(trial, plan, data, still_wanted)
    except TrialPruned as end:
        trial.set_user_attr(REASON, str(end))
        study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
    except BaseException as problem:
        _give_up(study, trial, f"{type(problem).__name__}: {problem}".removesuffix(": "))
        raise
    else:
        study.tell(trial, value, skip_if_finished=True)


def score(trial: "Trial", plan: "Plan", data: "Data", still_wanted: Callable[[], bool]) -> float:
    """The score of a model with the trial's settings, by the goal of the plan."""
    from cofill.tuning.search_data import SearchData

    if isinstance(data, SearchData):
        return _rmse(trial, plan, data, still_wanted)
    return _ndcg(trial, plan, data, still_wanted)


def _ndcg(trial: "Trial", plan: "Plan", data: "ListSearchData", still_wanted: Callable[[], bool]) -> float:
    """The NDCG of lists for the validation part, by a list scorer that was fitted on the other."""
    from cofill.evaluation.ranking import evaluate_ranking
    from cofill.models.bias_models import ListModel
    from cofill.tuning.goals import LIST_LENGTH

    train, validation = data.parts(plan.settings, plan.validation_by)
    settings = plan.list_settings(trial.params)
    if plan.validation_by == "random":  # which asks for lists without order
        settings = settings.changed({"list_goal": "any"})
    model = ListModel(settings).fit(
        train,
        user_features=data.users,
        item_features=data.items,
        progress=lambda step: _check(still_wanted),
    )
    lists = evaluate_ranking(model, validation, n=LIST_LENGTH, cutoffs=(), report=lambda share: _check(still_wanted))
    return lists.ndcg


def _rmse(trial: "Trial", plan: "Plan", data: "SearchData", still_wanted: Callable[[], bool]) -> float:
    """The validation RMSE that `cofill train` finds with the trial's settings, without training on everything again."""
    from optuna import TrialPruned

    from cofill.models.cfn.fit import SEARCH, after_refit, fit_matrix
    from cofill.models.cfn.scaling import Matrix
    from cofill.models.observed import KnownRatings

    try:
        saved = plan.settings.changed(trial.params)
        settings = saved.changed({"refit": False, "threads": 1})
    except SettingsError as error:  # each is in its range, but they exclude each other
        raise TrialPruned(str(error)) from None

    def report(step: Step) -> None:
        _check(still_wanted)
        if step.note:  # with a lower rate it would be another trial
            raise TrialPruned(step.note.partition(";")[0])
        if step.what != SEARCH or "validation_rmse" not in step.measures:
            return
        trial.report(step.measures["validation_rmse"], int(step.done))
        if trial.should_prune():
            raise TrialPruned(f"stopped early in epoch {step.done:g}")

    known = KnownRatings(data.rows, data.rows.transpose())
    matrix = Matrix(known, data.scale, data.row_features, data.column_features, data.portion)
    fitted = fit_matrix(matrix, settings, progress=report)
    assert fitted.validation_rmse is not None  # SearchData.check
    trial.set_user_attr("epochs", fitted.epochs)
    return after_refit(fitted.validation_rmse, saved) if saved.decoder == "process" else fitted.validation_rmse


@contextmanager
def _signs_of_life(trial: "Trial") -> Iterator[None]:
    """Send heartbeats while the trial runs, because an epoch may take long and machines may die."""
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


def begin_work(work: Work, content: bytes) -> Callable[[Any], None]:
    """Entry point of a worker: returns the function that runs trials."""
    from cofill.tuning.list_search_data import ListSearchData
    from cofill.tuning.search_data import SearchData
    from cofill.tuning.storage import storage_explained
    from cofill.tuning.study import Plan, open_study

    work.stop_between_steps()  # at the next epoch, not amid a word to the storage

    def take_part(task: Any) -> None:
        plan = Plan.from_json(task["plan"])
        study = open_study(task["url"], task["name"], plan)  # before the data, which take seconds
        data = (SearchData if plan.goal_name == "rmse" else ListSearchData).from_bytes(content)
        with storage_explained(task["url"]):
            run_trials(study, plan, data, task["trials"], still_wanted=work.wanted)

    return take_part

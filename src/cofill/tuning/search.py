"""A search: trials of a study by several workers, by `Study.optimize`, and its progress display."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from optuna import Study, Trial, TrialPruned
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.study import MaxTrialsCallback
from optuna.trial import FrozenTrial, TrialState

from cofill.cluster.session import workplace
from cofill.data.sparse import KnownRatings
from cofill.errors import CofillError, SettingsError
from cofill.evaluation.ranking import evaluate_ranking
from cofill.models.bias_models import ListModel
from cofill.models.cfn.fit import SEARCH, after_refit, fit_matrix
from cofill.models.cfn.scaling import Matrix
from cofill.progress import Progress, Step, unseen
from cofill.tuning.genetic import GeneticSampler
from cofill.tuning.search_data import LIST_LENGTH, SearchData
from cofill.tuning.study import (
    FINISHED,
    Plan,
    absolute_url,
    check_within_reach,
    open_study,
    retry_stale,
    storage_explained,
)
from cofill.workers import StoppedError, Work, map_unordered

REASON = "reason"
"""Why a trial ended early, among what Optuna keeps of it."""


def search(
    data: SearchData,
    plan: Plan,
    *,
    url: str,
    name: str = "cofill",
    trials: int = 200,
    workers: int | None = None,
    progress: Progress = unseen,
    ray: str | None = None,
) -> Study:
    """Start or continue a study until it has that many finished trials.

    Each of the workers (default: one a core) is a process with one thread. Trials that run when the last one is
    finished run to their end. The study may be worked on by other searches at the same time. An interrupted search
    continues with the same call. A worker that is killed is replaced; its trial is done again once its heartbeats have
    been missing for two minutes.

    `ray` is the address of a Ray cluster whose machines run the workers; all of them must reach the database.
    """
    if ray is not None:
        check_within_reach(url, ray)
    study, seen = open_study(url, name, plan), -1

    def look() -> None:
        """Tell of finished trials and the best so far, when there are more."""
        nonlocal seen
        found = _finished(study, database)
        if len(found) != seen:
            seen = len(found)
            values = [trial.value for trial in found if trial.state == TrialState.COMPLETE and trial.value is not None]
            best = plan.goal.best(values)
            text = f"{seen} of {trials} trials" + ("" if best is None else f"  best {plan.goal.label} {best:.4f}")
            share = min(seen / trials, 1.0)
            progress(Step("searching", seen, trials, share, text=text, logged=seen >= trials))

    with storage_explained(url), ThreadPoolExecutor(1) as database, workplace(ray) as place:
        look()
        wanted = min(workers or place.cores, max(trials - seen, 0))
        with map_unordered(
            "cofill.tuning.search:begin_work",
            [trials] * wanted,
            workers=wanted,
            shared=(absolute_url(url), name, plan, data),
            on_ray=place.on_ray,
            muted=True,
            look=look,
        ) as outcomes:
            for outcome in outcomes:
                if outcome.problem is not None and not outcome.killed:
                    raise CofillError(outcome.problem)
        look()
        if seen < trials:
            raise CofillError(
                f"all workers were killed after {seen} of {trials} trials, perhaps for want of memory",
                "the same search goes on, with fewer workers=... if need be",
            )
    return study


def _finished(study: Study, database: ThreadPoolExecutor) -> list[FrozenTrial]:
    """In a thread, where no interrupt is raised: else the database would stay locked, and no trial be given back."""
    return database.submit(study.get_trials, deepcopy=False, states=FINISHED).result()


# What a worker does


def begin_work(work: Work, shared: tuple[str, str, Plan, SearchData]) -> Callable[[int], None]:
    """Entry point of a worker: returns the function that runs trials until there are so many."""
    url, name, plan, data = shared
    work.stop_between_steps()  # at the next epoch, not amid a word to the storage

    def take_part(trials: int) -> None:
        study = open_study(url, name, plan)
        with storage_explained(url):
            run_trials(study, plan, data, trials, still_wanted=work.wanted)

    return take_part


def run_trials(
    study: Study, plan: Plan, data: SearchData, trials: int, still_wanted: Callable[[], bool] = lambda: True
) -> None:
    """Run trials until the study has that many finished ones, counting those of all processes.

    `still_wanted` is asked between epochs; after a no, the settings of the trial are left for another to try.
    """
    retry = retry_stale()

    def give_back(study: Study, trial: FrozenTrial) -> None:
        if trial.state == TrialState.FAIL:
            retry(study, trial)
            study.stop()

    if len(study.get_trials(deepcopy=False, states=FINISHED)) < trials:
        enough = MaxTrialsCallback(trials, states=FINISHED)
        objective = Objective(plan, data, still_wanted)
        study.optimize(objective, callbacks=[enough, give_back], catch=(StoppedError,))


class Objective:
    """The score of a model with the settings of a trial, by the goal of the plan."""

    def __init__(self, plan: Plan, data: SearchData, still_wanted: Callable[[], bool]) -> None:
        self._plan, self._data, self._still_wanted = plan, data, still_wanted
        self._score = self._rmse if plan.goal_name == "rmse" else self._ndcg
        settings = plan.settings
        if plan.goal_name == "rmse":
            rows = data.ratings.rows("item" if settings.orientation == "item" else "user")
            known = KnownRatings(rows, rows.transpose())
            self._matrix = Matrix(known, data.ratings.scale, *data.sides(settings), data.portion(settings))
        else:
            self._train, self._validation = data.parts(settings, plan.validation_by)

    def __call__(self, trial: Trial) -> float:
        for name, range_ in self._plan.space.items():
            if isinstance(range_, IntDistribution):
                trial.suggest_int(name, range_.low, range_.high, log=range_.log)
            elif isinstance(range_, FloatDistribution):
                trial.suggest_float(name, range_.low, range_.high, log=range_.log)
        sampler = trial.study.sampler
        if isinstance(sampler, GeneticSampler):
            trials = trial.study.get_trials(deepcopy=False)
            trial.set_user_attr("generation", sampler.generation(trials, trials[trial.number]))
        try:
            self._check()
            return self._score(trial)
        except TrialPruned as end:
            trial.set_user_attr(REASON, str(end))
            raise

    def _check(self, *_: object) -> None:
        if not self._still_wanted():
            raise StoppedError("the search was stopped")

    def _ndcg(self, trial: Trial) -> float:
        """The NDCG of lists for the validation part, by a list scorer that was fitted on the other."""
        settings = self._plan.list_settings(trial.params)
        if self._plan.validation_by == "random":  # which asks for lists without order
            settings = settings.changed({"list_goal": "any"})
        about: dict[str, Any] = {"user_features": self._data.users, "item_features": self._data.items}
        model = ListModel(settings).fit(self._train, **about, progress=self._check)
        return evaluate_ranking(model, self._validation, n=LIST_LENGTH, cutoffs=(), report=self._check).ndcg

    def _rmse(self, trial: Trial) -> float:
        """The validation RMSE that `cofill train` finds with these settings, without training on everything again."""
        try:
            saved = self._plan.settings.changed(trial.params)
            settings = saved.changed({"refit": False, "threads": 1})
        except SettingsError as error:  # each is in its range, but they exclude each other
            raise TrialPruned(str(error)) from None

        def report(step: Step) -> None:
            self._check()
            if step.note:  # with a lower rate it would be another trial
                raise TrialPruned(step.note.partition(";")[0])
            if step.what != SEARCH or "validation_rmse" not in step.measures:
                return
            trial.report(step.measures["validation_rmse"], int(step.done))
            if trial.should_prune():
                raise TrialPruned(f"stopped early in epoch {step.done:g}")

        fitted = fit_matrix(self._matrix, settings, progress=report)
        assert fitted.validation_rmse is not None  # SearchData.check
        trial.set_user_attr("epochs", fitted.epochs)
        return after_refit(fitted.validation_rmse, saved) if saved.decoder == "process" else fitted.validation_rmse

"""Output of a search: the best settings as TOML, all trials as JSON, and a chart."""

import json
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from cofill.charts.graphs import Chart, Line, write_picture
from cofill.config import ListSettings
from cofill.errors import CofillError
from cofill.files import replacing
from cofill.tuning.search import REASON
from cofill.tuning.study import FINISHED, Goal, Plan, goal_of

_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "stopped early",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}
_NOT_ENDED = "its worker was stopped or died; another trial has its settings"


def best_trial(study: Study) -> FrozenTrial:
    """The finished trial with the best score."""
    try:
        return study.best_trial
    except ValueError:
        raise CofillError(
            "no trial has run to its end, so there is no best one",
            "give more trials=..., or a lower learning_rate=... where all of them diverged (trials.json tells why)",
        ) from None


def best_settings(trial: FrozenTrial, plan: Plan) -> dict[str, Any]:
    """The settings of this trial: orientation, seed, what the user fixed, and the searched values.

    Those of lists are for models with a network and without, as long as the user has fixed nothing of the network.
    """
    settings, given = plan.settings, plan.given()
    if plan.goal_name == "rmse":
        return {"orientation": settings.orientation, "seed": settings.seed} | given | trial.params
    if given.keys() <= ListSettings.model_fields.keys() | {"validation"}:
        given.pop("validation", None)  # of the search; without a network there is nothing else to validate
    return {"seed": settings.seed} | given | plan.values(trial.params)


def write_best(path: Path, trial: FrozenTrial, plan: Plan, remarks: list[str]) -> None:
    """Write a file for `cofill train --config`, with comments on where it comes from."""
    lines = [f"# {_remark(remark)}" for remark in remarks]
    lines += [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in best_settings(trial, plan).items()]
    with replacing(path) as draft:
        draft.write_text("\n".join([*lines, ""]), encoding="utf-8")


def write_trials(path: Path, study: Study, plan: Plan) -> None:
    with replacing(path) as draft:
        told = [describe(trial, plan) for trial in study.get_trials(deepcopy=False)]
        draft.write_text(json.dumps(told, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def describe(trial: FrozenTrial, plan: Plan) -> dict[str, Any]:
    """One trial as JSON; the RMSE of one that was stopped early is that of its last epoch, and lists have no epochs."""
    epochs = {"epochs_run": len(trial.intermediate_values), "best_epoch": trial.user_attrs.get("epochs")}
    return {
        "number": trial.number,
        "state": _STATES[trial.state],
        "reason": trial.user_attrs.get(REASON) or (_NOT_ENDED if trial.state == TrialState.FAIL else None),
        plan.goal.key: trial.value,
        **(epochs if plan.goal_name == "rmse" else {}),
        "generation": trial.user_attrs.get("generation"),
        "seconds": trial.duration.total_seconds() if trial.duration else None,
        "finished": trial.datetime_complete.isoformat() if trial.datetime_complete else None,
        "settings": plan.values(trial.params),
    }


def draw_search(path: Path, study: Study, title: str) -> None:
    """Chart the best score so far, against the number of finished trials and against time.

    Time is that of all workers together, without pauses.
    """
    trials = [trial for trial in study.get_trials(deepcopy=False, states=FINISHED) if trial.value is not None]
    trials.sort(key=lambda trial: trial.datetime_complete.timestamp() if trial.datetime_complete else 0.0)
    if not trials:  # every trial may have diverged at once
        return
    goal, scores = goal_of(study), [float(trial.value or 0.0) for trial in trials]
    ends = [trial.state == TrialState.COMPLETE for trial in trials]
    minutes = accumulate(trial.duration.total_seconds() / 60 if trial.duration else 0.0 for trial in trials)
    charts = [
        Chart(
            title, label, goal.axis, _lines(places, scores, ends, goal), x_from=0.0, y_range=_shown(scores, ends, goal)
        )
        for places, label in (
            ([float(number) for number in range(1, len(trials) + 1)], "finished trials"),
            (list(minutes), "training time of all workers together (minutes)"),
        )
    ]
    write_picture(path, *charts)


def _lines(places: Sequence[float], scores: Sequence[float], ends: Sequence[bool], goal: Goal) -> tuple[Line, ...]:
    """The trials that ran to their ends and those that did not, and the best of the former until the last trial."""
    points = list(zip(places, scores, strict=True))
    complete = [point for point, end in zip(points, ends, strict=True) if end]
    stopped = [point for point, end in zip(points, ends, strict=True) if not end]
    best = list(accumulate((score for _, score in complete), min if goal.direction == "minimize" else max))
    steps = [*zip((place for place, _ in complete), best, strict=True), *((places[-1], score) for score in best[-1:])]
    lines = (
        Line("ran to its end", *_apart(complete), drawn="points", shape="circle"),
        Line("best so far", *_apart(steps), drawn="steps"),
        Line("stopped early (last epoch)", *_apart(stopped), drawn="points", shape="cross"),
    )
    return tuple(line for line in lines if line.x)


def _apart(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(x for x, _ in points), tuple(y for _, y in points)


def _shown(scores: Sequence[float], ends: Sequence[bool], goal: Goal) -> tuple[float, float] | None:
    """The scores to show, cut off so that a few bad trials do not flatten the chart."""
    values = sorted(goal.sign * score for score, end in zip(scores, ends, strict=True) if end)
    if not values:
        return None
    best, middle = values[0], values[len(values) // 2]
    margin = max(middle - best, 1e-3)
    low, high = sorted((goal.sign * (best - 0.15 * margin), goal.sign * (middle + 2.5 * margin)))
    return low, high


def _remark(text: str) -> str:
    """A TOML comment on one line, without control characters other than tabs."""
    return "".join(character if character.isprintable() or character == "\t" else " " for character in text)

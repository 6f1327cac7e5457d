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
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        raise CofillError(
            "no trial has run to its end, so there is no best one",
            "give more trials=..., or a lower learning_rate=... where all of them diverged (trials.json tells why)",
        )
    sign = goal_of(study).sign
    return min(complete, key=lambda trial: (sign * (trial.value or 0.0), trial.number))


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
    lines += [f"{name} = {_toml(value)}" for name, value in best_settings(trial, plan).items()]
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
    trials = sorted(study.get_trials(deepcopy=False, states=FINISHED), key=_ended)
    minutes = accumulate(trial.duration.total_seconds() / 60 if trial.duration else 0.0 for trial in trials)
    goal = goal_of(study)
    shown = _shown_scores(trials, goal)
    charts = [
        Chart(title, label, goal.axis, _lines(trials, places, goal), x_from=0.0, y_range=shown)
        for places, label in (
            ([float(number) for number in range(1, len(trials) + 1)], "finished trials"),
            (list(minutes), "training time of all workers together (minutes)"),
        )
    ]
    if charts[0].lines:  # every trial may have diverged at once
        write_picture(path, *charts)


def _lines(trials: Sequence[FrozenTrial], places: Sequence[float], goal: Goal) -> tuple[Line, ...]:
    def scores(state: TrialState) -> list[tuple[float, float]]:
        return [
            (place, trial.value)
            for place, trial in zip(places, trials, strict=True)
            if trial.state == state and trial.value is not None
        ]

    complete, stopped = scores(TrialState.COMPLETE), scores(TrialState.PRUNED)
    best = list(accumulate((value for _, value in complete), min if goal.direction == "minimize" else max))
    steps = [(place, value) for (place, _), value in zip(complete, best, strict=True)]
    if steps:
        steps.append((places[-1], best[-1]))  # trials that were stopped early since then changed nothing
    lines = (
        Line("ran to its end", *_apart(complete), drawn="points", shape="circle"),
        Line("best so far", *_apart(steps), drawn="steps"),
        Line("stopped early (last epoch)", *_apart(stopped), drawn="points", shape="cross"),
    )
    return tuple(line for line in lines if line.x)


def _apart(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return tuple(x for x, _ in points), tuple(y for _, y in points)


def _shown_scores(trials: Sequence[FrozenTrial], goal: Goal) -> tuple[float, float] | None:
    """The scores to show, cut off so that a few bad trials do not flatten the chart."""
    values = sorted(goal.sign * t.value for t in trials if t.state == TrialState.COMPLETE and t.value is not None)
    if not values:
        return None
    best, middle = values[0], values[len(values) // 2]
    margin = max(middle - best, 1e-3)
    ends = goal.sign * (best - 0.15 * margin), goal.sign * (middle + 2.5 * margin)
    return min(ends), max(ends)


def _ended(trial: FrozenTrial) -> float:
    return trial.datetime_complete.timestamp() if trial.datetime_complete else 0.0


def _remark(text: str) -> str:
    """A TOML comment on one line, without control characters other than tabs."""
    return "".join(character if character.isprintable() or character == "\t" else " " for character in text)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)

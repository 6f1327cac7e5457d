"""What a search leaves behind: the best settings as TOML, all trials as JSON."""

import json
from pathlib import Path
from typing import Any

from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from cofill.errors import CofillError
from cofill.files import replacing
from cofill.tuning.study import REASON, Plan

_STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "stopped early",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


def best_trial(study: Study) -> FrozenTrial:
    """The one with the least validation RMSE among those that ran to their end."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if not complete:
        raise CofillError(
            "no trial has run to its end, so there is no best one; give more --trials, or lower --learning-rate "
            "where all of them diverged (trials.json tells why they ended)"
        )
    return min(complete, key=lambda trial: (trial.value or 0.0, trial.number))


def best_settings(trial: FrozenTrial, plan: Plan) -> dict[str, Any]:
    """Orientation and seed, what was set by somebody, and the genes of this trial."""
    settings = plan.settings
    return {"orientation": settings.orientation, "seed": settings.seed} | plan.given() | trial.params


def write_best(path: Path, trial: FrozenTrial, plan: Plan, remarks: list[str]) -> None:
    """A file for `cofill train --config`, with remarks on where it comes from."""
    lines = [f"# {_remark(remark)}" for remark in remarks]
    lines += [f"{name} = {_toml(value)}" for name, value in best_settings(trial, plan).items()]
    with replacing(path) as draft:
        draft.write_text("\n".join([*lines, ""]), encoding="utf-8")


def write_trials(path: Path, study: Study) -> None:
    with replacing(path) as draft:
        told = [describe(trial) for trial in study.get_trials(deepcopy=False)]
        draft.write_text(json.dumps(told, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def describe(trial: FrozenTrial) -> dict[str, Any]:
    """One trial as JSON; the RMSE of one that was stopped early is that of its last epoch."""
    return {
        "number": trial.number,
        "state": _STATES[trial.state],
        "reason": trial.user_attrs.get(REASON),
        "validation_rmse": trial.value,
        "epochs_run": len(trial.intermediate_values),
        "best_epoch": trial.user_attrs.get("epochs"),
        "generation": trial.user_attrs.get("generation"),
        "seconds": trial.duration.total_seconds() if trial.duration else None,
        "finished": trial.datetime_complete.isoformat() if trial.datetime_complete else None,
        "settings": trial.params,
    }


def _remark(text: str) -> str:
    """On one line; tabs may stand in TOML, other controls may not."""
    return "".join(character if character.isprintable() or character == "\t" else " " for character in text)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)

"""A picture of a search: the best validation RMSE so far, against trials and against time."""

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from cofill.plotting import COLOURS, new_figure, write_figure
from cofill.tuning.study import FINISHED

_COMPLETE, _BEST, _STOPPED = COLOURS[0], COLOURS[1], COLOURS[-1]


def draw_search(path: Path, study: Study, title: str) -> None:
    """Finished trials in the order in which they ended; time is that of all workers together, without pauses."""
    trials = sorted(study.get_trials(deepcopy=False, states=FINISHED), key=_ended)
    minutes = list(accumulate(trial.duration.total_seconds() / 60 if trial.duration else 0.0 for trial in trials))
    figure = new_figure(11, 4.6)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, places, label in (
        (left, [float(number) for number in range(1, len(trials) + 1)], "finished trials"),
        (right, minutes, "training time of all workers together (minutes)"),
    ):
        for state, name, colour, mark in (
            (TrialState.COMPLETE, "ran to its end", _COMPLETE, "o"),
            (TrialState.PRUNED, "stopped early (last epoch)", _STOPPED, "x"),
        ):
            shown = [
                (place, trial.value)
                for place, trial in zip(places, trials, strict=True)
                if trial.state == state and trial.value is not None
            ]
            axes.scatter(
                *([place for place, _ in shown], [value for _, value in shown]),
                **{"s": 14, "c": colour, "marker": mark, "alpha": 0.6, "label": name},
            )
        best = _best_so_far(trials)
        axes.step(places[len(places) - len(best) :], best, where="post", color=_BEST, label="best so far")
        axes.set_xlabel(label)
        axes.grid(alpha=0.25)
        axes.set_xlim(left=0)
    values = [trial.value for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None]
    if values:
        least, middle = min(values), sorted(values)[len(values) // 2]
        margin = max(middle - least, 1e-3)
        left.set_ylim(least - 0.15 * margin, middle + 2.5 * margin)  # a few bad ones shall not flatten all others
    left.set_ylabel("validation RMSE (in ratings)")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(title)
    write_figure(path, figure)


def _ended(trial: FrozenTrial) -> float:
    return trial.datetime_complete.timestamp() if trial.datetime_complete else 0.0


def _best_so_far(trials: Sequence[FrozenTrial]) -> list[float]:
    """From the first trial on that ran to its end."""
    scores = [
        trial.value if trial.state == TrialState.COMPLETE and trial.value is not None else float("inf")
        for trial in trials
    ]
    return [best for best in accumulate(scores, min) if best < float("inf")]

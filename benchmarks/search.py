"""Three samplers at the same cost: the paper's genetic algorithm, chance, and Optuna's TPE.

    COFILL_DATA=folder python benchmarks/search.py ml-100k --trials 100 --seeds 5 --out search

Each search sees the training part of a random 90/10 split, and is scored on validation ratings out of it; the test part
is never looked at. The seed chooses the split, the validation ratings and the draws of the sampler. What is interrupted
goes on with the same command. The last columns tell what the trials cost: epochs, and minutes of one core.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from optuna import Study
from optuna.trial import TrialState

from cofill import load_dataset, split
from cofill.config import CFNSettings
from cofill.data.datasets import UnpublishedFileWarning
from cofill.evaluation import Interval
from cofill.progress import shown
from cofill.tuning.search import search
from cofill.tuning.search_data import SearchData
from cofill.tuning.study import FINISHED, Plan, Sampler, storage_url

SAMPLERS: tuple[Sampler, ...] = ("genetic", "random", "tpe")


def best_by_trials(study: Study, trials: int) -> list[float]:
    """The least validation RMSE after 1, 2, ... trials, in the order in which they ended."""
    finished = study.get_trials(deepcopy=False, states=FINISHED)
    finished.sort(key=lambda trial: trial.datetime_complete.timestamp() if trial.datetime_complete else 0.0)
    scores = [
        trial.value if trial.state == TrialState.COMPLETE and trial.value is not None else np.inf for trial in finished
    ]
    best: list[float] = np.minimum.accumulate(scores[:trials]).tolist()
    return best


def cost(study: Study) -> tuple[float, float]:
    """Epochs, and minutes of one core."""
    finished = study.get_trials(deepcopy=False, states=FINISHED)
    epochs = sum(len(trial.intermediate_values) for trial in finished)
    return float(epochs), sum(trial.duration.total_seconds() / 60 for trial in finished if trial.duration)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=("ml-100k", "ml-1m"))
    parser.add_argument("--orientation", choices=("item", "user"), default="item")
    parser.add_argument("--ranges", choices=("cofill", "paper"), default="cofill")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, help="processes of one thread each (default: the cores)")
    parser.add_argument("--out", type=Path, default=Path("search"), help="folder for the studies (default search)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    options.out.mkdir(parents=True, exist_ok=True)
    ratings = load_dataset(options.dataset, quiet=True)
    curves: dict[Sampler, list[list[float]]] = {name: [] for name in SAMPLERS}
    costs: dict[Sampler, list[tuple[float, float]]] = {name: [] for name in SAMPLERS}
    for seed in range(options.seeds):
        data = SearchData.of(split(ratings, "random", 0.9, seed).train)
        settings = CFNSettings(orientation=options.orientation, seed=seed)
        for sampler in SAMPLERS:
            plan = Plan.of("rmse", data, settings, sampler, options.ranges)
            name = f"{options.dataset}-{options.orientation}-{options.ranges}-{sampler}-{seed}"
            with shown() as progress:
                study = search(
                    data, plan, url=storage_url(options.out), name=name,
                    trials=options.trials, workers=options.workers, progress=progress,
                )  # fmt: skip
            curves[sampler].append(best_by_trials(study, options.trials))
            costs[sampler].append(cost(study))
            print(f"{name}: {curves[sampler][-1][-1]:.4f}", flush=True)
    marks = [mark for mark in (20, 50, 100, 150, 200) if mark < options.trials] + [options.trials]
    print(f"best validation RMSE, mean of {options.seeds} searches and 95 % interval, after so many trials:")
    print(f"| sampler | {' | '.join(map(str, marks))} | epochs | minutes |")
    print("|---" * (len(marks) + 3) + "|")
    for sampler in SAMPLERS:
        cells = [str(Interval.of([curve[mark - 1] for curve in curves[sampler]])) for mark in marks]
        epochs, minutes = np.mean(costs[sampler], axis=0)
        print(f"| {sampler} | {' | '.join(cells)} | {epochs:.0f} | {minutes:.1f} |")


if __name__ == "__main__":
    main()

"""cofill tune RATINGS"""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cofill.cli.options import add_json, add_reading, add_settings, command_line, count, load_ratings, settings_from
from cofill.cli.output import note, print_json, print_table
from cofill.cli.side_information import add_side_information, matched_side, side_information_from
from cofill.config import CFNSettings
from cofill.errors import CofillError

if TYPE_CHECKING:
    from optuna import Study

    from cofill.tuning.study import Plan

_BEST, _TRIALS, _PICTURE = "best.toml", "trials.json", "search.svg"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ratings", metavar="RATINGS", help="a ratings file, or a data set's name such as ml-1m")
    parser.add_argument(
        "--out", type=Path, default=Path("tuning"), metavar="DIR",
        help=f"folder for {_BEST}, {_TRIALS}, {_PICTURE} and the study (default tuning)",
    )  # fmt: skip
    parser.add_argument(
        "--sampler", choices=("genetic", "tpe", "random"), default="genetic",
        help="sampler of the next settings: the paper's genetic algorithm (default), Optuna's TPE, or random",
    )  # fmt: skip
    parser.add_argument(
        "--ranges", choices=("cofill", "paper"), default="cofill",
        help="search space: ranges around the defaults (default), or the seven hyperparameters of the paper",
    )  # fmt: skip
    parser.add_argument(
        "--trials", type=count, default=200, metavar="N",
        help="stop when the study has this many finished trials, earlier runs included (default 200)",
    )  # fmt: skip
    parser.add_argument(
        "--workers",
        type=count,
        metavar="N",
        help="number of worker processes, one thread each (default: one for each core)",
    )
    parser.add_argument(
        "--storage", metavar="URL",
        help="database of the study, such as sqlite:///all.db or postgresql://... (default: study.db in DIR)",
    )  # fmt: skip
    parser.add_argument(
        "--study", default="cofill", metavar="NAME", help="name of the study in that database (default cofill)"
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    add_json(parser)
    add_side_information(parser)
    add_settings(parser)
    add_reading(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.tuning import require_optuna

    require_optuna()
    settings = settings_from(options)
    ratings = load_ratings(options.ratings, options)
    side = side_information_from(options)
    matched_side("item", side.items, ratings)
    matched_side("user", side.users, ratings)

    from cofill.crew import orderly_termination
    from cofill.tuning.search import search, search_progress
    from cofill.tuning.search_data import SearchData
    from cofill.tuning.storage import storage_explained, storage_url
    from cofill.tuning.study import Plan, open_study

    data = SearchData.of(ratings, settings.orientation, side.items, side.users)
    data.check(settings)
    features = data.features.shape[1] > 0
    plan = Plan.of(settings, options.ranges, options.sampler, data.fingerprint(), features=features)
    options.out.mkdir(parents=True, exist_ok=True)
    url = options.storage or storage_url(options.out)
    study = open_study(url, options.study, plan)
    if not options.quiet:
        genes = ", ".join(gene.setting for gene in plan.genes)
        note(f"{len(ratings):,} ratings; searching {genes}")
    started = time.perf_counter()
    with storage_explained(url):
        try:
            with search_progress(options.quiet) as watch, orderly_termination():
                search(
                    data, plan, url=url, name=options.study,
                    trials=options.trials, workers=options.workers, watch=watch,
                )  # fmt: skip
        except (KeyboardInterrupt, SystemExit):
            note("the same command goes on where this search stopped")
            raise
        finally:
            _write(study, plan, options, url)
        _show(study, plan, options, url, time.perf_counter() - started)
    return 0


def _write(study: "Study", plan: "Plan", options: argparse.Namespace, url: str) -> None:
    """Write all results so far; the best settings only if a trial has finished."""
    from cofill.tuning.results import best_trial, draw_search, write_best, write_trials
    from cofill.tuning.storage import shown_url
    from cofill.tuning.study import FINISHED

    write_trials(options.out / _TRIALS, study)
    finished = len(study.get_trials(deepcopy=False, states=FINISHED))
    if finished:
        draw_search(options.out / _PICTURE, study, f"{options.study}: {finished} trials, sampler {plan.sampler}")
    try:
        best = best_trial(study)
    except CofillError:
        return
    remarks = [
        f"validation RMSE {best.value:.5f} in trial {best.number}, the best of {finished}",
        f"study {options.study} in {shown_url(url)}",
        _this_search(options, plan),
    ]
    write_best(options.out / _BEST, best, plan, remarks)


def _this_search(options: argparse.Namespace, plan: "Plan") -> str:
    """The command that repeats this search; settings of --config are written out, because the file may change."""
    settings = plan.settings
    fixed = {name: getattr(settings, name) for name in ("orientation", "seed", *sorted(settings.model_fields_set))}
    elsewhere = dict.fromkeys(("config", "out", "storage", "study", "quiet", "json"))
    return command_line("tune", add_options, vars(options) | elsewhere | fixed)


def _training(options: argparse.Namespace) -> str:
    """The command that trains with the best settings on the same data, read in the same way."""
    from cofill.cli import train

    same = {name: value for name, value in vars(options).items() if name not in CFNSettings.model_fields}
    here = {"config": options.out / _BEST, "out": "model", "quiet": None, "json": None}
    return command_line("train", train.add_options, same | here)


def _show(study: "Study", plan: "Plan", options: argparse.Namespace, url: str, seconds: float) -> None:
    from optuna.trial import TrialState

    from cofill.tuning.results import best_settings, best_trial, describe
    from cofill.tuning.storage import shown_url

    best = best_trial(study)
    states = [trial.state for trial in study.get_trials(deepcopy=False)]
    summary = {
        "study": options.study,
        "storage": shown_url(url),
        "sampler": plan.sampler,
        "ranges": plan.ranges,
        "complete": states.count(TrialState.COMPLETE),
        "stopped_early": states.count(TrialState.PRUNED),
        "failed": states.count(TrialState.FAIL),
        "seconds": seconds,
        "best": describe(best) | {"settings": best_settings(best, plan)},
        "config": str(options.out / _BEST),
    }
    if options.json:
        print_json(summary)
        return
    lines = [
        ("validation RMSE", best.value),
        ("trial", best.number),
        ("trials that ran to their end", summary["complete"]),
        ("trials stopped early", summary["stopped_early"]),
        ("seconds of this run", seconds),
        *best.params.items(),
    ]
    print_table(f"Best settings, in {options.out / _BEST}", ("what", "value"), lines)
    if not options.quiet:
        note(f"next: {_training(options)}")

"""cofill tune RATINGS"""

import argparse
import time
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from cofill.charts.markup import Amount
from cofill.cli.options import (
    add_output,
    add_ray,
    add_reading,
    add_settings,
    check_ray,
    count,
    load_ratings,
    settings_of,
    words_about_files,
)
from cofill.cli.output import note, note_if_stopped, print_json, print_table
from cofill.cli.side_information import add_side_information, matched_side, side_information_from
from cofill.config import CFNSettings, ListSettings
from cofill.errors import CofillError, SettingsError
from cofill.progress import duration, shown

if TYPE_CHECKING:
    from optuna import Study

    from cofill.data.described import SideInformation
    from cofill.data.ratings import Ratings
    from cofill.tuning.search_data import SearchData
    from cofill.tuning.study import GoalName, Plan

COMMON = ("--config", "--set", "--seed", "--item-features", "--user-features")
_BEST, _TRIALS, _PICTURE = "best.toml", "trials.json", "search.svg"


def add_tune(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ratings", metavar="RATINGS", help="a file, or a data set's name such as ml-1m")
    parser.add_argument(
        "--goal", choices=("rmse", "ndcg"),
        help="objective; rmse, the error of predicted ratings, searches the network (default for ratings); ndcg, the "
        "quality of recommended lists, the list scorer (default for interactions)",
    )  # fmt: skip
    parser.add_argument(
        "--validation-by", choices=("random", "time"),
        help="of --goal ndcg: on a random share or the latest; as a recommender in use would be (default random)",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path("tuning"), metavar="DIR",
        help=f"folder for results (default tuning); {_BEST}, {_TRIALS}, {_PICTURE} and the study",
    )  # fmt: skip
    parser.add_argument(
        "--sampler", choices=("genetic", "tpe", "random"), default="genetic",
        help="of the next settings (default genetic); the paper's genetic algorithm, Optuna's TPE, or random",
    )  # fmt: skip
    parser.add_argument(
        "--ranges", choices=("cofill", "paper"), default="cofill",
        help="search space (default cofill); ranges around the defaults, or, with --goal rmse, the seven "
        "hyperparameters of the paper",
    )  # fmt: skip
    parser.add_argument(
        "--trials", type=count, default=200, metavar="N",
        help="finished trials of the study; earlier runs included (default 200)",
    )  # fmt: skip
    parser.add_argument(
        "--workers",
        type=count,
        metavar="N",
        help="worker processes (default: one for each core)",
    )
    add_ray(parser, "run the trials on a Ray cluster")
    parser.add_argument(
        "--storage", metavar="URL",
        help="database of the study (default: study.db in DIR); such as sqlite:///all.db or postgresql://...",
    )  # fmt: skip
    parser.add_argument("--study", default="cofill", metavar="NAME", help="its name in that database (default cofill)")
    add_output(parser)
    add_side_information(parser)
    add_settings(parser)
    add_reading(parser)


def run_tune(options: argparse.Namespace) -> int:
    from cofill.tuning import require_optuna

    require_optuna()
    check_ray(options)
    settings = settings_of(options, CFNSettings)
    ratings = load_ratings(options.ratings, options)
    goal = _goal(options, ratings, settings)
    side = side_information_from(options)
    matched_side("item", side.items, ratings)
    matched_side("user", side.users, ratings)

    from cofill.tuning.search import search
    from cofill.tuning.study import open_study, storage_explained, storage_url
    from cofill.workers import orderly_termination

    data, plan = _planned(goal, ratings, side, settings, options)
    options.out.mkdir(parents=True, exist_ok=True)
    url = options.storage or storage_url(options.out)
    study = open_study(url, options.study, plan)
    if not options.quiet:
        genes = ", ".join(plan.space)
        aim = f", scored by {plan.goal.label}" if goal == "ndcg" else ""
        note(f"{len(ratings):,} {ratings.plural}; searching {genes}{aim}")
    started = time.perf_counter()
    with storage_explained(url):
        stopped = note_if_stopped("the same command goes on where this search stopped")
        try:
            with stopped, shown(options.quiet) as progress, orderly_termination():
                search(
                    data, plan, url=url, name=options.study,
                    trials=options.trials, workers=options.workers, progress=progress, ray=options.ray,
                )  # fmt: skip
        finally:
            _write(study, plan, options, url)
        _show(study, plan, options, url, time.perf_counter() - started)
    return 0


def _goal(options: argparse.Namespace, ratings: "Ratings", settings: CFNSettings) -> "GoalName":
    """What to search for; options that another goal or other data would need are refused."""
    goal: GoalName = options.goal or ("rmse" if ratings.rated else "ndcg")
    if goal == "rmse" and not ratings.rated:
        raise SettingsError("interactions have no ratings whose RMSE could be measured; use --goal ndcg")
    if goal == "rmse" and options.validation_by:
        raise SettingsError("--validation-by is for --goal ndcg; leave it out: the network is validated at random")
    if goal == "ndcg" and options.ranges != "cofill":
        raise SettingsError(f"the ranges {options.ranges} are of the network; leave out --ranges, or use --goal rmse")
    if not ratings.rated:
        for name in sorted(settings.model_fields_set - ListSettings.model_fields.keys() - {"validation"}):
            raise SettingsError(f"{name} is a setting of the network, which learns from ratings alone; leave it out")
    return goal


def _planned(
    goal: "GoalName", ratings: "Ratings", side: "SideInformation", settings: CFNSettings, options: argparse.Namespace
) -> "tuple[SearchData, Plan]":
    from cofill.tuning.search_data import SearchData, ValidationBy
    from cofill.tuning.study import Plan

    data = SearchData.of(ratings, side.items, side.users)
    by: ValidationBy = options.validation_by or "random"
    if goal == "ndcg":
        data.check(settings, by)
    elif settings.orientation == "both":
        raise SettingsError("a search is for one network at a time; use --orientation item, then user")
    else:
        data.check(settings)
    return data, Plan.of(goal, data, settings, options.sampler, options.ranges, by)


def _write(study: "Study", plan: "Plan", options: argparse.Namespace, url: str) -> None:
    """Write all results so far; the best settings only if a trial has finished."""
    from cofill.tuning.results import best_trial, draw_search, write_best, write_trials
    from cofill.tuning.study import FINISHED, shown_url

    write_trials(options.out / _TRIALS, study, plan)
    finished = len(study.get_trials(deepcopy=False, states=FINISHED))
    if finished:
        draw_search(options.out / _PICTURE, study, f"{options.study}: {finished} trials, sampler {plan.sampler}")
    try:
        best = best_trial(study)
    except CofillError:
        return
    remarks = [
        f"{plan.goal.label} {best.value:.5f} in trial {best.number}, the best of {finished}",
        f"study {options.study} in {shown_url(url)}",
        options.call,
    ]
    write_best(options.out / _BEST, best, plan, remarks)


def _show(study: "Study", plan: "Plan", options: argparse.Namespace, url: str, seconds: float) -> None:
    from optuna.trial import TrialState

    from cofill.tuning.results import best_settings, best_trial, describe
    from cofill.tuning.study import shown_url

    best = best_trial(study)
    states = [trial.state for trial in study.get_trials(deepcopy=False)]
    summary = {
        "study": options.study,
        "storage": shown_url(url),
        "goal": plan.goal_name,
        "sampler": plan.sampler,
        "ranges": plan.ranges,
        "complete": states.count(TrialState.COMPLETE),
        "stopped_early": states.count(TrialState.PRUNED),
        "failed": states.count(TrialState.FAIL),
        "seconds": seconds,
        "best": describe(best, plan) | {"settings": best_settings(best, plan)},
        "config": str(options.out / _BEST),
    }
    if options.json:
        print_json(summary)
        return
    lines = [
        (plan.goal.label, best.value),
        ("trial", best.number),
        ("trials that ran to their end", summary["complete"]),
        ("trials stopped early", summary["stopped_early"]),
        ("time of this run", Amount(duration(seconds))),
        *plan.values(best.params).items(),
    ]
    print_table(f"Best settings, in {options.out / _BEST}", ("what", "value"), lines)
    if not options.quiet:
        same = "".join(f" {quote(word)}" for word in words_about_files(options, add_side_information))
        note(
            f"next: cofill train {quote(options.ratings)} --out model --config {quote(str(options.out / _BEST))}{same}"
        )

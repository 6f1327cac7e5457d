"""How good a model is: cofill evaluate MODEL RATINGS, cofill report MODEL [--test RATINGS]"""

import argparse
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from cofill.cli.options import add_model, add_output, add_reading, add_scoring, check_ray, count, division, load_ratings
from cofill.cli.output import note, print_json, print_table
from cofill.errors import DataError, UnknownIdError
from cofill.memory import data_size
from cofill.progress import share_done

if TYPE_CHECKING:
    from cofill.cluster.score import ModelOutline
    from cofill.data.ratings import Ratings, Scale
    from cofill.evaluation import Cluster, Evaluation, ListCluster, MeasuredLists, RankingEvaluation, UserCluster
    from cofill.models.lists.rules import By
    from cofill.models.recommender import Recommender
    from cofill.report import Subject

_LENGTH = 10


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("ratings", metavar="RATINGS", help="test ratings: a file, or a data set's name")
    parser.add_argument(
        "--group-by",
        choices=("items", "users"),
        help="show errors by popularity of items or of users; --json has both (default items)",
    )
    parser.add_argument(
        "--ranking",
        action="store_true",
        help="also measure the recommended lists (top-N metrics), beside those of the most popular items; "
        "interactions are measured by lists alone",
    )
    parser.add_argument("--top", type=count, metavar="N", help=f"measure lists of this length (default {_LENGTH})")
    parser.add_argument(
        "--relevant",
        type=float,
        metavar="RATING",
        help="with --ranking: ratings from this one on are relevant (default: the upper quarter of the scale)",
    )
    parser.add_argument(
        "--fold-in",
        metavar="RATINGS",
        help="measure lists for users who are new to the model, by these ratings of theirs (strong generalisation; "
        "`cofill split --strategy strong`)",
    )
    parser.add_argument(
        "--fold-in-ratings",
        type=count,
        metavar="N",
        help="with --fold-in: tell the model no more than N ratings of each user, drawn at random (default: all)",
    )
    parser.add_argument(
        "--strategy",
        choices=("last", "time"),
        help="measure lists of what users do next: RATINGS are the last of each user (last), or all that came after a "
        "moment (time: the next item, all later ones, and the last with what came before it folded in)",
    )
    parser.add_argument(
        "--train",
        metavar="RATINGS",
        help="with --strategy: fit popularity, recent popularity, a Markov chain, EASE and lists without order on "
        "these training ratings, and show them beside",
    )
    add_scoring(parser, "measure by tasks over ranges of users on a Ray cluster")
    add_output(parser)
    add_reading(parser)
    parser.set_defaults(refuse=parser.error)


def run_evaluate(options: argparse.Namespace) -> int:
    from cofill.cluster.score import ModelOutline
    from cofill.evaluation import evaluate
    from cofill.models.recommender import Recommender

    if options.fold_in_ratings is not None and options.fold_in is None:
        options.refuse("--fold-in-ratings says how much of --fold-in to use; add --fold-in")
    if options.strategy is not None:
        return _next_items(options)
    if options.train is not None:
        options.refuse("--train is what baselines of next items are fitted on; add --strategy")
    check_ray(options)
    model = Recommender.load(options.model) if options.ray is None else ModelOutline(options.model)
    test = load_ratings(options.ratings, options)
    rated = getattr(test, "rated", True) and model.rated
    errors = rated and options.fold_in is None
    lists = options.ranking or not errors or options.top is not None or options.relevant is not None
    if options.group_by is not None and not errors:
        options.refuse("--group-by groups the errors of predicted ratings, which are not measured here; leave it out")
    if not rated:
        note("there are no ratings to compare predictions with: only lists are measured")
    result: Evaluation | None = None
    rankings: Mapping[By, RankingEvaluation]
    if isinstance(model, Recommender):
        seen = warn_of_data(model, test, left_out=lists)
        if errors:
            with share_done("predicting", options.quiet) as report:
                result = evaluate(model, test, intervals=True, report=report)
        rankings = _rankings(model, test, options) if lists else {}
    else:
        seen, result, rankings = _on_cluster(model, test, options, errors=errors, lists=lists)
    if options.json:
        names = {"list": "ranking", "rating": "ranking_by_rating"}
        measured = {names[by]: ranking.as_json() for by, ranking in rankings.items()}
        print_json({**(result.as_json() if result else {}), "trained_on": seen, **measured})
        return 0
    if result:
        _print_ratings(result, options)
    if rankings:
        _print_rankings(rankings, options)
    return 0


def _next_items(options: argparse.Namespace) -> int:
    """Measure lists of what users do next."""
    from cofill.evaluation.next_items import QUESTIONS, evaluate_next, fitted_beside
    from cofill.models.recommender import Recommender

    for name in ("group_by", "relevant", "fold_in", "ray"):
        if getattr(options, name) is not None:
            options.refuse(f"--{name.replace('_', '-')} says nothing about what users do next; leave it out")
    models, test = {"this model": Recommender.load(options.model)}, load_ratings(options.ratings, options)
    if options.train is not None:
        with share_done("fitting baselines", options.quiet) as report:
            models |= fitted_beside(load_ratings(options.train, options), report)
    n, questions = options.top or _LENGTH, QUESTIONS[options.strategy]
    found: dict[str, dict[str, RankingEvaluation]] = {}
    with share_done("ranking", options.quiet) as report:
        for number, (name, model) in enumerate(models.items()):
            part = _part_of(report, number, len(models))
            for place, question in enumerate(questions):
                share = _part_of(part, place, len(questions))
                found.setdefault(name, {})[question] = evaluate_next(model, test, question=question, n=n, report=share)
    if options.json:
        print_json({name: {question: one.as_json() for question, one in own.items()} for name, own in found.items()})
        return 0
    for question in questions:
        first = found["this model"][question]
        rows = [(name, own[question].ndcg, own[question].recall, own[question].mrr) for name, own in found.items()]
        if options.train is None:
            rows.append(("popularity", first.popularity.ndcg, first.popularity.recall, first.popularity.mrr))
        what = {"next": "The next item", "all": "All later items", "last": "The last item, with all before it known"}
        print_table(
            f"{what[question]} of {first.users:,} users, out of all that they had not chosen",
            ("lists by", f"NDCG@{n}", f"{'recall' if question == 'all' else 'hit rate'}@{n}", "MRR"),
            rows,
        )
        if first.unknown_items:
            note(f"{first.unknown_items:,} of {first.ratings:,} items are unknown to the model: missed")
    return 0


def _on_cluster(
    model: "ModelOutline", test: "Ratings", options: argparse.Namespace, *, errors: bool, lists: bool
) -> "tuple[int, Evaluation | None, Mapping[By, RankingEvaluation]]":
    from cofill.cluster.evaluate import ListQuestion, evaluate_on_cluster
    from cofill.workers import orderly_termination

    question = None
    if lists:
        question = ListQuestion(
            kinds=("list", "rating") if model.rated else ("list",),
            n=options.top or _LENGTH,
            relevant=options.relevant,
            fold_in=None if options.fold_in is None else _fold_in(options),
        )
    with share_done("measuring", options.quiet) as report, orderly_termination():
        found = evaluate_on_cluster(model, test, division(options), errors=errors, lists=question, report=report)
    _warn(found.trained_on, model.scale, test, left_out=lists)
    return found.trained_on, found.ratings, found.rankings


def _rankings(model: "Recommender", test: "Ratings", options: argparse.Namespace) -> "Mapping[By, RankingEvaluation]":
    """The lists of every kind that the model makes."""
    from cofill.evaluation import evaluate_newcomers, evaluate_ranking

    settings: dict[str, Any] = {"n": options.top or _LENGTH, "relevant": options.relevant}
    measure: Callable[..., RankingEvaluation] = partial(evaluate_ranking, model, test, **settings)
    if options.fold_in is not None:
        measure = partial(evaluate_newcomers, model, _fold_in(options), test, **settings)
    kinds: tuple[By, ...] = ("list", "rating") if model.rated else ("list",)
    found: dict[By, RankingEvaluation] = {}
    with share_done("ranking", options.quiet) as report:
        for by in kinds:
            found[by] = measure(by=by, report=_part_of(report, len(found), len(kinds)))
    return found


def _fold_in(options: argparse.Namespace) -> "Ratings":
    """What is told of users who are new to the model."""
    from cofill.data.splits import at_most_each

    told = load_ratings(options.fold_in, options)
    return told if options.fold_in_ratings is None else at_most_each(told, most=options.fold_in_ratings)


def _part_of(report: Callable[[float], None] | None, number: int, parts: int) -> Callable[[float], None] | None:
    return None if report is None else lambda share: report((number + share) / parts)


def _print_ratings(result: "Evaluation", options: argparse.Namespace) -> None:
    title, names = f"{options.model} on {options.ratings}", ("RMSE", "MAE", "within 90 % interval")
    whole = (result.rmse, result.mae, result.within_interval, result.ratings, result.cold)
    print_table(title, (*names, "ratings", "of these cold"), [whole])
    by = options.group_by or "items"
    rows = [
        (_fifth(group), group.most_training_ratings, group.ratings, group.rmse, group.mae, group.within_interval)
        for group in (result.clusters if by == "items" else result.user_clusters)
    ]
    title = f"By number of training ratings of the {by.removesuffix('s')}"
    print_table(title, (by, "training ratings up to", "test ratings", *names), rows)


def _fifth(group: "Cluster | UserCluster | ListCluster") -> str:
    return f"{group.share_from:.0%} to {group.share_to:.0%}"


def _print_rankings(found: "Mapping[By, RankingEvaluation]", options: argparse.Namespace) -> None:
    one = found["list"]
    rows: dict[str, MeasuredLists] = {str(by): lists for by, lists in found.items()}
    rows["popularity"] = one.popularity
    which = "every interaction is relevant" if one.relevant is None else f"relevant from {one.relevant:g}"
    who = "new users" if options.fold_in else "users"
    measures = ("NDCG", "precision", "recall", "F1", "MRR", "coverage", "novelty")
    print_table(
        f"Lists of {one.n} for {one.users:,} {who}, out of all items they had not rated; {which}: {one.ratings:,} "
        f"{'interactions' if one.relevant is None else 'ratings'}",
        ("lists by", *measures, "capped recall@20", "NDCG@100"),
        [
            (
                name,
                *(getattr(lists, measure.lower()) for measure in measures),
                lists.at(20).recall_capped,
                lists.at(100).ndcg,
            )
            for name, lists in rows.items()
        ],
    )
    groups = [
        (_fifth(group), group.most_training_ratings, group.ratings, *(own.clusters[at].recall for own in rows.values()))
        for at, group in enumerate(one.clusters)
    ]
    title = f"Recall of lists of {one.n} by number of training ratings of the item"
    print_table(title, ("items", "training ratings up to", "relevant", *(f"by {name}" for name in rows)), groups)
    title = f"Share of the places in lists of {one.n} by number of training ratings of the item"
    slots = [(name, lists.slots.unrated, lists.slots.few, lists.slots.more) for name, lists in rows.items()]
    print_table(title, ("lists by", "none", "1 to 5", "more"), slots)
    if one.unknown_items:
        note(f"{one.unknown_items:,} of the relevant ratings are of items that the model does not know: missed")


def warn_of_data(model: "Recommender", test: "Ratings", *, left_out: bool) -> int:
    """Count the test ratings that the model was trained on; warn about these, and about ratings outside the scale."""
    seen = model.known_pairs(test)
    _warn(seen, model.scale, test, left_out=left_out)
    return seen


def _warn(seen: int, scale: "Scale", test: "Ratings", *, left_out: bool) -> None:
    if seen:
        note(
            f"warning: the model was trained on {seen:,} of these {len(test):,} ratings, so they say little about "
            f"new ones{' (lists are measured without them)' if left_out else ''}; "
            f"cut the data with `cofill split` first"
        )
    low, high = scale
    outside = int(((test.values < low) | (test.values > high)).sum())
    if outside and getattr(test, "rated", True):
        note(
            f"warning: {outside:,} of these {len(test):,} ratings are outside the scale {low:g} to {high:g} "
            f"of the training data, where no prediction reaches; check that they are of the same kind"
        )


# cofill report


def add_report(parser: argparse.ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--test", metavar="RATINGS", help="measure on these: a file, or a data set's name")
    page = "the page (default report.html)"
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE", help=page)
    users = "whose recommendations to show (default: three examples)"
    parser.add_argument("--users", nargs="+", default=[], metavar="ID", help=users)
    add_output(parser, "show no progress and no hints")
    add_reading(parser)


def run_report(options: argparse.Namespace) -> int:
    from cofill.models.recommender import Recommender
    from cofill.report import Subject, check_report_file, write_report
    from cofill.report.subject import verdict_on

    check_report_file(options.out)
    model = Recommender.load(options.model)
    for user in options.users:
        if user not in model.users:
            raise UnknownIdError(f"user {user!r} is not in the model; check the id given to --users")
    test = load_ratings(options.test, options) if options.test is not None else None
    if test is not None:
        warn_of_data(model, test, left_out=True)
    subject = Subject(
        model,
        name=options.model.resolve().name,
        test=test,
        test_name=options.test,
        command=options.call,
        version=_version(options.model),
        users=tuple(dict.fromkeys(options.users)),
        quiet=options.quiet,
    )
    length = write_report(subject, options.out)
    if options.json:
        verdict = verdict_on(subject).sentence
        print_json({"report": str(options.out), "bytes": length, "verdict": verdict, **_measures(subject)})
        return 0
    if subject.test is not None and subject.rated:
        found, biases = subject.evaluation, subject.biases_evaluation
        columns = ("model", "RMSE", "MAE", "ratings", "of these cold")
        rows = [
            (name, measured.rmse, measured.mae, measured.ratings, measured.cold)
            for name, measured in (("this model", found), ("biases", biases))
        ]
        print_table(f"{options.model} on {options.test}", columns, rows)
    if not options.quiet:
        if subject.test is not None:
            note(verdict_on(subject).sentence)
        note(f"report: {options.out} ({data_size(length)})")
        if subject.test is None:
            measure = f"cofill report {quote(str(options.model))} --test RATINGS"
            note(f"next:   {measure}  (measures it on ratings it has not seen)")
    return 0


def _measures(subject: "Subject") -> dict[str, object]:
    if subject.test is None:
        return {"evaluation": None, "biases_evaluation": None, "ranking": None, "trained_on": None}
    ranking = subject.ranking
    return {
        "evaluation": subject.evaluation.as_json() if subject.rated else None,
        "biases_evaluation": subject.biases_evaluation.as_json() if subject.rated else None,
        "ranking": None if isinstance(ranking, DataError) else ranking.as_json(),
        "trained_on": subject.trained_on,
    }


def _version(folder: Path) -> str | None:
    """The version of cofill that wrote the model. The model was already loaded, so its metadata is valid."""
    version = json.loads((folder / "model.json").read_text(encoding="utf-8")).get("cofill_version")
    return str(version) if version is not None else None

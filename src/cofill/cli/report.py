"""cofill report MODEL [--test RATINGS]"""

import argparse
import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from cofill.cli.evaluate import warn_of_data
from cofill.cli.options import add_model, add_output, add_reading, load_ratings
from cofill.cli.output import note, print_json, print_table
from cofill.errors import DataError, UnknownIdError
from cofill.memory import data_size

if TYPE_CHECKING:
    from cofill.report import Subject


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
    from cofill.report import Subject, write_report
    from cofill.report.page import check_report_file
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

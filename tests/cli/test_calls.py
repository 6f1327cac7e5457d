"""Help, version and wrong calls."""

import re
import subprocess
import sys
from collections.abc import Callable
from inspect import signature

import pytest

from cofill import __version__
from cofill.cli.parser import COMMANDS
from cofill.cli.side_information import COLUMN_KINDS, SOURCE_KINDS
from cofill.config import CFNSettings
from cofill.data.features import Features
from cofill.data.features.lists import column_kinds, source_kinds
from tests.cli.conftest import Run

HEAVY = ("torch", "numba", "numpy", "scipy", "polars", "pydantic", "rich", "safetensors")


def test_help_shows_every_command_and_the_first_steps(run: Run) -> None:
    result = run("--help")
    assert (result.code, result.err) == (0, "")
    assert all(re.search(rf"\n    {name}\s", result.out) for name in COMMANDS)
    assert "cofill train ratings.csv --out model" in result.out


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_version(run: Run, flag: str) -> None:
    assert run(flag).out == f"cofill {__version__}\n"


@pytest.mark.parametrize(
    "command",
    [
        *([name] for name in COMMANDS),
        *(["datasets", action] for action in ("list", "fetch", "make")),
    ],
    ids=" ".join,
)
def test_every_command_has_help(run: Run, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = run(*command, "--help")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"usage: cofill {' '.join(command)}")
    assert len(result.out.splitlines()) <= 40  # one screen


def test_help_is_short_and_help_all_is_not(run: Run) -> None:
    short, whole = (run("train", flag).out for flag in ("--help", "--help-all"))
    assert "--epochs" in short
    assert "--inner-momentum" not in short
    assert "--inner-momentum" in whole
    assert "--help-all" not in run("doctor", "--help").out  # which has nothing more to show


def test_help_of_train_describes_every_setting(run: Run) -> None:
    text = " ".join(run("train", "--help-all").out.split())
    for name, field in CFNSettings.model_fields.items():
        assert f"--{name.replace('_', '-')}" in text
        assert " ".join(str(field.description).split()[:3]) in text


def test_help_of_train_says_which_setting_is_learned(run: Run) -> None:
    text = " ".join(run("train", "--help-all").out.split())
    assert "--mean-damping DAMPING shrinkage of the means" in text
    assert "(empirical Bayes, by EM) (default by the data)" in text
    assert "(default None)" not in text


def test_help_of_train_describes_side_information(run: Run) -> None:
    text = " ".join(run("train", "--help-all").out.split())
    for side in ("item", "user"):
        for what in ("features", "text", "tags", "links", "vectors"):
            assert f"--{side}-{what} FILE ..." in text
    size = signature(Features.read).parameters["reduce_to"].default
    assert f"(default {size})" in text
    assert (source_kinds(), column_kinds()) == (SOURCE_KINDS, COLUMN_KINDS)


@pytest.mark.parametrize(
    ("words", "may"),
    [(["--help"], set()), (["train", "--help"], {"pydantic"}), (["recommend", "--help"], {"pydantic"})],
)
def test_help_imports_nothing_heavy(words: list[str], may: set[str]) -> None:
    program = (
        f"import sys\nfrom cofill.cli import main\ntry:\n    main({words})\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(' '.join(name for name in {HEAVY} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(done.stderr.split()) <= may


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "required: COMMAND"),
        (["trian"], "invalid choice: 'trian' (did you mean train?)"),
        (["datasets"], "required: ACTION"),
        (["train"], "required: RATINGS, --out"),
        (["train", "r.csv", "--out", "m", "--epoch", "3"], "no option --epoch (did you mean --epochs?)"),
        (["evaluate", "m", "r.csv", "--user", "3"], "no option --user (did you mean --user-column?)"),
        (["evaluate", "m", "r.csv", "more"], "unexpected argument 'more'"),
        (["predict", "m", "p.csv", "--scale", "1", "5"], "no option --scale"),
        (["recommend", "m"], "one of the arguments --user --ratings --describe --all is required"),
        (["recommend", "m", "--user", "1", "--all"], "not allowed with"),
        (["recommend", "m", "--describe", "age"], "must be COLUMN=VALUE, such as age=25, got 'age'"),
        (["recommend", "m", "--describe", "=25"], "must be COLUMN=VALUE, such as age=25, got '=25'"),
        (["train", "r.csv", "--out", "m", "--feature-kind", "age"], "COLUMN=KIND with a kind among image, skip,"),
        (["train", "r.csv", "--out", "m", "--feature-kind", "age=long"], "text, category, got 'age=long'"),
        (["train", "r.csv", "--out", "m", "--feature-size", "0"], "must be a whole number of at least 1, got '0'"),
        (["train", "r.csv", "--out", "m", "--item-tag", "t.csv"], "no option --item-tag (did you mean --item-tags?)"),
        (["features", "f.csv", "--kind", "list"], "invalid choice: 'list'"),
        (["features"], "required: SOURCE"),
        (["recommend", "m", "--user", "1", "-n", "0"], "-n: must be a whole number of at least 1, got '0'"),
        (["recommend", "m", "--all", "-n", "-1"], "at least 1, got '-1'"),
        (["similar", "m", "--item", "1", "-n", "many"], "at least 1, got 'many'"),
        (["similar", "m"], "required: --item"),
        (["split", "r.csv", "--train", "a.csv", "--test", "b.csv", "--seed", "-1"], "at least 0, got '-1'"),
        (["split", "r.csv", "--train", "a.csv", "--test", "b.csv", "--strategy", "luck"], "invalid choice: 'luck'"),
        (["datasets", "make", "--out", "w", "--users", "0"], "--users: must be a whole number of at least 1"),
        (["datasets", "make", "--out", "w", "--like", "ml-2m"], "invalid choice: 'ml-2m'"),
        (["datasets", "make", "--out", "w", "--choice", "11"], "--choice: must be a number from 0 to 10, got '11'"),
        (["datasets", "make", "--out", "w", "--choice", "much"], "must be a number from 0 to 10, got 'much'"),
        (["demo", "--ratings", "1e5"], "--ratings: must be a whole number"),
        (["datasets", "make", "--out", "w", "--like", "ml-1m", "--size", "0"], "above 0 and at most 10, got '0'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_calls(refused: Callable[..., str], words: list[str], says: str) -> None:
    message = refused(*words, code=2)
    assert says in message
    assert "--help` tells how" in message

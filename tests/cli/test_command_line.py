"""Commands that are written for people to repeat a call: they are read back as the call that they were written from."""

import argparse
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.cli import reproduce, train, tune
from cofill.cli.options import command_line
from cofill.config import CFNSettings

CALLS = [
    "tune ml-1m",
    "tune 'odd name.csv' --seed 0 --epochs 3 --hidden 7,5 --trials 1 --out 'q?x' --sampler tpe --quiet",
    "tune r.csv --item-features a.csv 'b c.csv' --item-tags t.csv --user-links l.csv --one-way-links --feature-size 3",
    "tune r.csv --feature-kind 'a b=category' --feature-kind year=number --without-side-information",
    "tune r.csv --no-header --user-column 0 --item-column 1 --rating-column stars --separator '\t' --scale -10 10",
    "tune r.csv --header --no-refit --separator=-x",
    "train r.csv --out m --algorithm als-wr --set rank=0 --set seed=4 --config c.toml --resume",
    "reproduce rmse --dataset ml-1m --folds 2 --only V-CFN ALS-WR --no-header",
]
COMMANDS = {"tune": tune.add_options, "train": train.add_options, "reproduce": reproduce.add_options}


def parsed(command: str, words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    COMMANDS[command](parser)
    return parser.parse_args(words)


@pytest.mark.parametrize("call", CALLS)
def test_a_command_is_read_back_as_what_it_was_written_from(call: str) -> None:
    command, *words = shlex.split(call)
    options = parsed(command, words)
    program, again, *written = shlex.split(command_line(command, COMMANDS[command], vars(options)))
    assert (program, again) == ("cofill", command)
    assert parsed(command, written) == options


@settings(deadline=None, max_examples=20)
@given(st.floats(0, 10), st.lists(st.integers(1, 999), min_size=1, max_size=4), st.booleans(), st.integers(0, 2**62))
def test_settings_lose_no_digit(presence: float, hidden: list[int], refit: bool, seed: int) -> None:
    chosen = CFNSettings(presence=presence, hidden=tuple(hidden), refit=refit, seed=seed)
    values = {"ratings": "r.csv", "out": Path("m")} | {name: getattr(chosen, name) for name in CFNSettings.model_fields}
    options = parsed("train", shlex.split(command_line("train", train.add_options, values))[2:])
    found = {name: value for name, value in vars(options).items() if name in CFNSettings.model_fields}
    assert CFNSettings.of(found) == chosen


def test_what_another_command_does_not_have_is_left_out() -> None:
    options = parsed("tune", shlex.split("r.csv --sampler tpe --item-features a.csv --no-header"))
    told = command_line("train", train.add_options, vars(options) | {"out": "model"})
    assert told == "cofill train r.csv --out model --item-features a.csv --no-header"

"""The name of a run says all that its result depends on, and nothing else."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cofill.experiments.runs import Part, Run
from cofill.experiments.source_code import code_of

RUN = Run("V-CFN", "measure", "cfn", {"orientation": "item", "seed": 1}, Part("random", 0.9, 1), "aa", None)


@pytest.mark.parametrize(
    "change",
    [
        {"task": "validate"},
        {"algorithm": "autorec"},
        {"settings": {"orientation": "item", "seed": 2}},
        {"settings": {"orientation": "item", "seed": 1, "epochs": 7}},
        {"part": Part("random", 0.5, 1)},
        {"part": Part("random", 0.9, 2)},
        {"part": Part("published", fold=1)},
        {"data": "bb"},
        {"side": "cc"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_run_has_another_name(change: dict[str, Any]) -> None:
    assert replace(RUN, **change).digest != RUN.digest


def test_the_same_run_has_the_same_name_whoever_asks_for_it() -> None:
    by_default = {"orientation": "item", "seed": 1, "weight_decay": RUN.all_settings["weight_decay"]}
    assert replace(RUN, settings=by_default).digest == RUN.digest
    assert replace(RUN, label="mixed").digest == RUN.digest
    assert replace(RUN, settings={**RUN.settings, "threads": 2, "checkpoint_seconds": 1}).digest == RUN.digest


def test_a_changed_default_changes_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from cofill.config import CFNSettings
    from cofill.models.cfn.cfn import CFN

    class Changed(CFNSettings):
        patience: int = 99

    before = RUN.digest
    monkeypatch.setattr(CFN, "settings_class", Changed)
    assert replace(RUN).digest != before


def test_changed_code_of_an_algorithm_changes_the_names_of_its_own_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    als = replace(RUN, algorithm="als-wr", settings={"seed": 1})
    names = RUN.digest, als.digest
    monkeypatch.setattr("cofill.experiments.runs.code_of", lambda name: "new" if name == "cfn" else code_of(name))
    changed, same = replace(RUN), replace(als)
    assert changed.digest != names[0]
    assert changed.definition == RUN.definition
    assert same.digest == names[1]


def test_a_run_survives_json() -> None:
    again = Run.from_json(json.loads(json.dumps(RUN.as_json())))
    assert again == RUN
    assert again.digest == RUN.digest

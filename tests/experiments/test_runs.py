"""The name of a run says all that its result depends on, and nothing else; and what is finished is kept."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cofill import __version__
from cofill.errors import DataError
from cofill.experiments.runs import Part, Run, Store

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
    from cofill.models.cfn.model import CFN

    class Changed(CFNSettings):
        patience: int = 99

    before = RUN.digest
    monkeypatch.setattr(CFN, "settings_class", Changed)
    assert replace(RUN).digest != before


# The store

KEPT = Run("fitted means", "measure", "means", {"seed": 0}, Part("random", 0.9, 0), "aa", None)


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "runs")
    assert store.find(KEPT) is None
    store.keep(KEPT, {"result": {"rmse": 0.9}, "seconds": 1.5})
    found = store.find(KEPT)
    assert found is not None
    assert found["result"] == {"rmse": 0.9}
    assert found["run"]["settings"]["mean_damping"] is None
    assert [path.name for path in store.folder.iterdir()] == [f"{KEPT.digest}.json"]


def test_a_record_says_when_and_by_what_it_was_made(tmp_path: Path) -> None:
    first, second = Store(tmp_path), Store(tmp_path)
    first.keep(KEPT, {"result": {}})
    found = second.find(KEPT)
    assert found is not None
    assert found["session"] == first.session != second.session
    assert found["version"].startswith(__version__)
    assert Store(tmp_path, fresh=True).find(KEPT) is None
    assert abs((datetime.now(UTC) - datetime.fromisoformat(found["finished"])).total_seconds()) < 60


@pytest.mark.parametrize("content", ["", "{", '{"digest": "other"}', "[]"])
def test_what_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    store.path(KEPT).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"not the record of .*; remove it, and it is run again"):
        store.find(KEPT)

"""What is finished is kept, and what is broken is not taken for a result."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cofill.errors import DataError
from cofill.experiments.runs import Part, Run, Store

RUN = Run("fitted means", "measure", "means", {"seed": 0}, Part("random", 0.9, 0), "aa", None)


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "deep" / "runs")
    assert store.find(RUN) is None
    store.keep(RUN, {"result": {"rmse": 0.9}, "seconds": 1.5})
    found = store.find(RUN)
    assert found is not None
    assert found["result"] == {"rmse": 0.9}
    assert found["run"]["settings"]["mean_damping"] == 7.0
    assert [path.name for path in store.folder.iterdir()] == [f"{RUN.digest}.json"]


def test_a_record_says_when_and_by_what_it_was_made(tmp_path: Path) -> None:
    first, second = Store(tmp_path), Store(tmp_path)
    first.keep(RUN, {"result": {}})
    found = second.find(RUN)
    assert found is not None
    assert found["session"] == first.session != second.session
    assert found["code"] == RUN.code
    assert abs((datetime.now(UTC) - datetime.fromisoformat(found["finished"])).total_seconds()) < 60


def test_a_run_of_other_code_is_outdated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    assert not store.outdated(RUN)
    store.keep(RUN, {"result": {}})
    assert not store.outdated(RUN)
    monkeypatch.setattr("cofill.experiments.runs.code_of", lambda algorithm: "new")
    again = replace(RUN)
    assert store.outdated(again)
    assert store.find(again) is None
    store.keep(again, {"result": {}})
    assert not store.outdated(again)


@pytest.mark.parametrize("content", ["", "{", '{"digest": "other"}', "[]"])
def test_what_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    store.path(RUN).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"not the record of .*; remove it, and it is run again"):
        store.find(RUN)

"""What is finished is kept, and what is broken is not taken for a result."""

from pathlib import Path

import pytest

from cofill.errors import DataError
from cofill.experiments.run import Part, Run
from cofill.experiments.store import Store

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


@pytest.mark.parametrize("content", ["", "{", '{"digest": "other"}', "[]"])
def test_what_is_no_record_is_refused(tmp_path: Path, content: str) -> None:
    store = Store(tmp_path)
    store.path(RUN).write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"not the record of .*; remove it, and it is run again"):
        store.find(RUN)

"""What benchmarks/speed.py measures of lists, on shapes so small that only its form can be looked at."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("speed")


def test_the_list_scorer_is_fitted_as_after_a_training(speed: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "ratings.parquet")
    shape = speed.make_ratings("ml-1m", 0.001, 0, path)
    found = speed.fit_lists(path, {"seed": 1, "list_rank": 4})
    assert found["rank"] == 4 < shape["items"] / 20
    assert found["seconds"] > 0
    assert found["peak_bytes"] >= found["read_bytes"] > 0


def test_lists_for_everybody_stand_beside_the_product_alone(speed: Any) -> None:
    found = speed.list_everybody(items=300, users=40, rounds=2)
    assert found["users"] == 40
    assert found["matrix"] == [300, 300]
    assert found["share_of_product"] > 0
    assert found["users_per_second"] > 0
    assert found["growth_bytes"] >= 0


def test_fold_in_stands_beside_a_pass_over_the_list_scorer(speed: Any) -> None:
    found = speed.fold_in(hidden=4, items=300, ratings_each=5, requests=3, orientation="user")
    assert found["matrix"] == [300, 300]
    assert 0 < found["ours"]["p50"] <= found["ours"]["p99"]

"""benchmarks/any_data.py on sets so small that only its form, its sums and its verdicts can be looked at."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from cofill.config import Networks
from cofill.data.ratings import Ratings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def any_data(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("any_data")


@pytest.fixture
def any_data_sets(any_data: Any) -> Any:
    return import_module("any_data_sets")


def test_a_quick_run(any_data: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "found.json"
    algorithms = ["biases", "damped-means", "als-wr", "cfn-item"]
    any_data.main(["--only", "tiny", "--quick", "--splits", "2", "--json", str(path), "--algorithms", *algorithms])
    shown = capsys.readouterr()
    document = json.loads(path.read_text())
    found = document["sets"]["tiny"]
    assert found["shape"]["train"] + found["shape"]["test"] == 300
    assert list(found["algorithms"]) == algorithms
    for of in found["algorithms"].values():
        assert of["failed"] is None
        assert len(of["rmse"]) == len(of["seconds"]) == 2
        assert of["mean"] == pytest.approx(np.mean(of["rmse"]))
    to_biases = found["cofill"]["cfn-item"]["to_biases"]
    assert to_biases["to"] == "biases"
    means = {name: of["mean"] for name, of in found["algorithms"].items()}
    assert to_biases["ratio"] == pytest.approx(means["cfn-item"] / means["biases"], rel=0.02)  # pooled, not averaged
    assert document["summary"]["cfn-item"]["sets"] == 1
    assert "tiny: " in shown.out
    assert "cfn-item: first on " in shown.out
    assert "tiny: als-wr, split 1" in shown.err


def test_every_orientation_is_there(any_data: Any) -> None:
    assert list(any_data.COFILL) == [f"cfn-{orientation}" for orientation in get_args(Networks)]


def test_what_fails_has_lost(
    any_data: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(part: Any, seed: int) -> Any:
        raise ValueError("no such luck\nat all")

    def endless(part: Any, seed: int) -> Any:
        return np.full(len(part.test), np.inf)

    for name, predict in (("cfn-item", broken), ("cfn-user", endless)):
        monkeypatch.setitem(any_data.ALGORITHMS, name, predict)
    any_data.main(["--only", "tiny", "--quick", "--algorithms", "biases", "cfn-item", "cfn-user"])
    shown = capsys.readouterr().out
    assert "cfn-item       failed: ValueError: no such luck\n" in shown
    assert "predictions are no finite numbers" in shown
    for name in ("cfn-item", "cfn-user"):
        assert (
            f"{name}: first on 0 of 1 sets, within 0.5 % of the best on 0, worse than the biases beyond noise on 1"
            in shown
        )


def test_ratios_of_errors(any_data: Any) -> None:
    squares = np.random.default_rng(0).random(50) + 0.1
    same = any_data.Ratio.of([squares], [squares], "itself")
    assert (same.ratio, same.half_width, same.worse) == (1.0, 0.0, False)
    twice = any_data.Ratio.of([4 * squares], [squares], "half")
    assert twice.ratio == pytest.approx(2)
    assert twice.worse
    one = any_data.Ratio.of([squares[:1]], [squares[:1] / 4], "one user")
    assert not one.worse  # nothing is known about chance


def test_newcomers(any_data: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "found.json"
    any_data.main(
        ["--newcomers", "--only", "dense", "tiny", "--quick", "--algorithms", "cfn-item", "--json", str(path)]
    )
    found = json.loads(path.read_text())["newcomers"]
    assert [row["given"] for row in found["dense"]] == [1, 3, 5, 10, 20]
    assert len({row["asked"] for row in found["dense"]}) == 1  # the same ratings, however many are given
    assert all(row["people"] * 10 <= row["asked"] for row in found["dense"])
    for row in found["dense"]:
        assert row["cfn-item"]["ratio"] == pytest.approx(row["cfn-item"]["rmse"] / row["biases"]["rmse"])
    assert found["tiny"] == []
    assert "too few users with 30 ratings" in capsys.readouterr().out


def test_another_scale(any_data_sets: Any) -> None:
    ratings = Ratings.read(([1, 1, 2], [1, 2, 1], [1.0, 3.0, 5.0]), scale=(1, 5))
    stretched = any_data_sets.on_scale(ratings, -10.0, 10.0)
    assert stretched.values.tolist() == [-10.0, 0.0, 10.0]
    assert tuple(stretched.scale) == (-10.0, 10.0)


def test_a_share_of_the_ratings(any_data_sets: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = any_data_sets.plain_world(60, 40, 300, False, 0).train
    monkeypatch.setattr(any_data_sets, "loaded", lambda name: made)
    part = any_data_sets.thinned(20, False, 0)
    assert len(part.train) + len(part.test) == len(made) * 20 // 100


def test_who_has_no_rating_drops_out(any_data_sets: Any) -> None:
    ratings = Ratings.read(([1, 1, 2, 3], [1, 2, 1, 7], [1.0, 3.0, 5.0, 4.0]), scale=(1, 5))
    left = any_data_sets.repacked(ratings.select(np.array([False, True, False, True])))
    assert left.to_polars().rows() == [(1, 2, 3.0), (3, 7, 4.0)]
    assert (len(left.users), len(left.items)) == (2, 2)


@pytest.mark.parametrize("name", ["few-items", "sparse", "dense", "featured", "tasteless"])
def test_the_worlds(any_data_sets: Any, name: str) -> None:
    part = any_data_sets.SETS[name](True, 0)
    assert 0 < len(part.test) < len(part.train) <= any_data_sets.QUICK_RATINGS
    again = any_data_sets.SETS[name](True, 0)
    np.testing.assert_array_equal(part.train.values, again.train.values)
    assert any_data_sets.at_hand(name)
    if name == "featured":
        assert part.user_features.described(part.train.users).all()
        assert part.item_features.described(part.train.items).all()

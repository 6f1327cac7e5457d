"""What `cofill benchmark speed` measures of lists, on shapes so small that only its form can be looked at."""

from pathlib import Path

from cofill.benchmark.speed_tasks import fit_lists, fold_in, list_everybody, make_ratings
from cofill.cli.benchmark import _speed_rows


def test_the_list_scorer_is_fitted_as_after_a_training(tmp_path: Path) -> None:
    path = str(tmp_path / "ratings.parquet")
    shape = make_ratings("ml-1m", 0.001, 0, path)
    found = fit_lists(path, {"seed": 1, "list_rank": 4})
    assert found["rank"] == 4 < shape["items"] / 20
    assert found["seconds"] > 0
    assert found["peak_bytes"] >= found["read_bytes"] > 0


def test_lists_for_everybody_stand_beside_the_product_alone() -> None:
    found = list_everybody(items=300, users=40, rounds=2)
    assert found["users"] == 40
    assert found["matrix"] == [300, 300]
    assert found["share_of_product"] > 0
    assert found["users_per_second"] > 0
    assert found["growth_bytes"] >= 0


def test_fold_in_stands_beside_a_pass_over_the_list_scorer() -> None:
    found = fold_in(hidden=4, items=300, ratings_each=5, requests=3, orientation="user")
    assert found["matrix"] == [300, 300]
    assert 0 < found["ours"]["p50"] <= found["ours"]["p99"]


def test_the_rows_of_the_table() -> None:
    latency = {"p50": 0.002, "p99": 0.004}
    rows = dict(
        _speed_rows(
            {
                "users": 10,
                "items": 20,
                "ratings": 100,
                "epoch_seconds": [1.0, 2.0],
                "ratings_per_second": 50.0,
                "times_densified_torch": 40.0,
                "triad_bandwidth": 2e10,
                "share_of_triad": 0.5,
                "features": 70,
                "times_seconds_with_features": 1.1,
                "peak_bytes": 10**9,
                "fold_in": {"user": {"ours": latency, "numpy": latency, "matrix": [20, 8]}},
                "list_scorer": {
                    "seconds": 3.0,
                    "rank": 8,
                    "peak_bytes": 2 * 10**9,
                    "epochs": 10,
                    "share_of_epochs": 0.2,
                },
                "lists_for_everybody": {
                    "matrix": [20, 8],
                    "users_per_second": 1234.5,
                    "share_of_product": 0.6,
                    "growth_bytes": 0,
                },
            }
        )
    )
    assert rows["fit of the list scorer, rank 8"] == "3.0 s, 0.20 of the time of 10 epochs"
    assert rows["peak memory of that fit, with the ratings"] == "2.0 GB"
    assert "60% of the speed of the matrix product alone" in rows["lists for everybody, 20 items"]
    assert rows["fold-in and top 10 of 20, user rows"].endswith("ratio 1.0 and 1.0")

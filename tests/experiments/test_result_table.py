"""Tables as people and programs read them."""

from cofill.evaluation import Interval
from cofill.experiments import paper
from cofill.experiments.plan import Column, Table

TABLE = Table(
    "Some",
    [
        {
            "who": "A|B",
            Column("RMSE", 3): Interval.of([1.0, 2.0, 3.0]),
            "nothing": None,
            Column("gain", 1, " %", signed=True): 1.25,
            "count": 1234,
        },
        {"who": "C", Column("RMSE", 3): Interval.of([0.5])},
    ],
)


def test_a_table_in_markdown() -> None:
    # Student's t of two degrees of freedom at 97.5 % is 4.3027; the deviation is 1, of three values.
    assert TABLE.markdown().splitlines() == [
        "| who | RMSE | gain | count |",
        "| --- | ---: | ---: | ---: |",
        "| A\\|B | 2.000 ± 2.484 | +1.2 % | 1,234 |",
        "| C | 0.500 | - | - |",
    ]


def test_a_table_in_json_has_every_column_and_every_value() -> None:
    first, second = TABLE.as_json()["rows"]
    assert first["RMSE"]["values"] == [1.0, 2.0, 3.0]
    assert second == {
        "who": "C",
        "RMSE": {"mean": 0.5, "half_width": None, "values": [0.5]},
        "nothing": None,
        "gain": None,
        "count": None,
    }


def test_the_figures_of_the_paper_agree_with_each_other() -> None:
    for gains in paper.BY_CLUSTER.values():
        for gain in gains:  # within what rounding and a few digits typed by hand allow
            assert abs((1 - gain.hybrid / gain.plain) * 100 - gain.percent) < 0.05
    assert paper.BY_CLUSTER[0.9][-1].plain == paper.RMSE["ml-10m"]["V-CFN"].mean
    assert sum(len(algorithms) for algorithms in paper.RMSE.values()) == 9 + 8 + 8 + 7

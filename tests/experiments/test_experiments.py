"""What the experiments show of records whose figures are known, and that each runs from end to end."""

from dataclasses import replace
from typing import Any

import pytest

from cofill.data.described import SideInformation
from cofill.errors import SettingsError
from cofill.evaluation import Interval
from cofill.experiments import EXPERIMENTS, experiment, paper
from cofill.experiments.plan import LINEUP, LISTS, PAPER, Cell, Plan, Table, reproduce
from cofill.experiments.runs import Part, Protocol, Run, Store

from .conftest import MakePlan


def keep(plan: Plan, label: str, split: int, result: dict[str, Any], threads: int = 2, **how: Any) -> None:
    plan.store.keep(plan.run(LINEUP[label], split, **how), {"result": result, "seconds": 1.0, "threads": threads})


def measured(rmse: float, clusters: tuple[float | None, ...] = ()) -> dict[str, Any]:
    found = {"rmse": rmse, "mae": rmse / 2, "training_seconds": 3.0, "ranking": None, "ranking_problem": "none"}
    return found | {"clusters": [{"rmse": value} for value in clusters]}


def cells(table: Table, row: str) -> dict[str, Cell]:
    (found,) = (cells for cells in table.rows if row in cells.values())
    return {table.columns[key].name: cell for key, cell in found.items()}


def names(table: Table) -> list[str]:
    return [str(next(iter(row.values()))) for row in table.rows]


def test_rmse_beside_the_paper(make_plan: MakePlan) -> None:
    plan = make_plan(dataset="ml-1m", published="ml-1m")
    for split, (means, vcfn) in enumerate([(0.90, 0.83), (0.92, 0.85)]):
        keep(plan, "ALS-WR", split, measured(means))
        keep(plan, "V-CFN", split, measured(vcfn))
    result = experiment("rmse").show(plan)
    accuracy, compared = result.tables
    found = cells(accuracy, "ALS-WR")
    assert found["RMSE"] == Interval.of([0.90, 0.92])
    assert found["paper's RMSE"] == paper.RMSE["ml-1m"]["ALS-WR"]
    assert found["difference"] == pytest.approx((0.91 / 0.8433 - 1) * 100)
    assert found["seconds"] == 3.0
    assert cells(accuracy, "fitted means")["paper's RMSE"] is None
    assert cells(accuracy, "V-CFN (paper)")["paper's RMSE"] == paper.RMSE["ml-1m"]["V-CFN"]
    assert cells(accuracy, "LLORMA")["RMSE"] is None
    against = cells(compared, "ALS-WR")
    gain = against["better than V-CFN by"]
    assert isinstance(gain, Interval)
    assert gain.values == pytest.approx([-7 / 0.83, -7 / 0.85])
    # Two values: t is 12.7062, their deviation |a - b| / sqrt 2, and the overlap of 90/10 splits 1/9.
    spread = abs(gain.values[0] - gain.values[1]) / 2**0.5
    assert gain.half_width == pytest.approx(12.7062 * spread * (1 / 2 + 1 / 9) ** 0.5, rel=1e-4)
    assert names(compared) == ["ALS-WR"]
    absent = [label for label in (*LINEUP, *PAPER) if label not in ("ALS-WR", "V-CFN")]
    assert result.missing_lines() == [f"{', '.join(absent)}: 2 of 2 runs not finished"]


def test_intervals_of_ratios_are_widened_for_shared_training_ratings(make_plan: MakePlan) -> None:
    plan = make_plan()
    overlaps: dict[Protocol | None, float] = {None: 1 / 9}
    for part in (Part("last", seed=0), Part("strong", seed=0)):
        train, _, test = plan.data.parts(part)
        overlaps[part.by if part.by == "last" else "strong"] = len(test) / len(train)
    for split, (ours, theirs) in enumerate([(0.36, 0.30), (0.42, 0.40)]):
        for way in overlaps:
            for label, ndcg in (("cofill", ours), ("popularity", theirs)):
                lists: dict[str, Any] = {
                    "ndcg": ndcg,
                    **dict.fromkeys(("recall", "precision", "mrr", "coverage", "novelty"), 0.5),
                }
                lists["cutoffs"] = [{"n": n, "ndcg": 0.5, "recall_capped": 0.5} for n in (20, 100)]
                run = plan.run(LISTS[label], split, protocol=way)
                measured = {"ranking": lists, "training_seconds": 1.0}
                plan.store.keep(run, {"result": measured, "seconds": 1.0, "threads": 2})
    result = experiment("ranking").show(plan)
    (against,) = (table for table in result.tables if "divided" in table.title)
    for name, (way, overlap) in zip(("random", "by time", "new users"), overlaps.items(), strict=True):
        found = cells(against, "popularity")[name]
        assert isinstance(found, Interval)
        expected = Interval.of([0.36 / 0.30, 0.42 / 0.40], overlap=overlap)
        assert (found.mean, found.half_width) == pytest.approx((expected.mean, expected.half_width)), way


def test_a_file_is_not_the_data_set_that_it_is_called_after(make_plan: MakePlan) -> None:
    plan = make_plan(dataset="ml-1m")
    keep(plan, "V-CFN", 0, measured(0.83))
    cost = {"training_seconds": 3.0, "parameters": 5, "peak_bytes": 2, "bytes_before": 1}
    keep(plan, "V-CFN", 0, cost, task="cost")
    assert cells(experiment("rmse").show(plan).tables[0], "V-CFN")["paper's RMSE"] is None
    assert cells(experiment("cost").show(plan).tables[0], "V-CFN")["paper's seconds"] is None
    for run in experiment("loss").runs(plan):
        plan.store.keep(run, {"result": measured(0.9), "seconds": 1.0, "threads": 1})
    (table,) = experiment("loss").show(plan).tables
    assert all(cell is None for row in table.rows for cell in [*row.values()][-2:])


def test_there_are_no_seconds_where_threads_differ(make_plan: MakePlan) -> None:
    plan = make_plan()
    for split in (0, 1):
        keep(plan, "ALS-WR", split, measured(0.9), threads=1 + split)
        keep(plan, "V-CFN", split, measured(0.9), threads=2)
    (accuracy, _) = experiment("rmse").show(plan).tables
    assert cells(accuracy, "ALS-WR")["seconds"] is None
    assert cells(accuracy, "V-CFN")["seconds"] == 3.0


def test_times_the_reference_of_the_same_session(make_plan: MakePlan) -> None:
    def cost(seconds: float) -> dict[str, Any]:
        return {"training_seconds": seconds, "parameters": 5, "peak_bytes": 2, "bytes_before": 1}

    first, second = make_plan(splits=1), make_plan(splits=1)  # two commands with one folder
    keep(first, "V-CFN", 0, cost(10.0), task="cost")
    keep(first, "ALS-WR", 0, cost(5.0), task="cost")
    keep(second, "BPMF", 0, cost(5.0), task="cost")
    (table,) = experiment("cost").show(second).tables
    found = {name: cells(table, name) for name in names(table)}
    assert [found[label]["times V-CFN"] for label in ("V-CFN", "ALS-WR", "BPMF")] == [1.0, 0.5, None]
    seconds = found["BPMF"]["seconds"]
    assert isinstance(seconds, Interval)
    assert seconds.mean == 5.0


def test_side_information_by_cluster(make_plan: MakePlan) -> None:
    plan = make_plan(published="ml-1m")
    for split in (0, 1):
        keep(plan, "V-CFN", split, measured(0.8, (1.0, 0.9, None, 0.8, 0.7)))
        keep(plan, "V-CFN++", split, measured(0.79, (0.9, 0.9, None, 0.8, 0.7)))
    (table,) = experiment("side-information").show(plan).tables
    assert names(table) == ["0 to 20 %", "20 to 40 %", "60 to 80 %", "80 to 100 %", "all"]
    rarest = cells(table, "0 to 20 %")
    assert rarest["V-CFN"] == Interval.of([1.0, 1.0])
    improvement = rarest["improvement"]
    assert isinstance(improvement, Interval)
    assert improvement.mean == pytest.approx(10.0)
    assert rarest["paper's improvement"] == 1.01
    assert rarest["paper's V-CFN"] is None
    assert cells(table, "all")["paper's improvement"] == 0.14


def test_early_stopping_keeps_the_best_before_it_loses_patience(make_plan: MakePlan) -> None:
    plan = make_plan()
    curves = [[1.0, 0.9, 0.8, 0.85, 0.7], [1.0, 0.8, 0.9, 0.9, 0.9]]  # a patience of 1 does not see the 0.7
    for run in experiment("convergence").runs(plan):
        assert run.part.seed is not None
        plan.store.keep(run, {"result": {"validation_curve": curves[run.part.seed]}, "seconds": 1.0})
    result = experiment("convergence").show(plan)
    (table,) = result.tables
    assert cells(table, "2")["V-CFN"] == pytest.approx(0.85)
    assert cells(table, "least")["V-CFN"] == Interval.of([0.7, 0.8])
    assert cells(table, "epoch of the least")["V-CFN"] == "5, 2"
    assert cells(table, "epoch that early stopping keeps")["V-CFN"] == "3, 2"
    assert result.chart is not None
    assert result.chart.lines[1].marked == (2.0, 3.0)
    (table,) = experiment("convergence").show(make_plan(splits=1)).tables
    assert cells(table, "epoch that early stopping keeps")["V-CFN"] == 3


def test_the_search_without_tanh_goes_before_the_test(make_plan: MakePlan) -> None:
    plan = make_plan(only=("V-CFN",))
    chosen = experiment("non-linearity")
    first = chosen.runs(plan)
    trials = [run for run in first if run.task == "validate"]
    assert all(run.settings["activation"] == "identity" and run.part.seed == 0 for run in trials)
    assert not any(run.settings.get("activation") for run in first if run.task == "measure")
    for score, run in zip((0.9, 0.8, 0.85), trials, strict=True):
        plan.store.keep(run, {"result": {"validation_rmse": score}, "seconds": 1.0})
    added = [run for run in chosen.runs(plan) if run.task == "measure" and "activation" in run.settings]
    assert [run.part.seed for run in added] == [0, 1]
    assert {run.settings["learning_rate"] for run in added} == {trials[1].settings["learning_rate"]}
    assert added[0].all_settings["hidden"] == trials[0].all_settings["hidden"]
    assert all(is_network_alone(run) for run in chosen.runs(plan))


def is_network_alone(run: Run) -> bool:
    """Nothing but the trained network predicts: no closed form."""
    return bool(run.all_settings["decoder"] == "network")


def test_the_variants_of_the_loss(make_plan: MakePlan) -> None:
    plan = make_plan(splits=1, only=("V-CFN",))
    runs = experiment("loss").runs(plan)
    assert all(is_network_alone(run) for run in runs)
    settings = [run.all_settings for run in runs]
    assert sorted((s["alpha"], s["beta"], s["noise_ratio"]) for s in settings) == [
        (0.0, 0.65, 0.0),
        (1.0, 0.0, 0.2),
        (1.0, 0.65, 0.2),
    ]


def test_runs_are_shared_between_experiments(make_plan: MakePlan) -> None:
    plan = make_plan()
    of = {name: {run.digest for run in experiment(name).runs(plan)} for name in EXPERIMENTS}
    own = {run.digest for run in experiment("rmse").runs(plan) if run.label in PAPER}
    assert len(own) == 8
    assert of["rmse"] - own < of["ranking"]
    assert len(of["rmse"] & of["side-information"]) == 8
    assert len(of["rmse"] & of["training-ratio"]) == 16
    assert not of["rmse"] & of["loss"]
    assert len(of["loss"] & of["non-linearity"]) == 4
    assert not of["rmse"] & of["cost"]


@pytest.fixture(scope="module")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """What one experiment has done, the next one finds there, as in a folder of somebody who reproduces them all."""
    return Store(tmp_path_factory.mktemp("shared") / "runs")


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name != "cost"])
def test_every_experiment_runs(name: str, make_plan: MakePlan, shared_runs: Store) -> None:
    plan = make_plan(splits=1, store=shared_runs)
    result = reproduce(experiment(name), plan)
    assert result.missing == ()
    assert all(table.rows for table in result.tables)
    assert (result.chart is not None) == (name in ("training-ratio", "convergence"))
    kept = {path: path.stat().st_mtime_ns for path in plan.store.folder.iterdir()}
    assert reproduce(experiment(name), plan) == result
    assert kept == {path: path.stat().st_mtime_ns for path in plan.store.folder.iterdir()}


def test_without_side_information_there_is_no_plus_plus(make_plan: MakePlan) -> None:
    full = make_plan()
    plan = make_plan(data=replace(full.data, side=SideInformation(None, None)))
    assert not any("++" in run.label for run in experiment("rmse").runs(plan))
    assert "There is no side information, so there is no ++." in experiment("rmse").show(plan).notes


def test_side_information_is_missed_before_the_first_run(make_plan: MakePlan) -> None:
    bare = replace(make_plan().data, side=SideInformation(None, None))
    plan = make_plan(data=bare)
    with pytest.raises(SettingsError, match=r"^side-information is about side information, and there is none; give "):
        reproduce(experiment("side-information"), plan)
    assert not plan.store.folder.exists()
    with pytest.raises(
        SettingsError,
        match=r"^V-CFN\+\+ needs side information, and there is none; give some, such as item",
    ):
        make_plan(data=bare, only=("V-CFN", "V-CFN++"))


def test_no_more_folds_than_were_published(make_plan: MakePlan) -> None:
    import numpy as np

    full = make_plan().data
    fold = np.where(np.arange(len(full.ratings)) % 4 == 0, 2, 1).astype(np.uint8)
    with pytest.raises(SettingsError, match=r"world was published with 2 folds, fewer than 3; use at most splits=2"):
        make_plan(data=replace(full, folds=(fold, fold)), splits=3)
    published = make_plan(data=replace(full, folds=(fold,)), splits=3)
    assert published.split_words() == "the published split, seeds 0 to 2 of the model"
    assert published.overlap() == pytest.approx(375 / 1125)
    assert make_plan(splits=3).split_words() == "random 90/10, seeds 0 to 2"
    assert make_plan(splits=1).split_words(0.5) == "random 50/50, seed 0"

"""Table "Side": RMSE by cluster of items, plain against side information, trained on half and on nine tenths."""

from typing import Any

from cofill.evaluation import paired
from cofill.experiments import paper
from cofill.experiments.plan import (
    LINEUP,
    SETTINGS_NOTE,
    VERDICT_NOTE,
    Cell,
    Column,
    Experiment,
    Plan,
    Result,
    Table,
    interval,
    verdict,
)
from cofill.experiments.runs import Run

_LABELS = ("V-CFN", "V-CFN++", "U-CFN", "U-CFN++")
_PAIRS = (("V-CFN", "V-CFN++"), ("U-CFN", "U-CFN++"))
_RATIOS: tuple[float | None, ...] = (None, 0.5)  # None: the usual splits, which `rmse` has too
_CLUSTERS = 5


def _runs(plan: Plan) -> list[Run]:
    return [
        plan.run(contender, split, ratio=ratio)
        for ratio in _RATIOS
        for split in range(plan.splits)
        for contender in plan.asked(_LABELS)
    ]


def _show(plan: Plan) -> Result:
    tables = [_table(plan, plain, hybrid, ratio) for ratio in _RATIOS for plain, hybrid in _PAIRS]
    missing = [
        line
        for ratio in _RATIOS
        for contender in plan.present(_LABELS)
        for line in plan.missing(contender, f"at {plan.split_words(ratio)}", ratio=ratio)
    ]
    notes = (
        "Clusters are fifths of the rated items, from the least to the most rated in training; items that only have "
        "test ratings belong to the first.",
        SETTINGS_NOTE,
        VERDICT_NOTE,
        *(["The paper's figures are of MovieLens-10M."] if plan.published else []),
    )
    splits = " and ".join(plan.split_words(ratio) for ratio in _RATIOS)
    return Result(tuple(table for table in tables if table.rows), notes, tuple(missing), splits=splits)


def _table(plan: Plan, plain: str, hybrid: str, ratio: float | None) -> Table:
    before = plan.results(LINEUP[plain], ratio=ratio)
    after = plan.results(LINEUP[hybrid], ratio=ratio)
    both = sorted(before.keys() & after.keys())
    theirs = paper.BY_CLUSTER[ratio or 0.9] if plan.published and plain == "V-CFN" else None
    rows: list[list[Cell]] = []
    for cluster in range(_CLUSTERS + 1) if both else ():
        pairs = [
            (one, other)
            for one, other in ((_rmse(before[split], cluster), _rmse(after[split], cluster)) for split in both)
            if one is not None and other is not None
        ]
        if not pairs:
            continue
        comparison = paired([after for _, after in pairs], [before for before, _ in pairs], overlap=plan.overlap(ratio))
        name = "all" if cluster == _CLUSTERS else f"{cluster * 20} to {cluster * 20 + 20} %"
        own = theirs[cluster] if theirs else None
        same = own if plan.published == "ml-10m" else None
        rows.append(
            [
                name,
                interval([before for before, _ in pairs]),
                interval([after for _, after in pairs]),
                comparison.improvement,
                verdict(comparison),
                same and same.plain,
                same and same.hybrid,
                own and own.percent,
            ]
        )
    columns = (
        Column("items, from the least rated"),
        Column(plain),
        Column(hybrid),
        Column("improvement", 2, " %", signed=True),
        Column(f"{hybrid} is"),
        Column(f"paper's {plain}"),
        Column(f"paper's {hybrid}"),
        Column("paper's improvement", 2, " %", signed=True),
    )
    return Table(f"{plain} and {hybrid}, {plan.split_words(ratio)}", columns, rows)


def _rmse(result: dict[str, Any], cluster: int) -> float | None:
    """RMSE of a cluster, or of all items; None if a cluster has no test rating."""
    found: float | None = result["rmse"] if cluster == _CLUSTERS else result["clusters"][cluster]["rmse"]
    return found


EXPERIMENT = Experiment(
    name="side-information",
    title="What side information is worth",
    claim="the fewer ratings an item has, the more it helps: 1 % for the rarest fifth of items, 0.1 % for the last.",
    labels=_LABELS,
    splits=5,
    quick_splits=2,
    runs=_runs,
    show=_show,
    needs_side=True,
)

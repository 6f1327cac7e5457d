"""Variants of one network beside one that they are compared with, split by split: `loss` and `non-linearity`."""

from collections.abc import Mapping
from typing import Any

from cofill.evaluation import PairedComparison, paired
from cofill.experiments.lineup import Contender
from cofill.experiments.plan import Plan, interval, verdict
from cofill.experiments.result_table import Cell, Column

# Settings of a CFN by which it is the trained network of the paper alone that predicts: by default the output weights
# are solved for in closed form after training, whatever the loss was, and rare rows are left to the fitted means.
NETWORK_ALONE: Mapping[str, Any] = {"solve_columns": False, "trust_length": 0.0}


def network_alone_note(variant: str) -> str:
    return (
        "The network alone predicts, as in the paper: output weights stay as trained (solve_columns off), and rare "
        f"rows are not left to the fitted means (trust_length 0). So {variant} is not the V-CFN of `rmse`."
    )


def columns_against(reference: str) -> tuple[Column, ...]:
    """Of what `cells_against` makes."""
    return (
        Column("RMSE"),
        Column(f"better than {reference} by", 2, " %", signed=True),
        Column(f"than {reference} it is"),
    )


def cells_against(
    plan: Plan, contender: Contender, changes: Mapping[str, Any], reference: Mapping[str, Any]
) -> list[Cell] | None:
    """RMSE of a variant, and how it compares with the reference, which is not compared with itself; None if not run."""
    found, other = plan.results(contender, **changes), plan.results(contender, **reference)
    both = sorted(found.keys() & other.keys())
    if not both:
        return None
    comparison: PairedComparison | None = None
    if changes != reference:
        ours, theirs = ([of[split]["rmse"] for split in both] for of in (found, other))
        comparison = paired(ours, theirs, overlap=plan.overlap())
    return [
        interval([one["rmse"] for one in found.values()]),
        comparison.improvement if comparison else None,
        verdict(comparison) if comparison else None,
    ]

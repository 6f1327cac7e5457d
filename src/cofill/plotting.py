"""What all pictures share: whether they can be drawn, their colours, and how they become PNG files."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cofill.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
"""Told apart by people who do not see red and green too (Okabe and Ito)."""

_DOTS = 150


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def new_figure(width: float, height: float) -> "Figure":
    """An empty one, in inches of 150 pixels. It belongs to no window: whoever shows pictures is left alone."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=_DOTS, layout="constrained")


def write_figure(path: Path, figure: "Figure") -> None:
    with replacing(path) as draft:
        figure.savefig(draft, format="png")

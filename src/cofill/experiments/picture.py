"""Lines over a plane, as the paper draws them: matplotlib, 1200 pixels wide, to be read at 700."""

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cofill.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INCHES, _DOTS = (8.0, 5.0), 150
# Told apart by people who do not see red and green too (Okabe and Ito).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
_MARKS = "osD^vP*X"


Style = Literal["solid", "dashed", "dotted"]


@dataclass(frozen=True)
class Line:
    """One thing that is followed; `errors` are half widths of intervals, where they are known."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    errors: tuple[float | None, ...] = ()
    marked: tuple[float, ...] = ()
    """Places on the x axis that are pointed out."""
    family: str = ""
    """Lines of one family have the same colour."""
    style: Style = "solid"


@dataclass(frozen=True)
class Chart:
    """Lines with the names and units of their axes."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    marked: str = ""
    """What is meant by the places pointed out."""
    points: bool = True
    """Whether every value is a point of its own."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def draw(chart: Chart) -> "Figure":
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=_INCHES, dpi=_DOTS, layout="constrained")
    axes = figure.subplots()
    families = list(dict.fromkeys(line.family or line.label for line in chart.lines))
    for number, line in enumerate(chart.lines):
        colour = _COLOURS[families.index(line.family or line.label) % len(_COLOURS)]
        style: dict[str, Any] = {
            "color": colour,
            "linestyle": line.style,
            "linewidth": 1.8,
            "marker": _MARKS[number % len(_MARKS)] if chart.points else None,
            "markersize": 6,
        }
        axes.plot(line.x, line.y, label=line.label, **style)
        known = [(x, y, error) for x, y, error in zip(line.x, line.y, line.errors, strict=False) if error is not None]
        if known:
            x, y, errors = zip(*known, strict=True)
            axes.errorbar(x, y, yerr=errors, fmt="none", ecolor=colour, elinewidth=1.2, capsize=3)
        heights = dict(zip(line.x, line.y, strict=True))
        for place in line.marked:
            axes.plot([place], [heights[place]], marker="o", markersize=11, markeredgewidth=2, color=colour,
                      fillstyle="none", linestyle="none")  # fmt: skip
    if chart.marked and any(line.marked for line in chart.lines):
        axes.plot([], [], marker="o", markersize=11, markeredgewidth=2, color="#444444", fillstyle="none",
                  linestyle="none", label=chart.marked)  # fmt: skip
    axes.set_title(chart.title, fontsize=15)
    axes.set_xlabel(chart.x_label, fontsize=14)
    axes.set_ylabel(chart.y_label, fontsize=14)
    axes.tick_params(labelsize=13)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=12.5)
    return figure


def write_picture(path: Path, chart: Chart) -> None:
    figure = draw(chart)
    with replacing(path) as draft:
        figure.savefig(draft, format="png")

"""Lines over a plane, as the paper draws them: matplotlib, 1200 pixels wide, to be read at 700."""

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from cofill.plotting import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 8.0, 5.0
_MARKS = "osD^vP*X"
_SIDE_BY_SIDE = 0.4  # of the least distance between two places
_MOST_TICKS = 12


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


def draw(chart: Chart) -> "Figure":
    figure = new_figure(_WIDTH, _HEIGHT)
    axes = figure.subplots()
    families = list(dict.fromkeys(line.family or line.label for line in chart.lines))
    for number, (line, shift) in enumerate(zip(chart.lines, _shifts(chart.lines), strict=True)):
        places = [x + shift for x in line.x]
        colour = COLOURS[families.index(line.family or line.label) % len(COLOURS)]
        style: dict[str, Any] = {
            "color": colour,
            "linestyle": line.style,
            "linewidth": 1.8,
            "marker": _MARKS[number % len(_MARKS)] if chart.points else None,
            "markersize": 6,
        }
        axes.plot(places, line.y, label=line.label, **style)
        known = [(x, y, error) for x, y, error in zip(places, line.y, line.errors, strict=False) if error is not None]
        if known:
            x, y, errors = zip(*known, strict=True)
            axes.errorbar(x, y, yerr=errors, fmt="none", ecolor=colour, elinewidth=1.2, capsize=3)
        heights = dict(zip(line.x, line.y, strict=True))
        for place in line.marked:
            axes.plot([place + shift], [heights[place]], marker="o", markersize=11, markeredgewidth=2, color=colour,
                      fillstyle="none", linestyle="none")  # fmt: skip
    if chart.marked and any(line.marked for line in chart.lines):
        axes.plot([], [], marker="o", markersize=11, markeredgewidth=2, color="#444444", fillstyle="none",
                  linestyle="none", label=chart.marked)  # fmt: skip
    axes.set_title(chart.title, fontsize=15)
    axes.set_xlabel(chart.x_label, fontsize=14)
    axes.set_ylabel(chart.y_label, fontsize=14)
    axes.tick_params(labelsize=13)
    axes.grid(alpha=0.3)
    every = sorted({x for line in chart.lines for x in line.x})
    if chart.points and len(every) <= _MOST_TICKS:
        axes.set_xticks(every)
    figure.legend(fontsize=12.5, loc="outside right upper")
    return figure


def _shifts(lines: tuple[Line, ...]) -> list[float]:
    """How far each line is moved along the x axis, so that its error bars and those of others can be told apart."""
    every = sorted({x for line in lines for x in line.x})
    with_bars = [line for line in lines if any(error is not None for error in line.errors)]
    if len(with_bars) < 2 or len(every) < 2:
        return [0.0] * len(lines)
    step = _SIDE_BY_SIDE * min(after - before for before, after in pairwise(every)) / (len(lines) - 1)
    return [(number - (len(lines) - 1) / 2) * step for number in range(len(lines))]

"""Curves, points, bars and histograms as SVG: small ones inside a page, larger ones as files of their own.

Colours have the names of the design (`design.py`). A page declares these, for light and for dark; a file has the light
values written out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from math import ceil, cos, floor, log10, pi, sin
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from cofill.charts.design import LIGHT, SERIES, written_out
from cofill.charts.markup import Markup, element, style, text
from cofill.files import replacing

WIDTH, HEIGHT = 360, 240  # of a picture inside a page
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 12, 26, 48
_CHARACTER = 0.55  # width of a character, in sizes of the font
_SMALL, _LARGE = 12.0, 14.0  # sizes of the font inside a page and in a file

_MARK = 4.2  # radius of a point
_SIDE_BY_SIDE = 0.4  # of the least distance between two places
_OTHER = "series2"  # of what is drawn over bars
_MOST_TICKS = 12  # places that are all written below the axis
_NOTHING = 1e-9

STYLE = """svg text{fill:var(--ink);font-family:var(--sans);font-size:12px;font-variant-numeric:tabular-nums}
svg .name{fill:var(--muted);font-size:12.5px}
svg .tick{paint-order:stroke;stroke:var(--surface);stroke-width:3px;stroke-linejoin:round}
svg .grid{stroke:var(--line)}
svg .axis{stroke:var(--muted)}
svg .bar{fill:var(--accent)}
svg .outline{fill:none;stroke-width:2.2}
svg .curve{fill:none;stroke-width:2.2;stroke-linejoin:round}
svg .dashed{stroke-dasharray:7 4}
svg .dotted{stroke-dasharray:2 4}
svg .error{fill:none;stroke-width:1.3}
svg .point{fill:currentColor;stroke-width:1}
svg .stroked{stroke-width:2}
svg .cloud{fill-opacity:.55;stroke-opacity:.75}
svg .ring{fill:none;stroke-width:2}
""" + "".join(
    f"svg .series{number}{{color:var(--{name});stroke:var(--{name})}}\n" for number, name in enumerate(SERIES, 1)
)
_FILE_STYLE = """svg text{font-size:14px}
svg .name{font-size:14px}
svg .heading{font-size:16px;font-weight:600}
"""

Dash = Literal["solid", "dashed", "dotted"]
Drawn = Literal["line", "steps", "points"]
Shape = Literal["circle", "square", "diamond", "cross"]
_SHAPES: tuple[Shape, ...] = ("circle", "square", "diamond", "cross")
_DASHES: tuple[Dash, ...] = ("solid", "dashed", "dotted")


class Mark(NamedTuple):
    """A point of a picture that is pointed at."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Line:
    """One thing that is followed; `errors` are half widths of intervals, where they are known."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    errors: Sequence[float | None] = ()
    marked: Sequence[float] = ()
    """Places on the x axis that are pointed out."""
    family: str = ""
    """Lines of one family have the same colour."""
    style: Dash = "solid"
    drawn: Drawn = "line"
    shape: Shape | None = None
    """Of its points; None: another one for every line."""


@dataclass(frozen=True)
class Chart:
    """Lines with the names and units of their axes."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    marked: str = ""
    """What is meant by the places pointed out."""
    points: bool = True
    """Whether every value of a line is a point of its own."""
    x_from: float | None = None
    """Where the x axis begins; None: at the first value."""
    y_range: tuple[float, float] | None = None
    """What is shown of the y axis; None: everything."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


# Axes: from numbers to places, with round ticks


@dataclass(frozen=True)
class Axis:
    """Numbers from low to high, drawn from one place to another, with round numbers marked."""

    low: float
    high: float
    begin: float
    end: float
    ticks: tuple[float, ...]

    def __call__(self, value: float) -> float:
        return self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin)


def round_axis(
    low: float, high: float, begin: float, end: float, *, about: int = 5, whole: bool = False, tight: bool = False
) -> Axis:
    """An axis that holds low and high and ends at ticks, or, where it is `tight`, at low and high themselves.

    `whole`: with ticks at whole numbers only.
    """
    inside = (low, high)
    if alike := high - low <= _NOTHING * max(abs(low), abs(high), 1.0):  # nothing between that a picture could show
        around = abs(low) * 0.05 if abs(low) > _NOTHING else 0.5
        low, high = low - around, high + around
    step = round_step((high - low) / about)
    if whole:
        step = max(1.0, step)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    ticks = tuple(float(np.round(number * step, 12)) for number in range(first, max(last, first + 1) + 1))
    if alike or not tight:
        return Axis(ticks[0], ticks[-1], begin, end, ticks)
    slack = (high - low) * 1e-9
    return Axis(*inside, begin, end, tuple(tick for tick in ticks if low - slack <= tick <= high + slack))


def round_step(about: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** floor(log10(about))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= about * (1 - 1e-9))


def tick_label(value: float) -> str:
    """Short: 12 k, 3.5 M, 0.25."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= unit:
            unit = 1e3 if name == " k" else unit
            return f"{value / unit:.4g}{name}"
    return f"{value:,.0f}" if value == round(value) else f"{value:.4g}"


# Inside a page


def curves(about: str, lines: Sequence[Line], *, x: str, y: str, mark: Mark | None = None) -> Markup:
    """A line chart, with a legend if there are several lines. `about` is its text alternative."""
    drawn = []
    for number, line in enumerate(lines):
        marked = mark is not None and (mark.x, mark.y) in zip(line.x, line.y, strict=True)
        drawn.append(replace(line, style=_DASHES[number % len(_DASHES)], marked=[mark.x] if mark and marked else ()))
    chart = Chart(about, x, y, drawn, marked=mark.text if mark else "", points=False)
    parts, height = _drawing([chart], _PAGE, named=len(lines) > 1)
    return _picture(about, parts, height)


def histogram(
    about: str,
    edges: Sequence[float],
    counts: Sequence[float],
    *,
    x: str,
    y: str,
    name: str = "",
    other: tuple[str, Sequence[float]] | None = None,
) -> Markup:
    """Bars between numbers, on an axis of numbers; the counts of an `other` between the same edges as their outline.

    `name` is then that of the bars.
    """
    across = round_axis(edges[0], edges[-1], _LEFT, WIDTH - _RIGHT, about=8, tight=True)
    up = round_axis(0, max([*counts, *(other[1] if other else ())]), HEIGHT - _BOTTOM, _TOP)
    parts = [*_axes(across, up, x), _label(y, 4, 14, "start", "name")]
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        said = f"{low:.4g} to {high:.4g}: {count:,}"
        parts.append(_bar(across(low), across(high), up, count, said))
    if other is not None:
        corners = [(edge, count) for low, high, count in zip(edges, edges[1:], other[1], strict=False)
                   for edge, count in ((low, count), (high, count))]  # fmt: skip
        parts.append(_path([(across(edge), up(count)) for edge, count in corners], f"outline {_OTHER}"))
        parts.append(_key(name, other[0]))
    return _picture(about, parts)


def bars(
    about: str,
    names: Sequence[str],
    values: Sequence[float | None],
    *,
    x: str,
    y: str,
    written: Sequence[str] | None = None,
    name: str = "",
    other: tuple[str, Sequence[float | None]] | None = None,
) -> Markup:
    """A bar for each name, with what is `written` above it; no bar where there is no value.

    The name and the values of an `other` are marks across the bars, which are then called `name`.
    """
    marks = [None] * len(names) if other is None else other[1]
    top = max((value for value in (*values, *marks) if value is not None), default=0.0)
    up = round_axis(0, top * 1.06 if top > 1e-6 else 1.0, HEIGHT - _BOTTOM, _TOP, about=6)  # room for what is written
    across = Axis(0, len(names), _LEFT, WIDTH - _RIGHT, ())
    parts = [*_axes(across, up, x), _label(y, 4, 14, "start", "name")]
    room = (WIDTH - _RIGHT - _LEFT) / len(names)
    every = -(-max(len(name) + 1 for name in names) * _CHARACTER * _SMALL // room)
    for place, (label, value, mark) in enumerate(zip(names, values, marks, strict=True)):
        middle = across(place + 0.5)
        if place % int(every) == 0:
            parts.append(_label(label, middle, HEIGHT - _BOTTOM + 17, "middle", "tick"))
        if value is None:
            continue
        above = written[place] if written else tick_label(value)
        parts.append(_bar(across(place + 0.12), across(place + 0.88), up, value, f"{label}: {above}"))
        if mark is not None:
            ends = [(across(place + 0.06), up(mark)), (across(place + 0.94), up(mark))]
            parts.append(_path(ends, f"outline {_OTHER}"))
        if written:  # above the bar and above its mark
            parts.append(_label(above, middle, up(max(value, mark or 0.0)) - 5, "middle", "tick"))
    if other is not None:
        parts.append(_key(name, other[0]))
    return _picture(about, parts)


def _key(bars: str, marks: str) -> Markup:
    """What bars and marks are of, at the upper right, above the picture."""
    ends, height = WIDTH - _RIGHT, _TOP - 12.0
    second = ends - len(marks) * _CHARACTER * _SMALL
    first = second - 44 - len(bars) * _CHARACTER * _SMALL
    return element(
        "g",
        element("rect", x=first - 17, y=height - 9, width=11, height=11, class_="bar"),
        _label(bars, first, height, "start", "tick"),
        _path([(second - 26, height - 4), (second - 6, height - 4)], f"outline {_OTHER}"),
        _label(marks, second, height, "start", "tick"),
    )


def _bar(left: float, right: float, up: Axis, value: float, said: str) -> Markup:
    top = up(value)
    return element(
        "rect",
        element("title", said),
        x=left + 0.5,
        y=top,
        width=max(right - left - 1, 1.0),
        height=max(up.begin - top, 0.0),
        class_="bar",
    )


def _picture(about: str, parts: Sequence[Markup], height: float = HEIGHT) -> Markup:
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {height:.0f}", role="img", aria_label=about, class_="chart")


# As a file


class _Look(NamedTuple):
    """How a line is drawn, in every panel and in the legend."""

    line: Line
    colour: str
    shape: Shape | None


def write_picture(path: Path, *charts: Chart, title: str | None = None) -> None:
    """Charts next to each other, on one y axis, with one legend below them; the title is that of the first."""
    with replacing(path) as draft:
        draft.write_text(picture(*charts, title=title) + "\n", encoding="utf-8")


def picture(*charts: Chart, title: str | None = None) -> Markup:
    """What `write_picture` writes. Lines of the same label in several charts are drawn alike."""
    heading = charts[0].title if title is None else title
    frame = _FILE if len(charts) == 1 else _WIDE_FILE
    parts, height = _drawing(charts, frame)
    return element(
        "svg", style(written_out(STYLE + _FILE_STYLE)),
        element("rect", width=frame.width, height="100%", fill=LIGHT["surface"]),
        _label(heading, 10, 24, "start", "heading"),
        *parts,
        xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {frame.width} {height:.0f}", width=frame.width,
        height=f"{height:.0f}", role="img", aria_label=heading,
    )  # fmt: skip


# Lines, in a page and in a file


class _Frame(NamedTuple):
    """The measures of a picture of lines."""

    width: int
    top: float
    height: float
    """Of the plane that lines are drawn in."""
    size: float
    """Of the font."""
    ticks: tuple[int, int]
    """About how many there are along x and y."""


_PAGE = _Frame(WIDTH, _TOP, HEIGHT - _BOTTOM - _TOP, _SMALL, (6, 5))
_FILE = _Frame(820, 62.0, 400.0, _LARGE, (8, 7))
_WIDE_FILE = _FILE._replace(width=1100)


def _drawing(charts: Sequence[Chart], frame: _Frame, *, named: bool = True) -> tuple[list[Markup], float]:
    """Charts next to each other on one y axis, their legend below, and the height of it all; `named`: with lines."""
    bottom = frame.top + frame.height
    up = _y_axis(charts, bottom, frame.top, frame.ticks[1])
    looks = _looks(charts)
    left = max(len(tick_label(tick)) for tick in up.ticks) * _CHARACTER * frame.size + 20.0
    gap, right = 34.0, frame.width - 20.0
    each = (right - left - gap * (len(charts) - 1)) / len(charts)
    parts = [_label(charts[0].y_label, 4, frame.top - frame.size, "start", "name")]
    for number, chart in enumerate(charts):
        begin = left + number * (each + gap)
        parts += _panel(chart, up, begin, begin + each, frame, looks, f"panel{number + 1}", numbers=number == 0)
    marked = next((chart.marked for chart in charts if chart.marked and any(line.marked for line in chart.lines)), "")
    names = [*(looks if named else ()), *([marked] if marked else [])]
    if not names:
        return parts, bottom + 4 * frame.size
    below, legend = _legend(names, looks, 20.0, right, bottom + 5.4 * frame.size, frame.size)
    return parts + legend, below


def _looks(charts: Sequence[Chart]) -> dict[str, _Look]:
    lines = {line.label: (line, chart.points) for chart in reversed(charts) for line in reversed(chart.lines)}
    ordered = [lines[label] for label in dict.fromkeys(line.label for chart in charts for line in chart.lines)]
    families = list(dict.fromkeys(line.family or line.label for line, _ in ordered))
    return {
        line.label: _Look(
            line,
            _colour(families.index(line.family or line.label)),
            (line.shape or _SHAPES[number % len(_SHAPES)])
            if line.drawn == "points" or (points and line.drawn == "line") or len(line.x) == 1
            else None,
        )
        for number, (line, points) in enumerate(ordered)
    }


def _y_axis(charts: Sequence[Chart], begin: float, end: float, ticks: int) -> Axis:
    if charts[0].y_range is not None:
        return round_axis(*charts[0].y_range, begin, end, about=ticks, tight=True)
    heights = [
        edge
        for chart in charts
        for line in chart.lines
        for place, value in enumerate(line.y)
        for error in [(line.errors[place] if place < len(line.errors) else None) or 0.0]
        for edge in (value - error, value + error)
    ]
    return round_axis(min(heights), max(heights), begin, end, about=ticks)


def _x_axis(chart: Chart, shifts: Sequence[float], begin: float, end: float, ticks: int) -> Axis:
    """Every place has a tick where each value is a point and they are few; otherwise round numbers have."""
    places = sorted({place for line in chart.lines for place in line.x})
    low, high = places[0] if chart.x_from is None else min(chart.x_from, places[0]), places[-1]
    of_points = any(line.drawn == "points" for line in chart.lines)
    if chart.points and not of_points and len(places) <= _MOST_TICKS:
        room = max((high - low) * 0.03, *(abs(shift) for shift in shifts), 1e-9 if high > low else 0.5) * 1.5
        return Axis(low - room, high + room, begin, end, tuple(places))
    whole = all(place == round(place) for place in places)
    room = (high - low) * 0.02 if of_points else 0.0
    return round_axis(low, high + room, begin, end, about=ticks, whole=whole, tight=True)


def _panel(
    chart: Chart,
    up: Axis,
    begin: float,
    end: float,
    frame: _Frame,
    looks: dict[str, _Look],
    name: str,
    *,
    numbers: bool,
) -> list[Markup]:
    shifts = _shifts(chart.lines)
    across = _x_axis(chart, shifts, begin, end, frame.ticks[0])
    parts = _axes(across, up, chart.x_label, size=frame.size, numbers=numbers)
    drawn: list[Markup] = []
    for line, shift in zip(chart.lines, shifts, strict=True):
        look = looks[line.label]
        inside = [
            (across(x + shift), up(y), x, y, line.errors[at] if at < len(line.errors) else None)
            for at, (x, y) in enumerate(zip(line.x, line.y, strict=True))
        ]
        if line.drawn != "points":
            drawn.append(_path(_way(line, inside), f"curve {look.colour} {line.style}"))
        for x, _, _, value, error in inside:
            if error is not None:
                drawn.append(_interval(x, up(value - error), up(value + error), look.colour))
        shown = [one for one in inside if up.low <= one[3] <= up.high]
        if look.shape is not None:
            kind = "point cloud" if line.drawn == "points" else "point"
            for x, y, place, value, error in shown:
                spread = "" if error is None else f" ± {error:.4g}"
                said = f"{line.label}: {place:.6g}, {value:.5g}{spread}"
                drawn.append(_shaped(look.shape, x, y, _MARK, f"{kind} {look.colour}", said))
        for x, y, place, _, _ in shown:
            if place in line.marked:
                drawn.append(element("circle", cx=x, cy=y, r=8, class_=f"ring {look.colour}"))
    if chart.y_range is None:
        return parts + drawn
    window = element("rect", x=begin, y=up.end, width=end - begin, height=up.begin - up.end)
    return [*parts, element("clipPath", window, id=name), element("g", *drawn, clip_path=f"url(#{name})")]


def _way(line: Line, inside: Iterable[tuple[float, float, float, float, float | None]]) -> list[tuple[float, float]]:
    """From point to point; steps keep their height until the next one begins."""
    points = [(x, y) for x, y, *_ in inside]
    if line.drawn == "line":
        return points
    corners = [corner for (x, y), (after, _) in pairwise(points) for corner in ((x, y), (after, y))]
    return [*corners, *points[-1:]]


def _shifts(lines: Sequence[Line]) -> list[float]:
    """How far each line is moved along the x axis, so that its intervals and those of others can be told apart."""
    every = sorted({x for line in lines for x in line.x})
    with_bars = [line for line in lines if any(error is not None for error in line.errors)]
    if len(with_bars) < 2 or len(every) < 2:
        return [0.0] * len(lines)
    step = _SIDE_BY_SIDE * min(after - before for before, after in pairwise(every)) / (len(lines) - 1)
    return [(number - (len(lines) - 1) / 2) * step for number in range(len(lines))]


def _legend(
    names: Sequence[str], looks: dict[str, _Look], left: float, right: float, top: float, size: float
) -> tuple[float, list[Markup]]:
    """Where the picture ends, and the names in columns of one width, row by row; one that is no line is of a ring."""
    width, row = max(map(len, names)) * _CHARACTER * size + 62.0, 1.7 * size
    columns = max(1, int((right - left) // width))
    columns = -(-len(names) // -(-len(names) // columns))  # as even as the rows can be
    parts: list[Markup] = []
    for number, name in enumerate(names):
        x, y = left + number % columns * width, top + number // columns * row
        look = looks.get(name)
        if look is None:
            parts.append(element("circle", cx=x + 17, cy=y - 5, r=8, class_="ring axis"))
        else:
            if look.line.drawn != "points":
                curve = f"curve {look.colour} {look.line.style}"
                parts.append(element("path", d=f"M{x:.1f} {y - 5:.1f}h34", class_=curve))
            if look.shape is not None:
                parts.append(_shaped(look.shape, x + 17, y - 5, _MARK, f"point {look.colour}"))
        parts.append(_label(name, x + 42, y, "start", "tick"))
    return top + (len(names) - 1) // columns * row + 1.3 * size, parts


def _interval(x: float, low: float, high: float, colour: str) -> Markup:
    ends = f"M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"
    return element("path", d=f"M{x:.1f} {low:.1f}V{high:.1f}{ends}", class_=f"error {colour}")


def _shaped(shape: Shape, x: float, y: float, r: float, look: str, said: str | None = None) -> Markup:
    told = () if said is None else (element("title", said),)
    if shape == "circle":
        return element("circle", *told, cx=x, cy=y, r=r, class_=look)
    if shape == "cross":
        d = f"M{x - r:.1f} {y - r:.1f}L{x + r:.1f} {y + r:.1f}M{x - r:.1f} {y + r:.1f}L{x + r:.1f} {y - r:.1f}"
        return element("path", *told, d=d, class_=f"{look} stroked")
    turn, reach = (pi / 4, 1.3 * r) if shape == "square" else (0.0, 1.35 * r)
    angles = [turn + at * pi / 2 for at in range(4)]
    corners = (f"{x + reach * cos(angle):.1f} {y + reach * sin(angle):.1f}" for angle in angles)
    return element("path", *told, d="M" + "L".join(corners) + "Z", class_=look)


# In both


def _axes(across: Axis, up: Axis, x: str, *, size: float = _SMALL, numbers: bool = True) -> list[Markup]:
    """Lines of the grid, ticks with their numbers, and the name of the x axis."""
    parts = []
    left, right, bottom = across.begin, across.end, up.begin
    for tick in up.ticks:
        parts.append(element("line", x1=left, x2=right, y1=up(tick), y2=up(tick), class_="grid"))
        if numbers:
            parts.append(_label(tick_label(tick), left - 7, up(tick) + size / 3, "end", "tick"))
    parts.append(element("line", x1=left, x2=right, y1=bottom, y2=bottom, class_="axis"))
    for tick in across.ticks:
        parts.append(element("line", x1=across(tick), x2=across(tick), y1=bottom, y2=bottom + 4, class_="axis"))
        parts.append(_label(tick_label(tick), across(tick), bottom + 5 + size, "middle", "tick"))
    parts.append(_label(x, (left + right) / 2, bottom + 3.35 * size, "middle", "name"))
    return parts


def _path(points: Iterable[tuple[float, float]], look: str) -> Markup:
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=look)


def _colour(number: int) -> str:
    return f"series{number % len(SERIES) + 1}"


def _label(words: str, x: float, y: float, anchor: str, kind: str) -> Markup:
    return element("text", text(words), x=float(x), y=float(y), text_anchor=anchor, class_=kind)

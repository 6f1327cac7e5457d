"""Curves and bars as SVG. Colours come from the page's style, so that they suit a light page and a dark one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cofill.report.markup import Markup, element, text
from cofill.report.scales import Scale, round_scale, tick_label, tight_scale

WIDTH, HEIGHT = 440, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 26, 50
_CHARACTER = 6.6  # width of one at the size of the tick labels


class Series(NamedTuple):
    """A curve."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Mark(NamedTuple):
    """A point of a picture that is pointed at."""

    x: float
    y: float
    text: str


def curves(
    about: str,
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    mark: Mark | None = None,
    whole_x: bool = False,
) -> Markup:
    """Lines with a legend where there are several. `about` says what the picture shows to those who cannot see it."""
    xs = [value for one in series for value in one.x]
    ys = [value for one in series for value in one.y]
    across = tight_scale(min(xs), max(xs), _LEFT, WIDTH - _RIGHT, about=6, whole=whole_x)
    up = round_scale(min(ys), max(ys), HEIGHT - _BOTTOM, _TOP)
    parts = [*_axes(across, up, x, y)]
    for number, one in enumerate(series, 1):
        points = [f"{across(px):.1f} {up(py):.1f}" for px, py in zip(one.x, one.y, strict=True)]
        if len(points) == 1:
            parts.append(element("circle", cx=across(one.x[0]), cy=up(one.y[0]), r=4, class_=f"dot series{number}"))
        else:
            parts.append(element("path", d="M" + "L".join(points), class_=f"curve series{number}"))
    if mark is not None:
        at, height = across(mark.x), up(mark.y)
        parts.append(element("circle", cx=at, cy=height, r=5, class_="mark"))
        late = at > (_LEFT + WIDTH - _RIGHT) / 2
        above = height - 12 if height - 12 > _TOP + 12 else height + 22
        parts.append(_label(mark.text, at, above, "end" if late else "start", "note"))
    if len(series) > 1:
        drawn = [(across(px), up(py)) for one in series for px, py in _along(one)]
        parts.append(_legend([one.name for one in series], drawn))
    return _picture(about, parts)


def histogram(about: str, edges: Sequence[float], counts: Sequence[float], *, x: str, y: str) -> Markup:
    """Bars between numbers, on an axis of numbers."""
    across = tight_scale(edges[0], edges[-1], _LEFT, WIDTH - _RIGHT, about=8)
    up = round_scale(0, max(counts), HEIGHT - _BOTTOM, _TOP)
    parts = [*_axes(across, up, x, y)]
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        said = f"{low:.4g} to {high:.4g}: {count:,}"
        parts.append(_bar(across(low), across(high), up, count, said))
    return _picture(about, parts)


def bars(
    about: str,
    names: Sequence[str],
    values: Sequence[float | None],
    *,
    x: str,
    y: str,
    written: Sequence[str] | None = None,
) -> Markup:
    """A bar for each name, with what is `written` above it; no bar where there is no value."""
    top = max((value for value in values if value is not None), default=0.0)
    up = round_scale(0, top * 1.06 if top > 1e-6 else 1.0, HEIGHT - _BOTTOM, _TOP, about=6)  # room for what is written
    across = Scale(0, len(names), _LEFT, WIDTH - _RIGHT, ())
    parts = [*_axes(across, up, x, y)]
    room = (WIDTH - _RIGHT - _LEFT) / len(names)
    every = -(-max(len(name) + 1 for name in names) * _CHARACTER // room)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        middle = across(place + 0.5)
        if place % int(every) == 0:
            parts.append(_label(name, middle, HEIGHT - _BOTTOM + 17, "middle", "tick"))
        if value is None:
            continue
        above = written[place] if written else tick_label(value)
        parts.append(_bar(across(place + 0.12), across(place + 0.88), up, value, f"{name}: {above}"))
        if written:
            parts.append(_label(above, middle, up(value) - 5, "middle", "tick"))
    return _picture(about, parts)


def _bar(left: float, right: float, up: Scale, value: float, said: str) -> Markup:
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


def _axes(across: Scale, up: Scale, x: str, y: str) -> list[Markup]:
    parts = []
    for tick in up.ticks:
        parts.append(element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=up(tick), y2=up(tick), class_="grid"))
        parts.append(_label(tick_label(tick), _LEFT - 7, up(tick) + 4, "end", "tick"))
    bottom = HEIGHT - _BOTTOM
    parts.append(element("line", x1=_LEFT, x2=WIDTH - _RIGHT, y1=bottom, y2=bottom, class_="axis"))
    for tick in across.ticks:
        parts.append(element("line", x1=across(tick), x2=across(tick), y1=bottom, y2=bottom + 4, class_="axis"))
        parts.append(_label(tick_label(tick), across(tick), bottom + 17, "middle", "tick"))
    parts.append(_label(x, (_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - 10, "middle", "name"))
    parts.append(_label(y, 4, 14, "start", "name"))
    return parts


def _along(series: Series) -> list[tuple[float, float]]:
    """Many points of a curve, those between its own too."""
    if len(series.x) == 1:
        return [(series.x[0], series.y[0])]
    share = np.linspace(0, len(series.x) - 1, 200)
    places = np.arange(len(series.x))
    found = np.interp(share, places, series.x), np.interp(share, places, series.y)
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def _legend(names: Sequence[str], drawn: Sequence[tuple[float, float]]) -> Markup:
    """One name below the other, in the corner where it covers least of what is drawn."""
    width, height = max(map(len, names)) * _CHARACTER + 34, len(names) * 17.0 + 6
    right, low = WIDTH - _RIGHT - width, HEIGHT - _BOTTOM - height - 4
    corners = [(right, _TOP + 2.0), (_LEFT + 6.0, _TOP + 2.0), (right, low), (_LEFT + 6.0, low)]
    covered = [sum(x <= px <= x + width and y <= py <= y + height for px, py in drawn) for x, y in corners]
    left, top = corners[covered.index(min(covered))]
    parts = [element("rect", x=left, y=top, width=width, height=height, class_="paper")]
    left += 6
    for number, name in enumerate(names):
        height = top + 14 + number * 17
        parts.append(element("path", d=f"M{left:.1f} {height - 4:.1f}h18", class_=f"curve series{number + 1}"))
        parts.append(_label(name, left + 24, height, "start", "tick"))
    return element("g", *parts)


def _label(words: str, x: float, y: float, anchor: str, kind: str) -> Markup:
    return element("text", text(words), x=float(x), y=float(y), text_anchor=anchor, class_=kind)


def _picture(about: str, parts: Sequence[Markup]) -> Markup:
    return element("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=about, class_="chart")

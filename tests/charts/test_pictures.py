"""Axes, legends, titles that do not cover each other, and the map that they stand on."""

import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.charts.design import DARK, LIGHT, SERIES
from cofill.charts.graphs import Line, Mark, bars, curves, histogram, round_axis, round_step, tick_label
from cofill.charts.markup import Markup, element, text, together
from cofill.charts.neighbour_map import (
    Box,
    Point,
    kept_neighbours,
    map_of,
    place_labels,
    principal_components,
    width_of,
)
from cofill.report.page_parts import table

numbers = st.floats(-1e9, 1e9, allow_nan=False)


@given(numbers, numbers)
def test_an_axis_holds_its_numbers_between_few_round_ticks(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    axis = round_axis(low, high, 0, 100)
    slack = 1e-6 * (axis.high - axis.low)
    assert axis.low - slack <= low <= high <= axis.high + slack
    assert 2 <= len(axis.ticks) <= 9
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert axis(axis.low) == 0
    assert axis(axis.high) == 100


@given(st.integers(1, 500), st.integers(0, 500))
def test_epochs_are_marked_at_whole_numbers(first: int, more: int) -> None:
    axis = round_axis(first, first + more, 0, 100, whole=True, tight=True)
    assert all(tick == round(tick) for tick in axis.ticks)


@given(st.floats(1e-9, 1e12))
def test_a_step_is_round_and_not_smaller(about: float) -> None:
    step = round_step(about)
    assert about * (1 - 1e-6) <= step <= about * 10
    assert re.fullmatch(r"[125]\.?0*e[+-]\d+", f"{step:.6e}")


def test_how_ticks_are_written() -> None:
    written = [tick_label(value) for value in (0, 0.25, 1, 2500, 9999, 10_000, 12_500, 2_500_000, 3e9)]
    assert written == ["0", "0.25", "1", "2,500", "9,999", "10 k", "12.5 k", "2.5 M", "3 G"]


def inside(picture: str) -> bool:
    """Whether all that is drawn has a place in the picture."""
    assert "nan" not in picture
    assert "inf" not in picture
    across = [float(x) for x in re.findall(r'\b(?:x|cx|x1|x2)="([^"]+)"', picture)]
    down = [float(y) for y in re.findall(r'\b(?:y|cy|y1|y2)="([^"]+)"', picture)]
    for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", picture):
        across.append(float(x))
        down.append(float(y))
    (width, height) = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', picture)[0])
    return all(0 <= x <= width for x in across) and all(0 <= y <= height for y in down)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=20))
def test_curves_stay_inside(points: list[tuple[float, float]]) -> None:
    x, y = sorted(p for p, _ in points), [q for _, q in points]
    best = Mark(x[0], y[0], "the best")
    picture = curves("about", [Line("one", x, y), Line("two", x, y[::-1])], x="epoch", y="RMSE", mark=best)
    assert inside(picture)
    assert "epoch" in picture
    assert ">RMSE<" in picture
    assert ">the best<" in picture
    assert ">two<" in picture


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1e9) | st.none(), min_size=1, max_size=30))
def test_bars_stay_inside(values: list[float | None]) -> None:
    names = [f"name {at}" for at in range(len(values))]
    picture = bars("about", names, values, x="who", y="how much", written=[f"{value}" for value in values])
    assert inside(picture)
    assert picture.count("<rect") == sum(value is not None for value in values)


def test_a_histogram_tells_each_bar() -> None:
    picture = histogram("about", [-1, -0.5, 0, 0.5], [3, 0, 1200], x="error", y="ratings")
    assert "<title>-1 to -0.5: 3</title>" in picture
    assert "<title>0 to 0.5: 1,200</title>" in picture
    assert inside(picture)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 900), st.floats(0, 600), st.text(min_size=1, max_size=20)), max_size=60))
def test_no_title_covers_another(places: list[tuple[float, float, str]]) -> None:
    frame = Box(0, 0, 900, 600)
    labels = place_labels([Point(words, x, y, 5.0) for x, y, words in places], frame, 30)
    assert len(labels) <= 30
    boxes = []
    for label in labels:
        width = width_of(label.text)
        left = label.x - {"start": 0.0, "middle": width / 2, "end": width}[label.anchor]
        boxes.append(Box(left, label.y - 11, left + width, label.y + 2))
    for at, box in enumerate(boxes):
        assert -1 <= box.left <= box.right <= 901
        assert not any(box.meets(other) for other in boxes[:at])


def test_the_first_points_get_their_titles() -> None:
    points = [Point("first", 100, 100, 4.0), Point("second", 101, 100, 4.0), *[Point("late", 102, 100, 4.0)] * 9]
    labels = place_labels(points, Box(0, 0, 300, 200), 50)
    assert [label.text for label in labels][:2] == ["first", "second"]
    assert len(labels) < len(points)
    assert place_labels([Point("no room at all", 5, 5, 4.0)], Box(0, 0, 10, 10), 5) == []


def groups(count: int, each: int, width: int = 8) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(count, width))
    belongs = np.repeat(np.arange(count), each)
    return (centres[belongs] + 0.15 * rng.normal(size=(count * each, width))).astype(np.float32), belongs


def test_what_is_alike_is_near_on_the_map() -> None:
    vectors, belongs = groups(6, 25)
    shares: list[float] = []
    places = map_of(vectors, shares.append)
    assert places.shape == (150, 2)
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    np.fill_diagonal(apart, np.inf)
    assert (belongs[apart.argmin(1)] == belongs).mean() > 0.98
    by_components = principal_components(vectors).astype(np.float32)
    assert kept_neighbours(vectors, places) > max(0.4, kept_neighbours(vectors, by_components))
    assert np.array_equal(places, map_of(vectors))


@pytest.mark.parametrize("count", [3, 8, 9, 12])
@pytest.mark.parametrize("width", [1, 2, 5])
def test_maps_of_few_points(count: int, width: int) -> None:
    vectors = np.random.default_rng(1).normal(size=(count, width)).astype(np.float32)
    places = map_of(vectors)
    assert places.shape == (count, 2)
    assert np.isfinite(places).all()
    assert 0 <= kept_neighbours(vectors, places) <= 1


def test_a_map_of_points_that_are_all_the_same_is_finite() -> None:
    assert np.isfinite(map_of(np.ones((20, 3), np.float32))).all()


def test_the_share_of_neighbours_that_are_kept() -> None:
    flat = np.random.default_rng(2).normal(size=(40, 2)).astype(np.float32)
    around = flat - flat.mean(0)
    directions = around / np.linalg.norm(around, axis=1, keepdims=True)
    assert kept_neighbours(flat, directions) == 1.0
    assert kept_neighbours(flat, np.random.default_rng(3).normal(size=(40, 2)).astype(np.float32)) < 0.5


@given(st.text())
def test_text_never_becomes_markup(words: str) -> None:
    made = element("p", words, title=words)
    assert made.count("<") == made.count(">") == 2
    assert made.count('"') == 2
    assert together(text(words)) == text(words)
    assert table(words, (words,), [(words,)]).count("<td") == 1


def test_markup_is_left_alone() -> None:
    assert element("p", element("b", "x"), None, class_="a", hidden=False) == Markup('<p class="a"><b>x</b></p>')
    assert element("circle", cx=1.25, r=-0.01) == '<circle cx="1.2" r="0"/>'


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_stand_out_from_what_they_are_drawn_on(colours: dict[str, str]) -> None:
    assert len(SERIES) == len({colours[name] for name in SERIES}) == 8
    for name in SERIES:
        assert contrast(colours[name], colours["surface"]) >= 3.0, name


def contrast(one: str, other: str) -> float:
    """By WCAG 2: from 1, the same, to 21, black on white."""

    def luminance(colour: str) -> float:
        channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)

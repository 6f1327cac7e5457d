"""Pictures in files of their own have names and units on their axes, show what they are given, and hide nothing."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.charts.graphs import Chart, Line, picture, write_picture

CHART = Chart(
    title="RMSE by epoch",
    x_label="epoch",
    y_label="RMSE (in ratings)",
    lines=(
        Line("U-CFN", (1.0, 2.0, 3.0), (1.0, 0.9, 0.95), errors=(0.1, None, 0.1), marked=(2.0,)),
        Line("V-CFN", (1.0, 2.0), (0.9, 0.8), style="dashed"),
    ),
    marked="kept",
)


class Read:
    """A picture as a program that shows SVG sees it."""

    def __init__(self, *charts: Chart) -> None:
        self.root = ElementTree.fromstring(picture(*charts))
        self.width, self.height = (float(self.root.attrib[name]) for name in ("width", "height"))
        self.texts = [(each.text or "", float(each.attrib["y"])) for each in self.all("text")]

    def all(self, tag: str, look: str = "") -> list[ElementTree.Element]:
        found = self.root.iter(f"{{http://www.w3.org/2000/svg}}{tag}")
        return [each for each in found if set(look.split()) <= set(each.get("class", "").split())]

    def points(self) -> list[str]:
        """What is told of each point, in order."""
        titles = self.root.iter("{http://www.w3.org/2000/svg}title")
        return [each.text or "" for each in titles]


def places(path: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.-]+) ([\d.-]+)", path.attrib["d"])]


def test_a_chart_is_labelled() -> None:
    read = Read(CHART)
    words = [words for words, _ in read.texts]
    assert words[:2] == ["RMSE by epoch", "RMSE (in ratings)"]
    assert "epoch" in words
    assert words[-3:] == ["U-CFN", "V-CFN", "kept"]
    assert read.points() == [
        "U-CFN: 1, 1 ± 0.1",
        "U-CFN: 2, 0.9",
        "U-CFN: 3, 0.95 ± 0.1",
        "V-CFN: 1, 0.9",
        "V-CFN: 2, 0.8",
    ]
    assert len(read.all("path", "error")) == 2
    assert len(read.all("circle", "ring")) == 2  # in the plane, and in the legend
    assert len(read.all("path", "dashed")) == 2


def test_higher_values_are_higher_and_later_ones_further_right() -> None:
    first, second = (places(path) for path in Read(CHART).all("path", "curve")[:2])
    assert [x for x, _ in first] == sorted(x for x, _ in first)
    assert first[0][1] < first[2][1] < first[1][1]
    assert first[1][1] == pytest.approx(second[0][1])  # both 0.9


def test_the_legend_hides_no_line_and_no_interval_another() -> None:
    x = (10.0, 20.0, 30.0)
    lines = tuple(Line(name, x, (1.0, 0.9, 0.8), (0.1, 0.1, 0.1)) for name in "ABC")
    read = Read(Chart("t", "x", "y", lines))
    plane = max(float(line.attrib["y1"]) for line in read.all("line", "grid"))
    assert all(y > plane for words, y in read.texts if words in ("A", "B", "C", "x"))
    shown = [[place for place, _ in places(path)] for path in read.all("path", "curve")[:3]]
    assert len({round(place) for line in shown for place in line}) == 9
    ticks = [float(line.attrib["x1"]) for line in read.all("line", "axis") if line.attrib["x1"] == line.attrib["x2"]]
    assert len(ticks) == 3
    assert all(
        abs(at - tick) < 0.3 * (ticks[1] - ticks[0]) for line in shown for at, tick in zip(line, ticks, strict=True)
    )


def test_a_family_has_one_colour() -> None:
    lines = (
        Line("A", (1.0, 2.0), (1.0, 1.0)),
        Line("A++", (1.0, 2.0), (2.0, 1.0), family="A", style="dotted"),
        Line("B", (1.0, 2.0), (3.0, 1.0)),
    )
    looks = [path.attrib["class"].split()[1] for path in Read(Chart("t", "x", "y", lines)).all("path", "curve")]
    assert looks == ["series1", "series1", "series2"] * 2  # drawn, and in the legend


def test_panels_share_their_height_and_their_legend() -> None:
    low, high = (Chart("t", f"x{n}", "y", (Line("one", (0.0, 4.0), (n, n + 1.0)),)) for n in (1, 5))
    read = Read(low, high)
    words = [words for words, _ in read.texts]
    assert words.count("one") == 1
    assert {"x1", "x5"} <= set(words)
    heights = [[y for _, y in places(path)] for path in read.all("path", "curve")[:2]]
    assert max(heights[1]) < min(heights[0])


def test_what_is_outside_of_the_range_is_not_drawn() -> None:
    line = Line("p", (1.0, 2.0, 3.0), (0.5, 9.0, 0.6), drawn="points", shape="cross")
    steps = Line("best", (1.0, 2.0, 3.0), (9.0, 0.6, 0.5), drawn="steps")
    read = Read(Chart("t", "x", "y", (line, steps), x_from=0.0, y_range=(0.4, 0.7)))
    assert read.points() == ["p: 1, 0.5", "p: 3, 0.6"]
    (plane,) = read.all("clipPath")
    (drawn,) = (each for each in read.all("g") if each.get("clip-path") == f"url(#{plane.attrib['id']})")
    (curve,) = (each for each in drawn if "curve" in each.get("class", ""))
    corners = places(curve)
    assert len(corners) == 5
    assert corners[0][1] == corners[1][1]
    assert corners[1][0] == corners[2][0]


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, st.floats(0, 1e6) | st.none()), min_size=1, max_size=15), st.text())
def test_everything_stays_inside(points: list[tuple[float, float, float | None]], name: str) -> None:
    points.sort(key=lambda point: point[0])
    x, y, errors = zip(*points, strict=True)
    lines = (Line(name, x, y, errors), Line("two", x, y[::-1], errors, marked=x[:1]))
    read = Read(Chart(name, name, "y", lines, marked="kept"))
    for circle in read.all("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= read.width
        assert 0 <= float(circle.attrib["cy"]) <= read.height
    for path in read.all("path"):
        for across, down in places(path):
            assert 0 <= across <= read.width
            assert 0 <= down <= read.height
    assert all(0 <= down <= read.height for _, down in read.texts)


def test_a_file_is_whole_and_asks_for_nothing_else(tmp_path: Path) -> None:
    write_picture(tmp_path / "a.svg", CHART)
    content = (tmp_path / "a.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(content)
    assert (root.tag, root.attrib["width"]) == ("{http://www.w3.org/2000/svg}svg", "820")
    assert root.attrib["viewBox"] == f"0 0 820 {root.attrib['height']}"
    assert "var(" not in content  # many programs know no variables
    assert "href" not in content
    assert [path.name for path in tmp_path.iterdir()] == ["a.svg"]

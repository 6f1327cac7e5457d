"""Pictures have names and units on their axes, and show what they are given."""

from pathlib import Path

import numpy as np
import pytest

from cofill.experiments.picture import Chart, Line, draw
from cofill.plotting import write_figure

pytest.importorskip("matplotlib")

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


def test_a_chart_is_labelled() -> None:
    figure = draw(CHART)
    (axes,) = figure.axes
    assert axes.get_xlabel() == "epoch"
    assert axes.get_ylabel() == "RMSE (in ratings)"
    assert axes.get_title() == "RMSE by epoch"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["U-CFN", "V-CFN", "kept"]
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), [1.0, 0.9, 0.95])


def test_the_legend_hides_no_line_and_no_bar_another() -> None:
    places = (10.0, 20.0, 30.0)
    lines = tuple(Line(name, places, (1.0, 0.9, 0.8), (0.1, 0.1, 0.1)) for name in "ABC")
    figure = draw(Chart("t", "x", "y", lines))
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1
    shown = np.array([line.get_xdata() for line in axes.get_lines() if line.get_label() in ("A", "B", "C")])
    assert len(np.unique(shown)) == 9
    assert np.abs(shown - np.array(places)).max() < 3
    np.testing.assert_allclose(axes.get_xticks(), places)


def test_a_family_has_one_colour() -> None:
    lines = (
        Line("A", (1.0,), (1.0,)),
        Line("A++", (1.0,), (2.0,), family="A", style="dotted"),
        Line("B", (1.0,), (3.0,)),
    )
    (axes,) = draw(Chart("t", "x", "y", lines)).axes
    one, same, other = (line.get_color() for line in axes.get_lines())
    assert one == same != other


def test_a_picture_is_1200_pixels_wide(tmp_path: Path) -> None:
    write_figure(tmp_path / "a.png", draw(CHART))
    content = (tmp_path / "a.png").read_bytes()
    assert content[:4] == b"\x89PNG"
    assert int.from_bytes(content[16:20], "big") == 1200

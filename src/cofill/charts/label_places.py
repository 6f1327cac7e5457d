"""Titles beside the points of a map, such that none covers another."""

from collections.abc import Iterable
from typing import NamedTuple
from unicodedata import east_asian_width

_HEIGHT = 15.0
_NARROW, _WIDE = 6.7, 12.5  # of characters, at the size of the titles


class Box(NamedTuple):
    """A rectangle that is taken."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: "Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


class Label(NamedTuple):
    """A title, where its base line begins, or ends if the anchor says so."""

    text: str
    x: float
    y: float
    anchor: str


class Point(NamedTuple):
    """A point that would like to have its title shown."""

    text: str
    x: float
    y: float
    radius: float


def place_labels(points: Iterable[Point], inside: Box, most: int) -> list[Label]:
    """Place as many labels as fit, the first points first: to the right of the point, to its left, above or below."""
    taken: list[Box] = []
    labels: list[Label] = []
    for point in points:
        if len(labels) == most:
            break
        own = Box(point.x - point.radius, point.y - point.radius, point.x + point.radius, point.y + point.radius)
        for label, box in _choices(point):
            fits = box.left >= inside.left and box.right <= inside.right
            fits = fits and box.top >= inside.top and box.bottom <= inside.bottom
            if fits and not any(box.meets(other) for other in taken):
                labels.append(label)
                taken += [box, own]
                break
    return labels


def width_of(text: str) -> float:
    return sum(_WIDE if east_asian_width(character) in "WF" else _NARROW for character in text)


def _choices(point: Point) -> Iterable[tuple[Label, Box]]:
    width, gap = width_of(point.text), point.radius + 3
    x, y = point.x, point.y
    half = _HEIGHT / 2
    yield Label(point.text, x + gap, y + 4, "start"), Box(x + gap, y - half, x + gap + width, y + half)
    yield Label(point.text, x - gap, y + 4, "end"), Box(x - gap - width, y - half, x - gap, y + half)
    for middle in (y - gap - half, y + gap + half):
        box = Box(x - width / 2, middle - half, x + width / 2, middle + half)
        yield Label(point.text, x, middle + 4, "middle"), box

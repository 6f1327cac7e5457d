"""A two-dimensional map that keeps neighbours close (t-SNE, started from principal components), and its titles.

The t-SNE is the exact one (van der Maaten and Hinton, 2008), which is quadratic: for a thousand points or two.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from unicodedata import east_asian_width

import numpy as np
import numpy.typing as npt

from cofill.compiling import compiled

Matrix = npt.NDArray[np.float32]

NEIGHBOURS = 10
_PERPLEXITY = 20.0  # about how many neighbours of a point count
_STEPS, _TOGETHER = 400, 100  # of which the first pull neighbours together, far more than they are pushed apart
_PULL = 12.0
_FEW = 8  # points of which the principal components tell all


def map_of(vectors: Matrix, progress: Callable[[float], None] | None = None) -> Matrix:
    """(n, 2) for vectors (n, width): by the angle between them after subtracting their mean. Deterministic."""
    directions = _directions(vectors)
    start = principal_components(directions)
    if len(vectors) <= _FEW:
        return start.astype(np.float32)
    return principal_components(_settled(_similarities(directions), start, progress)).astype(np.float32)


def principal_components(points: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """(n, 2): the two directions in which the points differ most, each with its largest part positive."""
    centred = points - points.mean(0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    axes = axes * np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(1)])[:, None]
    found = np.zeros((len(points), 2))
    found[:, : len(axes)] = centred @ axes.T
    return found


def kept_neighbours(vectors: Matrix, places: Matrix) -> float:
    """The share of the nearest neighbours by angle that are among the nearest on the map too."""
    count = min(NEIGHBOURS, len(vectors) - 1)
    before = _nearest(_squared_distances(_directions(vectors)), count)
    after = _nearest(_squared_distances(places), count)
    return float(np.mean([len(np.intersect1d(a, b)) / count for a, b in zip(before, after, strict=True)]))


def _directions(vectors: Matrix) -> npt.NDArray[np.float64]:
    """(n, width): of length 1, once the mean is taken off; 0 for a vector that is the mean."""
    around = vectors.astype(np.float64) - vectors.mean(0, dtype=np.float64)
    directions: npt.NDArray[np.float64] = around / np.maximum(np.linalg.norm(around, axis=1, keepdims=True), 1e-12)
    return directions


def _nearest(distances: npt.NDArray[np.floating], count: int) -> npt.NDArray[np.int64]:
    apart = distances.copy()
    np.fill_diagonal(apart, np.inf)
    return np.argsort(apart, axis=1, kind="stable")[:, :count]


def _squared_distances(points: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    lengths = (points**2).sum(1)
    squared: npt.NDArray[np.floating] = np.maximum(lengths[:, None] + lengths - 2 * points @ points.T, 0)
    return squared


def _similarities(directions: npt.NDArray[np.float64]) -> Matrix:
    """(n, n), symmetric, of sum 1: the joint probabilities of t-SNE, from Gaussians of the given perplexity."""
    n = len(directions)
    perplexity = min(_PERPLEXITY, (n - 1) / 3)
    distances = _squared_distances(directions)
    near = _nearest(distances, min(n - 1, int(3 * perplexity) + 1))
    apart = np.take_along_axis(distances, near, axis=1)
    apart -= apart[:, :1]
    low, high = np.full((n, 1), -20.0), np.full((n, 1), 20.0)  # logarithms of how sharp the Gaussian is
    for _ in range(40):
        middle = (low + high) / 2
        weights = np.exp(-apart * np.exp(middle))
        weights /= weights.sum(1, keepdims=True)
        entropy = -(weights * np.log(np.maximum(weights, 1e-300))).sum(1, keepdims=True)
        wide = entropy > np.log(perplexity)
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    similarities = np.zeros((n, n), np.float32)
    np.put_along_axis(similarities, near, weights.astype(np.float32), axis=1)
    return (similarities + similarities.T) / np.float32(2 * n)


def _settled(similarities: Matrix, start: npt.NDArray[np.float64], progress: Callable[[float], None] | None) -> Matrix:
    """Move the points until the attraction of their neighbours and the repulsion of all others balance."""
    places = (start / max(float(start[:, 0].std()), 1e-12) * 1e-4).astype(np.float32)
    velocity, gains = np.zeros_like(places), np.ones_like(places)
    rate = np.float32(max(len(similarities) / _PULL / 4, 20.0))
    gradient = np.empty_like(places)
    for step in range(_STEPS):
        _pulled(places, similarities, np.float32(_PULL if step < _TOGETHER else 1), gradient)
        gains = np.where(gradient * velocity < 0, gains + np.float32(0.2), gains * np.float32(0.8))
        np.maximum(gains, np.float32(0.01), out=gains)
        velocity = np.float32(0.5 if step < _TOGETHER else 0.8) * velocity - rate * gains * gradient
        places = places + velocity
        places -= places.mean(0)
        if progress is not None:
            progress((step + 1) / _STEPS)
    return places


@compiled
def _pulled(places: Matrix, similarities: Matrix, pull: np.float32, gradient: Matrix) -> None:
    """Write the gradient (n, 2): in one thread, so that the same points are the same map on any number of cores."""
    x, y = places[:, 0].copy(), places[:, 1].copy()
    one = np.float32(1)
    together = np.float64(0)
    for i in range(len(x)):
        own = np.float32(0)
        for j in range(len(x)):
            own += one / (one + (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2)
        together += own - one  # without itself
    push = np.float32(1 / together)
    for i in range(len(x)):
        across, along = np.float32(0), np.float32(0)
        for j in range(len(x)):
            right, up = x[i] - x[j], y[i] - y[j]
            closeness = one / (one + right * right + up * up)
            force = (pull * similarities[i, j] - push * closeness) * closeness
            across += force * right
            along += force * up
        gradient[i, 0], gradient[i, 1] = 4 * across, 4 * along


# Titles beside the points, such that none covers another

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

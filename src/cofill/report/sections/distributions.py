"""The ratings that the model knows: how they are distributed over values, users and items."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cofill.charts.axes import round_step, tick_label
from cofill.charts.graphs import Series, bars, curves, histogram
from cofill.charts.markup import Markup
from cofill.report.page_parts import figure, figures, paragraph, section
from cofill.report.subject import Subject

MOST_VALUES = 12  # different ratings that get a bar each


def data_section(subject: Subject) -> Markup:
    model = subject.model
    users, items = model.user_counts(), model.item_counts()
    values = subject.known.values
    filled = len(values) / (len(users) * len(items))
    by_popularity = np.sort(items)[::-1]
    fifth = by_popularity[: max(1, round(len(items) / 5))].sum() / max(len(values), 1)
    low, high = model.scale
    return section(
        "data",
        "The data",
        paragraph(
            f"{len(values):,} ratings from {low:g} to {high:g}, {values.mean(dtype=np.float64):z.3f} on average, fill "
            f"{filled:.2%} of the matrix of {len(users):,} users and {len(items):,} items. A user has "
            f"{np.median(users):,.0f} ratings in the median, an item {np.median(items):,.0f}. The most rated fifth of "
            f"the items has {fifth:.0%} of all ratings."
        ),
        figures(
            figure(_values(values), "How often each rating was given."),
            figure(_long_tail(by_popularity), "The long tail: how many of the ratings fall to the most rated items."),
            figure(
                _counts(users, "user"), "How many ratings users have. A bar begins at its label, and ends at the next."
            ),
        ),
    )


def value_groups(values: npt.NDArray[np.float32]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """Bins for a histogram of ratings, and the bin of each: one for each value, or round ranges for many values."""
    distinct, group = np.unique(values, return_inverse=True)
    if len(distinct) <= MOST_VALUES:
        return [f"{value:g}" for value in distinct], group.astype(np.int64)
    edges = round_edges(float(values.min()), float(values.max()), MOST_VALUES - 2)
    group = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 2)
    return [f"{low:g} to {high:g}" for low, high in pairwise(edges)], group.astype(np.int64)


def round_edges(low: float, high: float, about: int) -> list[float]:
    """Multiples of a round number, from one that is not above low to one that is not below high."""
    step = round_step(max((high - low) / about, 1e-6))
    first, last = int(np.floor(low / step + 1e-9)), int(np.ceil(high / step - 1e-9))
    return [float(np.round(number * step, 9)) for number in range(first, max(last, first + 1) + 1)]


def _values(values: npt.NDArray[np.float32]) -> Markup:
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > MOST_VALUES:
        edges = round_edges(float(distinct[0]), float(distinct[-1]), 25)
        spread = np.histogram(values, edges)[0]
        return histogram("Histogram of the ratings.", edges, spread.tolist(), x="rating", y="number of ratings")
    names = [f"{value:g}" for value in distinct]
    about = "Ratings given: " + ", ".join(f"{n}: {c:,}" for n, c in zip(names, counts.tolist(), strict=True))
    shares = [f"{share:.0%}" for share in counts / counts.sum()]
    return bars(about, names, counts.tolist(), x="rating", y="number of ratings", written=shares)


def _counts(counts: npt.NDArray[np.int64], what: str) -> Markup:
    """A histogram of counts in bins that double in width, because counts are very skewed."""
    power = np.zeros(len(counts), np.int64)
    power[counts > 0] = np.floor(np.log2(counts[counts > 0])).astype(np.int64) + 1
    names = ["0", *(tick_label(2.0**at) for at in range(int(power.max(initial=1))))]
    spread = np.bincount(power, minlength=len(names)).tolist()
    first = next((at for at, count in enumerate(spread) if count), 0)
    shown: Sequence[int] = spread[first:]
    about = f"Ratings of each {what}: from {counts.min():,} to {counts.max():,}, median {np.median(counts):,.0f}"
    return bars(about, names[first:], shown, x=f"ratings of {_a(what)} (each bar doubles)", y=f"number of {what}s")


def _long_tail(by_popularity: npt.NDArray[np.int64]) -> Markup:
    count = len(by_popularity)
    places = np.unique(np.linspace(0, count, min(count, 100) + 1).astype(np.int64))
    sums = np.concatenate([[0], np.cumsum(by_popularity)])
    shares = 100 * sums[places] / max(int(sums[-1]), 1)
    return curves(
        "The share of the ratings that the most rated items have, against their share of the items.",
        [Series("ratings", (100 * places / count).tolist(), shares.tolist())],
        x="most rated items (% of all items)",
        y="their ratings (% of all ratings)",
    )


def _a(what: str) -> str:
    return f"an {what}" if what == "item" else f"a {what}"

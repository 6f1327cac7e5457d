"""Sections about items: a map of them, and examples of what is recommended."""

import numpy as np
import numpy.typing as npt

from cofill.charts.markup import Amount, Markup, Stars, element, shortened
from cofill.charts.neighbour_map import NEIGHBOURS, Box, Point, kept_neighbours, map_of, place_labels
from cofill.models.results import MOST_ITEMS
from cofill.progress import share_done
from cofill.report.page_parts import beside, code, figure, paragraph, section, table
from cofill.report.subject import Subject

_MOST_LABELS = 70
_TITLE_LENGTH = 30
_WIDTH, _HEIGHT, _MARGIN, _BELOW = 1000, 720, 22, 46
_SMALLEST, _LARGEST = 2.5, 12.0  # radius
_COLOURS = 5

Places = npt.NDArray[np.float32]


def items_section(subject: Subject) -> Markup:
    counts = subject.model.item_counts()
    order = np.argsort(-counts, kind="stable")
    shown = order[: min(MOST_ITEMS, int((counts > 0).sum()))]
    if len(shown) < 3:
        return section(
            "items", "Map of the items", paragraph("Fewer than three items have ratings: there is no map of them.")
        )
    vectors = subject.model.item_vectors()[shown]
    if vectors.ndim != 2 or not vectors.size or not np.ptp(vectors, axis=0).any():
        return section(
            "items",
            "Map of the items",
            paragraph("This model knows nothing that makes one item like another: there is no map of them."),
        )
    with share_done("drawing the map of the items", subject.quiet) as progress:
        places = map_of(vectors, progress)
    kept = kept_neighbours(vectors, places)
    rated = int((counts > 0).sum())
    which = f"The {len(shown):,} most rated of {rated:,} items" if len(shown) < rated else f"All {rated:,} rated items"
    near = min(NEIGHBOURS, len(shown) - 1)
    return section(
        "items",
        "Map of the items",
        paragraph(
            f"{which}, by the vectors that the model knows them by: what is near is alike to the model. Two dimensions "
            f"cannot keep everything: of the {near} items most like one, {kept:.0%} are among the {near} nearest here. "
            "Point at an item to read its title."
        ),
        figure(
            element(
                "div",
                _picture(subject, shown, places),
                class_="scroll",
                tabindex="0",
                role="region",
                aria_label="Map of the items",
            ),
            "The larger a point, the more ratings it has; its colour is its mean rating. Directions and distances have "
            "no unit: only which items are close to each other counts.",
            wide=True,
        ),
    )


def _picture(subject: Subject, shown: npt.NDArray[np.int64], places: Places) -> Markup:
    counts = subject.model.item_counts()[shown]
    x, y = _fitted(places)
    radius = _SMALLEST + (_LARGEST - _SMALLEST) * np.sqrt(counts / counts.max())
    means = subject.mean_ratings[shown]
    edges = np.quantile(means, np.arange(1, _COLOURS) / _COLOURS)
    colour = np.searchsorted(edges, means, "right") + 1
    titles = [subject.title(int(item)) for item in shown]
    circles = [
        element(
            "circle",
            element("title", f"{titles[at]} · {counts[at]:,} ratings, mean {means[at]:z.2f}"),
            cx=float(x[at]),
            cy=float(y[at]),
            r=float(radius[at]),
            class_=f"v{colour[at]}",
        )
        for at in range(len(shown))
    ]
    points = [
        Point(shortened(titles[at], _TITLE_LENGTH), float(x[at]), float(y[at]), float(radius[at]))
        for at in range(len(shown))
    ]
    labels = [
        element("text", one.text, x=one.x, y=one.y, text_anchor=one.anchor, class_="title")
        for one in place_labels(points, Box(2, 2, _WIDTH - 2, _HEIGHT - _BELOW), _MOST_LABELS)
    ]
    frame = element("rect", x=1, y=1, width=_WIDTH - 2, height=_HEIGHT - _BELOW, rx=6, class_="frame")
    about = f"Map of {len(shown):,} items in two dimensions; the most rated have their titles beside them."
    return element(
        "svg",
        frame,
        *circles,
        *labels,
        *_legend(edges, float(means.min()), float(means.max())),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=about,
        class_="map",
    )


def _fitted(places: Places) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Positions stretched to fill the frame: the directions have no unit."""
    low, high = places.min(0), places.max(0)
    share = (places - low) / np.maximum(high - low, 1e-12)
    return (
        _MARGIN + share[:, 0].astype(np.float64) * (_WIDTH - 2 * _MARGIN),
        _MARGIN + (1 - share[:, 1].astype(np.float64)) * (_HEIGHT - _BELOW - 2 * _MARGIN),
    )


def _legend(edges: npt.NDArray[np.float64], low: float, high: float) -> list[Markup]:
    bounds = [low, *edges.tolist(), high]
    bottom = _HEIGHT - 12
    parts = [
        element("text", "first direction →, second ↑ (no unit)", x=4, y=bottom, class_="name"),
        element("text", "mean rating", x=500, y=bottom, text_anchor="end", class_="name"),
    ]
    for number in range(_COLOURS):
        left = 514 + number * 100
        parts.append(element("circle", cx=left, cy=bottom - 4, r=6, class_=f"v{number + 1}"))
        words = f"{bounds[number]:z.2f} to {bounds[number + 1]:z.2f}"
        parts.append(element("text", words, x=left + 10, y=bottom))
    return parts


_LIKED, _RECOMMENDED = 6, 10
_EXAMPLES = 3
_TEST_RATINGS = 5  # of an example that is to say something


def examples_section(subject: Subject) -> Markup:
    chosen = _chosen(subject)
    if not chosen:
        return section("examples", "Examples", paragraph("No user has a rating, so there is no example."))
    told = [
        "Users with few, a middling number and many ratings; ",
        code("cofill report MODEL --users ID"),
        " shows others.",
    ]
    if subject.users:
        told = ["Users who were asked for."]
    if subject.test is not None:
        told.append(" Beside a recommendation stands what the user gave it in the test part; a dash if nothing.")
    return section("examples", "Examples of recommendations", paragraph(*told), *(_example(subject, u) for u in chosen))


def _chosen(subject: Subject) -> list[int]:
    """Example users by index: those asked for, or those at the quartiles of users with ratings (and test ratings)."""
    model = subject.model
    if subject.users:
        return [model.users.index(user) for user in subject.users]
    counts = model.user_counts()
    possible = np.flatnonzero(counts > 0)
    if subject.test is not None:
        tested = subject.test_pairs[0]
        in_test = np.bincount(tested[tested >= 0], minlength=len(counts))[possible]
        if in_test.any():
            possible = possible[in_test >= min(_TEST_RATINGS, in_test.max())]
    ordered = possible[np.argsort(counts[possible], kind="stable")]
    places = [round((len(ordered) - 1) * share) for share in (0.25, 0.5, 0.9)] if len(ordered) else []
    return [int(ordered[place]) for place in dict.fromkeys(places)][:_EXAMPLES]


def _example(subject: Subject, user: int) -> Markup:
    model = subject.model
    name = str(model.users.id(user))
    items, given = subject.ratings_of(user)
    best = np.lexsort((-model.item_counts()[items], -given))[:_LIKED]
    liked = [(subject.title(int(items[at])), Amount(f"{given[at]:g}")) for at in best]
    in_test = _test_ratings(subject, user)
    recommended = [
        (
            rank,
            entry.title or str(entry.item),
            *(() if entry.rating is None else (Stars(entry.rating),)),
            *(() if in_test is None else (in_test.get(model.items.index(entry.item)),)),
        )
        for rank, entry in enumerate(model.recommend(model.users.id(user), _RECOMMENDED), 1)
    ]
    columns = ("", "item") + (("predicted",) if model.rated else ()) + (("in the test",) if in_test is not None else ())
    left = table(f"Rated highest by user {name}", ("item", "rating"), liked)
    right = (
        table(f"Recommended to user {name}", columns, recommended)
        if recommended
        else paragraph("There is nothing left to recommend: every item is rated.")
    )
    heading = f"User {name}, {len(items):,} {'rating' if len(items) == 1 else 'ratings'}"
    return element("div", element("h3", heading), beside(left, right))


def _test_ratings(subject: Subject, user: int) -> dict[int, Amount] | None:
    """What the user gave in the test part, by index of the item; None without one."""
    if subject.test is None:
        return None
    users, items = subject.test_pairs
    theirs = (users == user) & (items >= 0)
    given = (Amount(f"{rating:g}") for rating in subject.test.values[theirs].tolist())
    return dict(zip(items[theirs].tolist(), given, strict=True))

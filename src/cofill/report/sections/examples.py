"""What some users liked, and what is recommended to them."""

import numpy as np

from cofill.charts.markup import Markup, element
from cofill.report.page_parts import beside, code, paragraph, section, table
from cofill.report.subject import Subject

_LIKED, _RECOMMENDED = 6, 10
_EXAMPLES = 3
_TEST_RATINGS = 5  # of an example that is to say something


def examples_section(subject: Subject) -> Markup:
    chosen = _chosen(subject)
    if not chosen:
        return section("examples", "Examples", paragraph("No user has a rating, so there is nobody to show."))
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
    liked = [(subject.title(int(items[at])), f"{given[at]:g}") for at in best]
    in_test = _test_ratings(subject, user)
    recommended = [
        (
            rank,
            entry.title or str(entry.item),
            *(() if entry.rating is None else (f"{entry.rating:z.2f}",)),
            *_in_test(in_test, model.items.index(entry.item)),
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


def _test_ratings(subject: Subject, user: int) -> dict[int, float] | None:
    """What the user gave in the test part, by index of the item; None without one."""
    if subject.test is None:
        return None
    users, items = subject.test_pairs
    theirs = (users == user) & (items >= 0)
    return dict(zip(items[theirs].tolist(), subject.test.values[theirs].tolist(), strict=True))


def _in_test(in_test: dict[int, float] | None, item: int) -> tuple[str, ...]:
    if in_test is None:
        return ()
    return (f"{in_test[item]:g}" if item in in_test else "-",)

"""What a person should know of the ratings that a model is measured on."""

from typing import TYPE_CHECKING

from cofill.cli.output import note

if TYPE_CHECKING:
    from cofill.data.ratings import Ratings
    from cofill.models.recommender import Recommender


def warn_of_data(model: "Recommender", test: "Ratings", *, left_out: bool) -> int:
    """How many of the test ratings the model knows; a remark if any, or if they are of another kind."""
    seen = model.known_pairs(test)
    if seen:
        note(
            f"warning: the model was trained on {seen:,} of these {len(test):,} ratings, so they say little about "
            f"new ones{' (lists are measured without them)' if left_out else ''}; "
            f"cut the data with `cofill split` first"
        )
    low, high = model.scale
    outside = int(((test.values < low) | (test.values > high)).sum())
    if outside:
        note(
            f"warning: {outside:,} of these {len(test):,} ratings are outside the scale {low:g} to {high:g} "
            f"of the training data, where no prediction reaches; check that they are of the same kind"
        )
    return seen

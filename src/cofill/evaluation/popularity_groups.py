"""Items, or users, in five groups of equal size by the number of their training ratings, as in the paper."""

from typing import NamedTuple

import numpy as np

from cofill.arrays import Ints, Longs

CLUSTERS = 5


class PopularityGroups(NamedTuple):
    """From the least to the most rated."""

    members: list[Longs]
    """Of each group."""
    group_of: Longs
    """(members + 1,): the last entry, which index -1 finds, is that of one the model has never heard of: group 0."""

    @staticmethod
    def share(number: int) -> tuple[float, float]:
        """Where a group begins and ends, as shares of all members."""
        return number / CLUSTERS, (number + 1) / CLUSTERS


def popularity_groups(counts: Longs, tested: Ints) -> PopularityGroups:
    """Groups by training ratings (members,); `tested` are the members of the test ratings, -1 if unknown.

    Members that have a rating neither in training nor in the test do not count: a model may know them by their
    features. A member that the model has never heard of has no training rating: it belongs to the first group.
    """
    rated = counts > 0
    rated[tested[tested >= 0]] = True
    order = np.argsort(counts, kind="stable")
    groups = np.array_split(order[rated[order]], CLUSTERS)
    group_of = np.zeros(len(counts) + 1, np.int64)
    for number, group in enumerate(groups):
        group_of[group] = number
    return PopularityGroups(groups, group_of)

"""Items to rate first: known by many, and unlike each other, so that few ratings tell much."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Longs = npt.NDArray[np.int64]

_FEWEST, _SHARE, _MOST = 200, 0.1, 2000  # candidates: so many, or that share of the items
_FEWEST_OF_FEW, _SHARE_OF_FEW = 24, 1 / 3  # and no more than this of a small world, where few are much rated


def starter_items(vectors: Floats, counts: Longs, n: int) -> list[int]:
    """Indices of at most n items, in the order in which to show them. No chance is involved.

    By turns comes the one that is most unlike those chosen so far, and the most rated one of the half that is more
    unlike them than the other. Once the candidates are used up, the most rated of the others follow.
    """
    by_ratings = np.argsort(-counts, kind="stable")
    by_ratings = by_ratings[counts[by_ratings] > 0]
    many = min(max(_FEWEST, int(_SHARE * len(counts))), _MOST, max(_FEWEST_OF_FEW, int(_SHARE_OF_FEW * len(counts))))
    candidates, others = by_ratings[:many], by_ratings[many:]
    if len(candidates) and vectors.shape[1]:
        candidates = candidates[_order(_directions(vectors[candidates]), n)]
    return [int(index) for index in np.concatenate([candidates, others])[:n]]


def _order(directions: Floats, n: int) -> list[int]:
    """Places among candidates that are in the order of their ratings."""
    chosen = [0]
    unlike = 1 - directions @ directions[0]
    unlike[0] = -np.inf
    while len(chosen) < min(n, len(directions)):
        if len(chosen) % 2:
            pick = int(np.argmax(unlike))
        else:
            free = np.flatnonzero(unlike > -np.inf)
            pick = int(free[unlike[free] >= np.median(unlike[free])][0])
        chosen.append(pick)
        unlike = np.minimum(unlike, 1 - directions @ directions[pick])
        unlike[pick] = -np.inf
    return chosen


def _directions(vectors: Floats) -> Floats:
    around = vectors - vectors.mean(0)
    directions: Floats = around / np.maximum(np.linalg.norm(around, axis=1, keepdims=True), 1e-12)
    return directions

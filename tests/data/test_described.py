"""Features that come later lie over those of the training, which stay as they were."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.described import SideFeatures

Floats = npt.NDArray[np.float32]


def trained() -> Floats:
    """Three vectors, of the second of which nothing is known."""
    return np.array([[1, 2], [0, 0], [0, -3]], np.float32)


def vector(*values: float) -> Floats:
    return np.array(values, np.float32)


def test_as_trained() -> None:
    given_array = trained()
    features = SideFeatures(given_array)
    assert features.width == 2
    assert features.values is features.trained is given_array  # not copied until something comes
    assert features.described.tolist() == [True, False, True]
    indices, vectors = features.later()
    assert (indices.shape, vectors.shape) == ((0,), (0, 2))
    assert indices.dtype == np.int64


def test_describing_one_that_was_trained() -> None:
    mine = trained()
    features = SideFeatures(mine)
    features.describe(1, vector(5, 6))
    features.describe(0, vector(0, 0))  # zeros are something known too
    np.testing.assert_array_equal(mine, trained())
    np.testing.assert_array_equal(features.trained, trained())
    assert features.values.tolist() == [[0, 0], [5, 6], [0, -3]]
    assert features.described.tolist() == [True, True, True]
    indices, vectors = features.later()
    assert indices.tolist() == [0, 1]
    assert vectors.tolist() == [[0, 0], [5, 6]]


def test_describing_one_that_is_new_makes_room() -> None:
    mine = trained()
    features = SideFeatures(mine)
    features.describe(5, vector(7, 0))
    assert features.values.tolist() == [[1, 2], [0, 0], [0, -3], [0, 0], [0, 0], [7, 0]]
    assert features.described.tolist() == [True, False, True, False, False, True]
    assert features.later()[0].tolist() == [5]  # those between were not described
    np.testing.assert_array_equal(mine, trained())
    assert features.trained is mine


def test_growing() -> None:
    mine = trained()
    features = SideFeatures(mine)
    features.grow(2)
    assert features.values is mine  # there is room already
    features.grow(4)
    assert features.values.shape == (4, 2)
    assert features.values.dtype == np.float32
    assert features.described.tolist() == [True, False, True, False]
    features.describe(0, vector(9, 9))
    np.testing.assert_array_equal(mine, trained())
    assert features.later()[0].tolist() == [0]


def test_the_last_word_counts() -> None:
    features = SideFeatures(trained())
    for value in (1, 2, 3):
        features.describe(4, vector(value, 0))
    assert features.later()[1].tolist() == [[3, 0]]
    features.values[0] = 0  # what is held is a copy by now
    assert features.trained[0].tolist() == [1, 2]


def test_the_vector_is_copied() -> None:
    features, mine = SideFeatures(trained()), vector(7, 8)
    features.describe(1, mine)
    mine[:] = 0
    assert features.values[1].tolist() == [7, 8]


@pytest.mark.parametrize("count", [0, 3])
def test_no_features_at_all(count: int) -> None:
    features = SideFeatures.none(count)
    assert features.width == 0
    assert features.values.shape == (count, 0)
    assert not features.described.any()
    features.grow(5)
    features.describe(6, vector())
    assert features.values.shape == (7, 0)
    assert features.described.tolist() == [False] * 6 + [True]


Vectors = st.tuples(st.integers(0, 9), st.integers(-2, 2), st.integers(-2, 2))


@settings(max_examples=60, deadline=None)
@given(words=st.lists(Vectors, max_size=12, unique_by=lambda word: word[0]))
def test_what_was_described_later_can_be_laid_over_again(words: list[tuple[int, int, int]]) -> None:
    """As a model file does; and the order in which it came makes no difference."""
    first, second = SideFeatures(trained()), SideFeatures(trained())
    for index, a, b in words:
        first.describe(index, vector(a, b))
    for index, values in zip(*first.later(), strict=True):
        second.describe(int(index), values)
    shuffled = SideFeatures(trained())
    for index, a, b in sorted(words, key=lambda word: (word[1], word[2])):
        shuffled.describe(index, vector(a, b))
    for other in (second, shuffled):
        np.testing.assert_array_equal(other.values, first.values)
        np.testing.assert_array_equal(other.described, first.described)
        np.testing.assert_array_equal(other.later()[0], first.later()[0])
    known = np.asarray(first.values.any(axis=1))
    known[first.later()[0]] = True
    np.testing.assert_array_equal(first.described, known)
    assert first.later()[0].tolist() == sorted(index for index, _, _ in words)

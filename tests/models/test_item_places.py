"""The map of the items: drawn, saved with the model, and read again, whole and in shards."""

from pathlib import Path

import numpy as np
import pytest

from cofill import CFN, Recommender
from cofill.models.results import most_rated, placed
from cofill.progress import Step

RATINGS = [(user, item, float(1 + (user * item) % 5)) for user in range(30) for item in range(40) if (user + item) % 3]


@pytest.fixture(scope="module")
def model() -> CFN:
    model = CFN(epochs=2, hidden=8, threads=1).fit(RATINGS)
    assert model.item_places is None
    told: list[Step] = []
    model.draw_map(told.append)
    assert {step.what for step in told} == {"drawing the map"}
    assert told[-1].done == 1.0
    return model


def test_all_items_have_a_place(model: CFN) -> None:
    found = model.item_places
    assert found is not None
    assert sorted(found.items.tolist()) == list(range(40))
    counts = model.item_counts()[found.items]
    assert (np.diff(counts) <= 0).all()
    assert (found.places.min(0), found.places.max(0)) == (pytest.approx([0, 0]), pytest.approx([1, 1]))
    model.draw_map()
    assert model.item_places is not None
    np.testing.assert_array_equal(model.item_places.places, found.places)  # the same each time


@pytest.mark.parametrize("shards", [None, 3])
def test_it_is_kept_with_the_model(model: CFN, shards: int | None, tmp_path: Path) -> None:
    model.save(tmp_path / "model", shards=shards)
    assert len(list((tmp_path / "model").glob("map-*.safetensors"))) == 1
    found, kept = Recommender.load(tmp_path / "model").item_places, model.item_places
    assert found is not None
    assert kept is not None
    np.testing.assert_array_equal(found.items, kept.items)
    np.testing.assert_array_equal(found.places, kept.places)
    again = CFN(epochs=1, hidden=8, threads=1).fit(RATINGS)
    again.save(tmp_path / "model")  # without one: the old map goes
    assert not list((tmp_path / "model").glob("map-*"))
    assert Recommender.load(tmp_path / "model").item_places is None


def test_there_is_no_map_of_what_is_all_alike() -> None:
    vectors = np.ones((5, 3), np.float32)
    assert len(most_rated(np.array([3, 2, 1, 1, 1]), vectors)) == 0
    assert len(most_rated(np.array([3, 2, 0, 0, 0]), np.eye(5, dtype=np.float32))) == 0
    assert len(most_rated(np.array([3, 2, 1, 0, 0]), np.eye(5, dtype=np.float32))) == 3
    assert len(most_rated(np.array([3, 2, 1]), np.zeros((3, 0), np.float32))) == 0
    assert placed(np.zeros((0, 3), np.float32)).shape == (0, 2)

"""The data of an experiment reach another process as they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cofill.data.datasets import locate
from cofill.data.described import SideInformation
from cofill.data.splits import random_split
from cofill.experiments.runs import ExperimentData, Part


def with_folds(data: ExperimentData) -> ExperimentData:
    """Two folds; the second leaves out some ratings altogether."""
    place = np.arange(len(data.ratings))
    first = np.where(place % 5 == 0, 2, 1).astype(np.uint8)
    second = np.where(place % 5 == 1, 2, np.where(place % 5 == 2, 0, 1)).astype(np.uint8)
    return replace(data, folds=(first, second))


def test_parts_are_those_of_split_and_of_the_publisher(data: ExperimentData) -> None:
    train, *_ = data.parts(Part("random", 0.8, 3))
    np.testing.assert_array_equal(train.values, random_split(data.ratings, ratio=0.8, seed=3).train.values)
    train, _, test = with_folds(data).parts(Part("published", fold=1))
    assert (len(train), len(test)) == (900, 300)


def test_a_file_has_no_published_folds_whatever_it_is_called(data: ExperimentData) -> None:
    assert ExperimentData.of(None, data.ratings, data.side).folds == ()


def test_other_data_have_another_fingerprint(data: ExperimentData) -> None:
    fewer = replace(data, ratings=data.ratings.select(np.arange(len(data.ratings) - 1)))
    assert fewer.fingerprint != data.fingerprint
    assert with_folds(data).fingerprint != data.fingerprint
    users_only = replace(data, side=SideInformation(data.side.users, None))
    assert users_only.side_fingerprint != data.side_fingerprint
    assert users_only.fingerprint == data.fingerprint
    assert replace(data, side=SideInformation(None, None)).side_fingerprint is None


@pytest.mark.real_data
@pytest.mark.filterwarnings("ignore::cofill.data.datasets.UnpublishedFileWarning")
def test_movielens_100k_comes_with_its_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from cofill import load_dataset

    shared = Path(__file__).parents[3] / "shared" / "data"
    if not os.environ.get("COFILL_DATA") and shared.is_dir():
        monkeypatch.setenv("COFILL_DATA", str(shared))
    if locate("ml-100k") is None:
        pytest.skip("MovieLens-100K is not here")
    data = ExperimentData.of("ml-100k", load_dataset("ml-100k", quiet=True), SideInformation(None, None))
    assert [len(data.parts(Part("published", fold=fold))[-1]) for fold in range(5)] == [20_000] * 5

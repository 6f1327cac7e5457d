"""Validation ratings are predicted by what other columns have taught, every one of them, by a whole decoder."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.config import CFNSettings
from cofill.models.cfn.fit import after_refit, judged_by_halves
from cofill.models.cfn.gp import KernelParams
from cofill.models.cfn.gp_fit import DecoderFit, Learned, halves_of
from cofill.models.cfn.scaling import ValidationPart
from tests.models.cfn.described_matrix import COLUMNS, ROWS, fitted, settings

SETTINGS = settings(decoder="process", neighbours=6)
ONE = KernelParams(0.25, 0.1, 0.4, 0.3, 0.5, 3.0, 0.6, 0.0, short=(0.05, 0.1, 0.1, 0.1))
OTHER = replace(ONE, bias=0.5, taste=1.5, half=1.0)


def decoder() -> DecoderFit:
    trained = fitted(decoder="process", neighbours=6)
    return DecoderFit(trained.network, trained.part)


def everything() -> ValidationPart:
    """Every pair, also those of rows and columns that have no ratings."""
    rows, columns = np.divmod(np.arange(ROWS * COLUMNS), COLUMNS)
    ratings = np.random.default_rng(0).integers(1, 6, len(rows)).astype(np.float32)
    return ValidationPart(rows, columns.astype(np.int32), ratings)


def test_each_half_is_predicted_by_what_the_other_has_taught() -> None:
    first, part = decoder(), everything()
    in_half = halves_of(SETTINGS.seed, first.portion)[part.entry_columns]
    assert set(in_half) == {0, 1}
    by_one, by_other = (judged_by_halves(first, Learned(x, (x, x)), part)[0] for x in (ONE, OTHER))
    assert np.abs(by_one - by_other).max() > 0.1
    crossed, spread, rmse, _ = judged_by_halves(first, Learned(ONE, (ONE, OTHER)), part)
    np.testing.assert_array_equal(crossed, np.where(in_half == 0, by_one, by_other))
    assert rmse == pytest.approx(float(np.sqrt(np.mean((crossed - part.ratings) ** 2))), rel=1e-5)
    # What was learned from all columns tells how uncertain predictions are, and nothing else.
    again, others, _, _ = judged_by_halves(first, Learned(OTHER, (ONE, OTHER)), part)
    np.testing.assert_array_equal(again, crossed)
    assert others.as_array().tolist() != spread.as_array().tolist()


def test_of_many_ratings_those_of_some_columns_are_enough() -> None:
    first, part, learned = decoder(), everything(), Learned(ONE, (ONE, OTHER))
    whole, _, rmse, _ = judged_by_halves(first, learned, part)
    some, _, of_some, _ = judged_by_halves(first, learned, part, most=len(whole) // 2)
    assert 0 < len(some) < len(whole)
    assert len(some) % ROWS == 0  # of whole columns
    assert np.abs(some[:, None] - whole).min(1).max() < 1e-5  # the same ones
    assert of_some == pytest.approx(rmse, rel=0.3)
    assert len(judged_by_halves(first, learned, part, most=len(whole))[0]) == len(whole)


def test_the_network_and_its_decoder_stay_as_they_were() -> None:
    first = decoder()
    before = {name: weight.copy() for name, weight in first.network.weights().items()}
    judged_by_halves(first, Learned(ONE, (ONE, OTHER)), everything())
    for name, weight in first.network.weights().items():
        np.testing.assert_array_equal(weight, before[name])


def test_a_model_that_is_trained_again_on_everything_is_a_little_better() -> None:
    some, half, alone = (CFNSettings.of(x) for x in ({"validation": 0.1}, {"validation": 0.5}, {"refit": False}))
    assert after_refit(1.0, some) == pytest.approx(0.9937, abs=1e-4)
    assert after_refit(1.0, half) < after_refit(1.0, some)
    assert after_refit(1.0, alone) == 1.0

"""Noise: as much of it as was asked for, where it was asked for, and the same for the same seed."""

import itertools

import pytest
import torch
from torch import Tensor

from cofill.config import Noise
from cofill.errors import SettingsError
from cofill.nn import Corruption

NOISES: tuple[Noise, ...] = ("mask", "gaussian", "salt-and-pepper")
B, EACH = 200, 100


def minibatch(each: int = EACH) -> tuple[Tensor, Tensor]:
    rows = torch.arange(B).repeat_interleave(each)
    values = torch.rand(len(rows), generator=torch.Generator().manual_seed(0)) * 0.8 + 0.1
    return rows, values


def corrupted(corruption: Corruption, each: int = EACH, seed: int = 1, presence: float = 0.0) -> tuple[Tensor, Tensor]:
    return corruption(*minibatch(each), B, torch.Generator().manual_seed(seed), presence=presence)


@pytest.mark.parametrize(("noise", "ratio"), list(itertools.product(NOISES, (0.0, 0.1, 0.5))))
def test_the_share_is_about_right(noise: Noise, ratio: float) -> None:
    inputs, chosen = corrupted(Corruption(noise, ratio))
    assert chosen.float().mean().item() == pytest.approx(ratio, abs=0.015)
    _, values = minibatch()
    assert (inputs[~chosen] == values[~chosen]).all()  # what was not chosen is left exactly as it was
    assert (inputs[chosen] != values[chosen]).all()
    by_row = chosen.reshape(B, EACH).float().mean(1)
    assert (by_row > 0).float().mean().item() >= (0.99 if ratio else 0)  # every row gets its share


def test_mask_keeps_a_row_that_would_lose_everything() -> None:
    """Rows of two ratings at a ratio of 0.8: 64 % of them would be left empty. Other noise spares none."""
    inputs, chosen = corrupted(Corruption("mask", 0.8), each=2)
    lost = chosen.reshape(B, 2).sum(1)
    assert set(lost.tolist()) == {0, 1}
    assert ((inputs == 0) == chosen).all()
    assert 0.2 < (lost == 1).float().mean().item() < 0.45  # 2 * 0.8 * 0.2 = 0.32 lose one of the two
    assert not corrupted(Corruption("mask", 1.0))[1].any()
    assert corrupted(Corruption("gaussian", 1.0))[1].all()


def test_gaussian_noise_has_its_deviation() -> None:
    for std in (0.1, 0.5):
        inputs, chosen = corrupted(Corruption("gaussian", 0.5, std))
        noise = (inputs - minibatch()[1])[chosen]
        assert noise.std().item() == pytest.approx(std, rel=0.05)
        assert noise.mean().item() == pytest.approx(0, abs=0.05 * std)


def test_salt_and_pepper_are_the_ends() -> None:
    inputs, chosen = corrupted(Corruption("salt-and-pepper", 0.5))
    assert set(inputs[chosen].tolist()) == {-1.0, 1.0}
    assert inputs[chosen].mean().item() == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("noise", NOISES)
def test_the_seed_decides_and_what_goes_in_stays_as_it_is(noise: Noise) -> None:
    rows, values = minibatch()
    before = values.clone()
    one, same, other = (Corruption(noise, 0.5)(rows, values, B, torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(one[0], same[0])
    assert torch.equal(one[1], same[1])
    assert not torch.equal(one[1], other[1])
    assert torch.equal(values, before)
    assert one[0].dtype == values.dtype


@pytest.mark.parametrize("noise", NOISES)
def test_presence_is_added_to_what_is_shown(noise: Noise) -> None:
    """A hidden rating is as if it were not there; a noisy one is there."""
    corruption = Corruption(noise, 0.4, cold_ratio=0.2)
    plain, chosen = corrupted(corruption, 4)
    inputs, same = corrupted(corruption, 4, presence=0.7)
    assert torch.equal(chosen, same)
    cold = (plain.reshape(B, 4) == 0).all(1).repeat_interleave(4)
    hidden = cold | chosen if noise == "mask" else cold
    assert hidden.any()
    assert not inputs[hidden].any()
    torch.testing.assert_close(inputs[~hidden], plain[~hidden] + 0.7)


@pytest.mark.parametrize("noise", NOISES)
def test_a_cold_row_loses_all_of_its_ratings(noise: Noise) -> None:
    """And with masking too, which otherwise leaves a row something; or all rows are cold."""
    inputs, chosen = corrupted(Corruption(noise, 0.3, cold_ratio=0.25), 4)
    cold = (inputs.reshape(B, 4) == 0).all(1)
    assert cold.float().mean().item() == pytest.approx(0.25, abs=0.08)
    assert chosen.reshape(B, 4)[cold].all()
    # The other rows are corrupted as they would be without it.
    plain, plainly_chosen = corrupted(Corruption(noise, 0.3), 4)
    assert torch.equal(inputs.reshape(B, 4)[~cold], plain.reshape(B, 4)[~cold])
    assert torch.equal(chosen.reshape(B, 4)[~cold], plainly_chosen.reshape(B, 4)[~cold])
    inputs, chosen = corrupted(Corruption(noise, 0.3, cold_ratio=1.0), 4)
    assert not inputs.any()
    assert chosen.all()


def test_the_rows_need_not_be_sorted() -> None:
    """The fused kernels hand entries over by column."""
    rows = torch.arange(B).repeat(4)
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        _, chosen = Corruption("mask", 0.9)(rows, torch.ones(4 * B), B, generator)
        assert not chosen.reshape(4, B).all(0).any()
        inputs, _ = Corruption("mask", 0.0, cold_ratio=0.5)(rows, torch.ones(4 * B), B, generator)
        by_row = (inputs == 0).reshape(4, B)
        assert (by_row.all(0) | ~by_row.any(0)).all()


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_wrong_share_of_cold_rows_is_refused(ratio: float) -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        Corruption("mask", cold_ratio=ratio)

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


def corrupted(
    noise: Noise, ratio: float, *, std: float = 0.3, each: int = EACH, seed: int = 1
) -> tuple[Tensor, Tensor]:
    rows, values = minibatch(each)
    return Corruption(noise, ratio, std)(rows, values, B, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("noise", "ratio"), list(itertools.product(NOISES, (0.0, 0.1, 0.5))))
def test_the_share_is_about_right(noise: Noise, ratio: float) -> None:
    inputs, chosen = corrupted(noise, ratio)
    assert chosen.float().mean().item() == pytest.approx(ratio, abs=0.015)
    _, values = minibatch()
    assert (inputs[~chosen] == values[~chosen]).all()  # what was not chosen is left exactly as it was
    assert (inputs[chosen] != values[chosen]).all()
    by_row = chosen.reshape(B, EACH).float().mean(1)
    assert (by_row > 0).float().mean().item() >= (0.99 if ratio else 0)  # every row gets its share


@pytest.mark.parametrize("noise", NOISES)
def test_everything_can_be_corrupted_but_a_masked_row_keeps_what_would_be_all(noise: Noise) -> None:
    inputs, chosen = corrupted(noise, 1.0)
    if noise == "mask":
        assert not chosen.any()
        assert (inputs == minibatch()[1]).all()
    else:
        assert chosen.all()


def test_mask_keeps_a_row_that_would_lose_everything() -> None:
    """Rows of two ratings at a ratio of 0.8: 64 % of them would be left empty."""
    inputs, chosen = corrupted("mask", 0.8, each=2)
    lost = chosen.reshape(B, 2).sum(1)
    assert set(lost.tolist()) == {0, 1}
    assert ((inputs == 0) == chosen).all()
    assert 0.2 < (lost == 1).float().mean().item() < 0.45  # 2 * 0.8 * 0.2 = 0.32 lose one of the two


def test_the_rows_need_not_be_sorted() -> None:
    """The fused kernels hand entries over by column."""
    rows = torch.tensor([0, 1, 2, 0, 1, 0])
    for seed in range(40):
        _, chosen = Corruption("mask", 0.9)(rows, torch.ones(6), 3, torch.Generator().manual_seed(seed))
        for row in range(3):
            assert not chosen[rows == row].all()


def test_gaussian_noise_has_its_deviation() -> None:
    for std in (0.1, 0.5):
        inputs, chosen = corrupted("gaussian", 0.5, std=std)
        noise = (inputs - minibatch()[1])[chosen]
        assert noise.std().item() == pytest.approx(std, rel=0.05)
        assert noise.mean().item() == pytest.approx(0, abs=0.05 * std)


def test_salt_and_pepper_are_the_ends() -> None:
    inputs, chosen = corrupted("salt-and-pepper", 0.5)
    assert set(inputs[chosen].tolist()) == {-1.0, 1.0}
    assert inputs[chosen].mean().item() == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("noise", NOISES)
def test_the_seed_decides(noise: Noise) -> None:
    one, same, other = (corrupted(noise, 0.5, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one[0], same[0])
    assert torch.equal(one[1], same[1])
    assert not torch.equal(one[1], other[1])


@pytest.mark.parametrize("noise", NOISES)
def test_what_goes_in_stays_as_it_is(noise: Noise) -> None:
    rows, values = minibatch()
    before = values.clone()
    inputs, _ = Corruption(noise, 0.5)(rows, values, B, torch.Generator().manual_seed(0))
    assert torch.equal(values, before)
    assert inputs.dtype == values.dtype


# Presence: that a rating is there, whatever it says


@pytest.mark.parametrize("noise", NOISES)
def test_presence_is_added_to_what_is_shown(noise: Noise) -> None:
    """A hidden rating is as if it were not there; a noisy one is there."""
    rows, values = minibatch(4)
    corruption = Corruption(noise, 0.4, cold_ratio=0.2)
    plain, chosen = corruption(rows, values, B, torch.Generator().manual_seed(0))
    inputs, same = corruption(rows, values, B, torch.Generator().manual_seed(0), presence=0.7)
    assert torch.equal(chosen, same)
    cold = (plain.reshape(B, 4) == 0).all(1).repeat_interleave(4)
    hidden = cold | chosen if noise == "mask" else cold
    assert hidden.any()
    assert not inputs[hidden].any()
    torch.testing.assert_close(inputs[~hidden], plain[~hidden] + 0.7)


# Rows that lose everything, so that the network learns to read side features alone


@pytest.mark.parametrize("noise", NOISES)
def test_a_cold_row_loses_all_of_its_ratings(noise: Noise) -> None:
    """And with masking too, which otherwise leaves a row something."""
    rows, values = minibatch(4)
    inputs, chosen = Corruption(noise, 0.3, cold_ratio=0.25)(rows, values, B, torch.Generator().manual_seed(0))
    cold = (inputs.reshape(B, 4) == 0).all(1)
    assert cold.float().mean().item() == pytest.approx(0.25, abs=0.08)
    assert chosen.reshape(B, 4)[cold].all()
    # The other rows are corrupted as they would be without it.
    plain, plainly_chosen = Corruption(noise, 0.3)(rows, values, B, torch.Generator().manual_seed(0))
    assert torch.equal(inputs.reshape(B, 4)[~cold], plain.reshape(B, 4)[~cold])
    assert torch.equal(chosen.reshape(B, 4)[~cold], plainly_chosen.reshape(B, 4)[~cold])


@pytest.mark.parametrize("noise", NOISES)
def test_all_rows_can_be_cold(noise: Noise) -> None:
    rows, values = minibatch(4)
    inputs, chosen = Corruption(noise, 0.3, cold_ratio=1.0)(rows, values, B, torch.Generator().manual_seed(0))
    assert not inputs.any()
    assert chosen.all()


@pytest.mark.parametrize("noise", NOISES)
def test_cold_rows_whose_entries_are_spread(noise: Noise) -> None:
    """Entries come by column, not by row."""
    rows, values = torch.arange(B).repeat(4), torch.ones(4 * B)
    inputs, chosen = Corruption(noise, 0.0, cold_ratio=0.5)(rows, values, B, torch.Generator().manual_seed(0))
    by_row = (inputs == 0).reshape(4, B)
    assert (by_row.all(0) | ~by_row.any(0)).all()
    assert torch.equal(chosen, inputs == 0)


@pytest.mark.parametrize("noise", NOISES)
def test_no_cold_rows_cost_no_draw(noise: Noise) -> None:
    """Without features all draws of a training stay those of a model that knows no cold rows: the noise's own."""
    rows, values = minibatch()
    generator, by_hand = (torch.Generator().manual_seed(3) for _ in range(2))
    Corruption(noise, 0.3, cold_ratio=0.0)(rows, values, B, generator)
    torch.rand(len(values), generator=by_hand)
    if noise != "mask":
        (torch.randn if noise == "gaussian" else torch.rand)(len(values), generator=by_hand)
    assert torch.equal(torch.rand(3, generator=generator), torch.rand(3, generator=by_hand))


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan")])
def test_a_wrong_share_of_cold_rows_is_refused(ratio: float) -> None:
    with pytest.raises(SettingsError, match="between 0 and 1"):
        Corruption("mask", cold_ratio=ratio)

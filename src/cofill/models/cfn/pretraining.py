"""Greedy pre-training of a symmetric stack, from the outside in, as the paper does on MovieLens-1M.

First the outermost pair (input and output layer) is trained as a network of its own. Its codes are what the next
pair learns to reconstruct from a noisy version, and so on to the middle. The stack starts from all of them.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from cofill.config import CFNSettings
from cofill.models.cfn.kernels import Longs
from cofill.models.cfn.layers import activated
from cofill.models.cfn.network import CFNetwork, encode_rows, fan_in_linear
from cofill.models.cfn.scaling import ScaledRows, Scaling
from cofill.models.cfn.training import TrainingState, new_network, run_epochs, torch_seed
from cofill.models.history import EpochRecord, Phase, Report

_CHUNK = 4096


def pretrained_network(
    rows: ScaledRows,
    scaling: Scaling,
    settings: CFNSettings,
    phase: Phase,
    history: list[EpochRecord],
    report: Report | None,
) -> CFNetwork:
    """A stack whose layers have been trained pair by pair. The epochs of the outermost pair join the history."""
    outer_settings = settings.changed({"hidden": settings.hidden[:1], "pretrain": False})
    outer = new_network(rows, outer_settings, phase)
    state = TrainingState("pretrain")
    run_epochs(
        outer,
        rows,
        scaling,
        outer_settings,
        state,
        epochs=settings.pretrain_epochs,
        report=report,
    )
    history.extend(state.history)
    stack = new_network(rows, settings, phase)
    stack.input.load_state_dict(outer.input.state_dict())
    stack.output.load_state_dict(outer.output.state_dict())
    filled = np.flatnonzero(rows.counts)
    filled = filled[np.argsort(rows.portion.row_keys[filled], kind="stable")]  # in an order of their own
    codes = torch.cat(
        [
            torch.from_numpy(encode_rows(outer, _take(rows, filled[first : first + _CHUNK]), rows.portion.exchange))
            for first in range(0, len(filled), _CHUNK)
        ]
    ).to(settings.device)
    hidden, features = codes.split([settings.hidden[0], outer.features], dim=1)
    generator = torch.Generator().manual_seed(torch_seed(settings, "pretrain", settings.pretrain_epochs + 1))
    for depth in range(len(settings.hidden) // 2):
        encoder, decoder, hidden = _inner_pair(hidden, features, settings.hidden[depth + 1], settings, generator)
        stack.middle[depth].load_state_dict(encoder.state_dict())
        stack.middle[-1 - depth].load_state_dict(decoder.state_dict())
    return stack


def _take(rows: ScaledRows, chosen: Longs) -> ScaledRows:
    return replace(
        rows,
        known=rows.known.take(chosen),
        input_scale=rows.input_scale[chosen],
        features=rows.features[chosen],
        counts=rows.counts[chosen],
    )


def _inner_pair(
    hidden: Tensor, features: Tensor, width: int, settings: CFNSettings, generator: torch.Generator
) -> tuple[nn.Linear, nn.Linear, Tensor]:
    """Learn hidden (n, w) -> (n, width) -> hidden from noisy ones, with the features (n, P) beside either.

    Returns both layers and the inner hidden units.
    """
    encoder = fan_in_linear(hidden.shape[1] + features.shape[1], width, generator).to(hidden.device)
    decoder = fan_in_linear(width + features.shape[1], hidden.shape[1], generator).to(hidden.device)
    optimizer = torch.optim.SGD(
        [*encoder.parameters(), *decoder.parameters()],
        lr=settings.inner_learning_rate,
        momentum=settings.inner_momentum,
        weight_decay=settings.inner_weight_decay,
    )
    for epoch in range(1, settings.inner_epochs + 1):
        optimizer.param_groups[0]["lr"] = settings.inner_learning_rate / (
            1 + epoch * settings.inner_learning_rate_decay
        )
        for chosen in torch.randperm(len(hidden), generator=generator).split(settings.inner_batch):
            clean, side = hidden[chosen.to(hidden.device)], features[chosen.to(hidden.device)]
            noisy = torch.rand(clean.shape, generator=generator) < settings.inner_noise_ratio
            noise = torch.randn(clean.shape, generator=generator) * settings.inner_noise_std * noisy
            inner = activated(encoder(torch.cat([clean + noise.to(hidden.device), side], dim=1)), settings.activation)
            outputs = activated(decoder(torch.cat([inner, side], dim=1)), settings.activation)
            loss = ((outputs - clean) ** 2).sum() / len(clean)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return encoder, decoder, activated(encoder(torch.cat([hidden, features], dim=1)), settings.activation)

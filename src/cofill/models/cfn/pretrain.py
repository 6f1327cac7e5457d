"""Greedy pre-training of a symmetric stack, from the outside in, as the paper does on MovieLens-1M.

First the outermost pair (input and output layer) is trained as a network of its own. Its codes are what the next
pair learns to reconstruct from a noisy version, and so on to the middle. The stack starts from all of them.
"""

import numpy as np

from cofill.arrays import Floats
from cofill.config import CFNSettings
from cofill.models.cfn.network import CFNetwork, Linear, activated, activation_gradient, encode_rows
from cofill.models.cfn.scaling import ScaledRows
from cofill.threads import one_blas_thread

_CHUNK = 4096


def stack_on(
    outer: CFNetwork, stack: CFNetwork, rows: ScaledRows, settings: CFNSettings, seed: tuple[int, ...]
) -> None:
    """Give a new stack the layers of its trained outermost pair, and train its inner pairs on the codes of that one."""
    for layer, trained in ((stack.input, outer.input), (stack.output, outer.output)):
        layer.weight, layer.bias = trained.weight, trained.bias
    stack.input.side = outer.input.side
    filled = np.flatnonzero(rows.counts)
    filled = filled[np.argsort(rows.portion.row_keys[filled], kind="stable")]  # in an order of their own
    codes = np.concatenate(
        [encode_rows(outer, rows.take(filled[first : first + _CHUNK])) for first in range(0, len(filled), _CHUNK)]
    )
    hidden, features = np.split(codes, settings.hidden[:1], axis=1)
    generator = np.random.Generator(np.random.PCG64(seed))
    with one_blas_thread():  # of minibatches of a few rows
        for depth in range(len(settings.hidden) // 2):
            pair = (stack.middle[depth], stack.middle[-1 - depth])
            hidden = _train_inner_pair(*pair, hidden, features, settings, generator)


def _train_inner_pair(
    encoder: Linear,
    decoder: Linear,
    hidden: Floats,
    features: Floats,
    settings: CFNSettings,
    generator: np.random.Generator,
) -> Floats:
    """Learn hidden (n, w) -> (n, width) -> hidden from noisy ones, with the features (n, P) beside either.

    Returns the inner hidden units.
    """
    f = settings.activation
    layers = [encoder.weight, encoder.bias, decoder.weight, decoder.bias]
    moving = [np.zeros_like(weights) for weights in layers]  # by momentum
    decay, momentum = np.float32(settings.inner_weight_decay), np.float32(settings.inner_momentum)
    for epoch in range(1, settings.inner_epochs + 1):
        rate = np.float32(settings.inner_learning_rate / (1 + epoch * settings.inner_learning_rate_decay))
        order = generator.permutation(len(hidden))
        for first in range(0, len(order), settings.inner_batch):
            chosen = order[first : first + settings.inner_batch]
            clean, side = hidden[chosen], features[chosen]
            noisy = generator.random(clean.shape, np.float32) < settings.inner_noise_ratio
            noise = generator.standard_normal(clean.shape, np.float32) * np.float32(settings.inner_noise_std) * noisy
            seen = np.concatenate([clean + noise, side], axis=1)
            inner = activated(encoder(seen), f)
            beside = np.concatenate([inner, side], axis=1)
            outputs = activated(decoder(beside), f)
            # Of the squared errors, summed over units and averaged over rows.
            dz_out = activation_gradient(np.float32(2 / len(clean)) * (outputs - clean), outputs, f)
            dz_in = activation_gradient(dz_out @ decoder.weight[:, : inner.shape[1]], inner, f)
            gradients = (dz_in.T @ seen, dz_in.sum(0), dz_out.T @ beside, dz_out.sum(0))
            for weights, step, gradient in zip(layers, moving, gradients, strict=True):
                step *= momentum
                step += gradient + decay * weights
                weights -= rate * step
    return activated(encoder(np.concatenate([hidden, features], axis=1)), f)

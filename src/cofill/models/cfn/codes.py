"""Rows -> codes with a trained network, for one row or for millions."""

import numpy as np
import torch
from torch.nn import functional

from cofill.data.sparse import SparseRows
from cofill.models.cfn.activation import activated_in_numpy
from cofill.models.cfn.kernels import Floats, Ints, Longs
from cofill.models.cfn.network import CFNetwork
from cofill.models.cfn.scaling import ScaledRows


@torch.no_grad()
def encode_rows(network: CFNetwork, rows: ScaledRows) -> Floats:
    """Codes (rows, width); an empty row gets the code of knowing nothing."""
    weight = network.input.weight
    known = rows.known
    inputs = (known.values + np.float32(rows.presence)) * np.repeat(rows.loudness, known.counts())
    if known.rows == 1 and weight.device.type == "cpu":
        return _encode_one(network, known.indices, inputs, rows.features[0])[None]
    z = functional.embedding_bag(
        torch.from_numpy(known.indices.astype(np.int64)).to(weight.device),
        weight,
        torch.from_numpy(known.indptr[:-1]).to(weight.device),
        mode="sum",
        per_sample_weights=torch.from_numpy(inputs).to(weight.device),
    )
    features = torch.from_numpy(rows.features).to(weight.device)
    codes: Floats = network.code(z + network.input.offset(features), features).cpu().numpy()
    return codes


def _encode_one(network: CFNetwork, columns: Ints, inputs: Floats, features: Floats) -> Floats:
    """The same for a single row in numpy alone: (width,).

    Somebody waits for this one, and what follows is numpy's. Its threads and torch's spin in each other's way: with
    torch here, fold-in and top 10 of 10,000 items took 7 ms instead of 1.5 ms.
    """
    z = inputs @ network.input.weight.numpy()[columns] + network.input.bias.numpy()
    if network.input.side is not None:
        z += features @ network.input.side.numpy()
    code: Floats = np.append(activated_in_numpy(z, network.activation), features)
    for layer in network.middle:
        weight, bias = (parameter.numpy() for parameter in layer.parameters())
        code = np.append(activated_in_numpy(weight @ code + bias, network.activation), features)
    return code


def take_rows(rows: SparseRows, chosen: Longs) -> SparseRows:
    """The chosen rows, in that order."""
    counts = rows.counts()[chosen]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    entries = np.repeat(rows.indptr[chosen] - indptr[:-1], counts) + np.arange(indptr[-1])
    return SparseRows(indptr, rows.indices[entries], rows.values[entries], rows.columns)

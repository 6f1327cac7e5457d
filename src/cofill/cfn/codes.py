"""Rows -> codes with a trained network: thread-safe torch operations only, for one row or for millions."""

import numpy as np
import torch
from torch.nn import functional

from cofill.cfn.kernels import Floats, Longs
from cofill.cfn.network import CFNetwork
from cofill.cfn.scaling import ScaledRows
from cofill.data.sparse import SparseRows


@torch.no_grad()
def encode_rows(network: CFNetwork, rows: ScaledRows) -> Floats:
    """Codes (rows, width); an empty row gets the code of knowing nothing."""
    weight = network.input.weight
    known = rows.known
    inputs = known.values * np.repeat(rows.loudness, known.counts())
    z = functional.embedding_bag(
        torch.from_numpy(known.indices.astype(np.int64)).to(weight.device),
        weight,
        torch.from_numpy(known.indptr[:-1]).to(weight.device),
        mode="sum",
        per_sample_weights=torch.from_numpy(inputs).to(weight.device),
    )
    codes: Floats = network.code(z + network.input.bias).cpu().numpy()
    return codes


def take_rows(rows: SparseRows, chosen: Longs) -> SparseRows:
    """The chosen rows, in that order."""
    counts = rows.counts()[chosen]
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    entries = np.repeat(rows.indptr[chosen] - indptr[:-1], counts) + np.arange(indptr[-1])
    return SparseRows(indptr, rows.indices[entries], rows.values[entries], rows.columns)

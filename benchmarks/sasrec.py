"""SASRec (Kang and McAuley 2018) in torch: the last interaction of each user, beside `benchmarks/next_items.py`.

    COFILL_DATA=folder python benchmarks/sasrec.py ml-100k beauty

The same sets and the same split as there (protocol last). Self-attention over what a user did, with a softmax over all
items at every position (Klenitskiy and Vasilev 2023), in place of one sampled negative. The last training interaction
of each user is held out: training ends once NDCG@10 on these has not risen for `--patience` epochs, and the best
weights are measured. Seconds are of the processor, and count what was learned on the way.
"""

import argparse
import copy
import time
import warnings
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from cofill.arrays import Floats, Longs
from cofill.data.datasets import UnpublishedFileWarning
from cofill.data.splits import leave_last_out_split
from next_items import interactions_of

LENGTH = 10  # of lists


class SASRec(nn.Module):
    """Item 0 stands before the first of a short sequence."""

    def __init__(self, items: int, length: int, width: int, heads: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.items = nn.Embedding(items + 1, width, padding_idx=0)
        self.places = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("later", torch.triu(torch.ones(length, length, dtype=torch.bool), 1))
        for embedding in (self.items, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, sequences: Tensor) -> Tensor:
        """(n, length) -> (n, length, width): what is expected next at every place."""
        found = self.dropout(self.items(sequences) * self.items.embedding_dim**0.5 + self.places.weight)
        return cast(Tensor, self.encoder(found, mask=self.later))

    def scores(self, expected: Tensor) -> Tensor:
        """(..., width) -> (..., items)"""
        return expected @ self.items.weight[1:].T


def padded(sequences: list[Longs], length: int) -> Longs:
    """(n, length): the last of each, with items from 1, and 0 before them."""
    found = np.zeros((len(sequences), length), np.int64)
    for place, own in enumerate(sequences):
        if len(own):
            found[place, -min(len(own), length) :] = own[-length:] + 1
    return found


def gains(model: SASRec, sequences: list[Longs], targets: Longs, length: int) -> tuple[Floats, Floats]:
    """NDCG@10 and HR@10 (users,) among the items that each has not seen; a target of -1 is a miss."""
    model.eval()
    ndcg = np.zeros(len(targets), np.float32)
    with torch.no_grad():
        for first in range(0, len(targets), 256):
            some = sequences[first : first + 256]
            scores = model.scores(model(torch.from_numpy(padded(some, length)))[:, -1]).numpy()
            for row, own in enumerate(some):
                target = int(targets[first + row])
                if target >= 0:
                    wanted = scores[row, target]
                    scores[row, own] = -np.inf
                    rank = int((scores[row] > wanted).sum())
                    ndcg[first + row] = 1 / np.log2(rank + 2) if rank < LENGTH else 0.0
    return ndcg, (ndcg > 0).astype(np.float32)


def trained(sequences: list[Longs], items: int, options: argparse.Namespace) -> tuple[SASRec, int]:
    """The model with the best validation NDCG, and in which epoch it was."""
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    model = SASRec(items, options.length, options.width, options.heads, options.layers, options.dropout)
    optimizer = torch.optim.Adam(model.parameters(), lr=options.learning_rate, betas=(0.9, 0.98))
    long = [own for own in sequences if len(own) >= 3]
    learned, held = [own[:-1] for own in long], np.array([own[-1] for own in long])
    checked = rng.permutation(len(long))[: options.validation_users]
    inputs = padded([own[:-1] for own in learned], options.length)
    targets = padded([own[1:] for own in learned], options.length)
    best, reached, best_epoch = copy.deepcopy(model.state_dict()), -1.0, 0
    for epoch in range(1, options.epochs + 1):
        model.train()
        for some in np.array_split(rng.permutation(len(inputs)), -(-len(inputs) // options.batch)):
            given, wanted = torch.from_numpy(inputs[some]), torch.from_numpy(targets[some])
            known = wanted > 0
            loss = nn.functional.cross_entropy(model.scores(model(given)[known]), wanted[known] - 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        own = [learned[place] for place in checked.tolist()]
        ndcg = float(gains(model, own, held[checked], options.length)[0].mean())
        if ndcg > reached:
            best, reached, best_epoch = copy.deepcopy(model.state_dict()), ndcg, epoch
        elif epoch - best_epoch >= options.patience:
            break
    model.load_state_dict(best)
    return model, best_epoch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", metavar="SET")
    whole = {"width": 64, "length": 50, "layers": 2, "heads": 2, "batch": 128, "epochs": 200, "patience": 10, "seed": 0}
    for name, value in {**whole, "validation_users": 4000}.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore", UnpublishedFileWarning)
    for name in options.sets:
        train, test = leave_last_out_split(interactions_of(name))
        order = train.sequence()
        users, items = train.user_index[order], train.item_index[order].astype(np.int64)
        sequences = np.split(items, np.searchsorted(users, np.arange(1, len(train.users))))
        began = time.process_time()
        model, epoch = trained(sequences, len(train.items), options)
        seconds = time.process_time() - began
        of_test = train.users.find(test.users.array()[test.user_index])
        targets = train.items.find(test.items.array()[test.item_index]).astype(np.int64)
        ndcg, hits = gains(model, [sequences[user] for user in of_test.tolist()], targets, options.length)
        error = 1.96 * float(ndcg.std(ddof=1)) / np.sqrt(len(ndcg))
        print(
            f"{name:16} SASRec  NDCG {ndcg.mean():.4f} +- {error:.4f}, HR {hits.mean():.4f}  (epoch {epoch}, "
            f"{seconds:.0f} s of the processor)",
            flush=True,
        )


if __name__ == "__main__":
    main()

"""The parts of the network for a network of your own: layers, corruption and loss in plain torch."""

from cofill.extras import command

try:
    from cofill.models.cfn.torch import Corruption, DenoisingLoss, SampledOutput, SparseInput
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ModuleNotFoundError(
        f"cofill.nn needs torch, which is not installed. Run: {command('torch')}", name="torch"
    ) from None

__all__ = ["Corruption", "DenoisingLoss", "SampledOutput", "SparseInput"]

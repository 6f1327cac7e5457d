"""The parts of the network for somebody with a different one: layers, corruption and loss in plain torch."""

from cofill.extras import command

try:
    from cofill.models.cfn.plain.corruption import Corruption
    from cofill.models.cfn.plain.layers import SampledOutput, SparseInput
    from cofill.models.cfn.plain.loss import DenoisingLoss
except ModuleNotFoundError as missing:
    if missing.name != "torch":
        raise
    raise ModuleNotFoundError(
        f"cofill.nn needs torch, which is not installed. Run: {command('torch')}", name="torch"
    ) from None

__all__ = ["Corruption", "DenoisingLoss", "SampledOutput", "SparseInput"]

"""The parts of the network for somebody with a different one: layers, corruption and loss in plain torch."""

from cofill.models.cfn.corruption import Corruption
from cofill.models.cfn.layers import SampledOutput, SparseInput
from cofill.models.cfn.loss import DenoisingLoss

__all__ = ["Corruption", "DenoisingLoss", "SampledOutput", "SparseInput"]

"""The loss in torch: the definition. See `cofill.models.cfn.loss`."""

import torch
from torch import Tensor, nn


class DenoisingLoss(nn.Module):
    """sum_e c_e (y_e - x_e)^2 / B with c_e = alpha where the input was corrupted, beta elsewhere."""

    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta = beta

    def forward(self, outputs: Tensor, targets: Tensor, corrupted: Tensor, batch: int) -> Tensor:
        """(n,), (n,), (n,) bool -> scalar"""
        weights = torch.where(corrupted, self.alpha, self.beta).to(outputs.dtype)
        return (weights * (outputs - targets) ** 2).sum() / batch

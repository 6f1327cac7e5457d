"""How good predictions are, on ratings that no choice was made with."""

from cofill.evaluation.ratings import Cluster, Evaluation, evaluate

__all__ = ["Cluster", "Evaluation", "evaluate"]

"""Evaluation of predictions and recommendations on held-out ratings, used for no other choice."""

from cofill.evaluation.cross_validation import CrossValidation, Fold, cross_validate
from cofill.evaluation.intervals import Interval, PairedComparison, PairedRatio, paired, paired_ratio
from cofill.evaluation.list_measures import CutOff, ListCluster, MeasuredLists, Slots
from cofill.evaluation.next_items import evaluate_next
from cofill.evaluation.ranking import RankingEvaluation, evaluate_newcomers, evaluate_ranking
from cofill.evaluation.ratings import Cluster, Evaluation, UserCluster, evaluate

__all__ = [
    "Cluster",
    "CrossValidation",
    "CutOff",
    "Evaluation",
    "Fold",
    "Interval",
    "ListCluster",
    "MeasuredLists",
    "PairedComparison",
    "PairedRatio",
    "RankingEvaluation",
    "Slots",
    "UserCluster",
    "cross_validate",
    "evaluate",
    "evaluate_newcomers",
    "evaluate_next",
    "evaluate_ranking",
    "paired",
    "paired_ratio",
]

"""cofill turns sparse ratings into dense predictions, with autoencoders that run fast on plain CPUs.

    ratings file -> Ratings -> split -> scaling -> network <- Features <- tables, tags, links, vectors
                                          |           |
                                     evaluation <- training -> model file -> recommender

>>> from cofill import CFN, Features, Interactions, Ratings, algorithm
>>> model = CFN().fit(Ratings.read("ratings.csv"))
>>> model.recommend(42)
>>> model.recommend({"Alien": 5, "Notting Hill": 1})

>>> algorithm("lists")().fit(Interactions.read("plays.csv"))  # who chose what, without ratings

>>> films = Features.read("movies.csv")  # what is known about items apart from ratings
>>> CFN().fit(Ratings.read("ratings.csv"), item_features=films)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cofill.cluster.train import Cluster
    from cofill.config import CFNSettings
    from cofill.data.attributes import Attributes
    from cofill.data.datasets import load as load_dataset
    from cofill.data.datasets import side_information as load_side_information
    from cofill.data.features import Features
    from cofill.data.interactions import Interactions
    from cofill.data.ratings import Ratings, Scale
    from cofill.data.splits import k_folds, split
    from cofill.errors import CofillError
    from cofill.evaluation import (
        CrossValidation,
        Evaluation,
        Interval,
        PairedComparison,
        RankingEvaluation,
        cross_validate,
        evaluate,
        evaluate_ranking,
        paired,
    )
    from cofill.models import algorithm
    from cofill.models.cfn.model import CFN
    from cofill.models.recommender import Recommender
    from cofill.models.results import (
        Contribution,
        Explanation,
        Predicted,
        RankedList,
        Recommendation,
        Similar,
        UserLists,
    )

__version__ = "0.1.0"

__all__ = [
    "CFN",
    "Attributes",
    "CFNSettings",
    "Cluster",
    "CofillError",
    "Contribution",
    "CrossValidation",
    "Evaluation",
    "Explanation",
    "Features",
    "Interactions",
    "Interval",
    "PairedComparison",
    "Predicted",
    "RankedList",
    "RankingEvaluation",
    "Ratings",
    "Recommendation",
    "Recommender",
    "Scale",
    "Similar",
    "UserLists",
    "algorithm",
    "cross_validate",
    "evaluate",
    "evaluate_ranking",
    "k_folds",
    "load_dataset",
    "load_side_information",
    "paired",
    "split",
]

# Where the public names live. They are imported when first used: `cofill --help` and the reading of files should not
# wait for numba and scipy.
_MODULES = {
    "cofill.cluster.train": "Cluster",
    "cofill.config": "CFNSettings",
    "cofill.data.attributes": "Attributes",
    "cofill.data.datasets": "load:load_dataset side_information:load_side_information",
    "cofill.data.features": "Features",
    "cofill.data.interactions": "Interactions",
    "cofill.data.ratings": "Ratings Scale",
    "cofill.data.splits": "k_folds split",
    "cofill.errors": "CofillError",
    "cofill.evaluation": "CrossValidation Evaluation Interval PairedComparison RankingEvaluation cross_validate "
    "evaluate evaluate_ranking paired",
    "cofill.models": "algorithm",
    "cofill.models.cfn.model": "CFN",
    "cofill.models.recommender": "Recommender",
    "cofill.models.results": "Contribution Explanation Predicted RankedList Recommendation Similar UserLists",
}
_HOMES = {
    name.rpartition(":")[2]: (module, name.partition(":")[0])
    for module, names in _MODULES.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'cofill' has no attribute {name!r}")
    home, original = _HOMES[name]
    return getattr(import_module(home), original)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

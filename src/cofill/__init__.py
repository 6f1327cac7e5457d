"""cofill turns sparse ratings into dense predictions, with autoencoders that run fast on plain CPUs.

    ratings file -> Ratings -> split -> scaling -> network <- Features <- tables, tags, links, vectors
                                          |           |
                                     evaluation <- training -> model file -> recommender

>>> from cofill import CFN, Ratings
>>> model = CFN().fit(Ratings.read("ratings.csv"))
>>> model.recommend(42)
>>> model.recommend({"Alien": 5, "Notting Hill": 1})

>>> films = Features.read("movies.csv")  # what is known about items apart from ratings
>>> CFN().fit(Ratings.read("ratings.csv"), item_features=films)
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cofill.answers import Recommendation, Similar
    from cofill.config import CFNSettings
    from cofill.data.datasets import load as load_dataset
    from cofill.data.datasets import side_information as load_side_information
    from cofill.data.features import Features
    from cofill.data.ratings import Ratings, Scale
    from cofill.data.splits import k_folds, split
    from cofill.errors import CofillError
    from cofill.evaluation import Evaluation, evaluate
    from cofill.recommender import CFN

__version__ = "0.1.0"

__all__ = [
    "CFN",
    "CFNSettings",
    "CofillError",
    "Evaluation",
    "Features",
    "Ratings",
    "Recommendation",
    "Scale",
    "Similar",
    "evaluate",
    "k_folds",
    "load_dataset",
    "load_side_information",
    "split",
]

# Where each public name lives. They are imported when first used: `cofill --help` and the reading of files should
# not wait for torch.
_HOMES = {
    "CFN": "cofill.recommender",
    "CFNSettings": "cofill.config",
    "CofillError": "cofill.errors",
    "Evaluation": "cofill.evaluation",
    "Features": "cofill.data.features",
    "Ratings": "cofill.data.ratings",
    "Recommendation": "cofill.answers",
    "Scale": "cofill.data.ratings",
    "Similar": "cofill.answers",
    "evaluate": "cofill.evaluation",
    "k_folds": "cofill.data.splits",
    "load_dataset": "cofill.data.datasets:load",
    "load_side_information": "cofill.data.datasets:side_information",
    "split": "cofill.data.splits",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'cofill' has no attribute {name!r}")
    home, _, original = _HOMES[name].partition(":")
    return getattr(import_module(home), original or name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]

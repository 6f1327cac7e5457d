"""Arrays into predictions and lists. Here: the registry of algorithms, one entry each.

    CFN            the autoencoder of the paper                        cfn/
    means, lists   biases alone; the list scorer alone                 bias_models
    baselines      what it is compared with                            baselines/, one module each
    recommender    a model as people use it, in their own ids
    predictor      what users would rate items; only cfn/ speaks of rows and columns

Another package can bring an algorithm of its own, which then works in every command: a subclass of `Recommender`, and
an `Algorithm` under a name in the entry points "cofill.algorithms" of that package.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from cofill.errors import SettingsError

if TYPE_CHECKING:  # the names alone need not wait for the models
    from cofill.models.recommender import Recommender


@dataclass(frozen=True)
class Contender:
    """An algorithm with the settings that make it this one; all others are its defaults."""

    label: str
    """Its name in tables and in `--only`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    side: bool = False
    """Whether it is given side information."""
    lists: bool = False
    """Whether it takes part in the tables of lists, rather than in those of ratings."""
    algorithm: str = ""
    """The name of the algorithm: that of its entry in the registry, which fills it in."""


@dataclass(frozen=True)
class Algorithm:
    """What the registry says of an algorithm."""

    home: str
    """Its class, as "module:Class"; imported when it is first asked for."""
    contenders: tuple[Contender, ...] = ()
    """As what it takes part in tables."""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Settings for a quick look, which make it fast and no good."""

    def load(self) -> "type[Recommender]":
        module, _, name = self.home.partition(":")
        found: type[Recommender] = getattr(import_module(module), name)
        return found


_OURS = {
    "means": Algorithm("cofill.models.bias_models:Means", (Contender("fitted means"),)),
    "bpmf": Algorithm("cofill.models.baselines.bpmf:BPMF", (Contender("BPMF"),), {"samples": 10, "burn_in": 5}),
    "als-wr": Algorithm("cofill.models.baselines.als_wr:ALSWR", (Contender("ALS-WR"),), {"rank": 20, "iterations": 5}),
    "svdfeature": Algorithm(
        "cofill.models.baselines.svdfeature:SVDFeature",
        (Contender("SVDFeature"), Contender("SVDFeature++", side=True)),
        {"rank": 16, "epochs": 10},
    ),
    "llorma": Algorithm("cofill.models.baselines.llorma:LLORMA", (Contender("LLORMA"),), {"rank": 5, "anchors": 5}),
    "autorec": Algorithm(
        "cofill.models.baselines.autorec:AutoRec",
        (Contender("U-AutoRec", {"orientation": "user"}), Contender("I-AutoRec", {"orientation": "item"})),
        {"epochs": 40, "hidden": 100},
    ),
    "popularity": Algorithm("cofill.models.baselines.popularity:Popularity", (Contender("popularity", lists=True),)),
    "recent-popularity": Algorithm("cofill.models.baselines.sequential:RecentPopularity"),
    "markov": Algorithm("cofill.models.baselines.sequential:MarkovChain"),
    "item-knn": Algorithm(
        "cofill.models.baselines.item_models:ItemKNN",
        (Contender("item kNN", lists=True),),
        {"neighbours": 50, "shrinkage": 1.0},
    ),
    "ease": Algorithm("cofill.models.baselines.item_models:EASE", (Contender("EASE", lists=True),), {"penalty": 160.0}),
    "ials": Algorithm(
        "cofill.models.baselines.ials:IALS",
        (Contender("iALS", lists=True),),
        {"rank": 16, "unobserved": 0.1, "penalty": 0.01, "iterations": 4},
    ),
    "lists": Algorithm("cofill.models.bias_models:ListModel", (Contender("cofill", lists=True),)),
    "cfn": Algorithm(
        "cofill.models.cfn.model:CFN",
        (
            Contender("U-CFN", {"orientation": "user"}),
            Contender("U-CFN++", {"orientation": "user"}, side=True),
            Contender("V-CFN", {"orientation": "item"}),
            Contender("V-CFN++", {"orientation": "item"}, side=True),
            Contender("CFN", {"orientation": "both"}),
            Contender("CFN++", {"orientation": "both"}, side=True),
        ),
        {"epochs": 12, "hidden": 100},
    ),
}


@cache
def algorithms() -> Mapping[str, Algorithm]:
    """Every algorithm by its name, as model files, tables and the command line call it; in the order of tables."""
    others = {point.name: point for point in entry_points(group="cofill.algorithms") if point.name not in _OURS}
    found = {name: point.load() for name, point in others.items()}
    for name, entry in found.items():
        if not isinstance(entry, Algorithm):
            where = others[name].value
            raise SettingsError(f"the entry point {where} is no cofill.models.Algorithm; correct the package it is in")
    return _OURS | found


@cache
def contenders() -> Mapping[str, Contender]:
    """The contenders of all tables, by label."""
    entries = algorithms().items()
    return {one.label: replace(one, algorithm=name) for name, entry in entries for one in entry.contenders}


def algorithm(name: str) -> "type[Recommender]":
    """The class of an algorithm, by the name that `cofill train --algorithm` takes, such as "cfn", "lists" or "ease".

    >>> algorithm("als-wr")(rank=50).fit("ratings.csv")
    """
    if name not in algorithms():
        raise SettingsError(f"there is no algorithm {name!r}; known: {', '.join(algorithms())}")
    return algorithms()[name].load()

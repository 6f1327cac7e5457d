"""Who takes part, with which settings, and where their authors recommend these."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["ratings", "lists"]

OWN = "cofill"
"""The library that needs no environment: it is where this program runs."""

REFERENCE: Mapping[Kind, str] = {"ratings": "cofill", "lists": "cofill-lists"}
"""What the others are divided by."""


@dataclass(frozen=True)
class Library:
    """What pip is told to install, in this order, and how to see that it works."""

    packages: tuple[str, ...]
    imports: str


# torch comes before what asks for any version of it: this one has builds for processors alone.
TORCH = "torch==2.13.0"
LIBRARIES: Mapping[str, Library] = {
    "surprise": Library(("scikit-surprise",), "surprise"),
    "implicit": Library(("implicit",), "implicit"),
    "lightfm": Library(("rectools-lightfm",), "lightfm"),
    "cmfrec": Library(("threadpoolctl", "cmfrec"), "cmfrec"),  # it imports the first and does not ask for it
    "myfm": Library(("myfm",), "numpy"),  # it is imported with a stand-in for pkg_resources
    "cornac": Library((TORCH, "cornac"), "cornac"),
    "lenskit": Library((TORCH, "lenskit"), "lenskit"),
    "rectools": Library(("rectools",), "rectools"),
    "recbole": Library((TORCH, "recbole"), "recbole"),
}


@dataclass(frozen=True)
class Peer:
    """One model of one library."""

    label: str
    library: str
    function: str
    """Of the module of its library; it makes a fitted model of a problem."""
    kinds: tuple[Kind, ...]
    settings: str
    source: str
    """Where the settings come from."""
    package: str = "peer_libraries"
    """That has the module."""

    @property
    def place(self) -> str:
        return f"{self.package}.with_{self.library}:{self.function}"


_DEFAULTS = "cofill's defaults"
PEERS: Mapping[str, Peer] = {
    "cofill": Peer("**cofill** (V-CFN and lists)", OWN, "cfn", ("ratings", "lists"), "defaults", _DEFAULTS),
    "cofill-lists": Peer(
        "**cofill**, lists alone", OWN, "lists", ("lists",), "defaults; no network", _DEFAULTS
    ),
    "means": Peer(
        "biases with learned damping (cofill)", OWN, "means", ("ratings",), "defaults", _DEFAULTS
    ),
    "popularity": Peer("popularity (cofill)", OWN, "popularity", ("lists",), "none", _DEFAULTS),
    "ease": Peer(
        "EASE (cofill)", OWN, "ease", ("lists",),
        "graded ratings; penalty searched", "6 fits on validation ratings",
    ),
    "surprise-svd": Peer(
        "Surprise SVD", "surprise", "svd", ("ratings",),
        "defaults: 100 factors, 20 epochs", "README, Benchmarks",
    ),
    "surprise-svd++": Peer(
        "Surprise SVD++", "surprise", "svd_plus_plus", ("ratings",),
        "defaults: 20 factors, 20 epochs, cache_ratings", "README, Benchmarks",
    ),
    "cmfrec": Peer(
        "cmfrec CMF", "cmfrec", "explicit", ("ratings",),
        "k 50, lambda 0.05 scaled, 15 turns, Cholesky, implicit features", "README, the best of its benchmark",
    ),
    "myfm": Peer(
        "myFM, ids", "myfm", "ids", ("ratings",),
        "rank 8, 100 samples, grouped", "README, MovieLens-100K",
    ),
    "myfm-flipped": Peer(
        "myFM, ids, days, implicit features", "myfm", "flipped", ("ratings",),
        "rank 16, 200 samples, grouped", "examples/ml-1m-regression.py, but for rank 32 and 512 samples: too long",
    ),
    "cornac-mf": Peer(
        "Cornac MF", "cornac", "mf", ("ratings",),
        "k 10, 25 epochs, step 0.01, penalty 0.02, biases", "README, first experiment",
    ),
    "lenskit-mf": Peer(
        "LensKit BiasedMF (ALS)", "lenskit", "biased_mf", ("ratings",),
        "50 features, otherwise defaults", "Getting Started",
    ),
    "implicit-als": Peer(
        "implicit ALS", "implicit", "als", ("lists",),
        "defaults; ratings from 4 of 5 on, BM25 weights", "examples/movielens.py",
    ),
    "implicit-als-searched": Peer(
        "implicit ALS, searched", "implicit", "als_searched", ("lists",),
        "graded, 128 factors; regularization (1, 10, 100), alpha (1, 10) searched", "6 fits on validation ratings",
    ),
    "implicit-bm25": Peer(
        "implicit BM25 neighbours", "implicit", "bm25", ("lists",),
        "B 0.2; ratings from 4 of 5 on", "examples/movielens.py",
    ),
    "lightfm": Peer(
        "LightFM WARP", "lightfm", "warp", ("lists",),
        "32 components, 30 epochs, alpha 1e-5; ratings from 4 of 5 on", "README and examples/movielens/warp_loss",
    ),
    "cmfrec-implicit": Peer(
        "cmfrec CMF_implicit", "cmfrec", "implicit", ("lists",),
        "k 50, lambda 5, 15 turns, CG; ratings are weights", "README, its benchmark",
    ),
    "cornac-bpr": Peer(
        "Cornac BPR", "cornac", "bpr", ("lists",),
        "k 10, 200 epochs, step 0.001, penalty 0.01", "README, first experiment",
    ),
    "cornac-ease": Peer(
        "Cornac EASE", "cornac", "ease", ("lists",), "lamb 500, posB off", "examples/ease_movielens.py",
    ),
    "lenskit-implicit-mf": Peer(
        "LensKit ImplicitMF (ALS)", "lenskit", "implicit_mf", ("lists",),
        "50 features, otherwise defaults", "Getting Started, for its explicit sister",
    ),
    "lenskit-item-knn": Peer(
        "LensKit ItemKNN", "lenskit", "item_knn", ("lists",), "k 20, implicit", "Getting Started",
    ),
    "rectools-ease": Peer(
        "RecTools EASE", "rectools", "ease", ("lists",),
        "regularization 500; ratings are weights", "its default, and the README",
    ),
    "rectools-ease-searched": Peer(
        "RecTools EASE, searched", "rectools", "ease_searched", ("lists",),
        "regularization (250 to 8000) searched; ratings are weights", "6 fits on validation ratings",
    ),
    "rectools-tfidf": Peer(
        "RecTools TF-IDF neighbours", "rectools", "tfidf", ("lists",), "K 10; ratings are weights", "README",
    ),
    "recbole-ease": Peer(
        "RecBole EASE", "recbole", "ease", ("lists",),
        "reg_weight 250; ratings from 3 of 5 on", "its default, and its benchmark on MovieLens-1M",
    ),
    "recbole-multvae": Peer(
        "RecBole Mult-VAE", "recbole", "mult_vae", ("lists",),
        "defaults, at most 500 epochs, early stop; ratings from 3 of 5 on", "its benchmark on MovieLens-1M",
    ),
}  # fmt: skip

"""The tables and figures of the paper, reproduced: our results beside the published ones."""

from importlib import import_module
from typing import TYPE_CHECKING

from cofill.errors import SettingsError

if TYPE_CHECKING:
    from cofill.experiments.plan import Experiment

_PLACES = {
    "rmse": "tables:RMSE",
    "side-information": "tables:SIDE_INFORMATION",
    "loss": "network:LOSS",
    "training-ratio": "tables:TRAINING_RATIO",
    "convergence": "network:CONVERGENCE",
    "non-linearity": "network:NON_LINEARITY",
    "cost": "tables:COST",
    "ranking": "lists:EXPERIMENT",
}
EXPERIMENTS = {
    "rmse": "RMSE of all algorithms, with and without side information",
    "side-information": "what side information is worth, by popularity of the items",
    "loss": "hidden ratings, visible ones, or both in the loss",
    "training-ratio": "RMSE against the share of the ratings trained on",
    "convergence": "RMSE by epoch",
    "non-linearity": "the network with its tanh removed",
    "cost": "time, memory and parameters",
    "ranking": "lists of recommendations: by random splits, by time, and for new users",
}


def experiment(name: str) -> "Experiment":
    """The experiment of that name."""
    if name not in EXPERIMENTS:
        raise SettingsError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    module, _, variable = _PLACES[name].partition(":")
    found: Experiment = getattr(import_module(f"cofill.experiments.{module}"), variable)
    return found

"""The tables and figures of the paper, reproduced: our results beside the published ones."""

from importlib import import_module
from typing import TYPE_CHECKING

from cofill.errors import SettingsError

if TYPE_CHECKING:
    from cofill.experiments.plan import Experiment

# The others are in `tables`. Each is a variable of its module, in capitals.
_HOMES = {"loss": "network", "convergence": "network", "non-linearity": "network", "ranking": "lists"}
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
    module = import_module(f"cofill.experiments.{_HOMES.get(name, 'tables')}")
    found: Experiment = getattr(module, name.upper().replace("-", "_"))
    return found

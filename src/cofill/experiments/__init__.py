"""The experiments of the paper, a module for each table and figure: ours beside theirs."""

from importlib import import_module
from typing import TYPE_CHECKING

from cofill.errors import SettingsError

if TYPE_CHECKING:
    from cofill.experiments.plan import Experiment

EXPERIMENTS = {
    "rmse": "RMSE of all algorithms, with and without side information",
    "side-information": "what side information is worth, by popularity of the items",
    "loss": "hidden ratings, visible ones, or both in the loss",
    "training-ratio": "RMSE against the share of the ratings trained on",
    "convergence": "RMSE by epoch",
    "non-linearity": "the network with its tanh removed",
    "cost": "time, memory and parameters",
    "ranking": "lists of recommendations of all algorithms",
}


def experiment(name: str) -> "Experiment":
    """The one of that name."""
    if name not in EXPERIMENTS:
        raise SettingsError(f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)}")
    found: Experiment = import_module(f"cofill.experiments.{name.replace('-', '_')}").EXPERIMENT
    return found

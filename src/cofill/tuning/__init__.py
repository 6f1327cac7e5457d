"""Search for the best settings: ranges, the genetic algorithm of the paper as an Optuna sampler, workers, results.

study.py        goals, ranges, and an Optuna study with its database     genetic.py  the genetic algorithm
search_data.py  what trials are scored on                                search.py   trials, and several workers
results.py      best settings, all trials, a picture
"""

from cofill.extras import require


def require_optuna() -> None:
    """Raise unless Optuna is installed."""
    require("cofill tune", "tune", "optuna")

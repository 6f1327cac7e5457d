"""Search for the best settings: ranges, the genetic algorithm of the paper as an Optuna sampler, workers, results.

space.py        what is searched             study.py    an Optuna study that knows what it is about; its samplers
genetic.py      the genetic algorithm        storage.py  the database that a study is kept in
goals.py        what a trial is scored by    trials.py   one trial after the other, in a worker
search.py       several workers              results.py  best settings, all trials, a picture
search_data.py, list_search_data.py          what trials of networks and of lists are scored on
"""

from importlib.util import find_spec

from cofill.errors import SettingsError


def require_optuna() -> None:
    """Raise unless Optuna is installed."""
    if find_spec("optuna") is None:
        raise SettingsError("the search is run by Optuna, which is not installed. Run: pip install 'cofill[tune]'")

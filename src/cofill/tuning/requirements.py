"""What the search needs beyond a plain install."""

from importlib.util import find_spec

from cofill.errors import SettingsError


def require_optuna() -> None:
    """Raise where Optuna is not installed."""
    if find_spec("optuna") is None:
        raise SettingsError("the search is run by Optuna, which is not installed. Run: pip install 'cofill[tune]'")

"""Every algorithm by its name, as model files, tables and the command line call it."""

from importlib import import_module
from typing import TYPE_CHECKING

from cofill.errors import SettingsError

if TYPE_CHECKING:  # the names alone need not wait for torch
    from cofill.models.recommender import Recommender

_HOMES = {
    "cfn": ("cofill.models.cfn.cfn", "CFN"),
    "means": ("cofill.models.rivals.means", "Means"),
    "als-wr": ("cofill.models.rivals.als_wr", "ALSWR"),
    "svdfeature": ("cofill.models.rivals.svdfeature", "SVDFeature"),
    "bpmf": ("cofill.models.rivals.bpmf", "BPMF"),
    "llorma": ("cofill.models.rivals.llorma", "LLORMA"),
    "autorec": ("cofill.models.rivals.autorec", "AutoRec"),
}
NAMES = tuple(_HOMES)


def algorithm(name: str) -> "type[Recommender]":
    """The class of that name."""
    if name not in _HOMES:
        raise SettingsError(f"there is no algorithm {name!r}; known: {', '.join(NAMES)}")
    module, attribute = _HOMES[name]
    found: type[Recommender] = getattr(import_module(module), attribute)
    return found

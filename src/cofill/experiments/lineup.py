"""Who takes part: every algorithm of the paper's table, by the name that tables and `--only` have for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Contender:
    """An algorithm with the settings that make it this one; all others are its defaults."""

    label: str
    algorithm: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    side: bool = False  # whether it is given side information


_ALL = (
    Contender("fitted means", "means"),
    Contender("BPMF", "bpmf"),
    Contender("ALS-WR", "als-wr"),
    Contender("SVDFeature", "svdfeature"),
    Contender("SVDFeature++", "svdfeature", side=True),
    Contender("LLORMA", "llorma"),
    Contender("U-AutoRec", "autorec", {"orientation": "user"}),
    Contender("I-AutoRec", "autorec", {"orientation": "item"}),
    Contender("U-CFN", "cfn", {"orientation": "user"}),
    Contender("U-CFN++", "cfn", {"orientation": "user"}, side=True),
    Contender("V-CFN", "cfn", {"orientation": "item"}),
    Contender("V-CFN++", "cfn", {"orientation": "item"}, side=True),
)
LINEUP: Mapping[str, Contender] = {contender.label: contender for contender in _ALL}

# For a quick look: what makes an algorithm quick, and no good.
QUICK: Mapping[str, Mapping[str, Any]] = {
    "cfn": {"epochs": 12, "hidden": 100},
    "autorec": {"epochs": 40, "hidden": 100},
    "als-wr": {"rank": 20, "iterations": 5},
    "svdfeature": {"rank": 16, "epochs": 10},
    "bpmf": {"samples": 10, "burn_in": 5},
    "llorma": {"rank": 5, "anchors": 5},
    "means": {},
}

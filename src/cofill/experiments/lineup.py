"""Who takes part: every algorithm that the registry gives a name in tables."""

from collections.abc import Mapping
from typing import Any

from cofill.models import Contender, algorithms, contenders

__all__ = ["LINEUP", "QUICK", "Contender"]

LINEUP: Mapping[str, Contender] = contenders()
QUICK: Mapping[str, Mapping[str, Any]] = {name: entry.quick for name, entry in algorithms().items()}
"""For a quick look: what makes an algorithm quick, and no good."""

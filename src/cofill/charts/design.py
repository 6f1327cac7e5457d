"""The design that the page of the server, reports and pictures share: colours and typefaces, from `tokens.css`."""

import re
from importlib.resources import files

TOKENS = (files("cofill.charts") / "tokens.css").read_text(encoding="utf-8")
"""CSS that declares them, for light and for dark."""

_DECLARED = re.compile(r"--([\w-]+): ([^;]+);")
_light, _, _dark = TOKENS.partition("@media (prefers-color-scheme: dark)")
LIGHT: dict[str, str] = dict(_DECLARED.findall(_light))
"""By name, without the hyphens."""
DARK: dict[str, str] = LIGHT | dict(_DECLARED.findall(_dark))
SERIES = tuple(name for name in LIGHT if name.startswith("series"))


def written_out(rules: str) -> str:
    """The rules with light values in the place of names: many programs that show SVG know no CSS variables."""
    return re.sub(r"var\(--([\w-]+)\)", lambda found: LIGHT[found[1]], rules)

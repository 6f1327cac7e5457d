"""The design: names of colours and typefaces for pages, and their values for pictures.

`tokens.css` is what the page of the server, reports and pictures share; `series.css` has the colours of lines.
"""

import re
from importlib.resources import files

_FOLDER = files("cofill.charts")
TOKENS = (_FOLDER / "tokens.css").read_text(encoding="utf-8")
"""CSS that declares them, for light and for dark."""
SERIES_TOKENS = (_FOLDER / "series.css").read_text(encoding="utf-8")

_DECLARED = re.compile(r"--([\w-]+): ([^;]+);")


def _declared(css: str) -> tuple[dict[str, str], dict[str, str]]:
    light, _, dark = css.partition("@media (prefers-color-scheme: dark)")
    return dict(_DECLARED.findall(light)), dict(_DECLARED.findall(dark))


_tokens, _series = _declared(TOKENS), _declared(SERIES_TOKENS)

LIGHT: dict[str, str] = _tokens[0] | _series[0]
"""By name, without the hyphens."""
DARK: dict[str, str] = LIGHT | _tokens[1] | _series[1]

SERIES = tuple(_series[0])


def written_out(rules: str) -> str:
    """The rules with light values in the place of names: many programs that show SVG know no CSS variables."""
    return re.sub(r"var\(--([\w-]+)\)", lambda found: LIGHT[found[1]], rules)

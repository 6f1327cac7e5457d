"""The parts that a page is made of (sections, figures, tables), and its look.

Light or dark as the reader's system says, one column on a telephone, plain in print.
"""

from collections.abc import Sequence

from cofill.charts.design import LIGHT, SERIES_TOKENS, TOKENS
from cofill.charts.graphs import STYLE
from cofill.charts.markup import Markup, element

_SHORT = 14  # characters of a cell that is not worth breaking


def paragraph(*children: str) -> Markup:
    return element("p", *children)


def code(words: str) -> Markup:
    return element("code", words)


def section(name: str, heading: str, *children: str) -> Markup:
    """A section that the table of contents links to."""
    return element("section", element("h2", heading, id=name), *children, aria_labelledby=name)


def figure(picture: Markup, caption: str, *, wide: bool = False) -> Markup:
    return element("figure", picture, element("figcaption", caption), class_="wide" if wide else None)


def figures(*pictures: Markup) -> Markup:
    """Figures side by side, where there is room."""
    return element("div", *pictures, class_="figures")


def beside(*parts: Markup) -> Markup:
    """Tables side by side, where there is room."""
    return element("div", *parts, class_="columns")


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Markup:
    """A table with numbers to the right and None as a dash. A wide table scrolls by itself."""
    numeric = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))]
    classes = ["number" if right else None for right in numeric]
    head = [element("th", name, scope="col", class_=kind) for name, kind in zip(columns, classes, strict=True)]
    body = []
    for row in rows:
        cells = [(cell(value), kind) for value, kind in zip(row, classes, strict=True)]
        short = [(words, kind or ("short" if len(words) <= _SHORT else None)) for words, kind in cells]
        body.append(element("tr", *(element("td", words, class_=kind) for words, kind in short)))
    whole = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *head)),
        element("tbody", *body),
    )
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def cell(value: object) -> str:
    """A cell as text: integers with separators, other numbers with four digits, None as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}"
    return value if isinstance(value, Markup) else str(value)


_RULES = """
*{box-sizing:border-box}
html{scroll-behavior:smooth}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main,nav,footer{max-width:66rem;margin:0 auto;padding:0 1rem}
header{padding-top:2rem}
h1{font-size:1.9rem;line-height:1.2;margin:0 0 .3rem;overflow-wrap:anywhere}
h2{font-size:1.35rem;margin:2.8rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line)}
h3{font-size:1.05rem;margin:1.8rem 0 .4rem;overflow-wrap:anywhere}
p{max-width:46rem;margin:.6rem 0}
a{color:var(--accent)}
.lead{color:var(--muted);font-size:1.05rem}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;padding:.7rem 0;margin:1rem 0 0;
border-block:1px solid var(--line)}
nav a{text-decoration:none}
nav a:hover{text-decoration:underline}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(7.5rem,1fr));gap:.7rem;margin:1.2rem 0;padding:0}
.cards div{background:var(--sunk);border-radius:8px;padding:.7rem .9rem}
.cards .warning{border-left:4px solid var(--gold);border-radius:0 8px 8px 0}
.cards dt{color:var(--muted);font-size:.85rem}
.cards dd{margin:0;font-size:1.35rem;font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:1rem 0}
.scroll:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;font-size:.92rem;min-width:min(100%,22rem)}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{text-align:left;padding:.32rem .8rem;border-bottom:1px solid var(--line);vertical-align:top}
th:first-child,td:first-child{padding-left:.2rem}
thead th{color:var(--muted);font-weight:600;border-bottom:2px solid var(--line)}
.number{text-align:right;font-variant-numeric:tabular-nums}
td.number,td.short,p code{white-space:nowrap}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,21rem),1fr));gap:1rem 2rem;margin:1rem 0}
figure{margin:0;min-width:0;max-width:34rem}
figure.wide{max-width:none;margin:1rem 0}
figcaption{color:var(--muted);font-size:.88rem;max-width:46rem}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 2rem;align-items:start}
.columns>*{min-width:0}
code,pre{font-family:ui-monospace,"DejaVu Sans Mono",Consolas,monospace;font-size:.9em}
pre{background:var(--sunk);border-radius:8px;padding:.8rem 1rem;overflow-x:auto;white-space:pre-wrap}
.note{background:var(--sunk);border-left:4px solid var(--accent);padding:.6rem .9rem;border-radius:0 8px 8px 0}
.warning{border-left-color:var(--gold)}
details{margin:1rem 0}
summary{cursor:pointer;font-weight:600}
footer{color:var(--muted);font-size:.88rem;padding-block:2.5rem}
svg{display:block;width:100%;height:auto}
svg.map{min-width:45rem}
svg.map .frame{fill:none;stroke:var(--line)}
svg.map circle{fill-opacity:.6;stroke:var(--ground);stroke-width:.6}
svg.map circle:hover{fill-opacity:1;stroke:var(--ink);stroke-width:2}
svg.map .title{font-size:12.5px;paint-order:stroke;stroke:var(--ground);stroke-width:3px;stroke-linejoin:round;
pointer-events:none}
.v1{fill:var(--down)}.v2{fill:color-mix(in oklab,var(--down) 45%,var(--edge))}.v3{fill:var(--edge)}
.v4{fill:color-mix(in oklab,var(--accent) 55%,var(--edge))}.v5{fill:var(--accent)}
@media (max-width:32rem){th,td{padding-inline:.4rem}}
@media print{body{font-size:10.5pt}nav{display:none}h2,h3{break-after:avoid}figure,tr,.cards{break-inside:avoid}
.scroll{overflow:visible}svg.map{min-width:0}header,main,footer{max-width:none}}
"""
_PRINTED = "".join(f"--{name}:{value};" for name, value in (LIGHT | {"ink": "#000", "muted": "#444"}).items())

CSS = f"{TOKENS}{SERIES_TOKENS}{_RULES}{STYLE}@media print{{:root{{{_PRINTED}}}}}\n"
"""Everything that gives the page its look."""

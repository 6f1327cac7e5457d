"""The parts that a page is made of (sections, figures, tables), and its look.

It is that of the server's page: the same colours and typefaces (`cofill.charts.design`), headings, cards and tables.
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
    """A picture and what it shows."""
    return element("figure", picture, element("figcaption", caption), class_="wide" if wide else None)


def figures(*pictures: Markup) -> Markup:
    """Figures side by side, where there is room."""
    return element("div", *pictures, class_="figures")


def beside(*parts: Markup) -> Markup:
    """Tables side by side, where there is room."""
    return element("div", *parts, class_="columns")


def unfolded(summary: str, *children: str) -> Markup:
    """What few want to read: shown when asked for."""
    return element("details", element("summary", summary), *children)


def card(name: str, value: str, *beside: str, warning: bool = False) -> Markup:
    """A figure in large, what it is, and what it is to be compared with."""
    parts = [element("dt", name), element("dd", value), *(element("dd", words, class_="beside") for words in beside)]
    return element("div", *parts, class_="warning" if warning else None)


def cards(*several: Markup) -> Markup:
    return element("dl", *several, class_="cards")


def brand() -> Markup:
    """The name with the star of the server's page, one half of it filled."""
    halves = [
        element("path", d="M12 1.6L8.9 8.4l-7.4.8 5.5 5-1.5 7.3 6.5-3.7z", class_="filled"),
        element("path", d="M12 1.6l3.1 6.8 7.4.8-5.5 5 1.5 7.3-6.5-3.7z", class_="empty"),
    ]
    return element(
        "span",
        element("svg", *halves, viewBox="0 0 24 24", aria_hidden="true", class_="brand-mark"),
        "cofill",
        class_="brand",
    )


def with_figure(words: Markup, picture: Markup) -> Markup:
    """A table and its figure side by side, where there is room."""
    return element("div", words, picture, class_="with-figure")


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, own: int | None = None) -> Markup:
    """A table with numbers to the right and None as a dash. A wide table scrolls by itself.

    `own` is the row of the model itself, beside what it is compared with.
    """
    numeric = [all(isinstance(row[at], int | float | None) for row in rows) for at in range(len(columns))]
    classes = ["number" if right else None for right in numeric]
    head = [
        element("th", name, scope="col", class_=" ".join(filter(None, (kind, "short" if len(name) <= _SHORT else ""))))
        for name, kind in zip(columns, classes, strict=True)
    ]
    body = []
    for number, row in enumerate(rows):
        cells = [(cell(value), kind) for value, kind in zip(row, classes, strict=True)]
        short = [(words, kind or ("short" if len(words) <= _SHORT else None)) for words, kind in cells]
        shown = (element("td", words, class_=kind) for words, kind in short)
        body.append(element("tr", *shown, class_="own" if number == own else None))
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
        return f"{value:z.4f}"
    return value if isinstance(value, Markup) else str(value)


_RULES = """
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:4rem;-webkit-text-size-adjust:100%}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--ground);color:var(--ink);font:400 1rem/1.5 var(--sans);
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
h1,h2,h3,p,ul,dl,dd,figure{margin:0;padding:0}
h1{font:500 2rem/1.2 var(--serif);letter-spacing:-.01em}
h2{font:500 1.5rem/1.25 var(--serif);letter-spacing:-.005em;margin:3rem 0 .375rem}
h3{font:600 .9375rem/1.3 var(--sans);margin:1.5rem 0 .375rem}
p{max-width:46rem;margin:.5rem 0}
a{color:var(--accent)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px;border-radius:6px}
.top{position:sticky;top:0;z-index:10;display:flex;align-items:center;gap:1.5rem;
padding:.5rem max(1.25rem,calc((100% - 66rem)/2));background:color-mix(in srgb,var(--ground) 92%,transparent);
backdrop-filter:blur(10px);border-bottom:1px solid var(--line)}
.brand{display:flex;align-items:center;gap:.5rem;font:600 1.1875rem/1 var(--serif)}
svg.brand-mark{width:1.125rem;height:1.125rem}
.brand-mark .filled{fill:var(--gold)}.brand-mark .empty{fill:var(--line)}
nav{min-width:0}
nav ul{list-style:none;display:flex;gap:.125rem;overflow-x:auto;scrollbar-width:none}
nav a{display:block;padding:.375rem .625rem;border-radius:8px;text-decoration:none;color:var(--muted);
white-space:nowrap;font-size:.9375rem}
nav a:hover{color:var(--ink);background:var(--sunk)}
main{max-width:68.5rem;margin:0 auto;padding:1.75rem 1.25rem 2rem}
footer{max-width:68.5rem;margin:0 auto;padding:1rem 1.25rem 4rem;color:var(--muted);font-size:.875rem}
.lead{color:var(--muted);max-width:none}
.verdict{font:500 1.375rem/1.4 var(--serif);max-width:none;margin:1.25rem 0;padding:1rem 1.25rem;border-radius:14px;
background:var(--accent-soft)}
.verdict.bad,.verdict.unknown{background:var(--sunk)}
.verdict.bad{box-shadow:inset 5px 0 var(--down)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(10rem,1fr));gap:1rem;margin:1.25rem 0}
.cards div{display:flex;flex-direction:column;padding:.875rem 1rem;border-radius:14px;background:var(--surface);
border:1px solid var(--line)}
.cards .warning{border-color:var(--down)}
.cards dt{font-size:.8125rem;color:var(--muted)}
.cards dd{order:-1;font:500 1.625rem/1.2 var(--serif)}
.cards .beside{order:1;font:400 .8125rem/1.4 var(--sans);margin-top:.375rem}
.scroll{overflow-x:auto;margin:1rem 0}
table{width:100%;border-collapse:collapse;font-size:.9375rem}
caption{text-align:left;font:500 1.125rem/1.3 var(--serif);padding-bottom:.375rem}
th,td{text-align:left;padding:.3125rem .75rem;border-top:1px solid var(--line);vertical-align:top;font-weight:400}
thead th{color:var(--muted);vertical-align:bottom}
tbody tr.own td{font-weight:600}
th:first-child,td:first-child{padding-left:0}
th:last-child,td:last-child{padding-right:0}
th,td.number,td.short{overflow-wrap:normal}
.number{text-align:right}
td.number,.short,p code{white-space:nowrap}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:1rem;margin:1rem 0}
figure{min-width:0;padding:1rem;border-radius:14px;background:var(--surface);border:1px solid var(--line)}
figure.wide{margin:1rem 0}
figure .scroll{margin:0}
figcaption{color:var(--muted);font-size:.875rem;line-height:1.4;max-width:46rem;margin-top:.375rem}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:0 2.5rem;
align-items:start}
.columns>*{min-width:0}
.with-figure{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,22rem);gap:0 2rem;align-items:start}
.with-figure figure{margin:1rem 0}
code,pre{font-family:ui-monospace,"DejaVu Sans Mono",Consolas,monospace;font-size:.875em}
pre{background:var(--sunk);border-radius:12px;padding:.875rem 1rem;overflow-x:auto;white-space:pre-wrap;margin:.75rem 0}
.note{background:var(--sunk);padding:.75rem 1rem;border-radius:12px;max-width:none}
.note.warning{box-shadow:inset 5px 0 var(--down)}
details{margin:1rem 0}
summary{cursor:pointer;color:var(--accent)}
svg{display:block;width:100%;height:auto}
svg.map{min-width:45rem}
svg.map .frame{fill:none;stroke:none}
svg.map circle{fill-opacity:.6;stroke:var(--surface);stroke-width:.6}
svg.map circle:hover{fill-opacity:1;stroke:var(--ink);stroke-width:2}
svg.map .title{font-size:12.5px;paint-order:stroke;stroke:var(--surface);stroke-width:3px;stroke-linejoin:round;
pointer-events:none}
.v1{fill:var(--down)}.v2{fill:color-mix(in oklab,var(--down) 45%,var(--edge))}.v3{fill:var(--edge)}
.v4{fill:color-mix(in oklab,var(--accent) 55%,var(--edge))}.v5{fill:var(--accent)}
@media (max-width:45rem){
.top{flex-wrap:wrap;gap:.25rem 1rem;padding:.5rem 1rem}nav{flex:1 0 100%}nav a{padding:.375rem .5rem}
nav li:first-child a{padding-left:0}main{padding:1.25rem 1rem 2rem}footer{padding-inline:1rem}h1{font-size:1.75rem}
h2{margin-top:2.25rem}.verdict{font-size:1.1875rem;padding:.875rem 1rem}
.with-figure{grid-template-columns:minmax(0,1fr)}
.cards{grid-template-columns:1fr 1fr;gap:.75rem}figure{padding:.75rem .625rem}th,td{padding-inline:.375rem}
html{scroll-padding-top:6rem}}
@media print{body{font-size:10pt}.top{position:static;border:0}nav{display:none}h2,h3{break-after:avoid}
figure,tr,.cards div{break-inside:avoid}.scroll{overflow:visible}svg.map{min-width:0}main,footer{max-width:none}}
"""
_PRINTED = "".join(f"--{name}:{value};" for name, value in (LIGHT | {"ink": "#000", "muted": "#444"}).items())

CSS = f"{TOKENS}{SERIES_TOKENS}{_RULES}{STYLE}@media print{{:root{{{_PRINTED}}}}}\n"
"""Everything that gives the page its look."""

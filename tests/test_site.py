"""The site of the docs: it is built without a warning, whole, and asks nothing of other hosts."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Request

import cofill
import cofill.client
import cofill.nn
from cofill.cli.parser import COMMANDS
from cofill.config import CFNSettings
from cofill.models import algorithms
from tests.serving.visiting import DESKTOP, PHONE, browser

__all__ = ["browser"]  # a fixture

DOCS = Path(__file__).parents[1] / "docs"
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}

needs_sphinx = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("sphinx", "myst_nb", "pydata_sphinx_theme")),
    reason="the site needs pip install 'cofill[docs]'",
)
pytestmark = [needs_sphinx, pytest.mark.slow]


class PageParts(HTMLParser):
    """What a page loads, links to, and can be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        if tag in LOADS and given.get("rel") not in ("index", "search", "next", "prev", "canonical"):
            self.loaded.append(given.get(LOADS[tag]) or "")
        if tag == "a":
            self.linked.append(given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    words = [
        "-W",
        "--keep-going",
        "-n",
        "-q",
        "-b",
        "html",
        "-d",
        str(folder / "doctrees"),
        str(DOCS),
        str(folder / "html"),
    ]
    done = subprocess.run([sys.executable, "-m", "sphinx", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, PageParts]:
    """Every page by its path in the site."""
    return {
        str(path.relative_to(site)): PageParts(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }


def pointed_at(page: str, link: str) -> str:
    """The path in the site that a relative link of a page leads to."""
    parts: list[str] = []
    for part in [*Path(page).parent.parts, *unquote(link).split("/")] if link else Path(page).parts:
        if part == "..":
            parts.pop()
        elif part not in (".", ""):
            parts.append(part)
    return "/".join(parts)


def test_nothing_comes_from_other_hosts(site: Path, pages: dict[str, PageParts]) -> None:
    for name, page in pages.items():
        foreign = [one for one in page.loaded if re.match(r"(https?:)?//", one)]
        assert not foreign, f"{name} loads {foreign}"
    for sheet in site.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", text), sheet


def test_every_page_can_be_reached_from_the_index(pages: dict[str, PageParts]) -> None:
    reached, waiting = set(), ["index.html"]
    while waiting:
        page = waiting.pop()
        if page in reached or page not in pages:
            continue
        reached.add(page)
        inner = (urldefrag(link).url for link in pages[page].linked if ":" not in link)
        waiting += [pointed_at(page, link) for link in inner if link]
    written = {str(path.relative_to(DOCS).with_suffix(".html")) for path in DOCS.rglob("*.md")}
    written |= {str(path.relative_to(DOCS).with_suffix(".html")) for path in DOCS.glob("notebooks/*.ipynb")}
    built_elsewhere = {name for name in written if name.startswith("_build/")}
    assert written - built_elsewhere - reached == set()


def test_every_link_within_the_site_leads_somewhere(site: Path, pages: dict[str, PageParts]) -> None:
    broken = []
    for name, page in pages.items():
        for link in page.linked:
            if ":" in link or link == "#":
                continue
            address, anchor = urldefrag(link)
            target = pointed_at(name, address)
            there = (site / target).exists()
            if not there or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                broken.append(f"{name}: {link}")
    assert not broken


def test_every_public_name_is_in_the_reference(pages: dict[str, PageParts]) -> None:
    anchors = {anchor for name, page in pages.items() if name.startswith("reference/") for anchor in page.anchors}
    assert "cofill.sklearn.RatingRegressor" in anchors
    for module in (cofill, cofill.nn, cofill.client):
        for name in module.__all__:
            assert f"{module.__name__}.{name}" in anchors, f"add {module.__name__}.{name} to docs/reference/python/"


def test_every_command_setting_and_route_is_in_the_reference(site: Path, pages: dict[str, PageParts]) -> None:
    commands = pages["reference/commands.html"].anchors
    assert {f"cofill-{name}" for name in COMMANDS} <= commands
    assert {"cofill-train-out", "cofill-recommend-where", "cofill-datasets-make-users"} <= commands
    settings = (site / "reference" / "settings.html").read_text(encoding="utf-8")
    shown = set(re.findall(r'<span class="pre">(\w+)</span>', settings))
    assert set(CFNSettings.model_fields) <= shown
    ours = {name for name, one in algorithms().items() if one.home.startswith("cofill.")} - {"cfn"}
    assert {f"settings-of-{name}" for name in ours} <= pages["reference/settings.html"].anchors
    assert {"get-v1-recommendations", "post-v1-events", "delete-v1-user"} <= pages["reference/http.html"].anchors


def test_the_version_is_that_of_the_package(site: Path) -> None:
    assert f"cofill {cofill.__version__}" in (site / "index.html").read_text(encoding="utf-8")


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
    asked: list[str] = []
    made = context.new_page()

    def note(request: Request) -> None:
        asked.append(request.url)

    made.on("request", note)
    yield made
    context.close()
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]


def test_the_search_finds_a_page(site: Path, page: Page) -> None:
    page.goto(f"{(site / 'search.html').as_uri()}?q=click-through")
    page.locator("#search-results a[href*='live.html']").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", "tutorial/first-list.html"])
def test_everybody_can_read_it(site: Path, page: Page, name: str, scheme: str) -> None:
    """axe-core finds nothing on a desktop, and a phone need not scroll sideways."""
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto((site / name).as_uri())
    page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]

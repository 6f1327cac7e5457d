"""A visitor of the page in a real browser, who sees to it that nothing goes wrong."""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Locator, Page, expect, sync_playwright

from tests.serving.running_server import Asked
from tests.waiting import wait_until

PAGE = Path(str(files("cofill.serving") / "page"))
QUIET = ("quic", "background-networking", "component-update", "sync", "gpu")
FLAGS = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in QUIET)]
DESKTOP, PHONE = (1280, 800), (360, 740)

PATIENCE = 180_000  # ms, on a busy machine
expect.set_options(timeout=PATIENCE)

Visit = Callable[..., Page]


class Witness:
    """Everything a visit must not do."""

    def __init__(self, address: str, forgive: str) -> None:
        """`forgive`: a pattern of what a test brings about on purpose."""
        self.address = address
        self.forgive = re.compile(forgive)
        self.seen: list[str] = []

    def watch(self, page: Page) -> None:
        page.on("console", self.hear)
        page.on("pageerror", lambda error: self.note("exception", str(error)))
        page.on("dialog", self.dismiss)
        page.on("request", lambda request: self.check(request.url))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('policy', e.violatedDirective))"
        )

    def hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.note("console", message.text)

    def dismiss(self, dialog: Dialog) -> None:
        self.note("dialog", dialog.message)
        dialog.dismiss()

    def check(self, url: str) -> None:
        if not url.startswith((self.address + "/", "data:")):
            self.note("request to elsewhere", url)

    def note(self, kind: str, text: str) -> None:
        if not self.forgive.search(text):
            self.seen.append(f"{kind}: {text}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no chromium on this machine; Debian's package is called chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def visit(browser: Browser, server: Asked) -> Iterator[Visit]:
    """Opens the page as somebody whom the server has never seen; afterwards nothing may have gone wrong."""
    contexts = []
    witnesses: list[Witness] = []

    def begin(
        path: str = "/",
        *,
        of: Asked = server,
        size: tuple[int, int] = DESKTOP,
        ready: str = ".rows .row .title",
        forgive: str = "nothing",
        **more: Any,
    ) -> Page:
        still = {"reduced_motion": "reduce"}  # which nobody waits for, and takes half of the work
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **(still | more))
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        witnesses.append(Witness(of.told["address"], forgive))
        witnesses[-1].watch(page)
        page.goto(of.told["address"] + path)
        page.wait_for_selector(ready)
        return page

    yield begin
    for context in contexts:
        context.close()
    assert [seen for witness in witnesses for seen in witness.seen] == []


def titles(page: Page) -> list[str]:
    return page.locator(".rows .row .title").all_inner_texts()


def settled(page: Page) -> None:
    """Until the list has followed."""
    expect(page.locator(".recommended")).not_to_have_attribute("aria-busy", "true")


def expect_stored(server: Asked, user: object, *ratings: float) -> None:
    """The page shows a rating before the server has stored it."""
    wait_until(lambda: sorted(server.ratings(user).values()) == sorted(ratings), f"the ratings {ratings} of {user}")


def click_stars(slider: Locator, value: float, most: float = 5) -> None:
    """Where the stars are that the slider stands for."""
    stars = slider.locator("..")
    expect(stars).to_be_visible()
    box = stars.bounding_box()
    assert box is not None
    stars.click(position={"x": box["width"] * (value - 0.2) / most, "y": box["height"] / 2})


def rate_cards(page: Page, *values: float) -> list[str]:
    """Rate the first card again and again, as others take its place; their titles."""
    cards = page.locator(".card .title")
    expect(cards).to_have_count(6)
    rated = []
    for value in values:
        title = cards.first.inner_text()
        with page.expect_response(lambda answer: answer.url.endswith("/v1/recommendations")):
            click_stars(page.locator(".card").first.get_by_role("slider"), value)
        settled(page)
        expect(cards.first).not_to_have_text(title)
        rated.append(title)
    return rated


def myself(page: Page) -> Any:
    return json.loads(page.evaluate("localStorage.getItem('cofill.me')"))


def announced(page: Page) -> str:
    return page.locator("#announcer").text_content() or ""


def found_by_axe(page: Page) -> list[str]:
    page.wait_for_function("() => document.getAnimations().every((one) => one.playState !== 'running')")
    answer = Axe().run(page).response
    return [f"{one['id']}: {node['html'][:200]}" for one in answer["violations"] for node in one["nodes"]]

"""The reference of the API in a real browser: from the package alone, under the strict policy."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from cofill.serving.api.keys import new_key
from tests.serving.conftest import Start
from tests.serving.running_server import Server
from tests.serving.test_page_looks import found_by_axe
from tests.serving.visiting import PHONE, Visit


def test_every_operation_is_shown_with_its_fields(visit: Visit, server: Server) -> None:
    page = visit("/docs", ready="details")
    document = server.client.get("/openapi.json").json()
    ids = {operation["operationId"] for of in document["paths"].values() for operation in of.values()}
    assert {one.get_attribute("id") for one in page.locator("details").all()} == ids
    shown = page.locator("#recommendForSomebody")
    shown.locator("summary").click()
    expect(shown).to_contain_text("at least so many people rated")
    expect(shown).to_contain_text("any key")
    expect(shown.locator("dt", has_text="diversity").first).to_contain_text("number, 0 to 1, default 0")
    page.goto(page.url + "#putRatings")
    expect(page.locator("#putRatings")).to_have_attribute("open", "")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_here_either(visit: Visit, scheme: str) -> None:
    page = visit("/docs#findSimilarItems", ready="details[open]", size=PHONE, color_scheme=scheme)
    assert found_by_axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_model_page_leads_there(visit: Visit) -> None:
    page = visit("/#/model", ready=".figures")
    page.get_by_role("link", name="The API").click()
    expect(page.locator("details").first).to_be_visible()


def test_it_asks_for_a_key_where_one_is_needed(visit: Visit, model: Path, start: Start, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    key = new_key(keys, "reader", write=False)
    page = visit("/docs", of=start(model, "--keys", str(keys)), ready="form", forgive="401")
    page.get_by_label("API key").fill("wrong")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("not accepted")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("#recommendForUser")).to_contain_text("any key")

"""The operator's page in a real browser, against a real server of two models that asks for keys."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from cofill.serving.api.keys import new_key
from tests.serving.running_server import ServedHere
from tests.serving.visiting import PHONE, Visit, found_by_axe

Shop = tuple[ServedHere, str, str]


@pytest.fixture
def shop(trained: Path, other: Path, tmp_path: Path) -> Iterator[Shop]:
    """A server, a key that may read, and one that may do everything."""
    names = {"old": shutil.copytree(trained, tmp_path / "old"), "new": shutil.copytree(other, tmp_path / "new")}
    keys = tmp_path / "keys.json"
    read, admin = new_key(keys, "storefront", "read"), new_key(keys, "operator", "admin")
    running = ServedHere(names["old"], models=names, keys=keys)
    running.client.headers["Authorization"] = f"Bearer {admin}"
    yield running, read, admin
    running.stop()


def test_an_operator_sees_and_steers_the_server(visit: Visit, shop: Shop) -> None:
    server, read, admin = shop
    versions = {one["name"]: one["version"] for one in server.client.get("/v1/model").json()["models"]}
    shown = [{"user": 7, "item": item, "kind": "shown", "model_version": versions["new"]} for item in (1, 2, 3, 4)]
    sent = server.client.post("/v1/events", json={"events": [*shown, {"user": 7, "item": 3, "kind": "click"}]})
    assert sent.status_code == 200, sent.text

    trained = {
        "time": "2026-11-19T03:00:00+00:00",
        "served_ndcg": 0.1,
        "new_ndcg": 0.11,
        "promoted": True,
        "version": "f" * 16,
    }
    failed = {"time": "2026-11-18T03:00:00+00:00", "promoted": False, "failed": "the disk is full"}
    page = visit("/#/operate", of=server, ready=".key-dialog", forgive="4(00|01|03|22)")
    for key in (read, admin):
        page.get_by_label("API key", exact=True).last.fill(key)
        page.get_by_role("button", name="Continue").click()
        if key == read:
            page.get_by_role("button", name="Use another key").first.click()

    models = page.get_by_role("region", name="Models")
    trainings = page.get_by_role("region", name="Trainings")
    expect(trainings).to_contain_text("Nothing was trained yet.")
    answer = json.dumps({"trainings": [trained, failed]})
    page.route("**/v1/model/trainings", lambda route: route.fulfill(body=answer, content_type="application/json"))
    trainings.get_by_role("button", name="Train now").click()
    expect(page.locator(".toast")).to_contain_text("this server does not train")
    for name, version in versions.items():
        expect(models.locator("article", has_text=version[:10]).locator("h3")).to_contain_text(name)
    clicks = page.get_by_role("region", name="Click-through").get_by_role("row").filter(has_text=versions["new"][:10])
    expect(clicks).to_contain_text("click 25.0%")
    newest = page.get_by_role("region", name="Events").get_by_role("listitem").first
    expect(newest).to_contain_text("user 7")
    server.client.post("/v1/events", json={"events": [{"user": 8, "item": 5, "kind": "buy"}]})
    expect(newest).to_contain_text("buyuser 8")  # without another load

    seen = page.get_by_role("region", name="What a user sees")
    seen.get_by_label("User").fill("1")
    seen.get_by_role("button", name="Show", exact=True).click()
    titles = {}
    for place, name in enumerate(versions):
        titles[name] = [item["title"] for item in server.recommended(1, model=name)]
        expect(seen.locator(".compared > div").nth(place).locator(".title")).to_have_text(titles[name])
    assert titles["old"] != titles["new"]
    assert found_by_axe(page) == []
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]

    best = server.recommended(1, model="old")[0]
    seen.get_by_role("button", name=f"Hide: {best['title']}").first.click()
    expect(page.locator(".toast")).to_have_text(f"{best['title']} is in no list any more.")
    assert best["id"] not in [item["id"] for item in server.recommended(1, model="old")]
    hiding = page.get_by_role("region", name="Hide an item")
    hiding.get_by_label("Title of an item").fill(best["title"][:-7])
    hiding.get_by_role("button", name="Find").click()
    hiding.get_by_role("button", name=f"Show again: {best['title']}").click()
    expect(hiding.get_by_role("button", name=f"Hide: {best['title']}")).to_be_visible()
    assert best["id"] == server.recommended(1, model="old")[0]["id"]

    rows = trainings.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("0.1000 → 0.1100ffffffffff is served")
    expect(rows.nth(2)).to_contain_text("the disk is full")

    folder = Path(server.application.live.variants[0].folder)
    shutil.rmtree(folder)
    shutil.copytree(folder.parent / "new", folder)
    old = models.locator("article").first
    old.get_by_role("button", name="Read its folder again").click()
    expect(page.locator(".toast")).to_have_text(f"old is {versions['new'][:10]} now.")
    old.get_by_role("button", name="Roll back").click()
    expect(page.locator(".toast")).to_have_text(f"old is {versions['old'][:10]} now.")
    expect(old).to_contain_text(re.compile(rf"version{versions['old'][:10]}.*before{versions['new'][:10]}"))

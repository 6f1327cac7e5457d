"""The page in a real browser, against the real server."""

import gzip
import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from cofill.serving.api.keys import new_key
from tests.serving.running_server import ServedHere, Server
from tests.serving.visiting import (
    PAGE,
    PATIENCE,
    PHONE,
    Visit,
    announced,
    click_stars,
    expect_stored,
    myself,
    rate_cards,
    settled,
    titles,
)

# Words that a model has not learned are no news, as in a process that serves.
pytestmark = pytest.mark.filterwarnings("ignore::cofill.data.features.UnknownFeatureWarning")

TOKENS = Path(str(files("cofill.charts") / "tokens.css"))
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
MINUS = "\N{MINUS SIGN}"
BIG = 9_007_199_254_740_993  # more than a JavaScript number can hold


def test_three_ratings_move_the_list_and_outlive_a_reload(visit: Visit, server: Server) -> None:
    page = visit()
    expect(page.get_by_role("heading", name="To begin with")).to_be_visible()
    before = titles(page)
    assert page.evaluate("localStorage.getItem('cofill.me')") is None  # a mere look makes nobody
    rated = rate_cards(page, 5, 3.5, 1)
    after = titles(page)
    assert after != before
    assert not set(rated) & set(after)
    moves = page.locator(".row .moved span[aria-hidden]").all_inner_texts()
    assert any(re.fullmatch("[▲▼] [0-9]+|new", move) for move in moves)
    assert page.locator(".row .reason-text").first.inner_text() != ""
    expect_stored(server, myself(page), 1, 3.5, 5)

    page.reload()
    page.wait_for_selector(".row")
    settled(page)
    expect(page.get_by_role("heading", name="Your ratings 3")).to_be_visible()
    assert page.locator(".rated-list .title").all_inner_texts() == rated[::-1]
    assert page.locator(".rated-list .value").all_inner_texts() == ["1", "3.5", "5"]
    assert titles(page) == after
    assert [item["title"] for item in server.recommended(myself(page), n=12)] == after


def test_a_rating_can_be_taken_back_and_undone(visit: Visit, server: Server) -> None:
    page = visit()
    title, *_ = rate_cards(page, 4)
    with page.expect_response(lambda answer: answer.url.endswith("/v1/recommendations")):
        page.get_by_role("button", name=f"Take back your rating of {title}").first.click()
    expect(page.locator(".ratings")).to_be_hidden()
    settled(page)
    expect_stored(server, myself(page))
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="Your ratings 1")).to_be_visible()
    settled(page)
    expect_stored(server, myself(page), 4)


@pytest.mark.parametrize("remembered", [1, 999_999])
def test_an_id_of_another_model_is_forgotten(visit: Visit, remembered: int) -> None:
    page = visit(forgive="404")
    page.evaluate(f"localStorage.setItem('cofill.me', '{remembered}')")  # somebody trained on; nobody at all
    page.reload()
    page.wait_for_selector(".row")
    expect(page.get_by_role("heading", name="To begin with")).to_be_visible()
    rate_cards(page, 5)
    assert myself(page) != remembered
    expect(page.get_by_role("heading", name="Your ratings 1")).to_be_visible()


def test_others_are_shown_and_what_is_not_seen_goes(visit: Visit) -> None:
    page = visit()
    cards = page.locator(".card .title")
    expect(cards).to_have_count(6)
    first = cards.all_inner_texts()
    page.get_by_role("button", name=re.compile(f"^Don.t know it: {re.escape(first[0])}$")).click()
    expect(cards.first).not_to_have_text(first[0])
    assert cards.all_inner_texts()[1:] == first[1:]
    page.get_by_role("button", name="Show me others").click()
    assert not set(cards.all_inner_texts()) & set(first)


def test_keyboard_alone(visit: Visit, server: Server) -> None:
    page = visit()
    expect(page.locator(".card .title")).to_have_count(6)

    def tab_to(name: str, most: int = 40) -> None:
        for _ in range(most):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText"
            )
            if name in focused:
                return
        raise AssertionError(f"{name} is not reached by Tab")

    title = page.locator(".card .title").first.inner_text()
    tab_to(f"Your rating of {title}")
    page.keyboard.press("5")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(":focus")).to_have_attribute("aria-valuetext", "4.5 stars")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Your ratings 1")).to_be_visible()
    expect(page.locator("#announcer")).to_contain_text("The list has changed")

    wanted = page.locator(".row .title").first.inner_text()
    page.keyboard.press("/")
    page.keyboard.type(wanted[:-7])
    page.wait_for_selector("[role=option]")
    expect(page.get_by_role("combobox")).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name=wanted)
    expect(dialog.get_by_role("slider").first).to_be_focused()
    page.keyboard.press("2")
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("combobox")).to_be_focused()
    expect(page.get_by_role("heading", name="Your ratings 2")).to_be_visible()
    settled(page)
    expect_stored(server, myself(page), 2, 4.5)


def test_reasons_add_up(visit: Visit, server: Server) -> None:
    page = visit()
    rate_cards(page, 5, 1, 4)

    def parts_of_the_first(form: str) -> tuple[list[Decimal], Decimal]:
        row = page.locator(".row").first
        button = row.get_by_role("button", name="Why")
        if button.get_attribute("aria-expanded") == "false":  # else it lay open in the list before
            button.click()
        amounts = row.locator(".breakdown .amount")
        expect(amounts.last).to_have_text(re.compile(form))
        *parts, total = [Decimal(text.replace(MINUS, "-").rstrip("%")) for text in amounts.all_inner_texts()]
        assert len(parts) >= 4
        return parts, total

    reasons = "Because you (gave .+ stars?|rated .+)|"
    for text in page.locator(".reason-text").all_inner_texts():
        assert re.fullmatch(reasons, text)
    parts, total = parts_of_the_first("%$")
    best = server.recommended(myself(page), 1, why=True)[0]
    if best["score"] > best["why"]["base"] + 0.1 * best["score"]:
        assert total == 100
    assert sum(parts) == total  # as they are shown, to the last digit

    page.get_by_role("button", name="What I would rate highest").click()
    expect(page.get_by_role("button", name="What I would rate highest")).to_have_attribute("aria-pressed", "true")
    highest = [item["title"] for item in server.recommended(myself(page), 12, by="rating")]
    expect(page.locator(".row .title")).to_have_text(highest)
    assert highest != [item["title"] for item in server.recommended(myself(page), 12)]
    settled(page)
    row = page.locator(".row").first
    parts, total = parts_of_the_first("[0-9]$")
    assert sum(parts) == total
    assert float(row.locator(".number").inner_text()) == pytest.approx(float(min(total, Decimal(5))), abs=0.06)
    expect(row.locator(".breakdown p").last).to_have_text(re.compile(r"^[0-9.]+, likely [0-9.]+ to [0-9.]+$"))
    shown, low, high = re.findall(r"[0-9.]+", row.locator(".breakdown p").last.inner_text())
    assert float(low) < float(shown) < float(high) <= 5


def test_popularity_is_told_by_its_figures_and_is_no_reason(visit: Visit, server: Server) -> None:
    """A list of somebody new is what is popular; of one with ratings, only what is more popular than theirs is."""
    page = visit()

    def check(found: list[dict[str, Any]]) -> int:
        rows = page.locator(".rows .row")
        expect(rows.locator(".title")).to_have_text([item["title"] for item in found])
        reasons = 0
        for row, item in zip(rows.all(), found, strict=True):
            expect(row.locator(".raters")).to_have_text(f"{item['mean']:.1f} from {item['raters']} ratings")
            reason, why = row.locator(".reason-text").inner_text(), item["why"]
            amounts = [one["amount"] for one in why["contributions"]]
            own = sum(max(amount, 0) for amount in [*amounts, why["remainder"]])
            most, hindering = max(amounts, default=0), -sum(min(amount, 0) for amount in amounts)
            if reason:
                assert why["base"] <= own
                reasons += 1
            else:
                assert why["base"] > own or most < hindering / 2 or most < 0.0005 * item["score"]
        return reasons

    anybody = server.client.post("/v1/recommendations", json={"ratings": [], "n": 12, "why": True}).json()["items"]
    assert check(anybody) == 0
    shown = server.client.get("/v1/item", params={"id": anybody[0]["id"]}).json()["ratings"]
    assert (anybody[0]["mean"], anybody[0]["raters"]) == (shown["mean"], shown["count"])
    rate_cards(page, 5, 1, 4)
    assert check(server.recommended(myself(page), 12, why=True)) > 0


def test_a_list_can_be_varied(visit: Visit, server: Server) -> None:
    page = visit()
    rate_cards(page, 5, 1, 4)
    plain, varied = (
        [item["title"] for item in server.recommended(myself(page), 12, diversity=diversity)] for diversity in (0, 0.9)
    )
    assert plain != varied
    expect(page.locator(".row .title")).to_have_text(plain)
    slider = page.get_by_label("Variety")
    slider.focus()
    page.keyboard.press("End")
    expect(page.locator(".row .title")).to_have_text(varied)
    assert page.locator(".row .moved.new").count() == 0  # nobody's taste has changed
    page.keyboard.press("Home")
    expect(page.locator(".row .title")).to_have_text(plain)


def test_where_nobody_rates_things_are_chosen(visit: Visit, server: Server) -> None:
    """As a model of interactions is answered for: no predicted rating, no scale worth showing."""

    def of_interactions(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        if "item_columns" in document:
            document |= {"rated": False, "scale": {"low": 0, "high": 3, "step": None}}
        for item in document.get("items", ()) if isinstance(document.get("items"), list) else ():
            item |= {"rating": None, "mean": None}
        route.fulfill(response=answer, json=document)

    page = visit(ready="body")
    for path in ("model", "recommendations"):
        page.route(f"**/v1/{path}", of_interactions)
    page.reload()
    page.wait_for_selector(".rows .row .title")
    expect(page.get_by_role("heading", name="Choose what you know")).to_be_visible()
    expect(page.locator(".row .raters").first).to_have_text(re.compile("^Chosen by [0-9]+ people$"))
    assert page.locator(".caption, .stars, rating-control input").count() == 0
    expect(page.locator(".ways")).to_be_hidden()
    card = page.locator(".card").first
    title = card.locator(".title").inner_text()
    with page.expect_response(lambda answer: answer.url.endswith("/v1/recommendations")):
        card.get_by_role("button", name=f"You chose {title}").click()
    expect(page.get_by_role("heading", name="Your choices 1")).to_be_visible()
    settled(page)
    expect_stored(server, myself(page), 1)
    page.locator(".row").first.get_by_role("button", name="Why").click()
    expect(page.locator(".breakdown .total .amount")).to_have_text(re.compile("%$"))
    page.locator(".row .title").first.click()
    expect(page.get_by_role("heading", name=re.compile("^Chosen by [0-9]+ people$"))).to_be_visible()
    expect(page.get_by_text("predicted")).to_have_count(0)
    page.get_by_role("button", name="Close").click()
    page.locator(".rated-list").get_by_role("button", name=f"You chose {title}").click()
    expect(page.locator(".toast")).to_contain_text("is not chosen any more")
    expect(page.get_by_role("heading", name="To begin with")).to_be_visible()
    page.unroute_all(behavior="wait")
    expect_stored(server, myself(page))


def test_filter_by_genre_and_year(visit: Visit, server: Server) -> None:
    page = visit()
    page.get_by_role("button", name="Filter", exact=True).click()
    page.get_by_label("Year, at least").fill("1980")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Year 1980").wait_for()
    page.locator(".chip", has_text="Drama").click()
    page.locator(".active-filters").get_by_role("button", name="Drama").wait_for()
    settled(page)
    body = {"ratings": [], "n": 12, "where": {"year": {"min": 1980}, "genres": ["Drama"]}}
    found = server.client.post("/v1/recommendations", json=body).json()["items"]
    expect(page.locator(".row .title")).to_have_text([item["title"] for item in found])
    page.get_by_label("Year, at most").fill("1900")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("The first is above the second.")
    expect(page.locator(".row .title")).to_have_count(len(found))  # as if it were not there
    page.get_by_label("Year, at least").fill("1800")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing fits this filter.")).to_be_visible()


def test_an_item_has_its_ratings_and_its_neighbours(visit: Visit, server: Server) -> None:
    page = visit()
    page.locator(".row .title").first.click()
    item = server.client.get("/v1/item", params={"id": server.recommended("nobody yet")[0]["id"]}).json()
    dialog = page.get_by_role("dialog", name=item["title"])
    expect(dialog.locator(".histogram li")).to_have_count(len(item["ratings"]["distribution"]))
    neighbours = [one["title"] for one in item["similar"]]
    expect(dialog.locator(".similar .title")).to_have_text(neighbours)
    dialog.locator(".similar .title").first.click()
    expect(page.get_by_role("dialog", name=neighbours[0])).to_be_visible()
    page.go_back()
    expect(dialog).to_be_visible()
    page.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    page.wait_for_function("() => ['', '#/'].includes(location.hash)")


def test_somebody_else_and_back(visit: Visit, server: Server) -> None:
    page = visit()
    rate_cards(page, 5)
    user = server.client.get("/v1/users", params={"n": 3}).json()["users"][2]
    page.get_by_role("button", name="You: who is looking").click()
    page.get_by_label("Search for a user by id").fill(str(user["id"]))
    somebody = page.get_by_role("dialog").get_by_role("button", name=f"User {user['id']} · {user['ratings']} rating")
    expect(somebody).to_contain_text(f"Loves {user['loves'][0]['title'][:-7]}")
    somebody.click()
    expect(page.get_by_role("heading", name=f"For user {user['id']}")).to_be_visible()
    expect(page.locator(".row .title")).to_have_text([item["title"] for item in server.recommended(user["id"], n=12)])
    page.get_by_role("button", name="Back to yourself").click()
    expect(page.get_by_role("heading", name="Your ratings 1")).to_be_visible()
    page.get_by_role("button", name="You: who is looking").click()
    page.get_by_role("button", name="Start anew").click()
    expect(page.get_by_role("heading", name="To begin with")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("heading", name="Your ratings 1")).to_be_visible()


@pytest.fixture(scope="module")
def guarded(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServedHere, str]]:
    """A server that wants a key, with an item that wants to be more than a title."""
    folder = tmp_path_factory.mktemp("guarded")
    key = new_key(folder / "keys.json", "me", "write")
    running = ServedHere(shutil.copytree(trained, folder / "model"), keys=folder / "keys.json")
    running.client.headers["Authorization"] = f"Bearer {key}"
    described = {"genres": ["Drama", HOSTILE], "year": 1999}
    answer = running.client.put("/v1/item", json={"id": BIG, "title": HOSTILE, "features": described})
    assert answer.status_code < 300, answer.text
    yield running, key
    running.stop()


def test_a_key_is_asked_for(visit: Visit, guarded: tuple[ServedHere, str]) -> None:
    own, key = guarded
    page = visit(of=own, ready=".key-dialog", forgive="401")
    for attempt, words in ((key[:-1] + "?", "was not accepted"), (key, None)):
        page.get_by_label("API key", exact=True).last.fill(attempt)
        page.get_by_role("button", name="Continue").click()
        if words:
            expect(page.get_by_role("alert")).to_contain_text(words)
    page.wait_for_selector(".row .title")
    page.reload()
    page.wait_for_selector(".row .title")  # it is not asked for again in this tab
    rate_cards(page, 5)
    assert page.evaluate("Object.keys(localStorage)") == ["cofill.me"]


def test_the_reference_shows_every_operation_and_asks_for_a_key(visit: Visit, guarded: tuple[ServedHere, str]) -> None:
    own, key = guarded
    page = visit("/docs", of=own, ready="form", forgive="401")
    for attempt in ("wrong", key):
        page.get_by_label("API key").fill(attempt)
        page.get_by_role("button", name="Continue").click()
        if attempt == "wrong":
            expect(page.get_by_role("alert")).to_contain_text("not accepted")
    shown = page.locator("#recommendForDescribedUser")
    shown.locator("summary").click()
    document = own.client.get("/openapi.json").json()
    ids = {operation["operationId"] for of in document["paths"].values() for operation in of.values()}
    assert {one.get_attribute("id") for one in page.locator("details").all()} == ids
    expect(shown).to_contain_text("at least so many people rated")
    expect(shown).to_contain_text("any key")
    expect(shown.locator("dt", has_text="diversity").first).to_contain_text("number, 0 to 1, default 0")


def test_hostile_titles_are_text(visit: Visit, guarded: tuple[ServedHere, str]) -> None:
    own, key = guarded
    page = visit(of=own, ready=".key-dialog", forgive="401")
    page.get_by_label("API key", exact=True).last.fill(key)
    page.keyboard.press("Enter")
    page.wait_for_selector(".row .title")
    page.get_by_role("combobox").fill("img src")
    page.get_by_role("option").first.click()
    dialog = page.get_by_role("dialog", name=HOSTILE)
    expect(dialog.get_by_role("heading", name=HOSTILE)).to_be_visible()
    expect(dialog.locator(".tag", has_text=HOSTILE)).to_be_visible()
    click_stars(dialog.get_by_role("slider").first, 5)
    expect(page.locator(".toast")).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".rated-list .title")).to_have_text([HOSTILE])
    settled(page)
    assert page.locator("img, main script").count() == 0
    assert own.ratings(myself(page)) == {BIG: 5}


def test_the_map_by_keyboard_and_pointer(visit: Visit, server: Server) -> None:
    items = server.client.get("/v1/map").json()["items"]
    page = visit()
    page.get_by_role("link", name="Map", exact=True).click()
    picture = page.get_by_role("application", name="Map of items")
    points = picture.locator("circle")
    expect(points).to_have_count(len(items))
    assert set(page.locator(".group-key").all_inner_texts()) == {item["group"] or "Other" for item in items}

    most = max(items, key=lambda item: item["ratings"])
    page.keyboard.press("Tab")
    while picture.evaluate("picture => picture !== document.activeElement"):
        page.keyboard.press("Tab")
    expect(page.locator("#announcer")).to_contain_text(most["title"])
    page.keyboard.press("ArrowRight")
    expect(page.locator("#announcer")).not_to_contain_text(most["title"])
    said = announced(page)
    here = next(item for item in items if f"{said},".startswith(f"{item['title']},"))
    assert here["x"] > most["x"]
    page.keyboard.press("+")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name=here["title"])).to_be_visible()
    page.keyboard.press("Escape")
    expect(picture).to_be_focused()

    page.get_by_role("button", name="Show everything").click()
    titles = picture.locator("text")
    boxes = [box for box in map(Locator.bounding_box, titles.all()) if box is not None]
    assert len(boxes) >= 10
    for one, other in combinations(boxes, 2):  # none over another
        apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
        assert apart or abs(one["y"] - other["y"]) >= 12
    first = points.last
    before = first.bounding_box()
    room = picture.bounding_box()
    assert before is not None
    assert room is not None
    page.mouse.move(room["x"] + 300, room["y"] + 200)
    page.mouse.down()
    page.mouse.move(room["x"] + 200, room["y"] + 150, steps=3)
    page.mouse.up()
    after = first.bounding_box()
    assert after is not None
    assert (after["x"] - before["x"], after["y"] - before["y"]) == pytest.approx((-100, -50), abs=1)
    expect(page.get_by_role("dialog")).to_be_hidden()  # dragging is not clicking
    page.get_by_role("button", name="Show everything").click()
    first.click()
    expect(page.get_by_role("dialog", name=most["title"])).to_be_visible()


def test_the_model_is_described(visit: Visit, server: Server) -> None:
    page = visit("/#/model", ready="table")
    model = server.client.get("/v1/model").json()
    expect(page.get_by_role("heading", name="About the model")).to_be_visible()
    expect(page.locator(".figures")).to_contain_text(f"{model['ratings']['trained']:,}")
    points = page.locator("svg.curve .path").first.get_attribute("points") or ""
    assert len(points.split()) == sum(
        "validation_rmse" in epoch and epoch["validation_rmse"] is not None for epoch in model["history"]
    )
    for name in ("Measures", "Data", "What is known of items"):
        expect(page.get_by_role("table", name=name)).to_be_visible()
    page.get_by_text("All settings").click()
    expect(page.get_by_role("table", name="Settings").get_by_role("row")).to_have_count(
        sum(value is not None for value in model["settings"].values())
    )
    page.get_by_role("link", name="Skip to the content").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    assert page.evaluate("location.hash") == "#/model"  # the link has not led away


def test_a_phone_never_scrolls_sideways(visit: Visit, server: Server) -> None:
    page = visit(size=PHONE, has_touch=True, is_mobile=True, color_scheme="dark")

    def fits(what: str) -> None:
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], what
        assert page.evaluate("visualViewport.width") == PHONE[0], what

    fits("first")
    expect(page.locator(".card .title")).to_have_count(6)
    box = page.locator(".card").first.locator(".stars").bounding_box()
    assert box is not None
    settled(page)
    with page.expect_response(re.compile("/v1/recommendations")):  # the list may not have begun to follow yet
        page.touchscreen.tap(box["x"] + box["width"] * 0.97, box["y"] + box["height"] / 2)
    expect(page.get_by_role("heading", name="Your ratings 1")).to_be_visible()
    assert page.locator(".rated-list .value").inner_text() == "5"
    settled(page)
    page.get_by_role("button", name="Why").first.click()
    page.locator(".breakdown").wait_for()
    page.get_by_role("button", name="Filter", exact=True).click()
    fits("rated, why, filter")
    page.locator(".row .title").first.click()
    page.locator(".histogram").wait_for()
    fits("item")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="You: who is looking").click()
    page.locator(".people button").first.wait_for()
    fits("person")
    page.get_by_role("button", name="Close").click()
    for name, ready in (("Map", ".map circle"), ("Model", "svg.curve")):
        page.get_by_role("link", name=name, exact=True).click()
        page.locator(ready).first.wait_for()
        fits(name)


def test_a_failure_is_told_and_can_be_tried_again(visit: Visit) -> None:
    page = visit(forgive="ERR_INTERNET_DISCONNECTED|500")
    before = titles(page)
    page.context.set_offline(True)
    click_stars(page.locator(".card").first.get_by_role("slider"), 5)
    expect(page.locator(".toast")).to_contain_text("was not rated: The server cannot be reached.")
    expect(page.locator(".notice.offline")).to_contain_text("You are offline.")
    expect(page.locator(".ratings")).to_be_hidden()  # what was not stored is not shown as if it were
    assert titles(page) == before
    page.context.set_offline(False)
    expect(page.locator(".notice.offline")).to_have_count(0)
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Your ratings 1")).to_be_visible()
    settled(page)

    broken = json.dumps({"title": "x", "status": 500, "detail": "The model is not well."})
    page.route("**/v1/recommendations", lambda route: route.fulfill(status=500, body=broken))
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("The model is not well.")
    page.unroute("**/v1/recommendations")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".row").first).to_be_visible()


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_rows_glide_unless_less_motion_is_wanted(visit: Visit, motion: str) -> None:
    page = visit(reduced_motion=motion)
    page.evaluate(
        """() => {
            window.glides = 0;
            const animate = Element.prototype.animate;
            Element.prototype.animate = function (...how) { window.glides += 1; return animate.apply(this, how); };
        }"""
    )
    rate_cards(page, 5, 1)
    glides = page.evaluate("window.glides")
    assert glides > 0 if motion == "no-preference" else glides == 0


# Answers that come late, or not at all


def hold(page: Page, pattern: str, method: str) -> list[Route]:
    """Requests that are on their way until somebody lets them go."""
    held: list[Route] = []
    page.route(pattern, lambda route: held.append(route) if route.request.method == method else route.continue_())
    return held


def let_go(page: Page, held: list[Route], number: int, act: Callable[[Route], object]) -> None:
    """One after the other, as they come."""
    for _ in range(number):
        until = time.monotonic() + PATIENCE / 1000
        while not held and time.monotonic() < until:
            page.wait_for_timeout(20)  # in which the browser is heard
        act(held.pop(0))


def choose_among_people(page: Page) -> list[str]:
    """Their ids."""
    page.locator("#person").click()
    page.locator(".people button").first.wait_for()
    told = page.locator(".people button .muted").all_inner_texts()
    return [re.findall(r"^User (\S+) · ", text)[0] for text in told]


def test_undo_is_not_offered_to_somebody_else(visit: Visit, server: Server) -> None:
    page = visit()
    page.evaluate("() => { const t = setTimeout; window.setTimeout = (act, ms) => (ms < 3000 ? t(act, ms) : 0) }")
    rate_cards(page, 5)
    mine = server.ratings(myself(page))
    expect(page.locator(".toast")).to_be_visible()  # and does not go by itself
    other = choose_among_people(page)[0]
    theirs = server.ratings(other)
    page.locator(".people button").first.click()
    expect(page.locator(".notice.as")).to_be_visible()
    expect(page.locator(".toast")).to_have_count(0)
    assert (server.ratings(myself(page)), server.ratings(other)) == (mine, theirs)


def test_what_failed_is_as_the_server_has_it(visit: Visit, server: Server) -> None:
    page = visit(forgive="ERR_FAILED|503")
    stars = page.locator(".card").first.get_by_role("slider")
    held = hold(page, "**/v1/users", "POST")
    click_stars(stars, 3)
    click_stars(stars, 5)
    let_go(page, held, 2, lambda route: route.abort())
    expect(page.locator(".toast")).to_contain_text("was not rated")
    page.mouse.move(5, 5)
    expect(stars).to_have_attribute("aria-valuetext", "not rated")
    expect(page.locator(".ratings")).to_be_hidden()
    page.unroute("**/v1/users")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Your ratings 1")).to_be_visible()
    settled(page)

    def done_but_not_told(route: Route) -> None:
        if route.request.method == "PUT":
            route.fetch()
            route.fulfill(status=503, body='{"detail": "no answer; a write may have been done or not"}')
        else:
            route.continue_()

    page.route("**/v1/ratings*", done_but_not_told)
    with page.expect_response(lambda answer: "/v1/ratings?" in answer.url):
        click_stars(page.locator(".card").nth(1).get_by_role("slider"), 2)
    settled(page)
    expect(page.get_by_role("heading", name="Your ratings 2")).to_be_visible()
    assert page.get_by_text("was not rated").count() == 0
    expect_stored(server, myself(page), 2, 5)


def test_starting_anew_leaves_what_is_on_its_way_with_the_old(visit: Visit, server: Server) -> None:
    page = visit(forgive="ERR_FAILED")
    rate_cards(page, 5)
    me = myself(page)
    held = hold(page, "**/v1/ratings", "PUT")
    for place in (1, 2, 3):
        click_stars(page.locator(".card").nth(place).get_by_role("slider"), 4)
    choose_among_people(page)
    page.get_by_role("button", name="Start anew").click()
    expect(page.get_by_role("heading", name="To begin with")).to_be_visible()
    let_go(page, held, 2, lambda route: route.continue_())
    let_go(page, held, 1, lambda route: route.abort())
    expect(page.locator(".toast")).to_contain_text("was not rated")
    expect(page.get_by_role("button", name="Try again")).to_have_count(0)  # it would be somebody else's
    assert page.evaluate("localStorage.getItem('cofill.me')") is None
    expect(page.locator(".ratings")).to_be_hidden()
    expect_stored(server, me, 4, 4, 5)


def test_the_last_choice_of_a_person_holds(visit: Visit, server: Server) -> None:
    page = visit()
    people = choose_among_people(page)
    held = hold(page, "**/v1/ratings?user=*", "GET")
    page.locator(".people button").nth(0).click()
    page.locator(".people button").nth(1).click()
    first: list[Route] = []
    let_go(page, held, 1, first.append)
    let_go(page, held, 1, lambda route: route.continue_())
    expect(page.get_by_role("heading", name=f"For user {people[1]}")).to_be_visible()
    with page.expect_response(first[0].request.url):
        first[0].continue_()
    page.evaluate("fetch('health').then((answer) => answer.text())")  # nothing is to come of the one before it
    entries = server.client.get("/v1/ratings", params={"user": people[1]}).json()["ratings"]
    expect(page.locator(".tally")).to_have_text(str(len(entries)))
    expect(page.locator(".rated-list .title")).to_have_text([entry["title"] for entry in entries[:8]])


def test_two_tabs_are_one_person(visit: Visit, server: Server) -> None:
    first = visit()
    second = first.context.new_page()
    second.goto(first.url)
    second.wait_for_selector(".row")
    rate_cards(first, 5)
    me = myself(first)
    expect(second.get_by_role("heading", name="Your ratings 1")).to_be_visible()
    settled(second)
    with second.expect_response(lambda answer: answer.url.endswith("/v1/recommendations")):
        click_stars(second.locator(".card").nth(1).get_by_role("slider"), 3)
    assert myself(first) == myself(second) == me
    expect_stored(server, me, 3, 5)
    choose_among_people(second)
    second.get_by_role("button", name="Start anew").click()
    expect(first.get_by_role("heading", name="To begin with")).to_be_visible()
    second.get_by_role("button", name="Undo").click()
    expect(first.get_by_role("heading", name="Your ratings 2")).to_be_visible()


def test_a_list_that_cannot_be_refreshed_is_not_busy(visit: Visit) -> None:
    page = visit(forgive="ERR_FAILED")
    before = titles(page)
    page.route("**/v1/recommendations", lambda route: route.abort())
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/v1/recommendations")):
        click_stars(page.locator(".card").first.get_by_role("slider"), 5)
    settled(page)
    assert titles(page) == before


def test_a_first_rating_in_the_dialog_is_explained_there(visit: Visit) -> None:
    page = visit()
    page.locator(".row .title").first.click()
    dialog = page.locator(".item-dialog")
    made_of = dialog.get_by_text("What the prediction is made of")
    stars = dialog.get_by_role("slider").first
    expect(stars).to_be_focused()
    expect(made_of).to_be_hidden()
    click_stars(stars, 4)
    made_of.click()
    expect(dialog.locator(".breakdown")).to_be_visible()
    dialog.get_by_role("button", name="Take back your rating").first.click()
    expect(made_of).to_be_hidden()


def test_a_newer_model_brings_its_own_filter_and_map(visit: Visit, server: Server) -> None:
    page = visit(forgive="ERR_FAILED|503")
    maps: list[str] = []

    def broken_once(route: Route) -> None:
        maps.append(route.request.url)
        if len(maps) > 1:
            route.continue_()
        else:
            route.fulfill(status=503, body='{"detail": "the map could not be drawn"}')

    page.route("**/v1/map", broken_once)
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("the map could not be drawn")
    page.get_by_role("button", name="Try again").click()
    page.locator(".map circle").first.wait_for()
    page.get_by_role("link", name="For you", exact=True).click()
    page.get_by_role("button", name="Filter", exact=True).click()
    expect(page.get_by_label("Year, at least")).to_be_visible()

    def newer(route: Route) -> None:
        document = route.fetch().json()
        if "item_columns" in document:
            document["version"] = "newer"
            document["item_columns"] = [one for one in document["item_columns"] if one["name"] != "year"]
        else:
            document["model_version"] = "newer"
        route.fulfill(json=document)

    page.route("**/v1/recommendations", newer)
    page.route("**/v1/model", lambda route: route.abort())
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/v1/model")):
        click_stars(page.locator(".card").first.get_by_role("slider"), 5)
    page.unroute("**/v1/model")
    page.route("**/v1/model", newer)
    click_stars(page.locator(".card").nth(1).get_by_role("slider"), 5)
    expect(page.locator(".toast")).to_contain_text("A newer model is served now.")
    expect(page.get_by_label("Year, at least")).to_have_count(0)
    expect(page.locator(".chip", has_text="Drama")).to_be_visible()
    page.get_by_role("link", name="Map", exact=True).click()
    page.locator(".map circle").first.wait_for()
    assert len(maps) == 3


# The files


def page_files() -> list[Path]:
    return sorted(path for path in [*PAGE.iterdir(), TOKENS] if path.is_file())


def test_nothing_can_become_markup_or_code() -> None:
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|javascript:"
        r"|createContextualFragment|srcdoc|setHTML"
    )
    for path in page_files():
        assert not forbidden.search(path.read_text()), path.name
    index = (PAGE / "index.html").read_text()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", index)


def test_the_page_is_whole_small_and_asks_nobody_else(server: Server) -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in page_files()}
    assert sum(sizes.values()) < 70_000  # as they are sent
    for path in page_files():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")  # the name of a language, not an address
        assert "//" not in re.findall(r"https?:(//)", text), path.name
        for name in re.findall(r'(?:from "\./|href="page/|src="page/)([\w.]+)"', text):
            assert name in sizes, f"{path.name} wants {name}"
        address = "/" if path.name == "index.html" else f"/page/{path.name}"
        answer = server.client.get(address)
        assert (answer.status_code, answer.content) == (200, path.read_bytes())  # unpacked
    assert server.client.get("/page/main.js").headers["content-encoding"] == "gzip"


def luminance(color: str) -> float:
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough(scheme: str) -> None:
    light, dark = TOKENS.read_text().split("@media (prefers-color-scheme: dark)")
    colors = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    if scheme == "dark":
        colors |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark))
    pairs = [
        (text, ground, 4.5)
        for text in ("ink", "muted", "accent", "up", "down")
        for ground in ("ground", "surface", "sunk")
    ]
    pairs += [("on-accent", "accent", 4.5), ("ink", "accent-soft", 4.5), ("ground", "ink", 4.5)]
    pairs += [(mark, ground, 3.0) for mark in ("gold", "edge") for ground in ("ground", "surface")]
    for text, ground, least in pairs:
        light_one, dark_one = sorted((luminance(colors[text]), luminance(colors[ground])), reverse=True)
        assert (light_one + 0.05) / (dark_one + 0.05) >= least, f"{text} on {ground}"

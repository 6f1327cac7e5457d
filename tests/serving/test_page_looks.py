"""What the page looks like and says, in a real browser: covers, stars, words. axe-core finds nothing."""

import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.serving.running_server import ServedHere, Server
from tests.serving.visiting import PHONE, Visit, announced, click_stars, found_by_axe, myself, rate_cards, settled

PICTURE = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
COVERS = "https://covers.example.org"


@pytest.fixture(scope="module")
def bookshop(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHere]:
    """A server with covers from elsewhere."""
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("bookshop") / "model")
    running = ServedHere(folder, image_host=(COVERS, "https://*.example.net"))
    yield running
    running.stop()


def changed(page: Page, path: str, change: Callable[[Any], None]) -> None:
    """What an address answers, with something changed in it, from the next load on."""

    def answer(route: Route) -> None:
        answered = route.fetch()
        document = answered.json()
        change(document)
        route.fulfill(response=answered, json=document)

    page.route(path, answer)


def reloaded(page: Page) -> None:
    page.reload()
    page.wait_for_selector(".rows .row .title")
    expect(page.locator(".card .title")).to_have_count(6)


# Finding


def test_what_is_found_can_be_tapped_on_a_phone(visit: Visit) -> None:
    page = visit(size=PHONE, has_touch=True, is_mobile=True)
    expect(page.locator(".card .title")).to_have_count(6)
    cards = page.locator(".cards").bounding_box()
    page.get_by_role("combobox").fill("the")
    options = page.get_by_role("option")
    options.nth(2).wait_for()
    over = []
    for option in options.all():
        box = option.bounding_box()
        assert box is not None
        assert cards is not None
        middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
        if cards["y"] < middle[1] < cards["y"] + cards["height"]:
            over.append((option, middle))
            hit = "([x, y]) => document.elementFromPoint(x, y).closest('[role=option]')?.id"
            assert page.evaluate(hit, middle) == option.get_attribute("id")
    option, (x, y) = over[-1]
    title = option.locator(".title").inner_text()
    page.touchscreen.tap(x, y)
    expect(page.get_by_role("dialog", name=title)).to_be_visible()


def test_titles_are_said_as_people_say_them(visit: Visit) -> None:
    page = visit()
    titles = {
        "Bells, The (1926)": "The Bells (1926)",
        "Bells, The": "The Bells",
        "Postino, Il (Postman, The) (1994)": "Il Postino (The Postman) (1994)",
        "Priscilla, Queen of the Desert, The (1994)": "The Priscilla, Queen of the Desert (1994)",
        "Argent, L' (1983)": "L'Argent (1983)",
        "Beautiful Thing, A (1996)": "A Beautiful Thing (1996)",
        "I, Robot (2004)": "I, Robot (2004)",
        "Good, the Bad and the Ugly, The (1966)": "The Good, the Bad and the Ugly (1966)",
        "Love, (The (1999)": "Love, (The (1999)",
        "Theory": "Theory",
    }
    said = """async (titles) => {
        const { titleOf } = await import('/page/words.js');
        return titles.map((title) => titleOf({ id: 1, title }));
    }"""
    assert page.evaluate(said, list(titles)) == list(titles.values())

    def bells(document: Any) -> None:
        document["items"][0]["title"] = "Bells, The (1926)"

    changed(page, "**/v1/recommendations", bells)
    reloaded(page)
    expect(page.locator(".row .title").first).to_have_text("The Bells (1926)")


# Covers


def drawings(covers: Locator) -> list[str]:
    return [cover.evaluate("cover => cover.outerHTML") for cover in covers.all()]


def test_covers_are_drawn_and_always_the_same(visit: Visit) -> None:
    page = visit()
    expect(page.locator(".card .cover > .drawn")).to_have_count(6)
    expect(page.locator(".row .cover > .drawn")).to_have_count(12)
    cards, rows = drawings(page.locator(".card .cover")), drawings(page.locator(".row .cover"))
    assert len(set(cards)) == 6
    assert len(set(rows)) >= 11  # without a title on them two may be alike
    for cover, title in zip(page.locator(".card .cover").all(), page.locator(".card .title").all(), strict=True):
        expect(cover).to_have_attribute("aria-hidden", "true")
        year = cover.locator(".cover-year").inner_text()
        assert f"{cover.locator('.cover-title').inner_text()} ({year})" == title.inner_text()
        lettering = cover.locator(".cover-title")
        assert lettering.evaluate("title => title.scrollHeight <= title.clientHeight"), title.inner_text()
        box = cover.bounding_box()
        assert box is not None
        assert box["height"] == pytest.approx(1.5 * box["width"], rel=0.02)
    reloaded(page)
    assert (drawings(page.locator(".card .cover")), drawings(page.locator(".row .cover"))) == (cards, rows)


def test_pictures_are_shown_where_they_may_come_from(visit: Visit, bookshop: ServedHere) -> None:
    page = visit(of=bookshop, forgive=rf"{COVERS}|ERR_|404")
    asked: list[str] = []

    def picture(route: Route) -> None:
        asked.append(route.request.url)
        if route.request.url.endswith("gone.gif"):
            route.fulfill(status=404)
        else:
            route.fulfill(
                body=b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;",
                content_type="image/gif",
            )

    addresses = [
        PICTURE,
        f"{COVERS}/1.gif",
        f"{COVERS}/gone.gif",
        "https://elsewhere.example.com/1.gif",
        "//x.org/1.gif",
    ]

    def with_pictures(document: Any) -> None:
        for item, address in zip(document["items"], addresses, strict=False):
            item["attributes"]["poster"] = address

    def with_a_column(document: Any) -> None:
        document["item_columns"].append({"name": "poster", "kind": "image", "values": [], "low": None, "high": None})

    page.route(re.compile("^https://"), picture)
    changed(page, "**/v1/starters?*", with_pictures)
    changed(page, "**/v1/model", with_a_column)
    reloaded(page)
    covers = page.locator(".card .cover")
    for place, shown in enumerate(["img", "img", *[".drawn"] * 4]):
        expect(covers.nth(place).locator(":scope > *")).to_have_count(1)
        expect(covers.nth(place).locator(f":scope > {shown}")).to_have_count(1)
    assert covers.nth(1).locator("img").evaluate("image => image.complete && image.naturalWidth") == 1
    assert sorted(set(asked)) == [f"{COVERS}/1.gif", f"{COVERS}/gone.gif"]  # the others are not even asked for
    assert "poster" not in page.locator("body").inner_text().lower()
    may = "async (all) => { const { mayShow } = await import('/page/cover.js'); return all.map(mayShow); }"
    yes = [f"{COVERS}/a/b.png", "https://a.example.net/x", "https://a.b.example.net/x", "/images/1.png", PICTURE]
    no = ["http://covers.example.org/1", "https://example.net/x", "https://example.net.evil.org/x", "//evil.org/1"]
    no += ["javascript:alert(1)", "data:text/html,x", "https://covers.example.org:444/1", "nothing"]
    assert page.evaluate(may, yes + no) == [True] * len(yes) + [False] * len(no)


# Stars


def test_a_row_has_one_strip_of_stars(visit: Visit, server: Server) -> None:
    page = visit()
    row = page.locator(".row").first
    item = server.client.post("/v1/recommendations", json={"ratings": [], "n": 1}).json()["items"][0]
    stars = row.locator(".stars")
    expect(stars).to_have_count(1)
    caption = row.locator(".caption")
    expect(caption.locator(".value")).to_have_text(f"{item['rating']:.1f} predicted")
    told = re.compile(rf"^not rated, {item['rating']:.1f} stars predicted$")
    expect(row.get_by_role("slider")).to_have_attribute("aria-valuetext", told)
    full = "element => element.style.getPropertyValue('--full')"
    assert float(stars.evaluate(full).rstrip("%")) == pytest.approx(item["rating"] * 20, abs=0.1)
    colour = "element => getComputedStyle(element, '::after').backgroundColor"
    predicted = stars.evaluate(colour)
    box = stars.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.35, box["y"] + box["height"] / 2)
    expect(caption.locator(".value")).to_have_text("you give 2")
    assert stars.evaluate(full) == "40%"
    assert stars.evaluate(colour) != predicted
    page.mouse.move(5, 5)
    expect(caption.locator(".value")).to_have_text(f"{item['rating']:.1f} predicted")
    row.locator(".title").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("header .stars")).to_have_count(1)
    expect(dialog.locator("header .value")).to_have_text(f"{item['rating']:.1f} predicted")
    click_stars(dialog.locator("header").get_by_role("slider"), 4)
    page.mouse.move(5, 5)
    expect(dialog.locator("header .value")).to_have_text("you gave 4")


def test_a_rated_card_makes_room_for_the_next(visit: Visit) -> None:
    page = visit()
    cards = page.locator(".card .title")
    expect(cards).to_have_count(6)
    before = cards.all_inner_texts()
    click_stars(page.locator(".card").nth(2).get_by_role("slider"), 4)
    expect(cards.nth(2)).not_to_have_text(before[2])
    after = cards.all_inner_texts()
    assert after[:2] + after[3:] == before[:2] + before[3:]
    assert after[2] not in before
    page.locator(".card").first.get_by_role("slider").focus()
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    expect(cards.first).not_to_have_text(before[0])  # and the focus is where it was
    expect(page.locator(".card").first.get_by_role("slider")).to_be_focused()
    page.locator(".row .title").first.click()  # what is rated elsewhere goes too
    other = cards.nth(1).inner_text()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.evaluate("history.back()")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("combobox").fill(other[:-7])
    page.get_by_role("option").filter(has_text=other[:-7]).first.click()  # others may still be listed
    expect(page.get_by_role("dialog")).to_contain_text(other[:-7])
    click_stars(page.get_by_role("dialog").get_by_role("slider").first, 2)
    expect(cards.nth(1)).not_to_have_text(other)


def test_rounded_amounts_add_up(visit: Visit) -> None:
    """By largest remainders, whatever the amounts: none is off by a unit or more."""
    page = visit()
    draw = random.Random(0)
    cases: list[tuple[list[float], float, float]] = []
    for _ in range(300):
        parts = [draw.gauss(0, 10 ** draw.uniform(-3, 0.5)) for _ in range(draw.randint(1, 9))]
        cases.append((parts, sum(parts), draw.choice([0.01, 0.001])))
    call = """async (cases) => {
        const { addingUp } = await import('/page/words.js');
        return cases.map((one) => addingUp(...one));
    }"""
    for (parts, total, unit), found in zip(cases, page.evaluate(call, cases), strict=True):
        assert sum(round(part / unit) for part in found["parts"]) == round(found["total"] / unit)
        assert found["total"] == pytest.approx(total, abs=0.51 * unit)
        for exact, shown in zip(parts, found["parts"], strict=True):
            assert shown == pytest.approx(exact, abs=1.001 * unit)


def test_numbers_never_show_minus_zero(visit: Visit) -> None:
    call = """async (value) => {
        const words = await import('/page/words.js');
        return ["count", "oneDigit", "twoDigits", "signed", "share", "signedShare"].map((name) => words[name](value));
    }"""
    assert visit().evaluate(call, -1e-6) == ["0", "0.0", "0.00", "0.00", "0.0%", "0.0%"]


# Words


def test_the_policy_names_the_hosts_of_pictures(bookshop: ServedHere) -> None:
    assert bookshop.client.get("/page/settings.json").json() == {"image_host": [COVERS, "https://*.example.net"]}
    policy = bookshop.client.get("/health").headers["content-security-policy"]
    assert f"img-src 'self' data: {COVERS} https://*.example.net;" in policy


def test_an_unknown_item_is_told_in_a_visitors_words(visit: Visit) -> None:
    page = visit("/#/?item=999999", ready=".gone", forgive="404")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("This is not here any more.")
    assert not re.search(r"PUT|/v1|\bid\b", dialog.inner_text())
    page.get_by_role("button", name="See what is here").click()
    expect(dialog).to_be_hidden()
    expect(page.locator(".row").first).to_be_visible()


def test_people_are_told_apart_by_what_they_love(visit: Visit, server: Server) -> None:
    page = visit()
    page.locator("#person").click()
    people = page.locator(".people button")
    users = server.client.get("/v1/users", params={"n": 6}).json()["users"]
    expect(people).to_have_count(6)
    for somebody, user in zip(people.all(), users, strict=True):
        assert 0 < len(user["loves"]) <= 3
        theirs = server.ratings(user["id"])
        for item in user["loves"]:
            about = server.client.get("/v1/item", params={"id": item["id"]}).json()
            assert theirs[item["id"]] > about["ratings"]["mean"]
            expect(somebody.locator(".loves")).to_contain_text(item["title"][:-7])
    assert len({person.locator(".loves").inner_text() for person in people.all()}) == 6


# A newcomer's features


def test_a_newcomer_may_describe_themselves(visit: Visit, server: Server) -> None:
    page = visit()
    before = page.locator(".row .title").all_inner_texts()
    page.get_by_role("button", name="About you").click()
    dialog = page.get_by_role("dialog", name="About you")
    columns = {one["column"]: one for one in server.client.get("/v1/model").json()["user_columns"]}
    assert {"age", "occupation"} <= set(columns)
    dialog.get_by_label("Age").fill("71")
    occupation = columns["occupation"]["choices"][0]
    dialog.get_by_label("Occupation").select_option(occupation)
    dialog.get_by_role("button", name="Use this").click()
    expect(page.get_by_role("heading", name="For you")).to_be_visible()
    expect(page.locator(".recommended .note")).to_contain_text("From what you said about yourself")
    settled(page)
    features = {"age": 71, "occupation": occupation}
    body = {"ratings": [], "features": features, "n": 12}
    described = [item["title"] for item in server.client.post("/v1/recommendations", json=body).json()["items"]]
    expect(page.locator(".row .title")).to_have_text(described)
    assert described != before
    assert server.ratings(myself(page)) == {}
    reloaded(page)
    expect(page.locator(".row .title")).to_have_text(described)
    expect(page.locator(".about-you")).to_contain_text("Age: 71")
    page.get_by_role("button", name="Change").click()
    expect(dialog.get_by_label("Age")).to_have_value("71")
    dialog.get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("heading", name="To begin with")).to_be_visible()
    expect(page.locator(".row .title")).to_have_text(before)
    assert page.evaluate("localStorage.getItem('cofill.about')") is None


def test_a_form_has_a_field_for_every_kind(visit: Visit) -> None:
    page = visit(forgive="422")
    kinds = [
        {"column": "weight", "kind": "number", "example": "70", "choices": []},
        {"column": "member", "kind": "flag", "example": "yes", "choices": []},
        {"column": "sex", "kind": "category", "example": "F", "choices": ["F", "M"]},
        {"column": "city", "kind": "category", "example": "c1", "choices": [f"c{n}" for n in range(20)]},
        {"column": "likes", "kind": "several", "example": "a", "choices": ["a", "b", "c"]},
        {"column": "born", "kind": "date", "example": "1980-01-02", "choices": []},
        {"column": "since", "kind": "date", "example": "1980", "choices": []},
        {"column": "story", "kind": "text", "example": "once", "choices": []},
        {"column": "interests", "kind": "tags", "example": "x", "choices": ["x", "y"]},
        {"column": "friends", "kind": "links", "example": "1", "choices": []},
        {"column": "embedding", "kind": "vectors", "example": "0.1", "choices": []},
    ]
    changed(page, "**/v1/model", lambda document: document.update(user_columns=kinds))
    reloaded(page)
    sent: list[Any] = []

    def refused(route: Route) -> None:
        sent.append(json.loads(route.request.post_data or "")["features"])
        route.fulfill(status=422, body='{"detail": "that is not known"}')

    page.route("**/v1/user", refused)
    page.get_by_role("button", name="About you").click()
    dialog = page.get_by_role("dialog", name="About you")
    for label, value in {
        "Weight": "70.5",
        "Likes": "a, c",
        "Born": "1990-05-06",
        "Since": "2001",
        "Story": "none",
        "Interests": "x, z",
    }.items():
        dialog.get_by_label(label).fill(value)
    for label, value in {"Member": "yes", "Sex": "F", "City": "c7"}.items():
        dialog.get_by_label(label).select_option(value)
    assert dialog.get_by_text("Friends").count() + dialog.get_by_text("Embedding").count() == 0
    dialog.get_by_role("button", name="Use this").click()
    expect(dialog.get_by_role("alert")).to_have_text("that is not known")
    assert sent == [
        {
            "weight": 70.5,
            "member": "yes",
            "sex": "F",
            "city": "c7",
            "likes": ["a", "c"],
            "born": "1990-05-06",
            "since": "2001",
            "story": "none",
            "interests": ["x", "z"],
        }
    ]


# Accessibility


def test_axe_finds_nothing_in_the_reference(visit: Visit) -> None:
    page = visit("/docs#findSimilarItems", ready="details[open]", size=PHONE, color_scheme="dark")
    assert found_by_axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    ("scheme", "phone"),
    [("light", False), pytest.param("dark", True, marks=pytest.mark.slow)],
    ids=["desktop", "phone"],
)
def test_axe_finds_nothing(visit: Visit, scheme: str, phone: bool) -> None:
    device = {"size": PHONE, "has_touch": True, "is_mobile": True} if phone else {}
    page = visit(color_scheme=scheme, forgive="404", **device)
    found: dict[str, list[str]] = {}
    rate_cards(page, 5)
    page.get_by_role("button", name="Why").first.click()
    page.locator(".breakdown").wait_for()
    page.get_by_role("button", name="Filter", exact=True).click()
    found["home"] = found_by_axe(page)
    page.get_by_role("combobox").fill("the")
    page.get_by_role("option").first.wait_for()
    found["search"] = found_by_axe(page)
    page.keyboard.press("Escape")
    page.locator(".row .title").first.click()
    page.locator(".histogram").wait_for()
    found["item"] = found_by_axe(page)
    page.get_by_role("button", name="Close").click()
    page.locator("#person").click()
    page.locator(".people button").first.wait_for()
    found["person"] = found_by_axe(page)
    page.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="About you").click()
    page.locator(".about-dialog form").wait_for()
    found["form"] = found_by_axe(page)
    page.get_by_role("button", name="Close").click()
    page.get_by_role("link", name="Map", exact=True).click()
    page.locator(".map circle").first.wait_for()
    found["map"] = found_by_axe(page)
    page.get_by_role("link", name="Model", exact=True).click()
    page.get_by_text("All settings").click()
    found["model"] = found_by_axe(page)
    page.goto(page.url.partition("#")[0] + "#/?item=nothing")
    page.locator(".gone").wait_for()
    found["gone"] = found_by_axe(page)
    assert {view: problems for view, problems in found.items() if problems} == {}
    assert announced(page) is not None

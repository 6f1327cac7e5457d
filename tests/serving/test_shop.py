"""The tutorial docs/tutorial/shop.md, played as it stands there: a day over HTTP, with a kill -9 in the middle."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cofill.models.recommender import Recommender
from tests.pages import Block, Player, sections

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial" / "shop.md"
QUICK = ["--hidden", "20", "--epochs", "6", "--threads", "1", "--quiet"]


class Shop(Player):
    """The tutorial so far, with a client of its server."""

    def play(self, block: Block) -> str:
        if block.language == "python" and "shop" in self.names:
            assert self.server is not None  # one that was started again has another port here
            self.names["shop"].close()
            self.names["shop"] = self.names["Client"](self.server.told["address"])
        return super().play(block)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    monkeypatch.chdir(tmp_path)
    playing = Shop(TUTORIAL.name, tmp_path, quick=QUICK)
    yield playing
    if "shop" in playing.names:
        playing.names["shop"].close()
    playing.close()


# What each section promises


def catalogue(shop: Shop) -> None:
    names = shop.names
    assert {one.id for one in names["fresh"].items} == {"dvd-1", "dvd-2"}
    assert sum(one.raters == 0 for one in names["mixed"].items) == 2


def visitor(shop: Shop) -> None:
    before, after = shop.names["before"], shop.names["after"]
    assert 5 not in after
    assert before != after
    names = shop.names
    assert names["customer"] == names["same"]
    assert 5 not in names["same"]
    assert 8 not in names["returned"]
    trained = Recommender.load(shop.folder / "model")
    known = {trained.items.id(item) for item in trained.known_items(trained.users.index(42)).tolist()}
    assert {6, 9} - known <= set(names["returned"])


def shown(shop: Shop) -> None:
    names = shop.names
    assert {one.id for one in names["page"].items}.isdisjoint(one.id for one in names["next_page"].items)
    figures = names["shop"].metrics()
    version = names["version"]
    assert f'cofill_shown_total{{model_version="{version}"}} 18.0' in figures
    assert f'cofill_shown_events_total{{kind="click",model_version="{version}"}} 1.0' in figures

    seen = [one.id for page in names["pages"] for one in page]
    assert len(set(seen)) == len(seen) == 15


def front_page(shop: Shop) -> None:
    names = shop.names
    assert all("Drama" in one.attributes["genres"] for one in names["popular"].items)
    assert {one.id for one in names["new"].items} == {"dvd-1", "dvd-2"}
    found = [one.id for one in names["with_these"].items]
    assert len(found) == 5
    assert not {1, 2, 3, 4} & set(found)


def sold_out(shop: Shop) -> None:
    assert shop.names["sold_out"] not in [one.id for one in shop.names["without"].items]
    assert shop.names["sold_out"] in [one.id for one in shop.names["shop"].recommend("visitor-7", n=50).items]


def rules(shop: Shop) -> None:
    items = shop.names["campaign"].items
    assert 1 <= len(items) <= 8
    assert all("Drama" in one.attributes["genres"] and one.raters >= 10 for one in items)
    years = [one.attributes["year"] for one in items]
    assert max(years.count(year) for year in years) <= 3
    with pytest.raises(shop.names["RefusedError"], match="Drama"):
        shop.names["shop"].recommend(42, where={"genres": "drama"})


def power_cut(shop: Shop) -> None:
    names = shop.names
    assert names["shop"].send_events(names["events"]).repeated == 2
    assert 5 not in names["again"]


def deleted(shop: Shop) -> None:
    for user in ("visitor-8", 17):
        with pytest.raises(shop.names["RefusedError"], match="not known"):
            shop.names["shop"].ratings(user)


def learned(shop: Shop) -> None:
    model = Recommender.load(shop.folder / "tomorrow")
    assert 17 not in model.users
    assert "visitor-8" not in model.users
    assert "visitor-7" not in model.users  # but the customer
    assert 5 in {model.items.id(item) for item in model.known_items(model.users.index(42)).tolist()}
    assert {"dvd-1", "dvd-2"} <= set(model.items)


def tried(shop: Shop) -> None:
    assert len(set(shop.names["by_name"].values())) == 2


def back_again(shop: Shop) -> None:
    names = shop.names
    assert names["first"] != names["second"]
    assert names["back"] == names["first"]


PROMISES: dict[str, Callable[[Shop], None]] = {
    "New in the catalogue": catalogue,
    "A visitor": visitor,
    "What was shown": shown,
    "Before anything is known": front_page,
    "Sold out": sold_out,
    "Rules of the house": rules,
    "A power cut": power_cut,
    "Delete a user's data": deleted,
    "Evening: learn from the day": learned,
    "Try it on some of the visitors": tried,
    "Promote or roll back": back_again,
}


@pytest.mark.slow
def test_a_day_of_a_shop(shop: Shop) -> None:
    found = sections(TUTORIAL.read_text(encoding="utf-8"))
    assert set(PROMISES) <= {heading for heading, _ in found}
    for heading, blocks in found:
        for block in blocks:
            shop.play(block)
        if heading in PROMISES:
            PROMISES[heading](shop)
    shop.stop()

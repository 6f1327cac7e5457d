"""The tutorial docs/tutorial/shop.md, played as it stands there: a day over HTTP, with a kill -9 in the middle."""

import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cofill.models.recommender import Recommender
from tests.serving.running_server import Server
from tests.warm_processes import run_warm

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial" / "shop.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUICK = ["--hidden", "20", "--epochs", "6", "--threads", "1", "--quiet"]


class Shop:
    """What the blocks of the tutorial have done so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {}
        self.server: Server | None = None

    def play(self, language: str, text: str) -> None:
        if language == "sh":
            for line in text.splitlines():
                self._run(shlex.split(line, comments=True))
            return
        assert self.server is not None
        address = self.server.told["address"]
        if "shop" in self.names:  # a server that was started again has another port here
            self.names["shop"].close()
            self.names["shop"] = self.names["Client"](address)
        exec(compile(text.replace("http://127.0.0.1:8000", address), str(TUTORIAL), "exec"), self.names)

    def _run(self, words: list[str]) -> None:
        if words[0] == "kill":
            self.stop(signal.SIGKILL if "-9" in words else signal.SIGTERM)
        elif words[:2] == ["cofill", "serve"]:
            self._serve(words[2:])
        else:
            assert words[0] == "cofill"
            more = QUICK if words[1] == "train" else []
            done = run_warm([*words[1:], *more], cwd=self.folder)
            assert done.returncode == 0, done.stderr

    def _serve(self, words: list[str]) -> None:
        assert self.server is None
        line = " ".join(words).replace("--model ", "--model=")
        options = re.sub(r"(--model=\w+=)", rf"\1{self.folder}/", line).split()
        one = [] if options[0].startswith("--") else [options.pop(0)]
        self.server = Server(self.folder / (one or ["several"])[0], *options, from_nothing=not self.names)

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.server is not None:
            code = self.server.stop(number)
            assert code in (0, -signal.SIGKILL), self.server.errors()
            assert "Traceback" not in self.server.errors()
        self.server = None


@pytest.fixture(scope="module")
def sections() -> list[tuple[str, list[tuple[str, str]]]]:
    """(heading, its blocks), in the order of the tutorial."""
    parts = re.split(r"^## (.*)$", TUTORIAL.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [(heading, BLOCK.findall(text)) for heading, text in zip(parts[::2], parts[1::2], strict=True)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    playing = Shop(tmp_path)
    yield playing
    if "shop" in playing.names:
        playing.names["shop"].close()
    if playing.server is not None:
        playing.server.stop(signal.SIGKILL)


# What each section promises


def catalogue(shop: Shop) -> None:
    names = shop.names
    assert {one.id for one in names["fresh"].items} == {"dvd-1", "dvd-2"}
    assert sum(one.raters == 0 for one in names["mixed"].items) == 2


def visitor(shop: Shop) -> None:
    before, after = shop.names["before"], shop.names["after"]
    assert 5 not in after
    assert before != after


def shown(shop: Shop) -> None:
    names = shop.names
    assert {one.id for one in names["page"].items}.isdisjoint(one.id for one in names["next_page"].items)
    figures = names["shop"].metrics()
    version = names["version"]
    assert f'cofill_shown_total{{model_version="{version}"}} 3.0' in figures
    assert f'cofill_shown_events_total{{kind="click",model_version="{version}"}} 1.0' in figures


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


def forgotten(shop: Shop) -> None:
    for user in ("visitor-8", 17):
        with pytest.raises(shop.names["RefusedError"], match="not known"):
            shop.names["shop"].ratings(user)


def learned(shop: Shop) -> None:
    model = Recommender.load(shop.folder / "tomorrow")
    assert 17 not in model.users
    assert "visitor-8" not in model.users
    assert "visitor-7" in model.users
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
    "Sold out": sold_out,
    "Rules of the house": rules,
    "A power cut": power_cut,
    "Somebody wants to be forgotten": forgotten,
    "Evening: learn from the day": learned,
    "Try it on some of the visitors": tried,
    "It is better: serve it to all, and go back if it is not": back_again,
}


def test_a_day_of_a_shop(shop: Shop, sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
    assert set(PROMISES) <= {heading for heading, _ in sections}
    for heading, blocks in sections:
        for language, text in blocks:
            shop.play(language, text)
        if heading in PROMISES:
            PROMISES[heading](shop)
    shop.stop()

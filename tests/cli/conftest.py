"""One tiny world and one tiny model for all tests of the command line, made by the command line."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from cofill.cli import main

QUICK = ("--epochs", "2", "--hidden", "8", "--threads", "1")
# Features << hidden << columns, as far as a tiny world allows.
HYBRID = ("--epochs", "40", "--hidden", "30", "--threads", "1", "--feature-size", "4")
LONG_TITLE = "Die unendliche Geschichte 終わりのない物語 " * 12


@dataclass(frozen=True)
class Result:
    """What a call left behind."""

    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Call the command line in this process."""

    def call(*words: object) -> Result:
        capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as exit:  # argparse
            code = exit.code if isinstance(exit.code, int) else 0
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return call


@pytest.fixture
def refused(run: Run) -> Callable[..., str]:
    """The one line that a call is refused with, after `cofill: `."""

    def call(*words: object, code: int = 1) -> str:
        result = run(*words)
        assert result.code == code, result
        assert result.out == ""
        assert result.err.endswith("\n")
        assert result.err.count("\n") == 1
        command, _, message = result.err.partition(": ")
        assert command.startswith("cofill")
        assert "Traceback" not in result.err
        return message

    return call


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "w"
    assert main(["datasets", "make", "--users=60", "--items=40", "--ratings=900", f"--out={folder}", "--quiet"]) == 0
    return folder


@pytest.fixture(scope="session")
def titles(world: Path) -> Path:
    """Titles that would do harm if they were not printed literally."""
    path = world.parent / "titles.csv"
    special = {1: "[red]Alien[/red]", 2: LONG_TITLE, 3: "\x1b[31mRed", 4: "two\nlines", 5: "", 6: ":smile: [/]"}
    lines = [f'{item},"{special.get(item, f"Film {item}")}"' for item in range(1, 41)]
    path.write_text("\n".join(["item,title", *lines, '99,"Nobody rated this"', ""]), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def model(world: Path, titles: Path) -> Path:
    folder = world.parent / "model"
    words = ["train", world / "ratings.csv", "--titles", titles, "--out", folder, "--quiet", *QUICK]
    assert main([str(word) for word in words]) == 0
    return folder


@pytest.fixture(scope="session")
def some(world: Path) -> Path:
    """Ratings of the world's people and films, where the old like old films and the young like new ones.

    There are none of the items 39 and 40 and of the users 59 and 60, of whom the world tells all the same.
    """
    path = world.parent / "some.csv"
    frame = pl.read_csv(world / "ratings.csv").filter((pl.col("item") < 39) & (pl.col("user") < 59))
    frame = frame.join(pl.read_csv(world / "users.csv"), on="user").join(pl.read_csv(world / "movies.csv"), on="item")
    old_person, old_film = pl.col("age") > pl.col("age").median(), pl.col("year") < pl.col("year").median()
    liking = pl.when(old_person == old_film).then(4.0).otherwise(2.0)
    noise = 0.5 * ((pl.col("user") * 7 + pl.col("item") * 3) % 3 - 1)
    frame.select("user", "item", rating=liking + noise).write_csv(path)
    return path


@pytest.fixture(scope="session")
def about(world: Path) -> list[str]:
    """The options with everything that the world tells apart from ratings."""
    files = {"item-features": "movies", "item-tags": "tags", "user-features": "users", "user-links": "friends"}
    return [word for option, name in files.items() for word in (f"--{option}", str(world / f"{name}.csv"))]


@pytest.fixture(scope="session")
def hybrid(some: Path, about: list[str]) -> Path:
    """A model that was trained on some ratings and all that is known about users and items."""
    folder = some.parent / "hybrid"
    assert main(["train", str(some), "--out", str(folder), "--quiet", *about, *HYBRID]) == 0
    return folder

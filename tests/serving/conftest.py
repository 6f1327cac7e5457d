"""One small world, one model of it, and one server for all tests that leave it as they found it."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest
from sqlalchemy import create_engine, text

from cofill.cli import main
from cofill.data.table import write_frame
from cofill.models.recommender import Recommender
from cofill.serving.live.model import LiveModel
from cofill.serving.live.served import ServedModel
from cofill.serving.live.store import Store, url_of
from cofill.serving.settings import ServingSettings
from tests.serving.running_server import ServedHere, ServedTwice, Server
from tests.serving.visiting import browser as browser
from tests.serving.visiting import visit as visit

USERS, ITEMS = 120, 80

Start = Callable[..., Server]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serving") / "world"
    words = [f"--users={USERS}", f"--items={ITEMS}", "--ratings=2500", f"--out={folder}", "--quiet"]
    assert main(["datasets", "make", *words]) == 0
    # The old like old films and the young new ones, so that features tell something even in a world as small as this.
    frame = pl.read_csv(folder / "ratings.csv")
    about = frame.join(pl.read_csv(folder / "users.csv"), on="user").join(pl.read_csv(folder / "movies.csv"), on="item")
    old_person, old_film = pl.col("age") > pl.col("age").median(), pl.col("year") < pl.col("year").median()
    liking = pl.when(old_person == old_film).then(0.75).otherwise(-0.75)
    moved = (pl.col("rating") + 2 * liking).clip(0.5, 5.0)
    write_frame(about.select("user", "item", rating=(2 * moved).round() / 2), folder / "ratings.csv")
    return folder


@pytest.fixture(scope="session")
def trained(world: Path) -> Path:
    """A model that is never served itself: each server has a copy, with its own live ratings beside it."""
    folder = world.parent / "trained"
    train(world, folder)
    return folder


@pytest.fixture(scope="session")
def other(trained: Path) -> Path:
    """Another model of the same world: it knows more of one user."""
    folder = trained.parent / "other"
    Recommender.load(trained).add_ratings([(1, item, 5.0) for item in range(40, 50)]).save(folder)
    return folder


def train(world: Path, folder: Path, *more: str) -> None:
    words = ["--titles", str(world / "movies.csv"), "--item-features", str(world / "movies.csv")]
    words += ["--item-tags", str(world / "tags.csv"), "--user-features", str(world / "users.csv")]
    words += ["--epochs", "10", "--hidden", "30", "--threads", "1", "--feature-size", "4", "--quiet", *more]
    assert main(["train", str(world / "ratings.csv"), "--out", str(folder), *words]) == 0


@pytest.fixture
def model(trained: Path, tmp_path: Path) -> Path:
    """A model of the test's own."""
    return shutil.copytree(trained, tmp_path / "model")


@pytest.fixture
def store(model: Path) -> Iterator[Store]:
    made = Store(url_of(None, model))
    made.open()
    yield made
    made.close()


@pytest.fixture(scope="session")
def server(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Shared: a test uses users of its own, or changes nothing."""
    running = Server(shutil.copytree(trained, tmp_path_factory.mktemp("shared") / "model"), "--requests-per-second=0")
    yield running
    assert running.stop() == 0, running.errors()
    assert "ERROR" not in running.errors()
    assert "Traceback" not in running.errors()


@pytest.fixture(scope="session")
def untouched(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHere]:
    """Nothing is written there: it answers as the model does."""
    running = ServedHere(shutil.copytree(trained, tmp_path_factory.mktemp("untouched") / "model"))
    yield running
    assert running.client.get("/v1/model").json()["ratings"]["live"] == 0
    running.stop()


@pytest.fixture(scope="session")
def shop(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedTwice]:
    """For tests of events and of the catalogue: each with users and items of its own."""
    folder = shutil.copytree(trained, tmp_path_factory.mktemp("shop") / "model")
    running = ServedTwice(folder, event_weight={"cart": 3.0})
    yield running
    running.stop()
    assert running.failures.traces == []


@pytest.fixture
def empty_postgresql(postgresql: str) -> str:
    """Nothing is in it that another test has left there."""
    engine = create_engine(url_of(postgresql, Path()))
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return postgresql


@pytest.fixture
def start() -> Iterator[Start]:
    """Servers that are gone when the test is."""
    running: list[Server] = []

    def begin(model: Path, *options: str, environment: dict[str, str] | None = None) -> Server:
        running.append(Server(model, *options, environment=environment))
        return running[-1]

    yield begin
    for server in running:
        server.stop()


def live_model(model: Path, store: Store) -> LiveModel:
    return LiveModel(ServingSettings(model=model), store)


def asked(live: LiveModel) -> ServedModel:
    """The model with everything that was written until now."""
    return asyncio.run(live.ask(lambda served: served))

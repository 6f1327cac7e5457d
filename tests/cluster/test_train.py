"""Several workers on a real Ray train the model that one process trains, and the same weights after every disaster."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofill import CFN, Cluster, Features, Ratings, load_dataset
from cofill.cluster import train
from cofill.cluster.session import SETTINGS_OF_OUR_OWN
from cofill.cluster.train import train_partition, train_portion
from cofill.config import CFNSettings
from cofill.data.datasets.world import make_world
from cofill.data.partition import write_partition
from cofill.errors import SettingsError
from cofill.models.cfn.fit import SOLVE
from cofill.models.persistence import Card, ShardCard, finish
from cofill.progress import unseen
from tests.cluster.test_team import Heard, nobody_is_left, of_session  # noqa: F401 (one is a fixture of all tests)
from tests.models.several_processes import Played, together
from tests.waiting import wait_until
from tests.warm_processes import WarmProcess, run_warm

DATA = Path(os.environ.get("COFILL_DATA") or Path(__file__).parents[3] / "shared" / "data")
SMALL = {"hidden": 24, "epochs": 4, "patience": 2, "threads": 1, "list_goal": "any"}
CASES: dict[str, tuple[int, dict[str, Any]]] = {
    "deep": (3, {"hidden": [26, 20, 26], "pretrain": True, "pretrain_epochs": 2, "inner_epochs": 2}),
    # Two of them: of four workers two have nothing.
    "paper, few buckets": (4, {"decoder": "network", "presence": 0.0, "output": "tanh"}),
    "user, half life": (3, {"orientation": "user", "half_life": 100.0}),
    "item, half life": (2, {"orientation": "item", "half_life": 100.0}),
}
"""How many workers, and settings."""


def assert_same(one: CFN, other: CFN) -> None:
    """Another number of workers: predictions within a thousandth of the scale, and the top tens of 99 % of people."""
    pairs = [(user, item) for user in one.users for item in one.items]
    span = one.scale.high - one.scale.low
    np.testing.assert_allclose(one.predict(pairs), other.predict(pairs), atol=1e-3 * span, rtol=0)
    mine, theirs = (dict(model.recommend_many(n=10)) for model in (one, other))
    same = sum({e.item for e in mine[user]} == {e.item for e in theirs[user]} for user in one.users)
    assert same >= 0.99 * len(one.users)
    assert list(one.item_attributes.columns()) == list(other.item_attributes.columns())


@pytest.mark.parametrize("name", CASES)
def test_several_workers_train_what_one_process_trains(name: str, tmp_path: Path) -> None:
    """Each on its shard of a partition with features, all played by threads; in one process without any partition."""
    workers, changes = CASES[name]
    settings = CFNSettings.of(SMALL | {"orientation": "item"} | changes)
    world = make_world(users=120, items=60, ratings=2_500, seed=3)
    world.write(tmp_path)
    about: dict[str, Any] = {
        "item_features": Features.read(tmp_path / "movies.csv", about="item"),
        "user_features": Features.read(tmp_path / "users.csv", about="user"),
    }
    buckets, orientation = 2 if "few buckets" in name else 16, settings.orientation
    assert orientation != "both"
    partition = write_partition(world.ratings, tmp_path / "cut", buckets=buckets, orientation=orientation, **about)

    def work(exchange: Played) -> dict[str, Any]:
        arguments = {"partition": str(partition.folder), "out": str(tmp_path / "model"), "resume": False}
        return train_portion(exchange, arguments | {"settings": settings.model_dump(exclude_unset=True)}, unseen)

    results = together(workers, work)
    shards = [ShardCard.model_validate(card) for result in results for card in result["shards"]]
    finish(tmp_path / "model", Card.model_validate(results[0]["shared"]), shards)
    assert_same(CFN(settings).fit(world.ratings, **about), CFN.load(tmp_path / "model"))


# Disasters

TROUBLES: dict[str, dict[str, tuple[int, str, int | str]]] = {
    "in the middle of an epoch": {"1": (1, "exchange", 210)},
    "at the start": {"1": (0, "exchange", 2)},
    "between shards and manifest": {"1": (0, "manifest", 2)},
    "twice in a row": {"1": (1, "exchange", 440), "2": (0, "exchange", 150)},
    "after the epochs": {"1": (0, "step", SOLVE)},
}
KILLED = {"orientation": "item", "hidden": 12, "epochs": 5, "batch": 5, "checkpoint_seconds": 0.0, "threads": 1}


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """A small partition beside which trouble can be told."""
    world = make_world(users=90, items=60, ratings=1_800, seed=5)
    write_partition(world.ratings, tmp_path / "partition", buckets=8)
    return tmp_path / "partition"


def digests(model: Path) -> list[str]:
    """Of all weights that were learned, shared ones and those of the shards."""
    card = Card.read(model)
    files = [card.files, *(shard.files for shard in card.shards)]
    return [some[kind].sha256 for some in files for kind in ("weights", "lists", "rows") if kind in some]


@pytest.fixture(scope="module")
def from_python(joined: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[CFN, Path]:
    """What two workers train, and the folder of the model."""
    folder = tmp_path_factory.mktemp("undisturbed")
    ratings = make_world(users=90, items=60, ratings=1_800, seed=5).ratings
    write_partition(ratings, folder / "partition", buckets=8)
    cluster = Cluster(2, joined, folder=folder)
    return CFN(CFNSettings.of(KILLED)).fit(folder / "partition", cluster=cluster), folder / "model"


@pytest.fixture(scope="module")
def undisturbed(from_python: tuple[CFN, Path]) -> list[str]:
    return digests(from_python[1])


@pytest.mark.parametrize(
    "when", [pytest.param(name, marks=[pytest.mark.slow] if at else []) for at, name in enumerate(TROUBLES)]
)
def test_a_killed_worker_costs_nothing_but_time(
    joined: str, cut: Path, undisturbed: list[str], when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "PROGRAM", "tests.cluster.training_programs:train_in_trouble")
    trouble = TROUBLES[when]
    (cut.parent / "trouble.json").write_text(json.dumps(trouble))
    heard = Heard()
    model = cut.parent / "model"
    train_partition(cut, model, CFNSettings.of(KILLED), workers=2, address=joined, progress=heard)
    assert sum("going on from the last checkpoint" in note for note in heard.notes) == len(trouble), heard.notes
    assert digests(model) == undisturbed
    assert not (model / train.CHECKPOINT).exists()


def start_driver(cut: Path, workers: int, *more: str) -> WarmProcess:
    settings = ["--hidden", "12", "--epochs", "5", "--batch", "5", "--checkpoint-seconds", "0", "--threads", "1"]
    command = ["train", str(cut), "--out", str(cut.parent / "model"), "--workers", str(workers), "--quiet", *settings]
    return WarmProcess([*command, *more], env=os.environ | SETTINGS_OF_OUR_OWN, start_new_session=True)


@pytest.fixture(scope="module")
def killed_driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a driver with a Ray of its own leaves behind when it is killed; none of its processes stays."""
    folder = tmp_path_factory.mktemp("killed-driver")
    write_partition(make_world(users=90, items=60, ratings=1_800, seed=5).ratings, folder / "partition", buckets=8)
    driver = start_driver(folder / "partition", 2)
    manifest = folder / "model" / train.CHECKPOINT / "checkpoint.json"
    wait_until(lambda: manifest.exists() or driver.poll() is not None, seconds=120)
    assert driver.poll() is None
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    wait_until(lambda: not of_session(driver.pid), seconds=300)  # Ray itself needs a minute
    assert manifest.exists()
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_a_killed_driver_is_resumed(killed_driver: Path, undisturbed: list[str], workers: int, tmp_path: Path) -> None:
    """With as many workers to the same bits, with another number to rounding; and none of its processes stays."""
    cut = shutil.copytree(killed_driver, tmp_path / "copy") / "partition"
    resumed = start_driver(cut, workers, "--resume")
    assert resumed.wait(300) == 0
    wait_until(lambda: not of_session(resumed.pid), seconds=60)
    if workers == 2:
        assert digests(cut.parent / "model") == undisturbed
    else:
        whole = CFN(CFNSettings.of(KILLED)).fit(make_world(users=90, items=60, ratings=1_800, seed=5).ratings)
        assert_same(whole, CFN.load(cut.parent / "model"))


def test_from_python(from_python: tuple[CFN, Path], joined: str) -> None:
    several, _ = from_python
    ratings = make_world(users=90, items=60, ratings=1_800, seed=5).ratings
    assert_same(CFN(CFNSettings.of(KILLED)).fit(ratings), several)
    several.add_ratings([(1, 1, 4.0)])  # loaded whole, it follows like any other
    with pytest.raises(SettingsError, match="a folder that all of them see"):
        CFN(hidden=8).fit(ratings, cluster=Cluster(2, joined))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"orientation": "both"}, "set orientation to item or user"),
        ({"orientation": "user"}, "cut the ratings again"),
        ({"orientation": "item", "engine": "dense"}, "the engine fused"),
        ({"orientation": "item", "list_goal": "next"}, "lists without order and time"),
    ],
)
def test_what_several_workers_cannot_do(cut: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        train_partition(cut, cut.parent / "model", CFNSettings.of(settings), workers=2)


# Whole trainings


def whole_training(ratings: Ratings, folder: Path, address: str, workers: int, **settings: Any) -> None:
    """By this process and by several workers. That other numbers of workers train the same, the cases above show."""
    write_partition(ratings, folder / "partition")
    chosen = CFNSettings.of({"orientation": "item", "threads": 1, "list_goal": "any"} | settings)  # as workers do
    train_partition(folder / "partition", folder / "model", chosen, workers=workers, address=address)
    assert_same(CFN(chosen).fit(ratings), CFN.load(folder / "model"))


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.skipif(not next(DATA.glob("**/ml-100k.zip"), None), reason=f"ml-100k.zip is not in {DATA}")
@pytest.mark.filterwarnings("ignore::cofill.data.datasets.UnpublishedFileWarning")
def test_a_whole_training_of_movielens(joined: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COFILL_DATA", str(DATA))
    # With 30 units the choice of how far few ratings are believed stands on an edge, and rounding decides it.
    whole_training(load_dataset("ml-100k"), tmp_path, joined, 4, hidden=100, epochs=5)


@pytest.mark.slow
def test_the_three_commands_of_the_docs(tmp_path: Path) -> None:
    """On a file of one's own, in an empty folder; the network is made small."""
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "many-machines.md").read_text(encoding="utf-8")
    lines = text.partition("## 2. Two workers on one machine")[2].partition("Or in Python")[0].splitlines()
    commands = [line.split() for line in lines if line.startswith("cofill ")]
    assert [command[1] for command in commands] == ["train", "recommend"]
    make_world(users=60, items=40, ratings=900, seed=1).ratings.write(tmp_path / "ratings.csv")
    commands.insert(0, ["cofill", "partition", "ratings.csv", "--out", "partition"])
    commands[1] += ["--hidden", "8"]
    for command in commands:
        done = run_warm(command[1:], cwd=tmp_path, env=os.environ | SETTINGS_OF_OUR_OWN)
        assert done.returncode == 0, done.stderr
    assert len(CFN.load(tmp_path / "model").users) == 60
    assert next((tmp_path / "lists").glob("part-*.parquet"), None)

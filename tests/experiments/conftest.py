"""A tiny world, described, and contenders so small that a whole experiment takes a second."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cofill.data.datasets.world import make_world
from cofill.data.described import SideInformation
from cofill.data.features import Features
from cofill.experiments.plan import Plan
from cofill.experiments.runs import ExperimentData, Store

TINY: Mapping[str, Mapping[str, Any]] = {
    "cfn": {"epochs": 2, "hidden": 40, "patience": 1},
    "autorec": {"epochs": 3, "hidden": 8},
    "als-wr": {"rank": 2, "iterations": 1},
    "svdfeature": {"rank": 2, "epochs": 2},
    "bpmf": {"samples": 2, "burn_in": 1},
    "llorma": {"rank": 2, "anchors": 2, "iterations": 1},
    "means": {},
    "popularity": {},
    "item-knn": {"neighbours": 10, "shrinkage": 1.0},
    "ease": {"penalty": 10.0},
    "ials": {"rank": 2, "unobserved": 0.1, "penalty": 0.01, "iterations": 1},
    "lists": {"list_rank": 8},
}


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quick look that is quicker still."""
    monkeypatch.setattr("cofill.experiments.plan.QUICK", TINY)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ratings.csv, movies.csv, users.csv and more."""
    return make_world(users=70, items=60, ratings=1500, seed=1).write(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="session")
def data(folder: Path) -> ExperimentData:
    from cofill.data.ratings import Ratings

    users = Features.read(folder / "users.csv", about="user")
    items = Features.read(folder / "movies.csv", columns={"title": "skip"}, about="item")
    return ExperimentData(Ratings.read(folder / "ratings.csv"), SideInformation(users, items))


MakePlan = Callable[..., Plan]


@pytest.fixture
def make_plan(tiny: None, data: ExperimentData, tmp_path: Path) -> MakePlan:
    def make(**changes: Any) -> Plan:
        given: dict[str, Any] = {
            "dataset": "world",
            "data": data,
            "splits": 2,
            "store": Store(tmp_path / "runs"),
            "quick": True,
        }
        return Plan(**given | changes)

    return make

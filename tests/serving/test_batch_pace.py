"""Batches that cannot be done in time are refused at once, with the size that can."""

import asyncio
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import FastAPI

from cofill.serving.batch_pace import Pace
from cofill.serving.guard import Admission, Guard
from cofill.serving.metrics import Metrics
from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError, add_handlers
from cofill.serving.routes_predicting import add_predicting
from cofill.serving.routing import Routes
from cofill.serving.settings import ServingSettings
from tests.serving.running_server import Server, problem


def test_what_takes_too_long_is_refused_with_the_size_that_does_not() -> None:
    pace = Pace()
    for _ in range(2):
        pace.note("list", 1.0)
    pace.check({"list": 1000}, 1000, 10.0)  # too little is known yet
    pace.note("list", 1.0)
    pace.check({"list": 8}, 8, 10.0)
    with pytest.raises(
        ProblemError, match=r"100 at once would take about 100\.0 seconds, and 10\.0 are left; send at most 8"
    ):
        pace.check({"list": 100}, 100, 10.0)
    pace.check({"list": 100}, 1, 10.0)  # one alone is tried
    pace.check({"list": 100, "why": 1}, 100, 10.0)  # of why nothing is known


def test_the_mean_follows_and_is_forgotten() -> None:
    now = 100.0
    pace = Pace(lambda: now)
    for _ in range(50):
        pace.note("list", 1.0)
    with pytest.raises(ProblemError):
        pace.check({"list": 20}, 20, 10.0)
    for _ in range(50):
        pace.note("list", 0.1)
    pace.check({"list": 20}, 20, 10.0)
    for _ in range(50):
        pace.note("list", 1.0)
    now += 100.0  # whoever was refused then is measured anew, or it would stay refused for ever
    assert not pace.knows(["list"])
    pace.check({"list": 20}, 20, 10.0)


class Slow:
    """A model that takes so long for each pair, by a clock of its own; everything is known to it."""

    has_intervals = False

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0
        self.now = 0.0
        self.users = self.items = SimpleNamespace(find=lambda ids: np.zeros(len(ids), np.int64))

    def predict_indices(self, users: Any, items: Any) -> Any:
        self.asked += len(users)
        self.now += self.seconds * len(users)
        return np.full(len(users), 3.0, np.float32)


def test_predictions_that_cannot_be_done_in_time_are_refused_after_the_first_of_them(tmp_path: Any) -> None:
    model = Slow(0.01)  # ten seconds for a thousand

    @contextmanager
    def asked(*_: Any) -> Any:
        known: Any = {"in_model": lambda user: True, "has_item": lambda item: True}
        yield SimpleNamespace(model=model, name="model", card=SimpleNamespace(version="1"), **known)

    app = FastAPI()
    add_handlers(app)
    routes = Routes(app.router)
    live: Any = SimpleNamespace(asked=asked, asked_for=asked)
    add_predicting(routes, live, Pace(lambda: model.now))
    settings = ServingSettings(model=tmp_path, seconds=60.0)
    guard: Any = Guard(app, settings, Metrics(), Admission(settings), routes)

    async def ask(pairs: int) -> httpx.Response:
        body = {"pairs": [{"user": 1, "item": item} for item in range(pairs)]}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url="http://localhost") as client:
            return await client.post("/v1/predictions", json=body)

    refused = asyncio.run(ask(10_000))
    assert "send at most" in problem(refused, 422)
    assert refused.json()["type"] == ProblemType.BATCH_TOO_LARGE.uri
    assert model.asked <= 3_000
    most = refused.json()["at_most"]
    assert 1_000 <= most < 7_000  # of the seven thousand that were left
    before = model.asked
    problem(asyncio.run(ask(10_000)), 422)  # at once
    assert model.asked == before
    answer = asyncio.run(ask(most // 2))
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["ratings"]) == most // 2


@pytest.mark.parametrize("interval", [False, True])
def test_the_largest_batches_are_answered(untouched: Server, interval: bool) -> None:
    number = 1_000 if interval else 10_000
    pairs = [{"user": 1 + at % 100, "item": 1 + at % 70} for at in range(number)]
    answer = untouched.client.post("/v1/predictions", json={"pairs": pairs, "interval": interval})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert len(found["ratings"]) == number
    few = untouched.client.post("/v1/predictions", json={"pairs": pairs[-7:], "interval": interval}).json()
    assert few["ratings"] == pytest.approx(found["ratings"][-7:], abs=1e-4)  # however they are shared out
    requests = [{"user": user, "why": True, "n": 10} for user in range(1, 101)]
    lists = untouched.client.post("/v1/recommendations/batch", json={"requests": requests}).json()["answers"]
    assert [len(one["items"]) for one in lists] == [10] * 100

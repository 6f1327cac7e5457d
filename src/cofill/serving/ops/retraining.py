"""Retraining by the server: `--retrain daily@03:00`.

A process of its own, with few threads and a low priority, exports what was stored until a day ago, trains a model on it
beside the served one, and lets both make lists for the users of the newest day, which neither has learned. If the new
one is not worse, by more than a standard error, it takes the place of the served one, which is kept for a rollback. The
newest day is laid over it like any live data.

    model.export/          what it was trained on, beside your own files
    model.next/            the new model
    model.trainings.json   the last trainings and their figures
    model.retrain          a file that asks for a training now
"""

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cofill.errors import CofillError, DataError
from cofill.files import json_of, replacing
from cofill.models.lists.rules import Rules
from cofill.models.persistence import copy_model
from cofill.serving.live.events import SECONDS_A_DAY
from cofill.serving.live.export import write_export
from cofill.serving.live.served import ServedModel, read_card
from cofill.serving.live.store import Store
from cofill.serving.settings import ServingSettings, beside
from cofill.workers import THREADS_OF_LIBRARIES, behave_as_worker

log = logging.getLogger("cofill.serving")

_FEWEST_USERS = 20  # that two models are compared by
_MOST_USERS = 2_000
_LENGTH = 10
_MOST_TRAININGS = 20  # that are remembered
_SECONDS_BETWEEN_LOOKS = 1.0


class Comparison(NamedTuple):
    """NDCG@10 of the lists of both models for the users of the newest day."""

    users: int
    served: float
    new: float
    error: float
    """The standard error of the difference."""

    @property
    def not_worse(self) -> bool:
        return self.users >= _FEWEST_USERS and self.new >= self.served - self.error


# In a process of its own


def retrain(settings: ServingSettings, now: float | None = None) -> dict[str, Any]:
    """Train, compare, and put the new model into the folder of the served one if it is not worse."""
    began, model = time.time(), settings.model
    export, following = beside(model, ".export"), beside(model, ".next")
    store = Store.of(settings)
    store.open(make=False)
    try:
        until = store.change_before((began if now is None else now) - SECONDS_A_DAY)
        write_export(export, settings.database, model, until=until)
        words = ["train", *shlex.split(settings.retrain_with or ""), "--live-export", str(export), "--quiet"]
        threads = str(settings.retrain_threads)
        done = subprocess.run(
            [sys.executable, "-m", "cofill.cli", *words, "--threads", threads, "--out", str(following)],
            env={**os.environ, **dict.fromkeys(THREADS_OF_LIBRARIES, threads)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise DataError(f"the training failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
        served, new = (read_until(folder, store, until) for folder in (model, following))
        low, high = served.model.scale
        found = compare(served, new, store.chosen_after(until, (low + high) / 2))
        if found.not_worse:
            copy_model(following, model)
    finally:
        store.close()
    return {
        "time": datetime.fromtimestamp(began, UTC).isoformat(timespec="seconds"),
        "seconds": round(time.time() - began, 1),
        "version": read_card(following).version,
        "promoted": found.not_worse,
        "users": found.users,
        "served_ndcg": round(found.served, 4),
        "new_ndcg": round(found.new, 4),
    }


def read_until(folder: Path, store: Store, until: int) -> ServedModel:
    """A model as it would be served, with all that was stored up to a change."""
    served = ServedModel(folder)
    served.learned = served.learned_of(store.counter().database)
    served.apply(store.changes_since(0, served.learned, until))
    return served


def compare(served: ServedModel, new: ServedModel, chosen: Sequence[tuple[str, str]]) -> Comparison:
    """Both by what users chose that neither knows, in items that both know."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for user, item in chosen:
        if served.has_item(item) and new.has_item(item):
            wanted[user].add(item)
    for user, items in wanted.items():
        items -= _known(served, user) | _known(new, user)  # no list has them
    users = sorted(user for user, items in wanted.items() if items)[:_MOST_USERS]
    if not users:
        return Comparison(0, 0.0, 0.0, 0.0)
    found = np.array([[_ndcg(one, user, wanted[user]) for one in (served, new)] for user in users])
    error = float((found[:, 1] - found[:, 0]).std(ddof=1) / len(users) ** 0.5) if len(users) > 1 else 0.0
    return Comparison(len(users), float(found[:, 0].mean()), float(found[:, 1].mean()), error)


def _known(served: ServedModel, user: str) -> set[str]:
    """The items that a user rated or did something with, as far as a model knows."""
    model = served.model
    index = int(model.users.find([served.person(user)])[0])
    return {str(model.items.id(item)) for item in model.known_items(index).tolist()} if index >= 0 else set()


def _ndcg(served: ServedModel, user: str, wanted: set[str]) -> float:
    listed = served.model.recommend(served.person(user), _LENGTH, **served.within_catalogue(Rules()))
    gains = 1 / np.log2(np.arange(2, _LENGTH + 2))
    hits = sum(gain for gain, one in zip(gains, listed, strict=False) if str(one.item) in wanted)
    return float(hits / gains[: len(wanted)].sum())


def work() -> int:
    behave_as_worker()
    os.nice(10)
    settings = ServingSettings.model_validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        sys.stdout.write(json.dumps(retrain(settings)) + "\n")
    except CofillError as error:
        sys.stdout.write(json.dumps({"failed": str(error)}) + "\n")
        return 1
    return 0


def _end_with_parent() -> None:
    """Stop, with the training, when the pipe from the parent closes, however the parent ended."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


# In the server


class Retrainer(threading.Thread):
    """Starts a training when it is time, or when it is asked for, and has the model read that it promotes."""

    def __init__(self, settings: ServingSettings, reload: Callable[[], object]) -> None:
        super().__init__(name="retrainer", daemon=True)
        self._settings, self._reload = settings, reload
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        assert self._settings.retrain is not None
        asked = beside(self._settings.model, ".retrain")
        due = next_time(self._settings.retrain, datetime.now())
        while not self._stopping.wait(_SECONDS_BETWEEN_LOOKS):
            if asked.exists() or datetime.now() >= due:
                try:
                    asked.unlink(missing_ok=True)
                    self._train()
                except Exception as error:  # the next one may succeed
                    log.error("no new model", exc_info=error)
                due = next_time(self._settings.retrain, datetime.now())

    def _train(self) -> None:
        log.info("training on what was stored until a day ago")
        worker = subprocess.Popen(
            [sys.executable, "-m", "cofill.serving.ops.retraining"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that it ends with all that it has started
        )
        assert worker.stdin is not None
        assert worker.stdout is not None
        with worker.stdin, worker.stdout:
            worker.stdin.write(self._settings.model_dump_json().encode() + b"\n")
            worker.stdin.flush()
            while worker.poll() is None:
                if self._stopping.wait(_SECONDS_BETWEEN_LOOKS / 4):
                    os.killpg(worker.pid, signal.SIGKILL)
                    worker.wait()
                    return
            line = worker.stdout.readline()
        told: dict[str, Any] = json.loads(line) if line else {"failed": f"it ended with {worker.returncode}"}
        if "failed" in told:
            log.error("no new model: %s", told["failed"])
            told = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "promoted": False} | told
        else:
            verdict = "it is served from now on" if told["promoted"] else "the served one stays"
            log.info(
                "model %s: NDCG@10 %.4f, the served one %.4f, for %d users of the newest day; %s",
                *(told[name] for name in ("version", "new_ndcg", "served_ndcg", "users")),
                verdict,
            )
        remember(self._settings.model, told)
        if told["promoted"]:
            self._reload()


def next_time(daily: str, now: datetime) -> datetime:
    """The next time of day, such as daily@03:00, by the clock of this machine."""
    hour, minute = (int(part) for part in daily.partition("@")[2].split(":"))
    due = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return due if due > now else due + timedelta(days=1)


def trainings(model: Path) -> list[dict[str, Any]]:
    """The last trainings, the latest first."""
    try:
        found = json_of(beside(model, ".trainings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return found if isinstance(found, list) else []


def remember(model: Path, told: Mapping[str, Any]) -> None:
    with replacing(beside(model, ".trainings.json")) as draft:
        draft.write_text(json.dumps([told, *trainings(model)][:_MOST_TRAININGS], indent=1), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(work())

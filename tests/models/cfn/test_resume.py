"""A run that is killed goes on from its last checkpoint to exactly the weights of a run that never was."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors

from cofill import CFN, Features
from cofill.data.datasets.world import make_world
from cofill.data.ratings import Ratings
from cofill.errors import CheckpointError
from cofill.models.cfn.checkpoint import Checkpoint
from cofill.progress import Step
from tests.models.cfn.killing import KILLS_ITSELF, killed_after

QUICK: dict[str, Any] = {
    "hidden": [8], "epochs": 4, "patience": 4, "batch": 10, "threads": 1, "checkpoint_seconds": 0
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("resume") / "ratings.csv"
    make_world(users=60, items=40, ratings=900, seed=5).ratings.write(path)
    return path


def fit(file: Path, changes: dict[str, Any], checkpoint: Path | None = None, *, resume: bool = False) -> CFN:
    return CFN(**QUICK | changes).fit(Ratings.read(file), checkpoint=checkpoint, resume=resume)


def weights(model: CFN, folder: Path) -> bytes:
    """As they are on disk."""
    model.save(folder)
    (path,) = folder.glob("weights-*.safetensors")
    return path.read_bytes()


def told(model: CFN) -> list[tuple[object, ...]]:
    """What the history says, but how long it took."""
    return [(r.rows, r.phase, r.epoch, r.loss, r.learning_rate, r.lowered) for r in model.history]


def test_killed_in_the_search_and_again_in_the_training(file: Path, tmp_path: Path) -> None:
    """By a real SIGKILL: at the end of an epoch, then in the middle of one."""
    checkpoint = tmp_path / "checkpoint.safetensors"
    for resume, saves, steps in (("anew", 2, 0), ("resume", 4, 2)):
        words = [str(file), str(checkpoint), resume, str(saves), str(steps), json.dumps(QUICK)]
        done = subprocess.run([sys.executable, "-c", KILLS_ITSELF, *words], cwd=Path(__file__).parents[3], check=False)
        assert done.returncode == -signal.SIGKILL
    resumed = fit(file, {}, checkpoint, resume=True)
    never_killed = fit(file, {})
    assert weights(resumed, tmp_path / "a") == weights(never_killed, tmp_path / "b")
    assert resumed.measures == never_killed.measures
    assert told(resumed) == told(never_killed)


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "a rate that is lowered": {"learning_rate": 0.8, "weight_decay": 0.0, "epochs": 6, "decoder": "network"},
    "the best weights": {
        "refit": False, "epochs": 40, "patience": 2, "learning_rate": 0.2, "weight_decay": 0.0, "decoder": "network",
        "learning_rate_decay": 0.0,
    },
    "a stack, pre-trained, with features": {
        "hidden": [8, 4, 8], "pretrain": True, "pretrain_epochs": 2, "inner_epochs": 2, "cold_ratio": 0.2,
    },
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_every_checkpoint_leads_to_the_same_end(case: str, file: Path, tmp_path: Path) -> None:
    """Also that of the last epoch, after which nothing is left to do, and one from before the rate was lowered."""
    checkpoint, changes, kept = tmp_path / "checkpoint.safetensors", CASES[case], list[bytes]()
    ratings = Ratings.read(file)
    about = Features.read((np.arange(1, 61), np.random.default_rng(0).normal(size=(60, 2))), name="about")
    features: dict[str, Any] = {"user_features": about} if "features" in case else {}

    def keep(step: Step) -> None:
        if (step.unit == "epoch" or step.note) and checkpoint.exists():  # not before the end of the pre-training
            kept.append(checkpoint.read_bytes())

    never_killed = CFN(**QUICK | changes).fit(ratings, checkpoint=checkpoint, progress=keep, **features)
    expected, last = weights(never_killed, tmp_path / "expected"), never_killed.history[-1]
    assert bool(last.lowered) == (case == "a rate that is lowered")
    if case == "the best weights":
        assert (never_killed.measures["epochs"] or 0) < len(never_killed.history) < 40
    states = list(dict.fromkeys(kept))
    assert len(states) >= 4
    for number, content in enumerate([*states[:-1:3], states[-1]]):
        checkpoint.write_bytes(content)
        resumed = CFN(**QUICK | changes).fit(ratings, checkpoint=checkpoint, resume=True, **features)
        assert weights(resumed, tmp_path / str(number)) == expected
        assert told(resumed) == told(never_killed)


@pytest.mark.parametrize(
    ("changes", "saves", "phase"),
    [({"refit": False}, 2, "search"), ({}, 6, "train")],
    ids=["search", "train"],
)
def test_killed_in_the_second_of_two_networks(
    file: Path, tmp_path: Path, changes: dict[str, Any], saves: int, phase: str
) -> None:
    """The first is not trained again, and its file says no more than that it is done."""
    changes = {"orientation": "both", **changes}
    checkpoint = tmp_path / "checkpoint.safetensors"
    second = tmp_path / ".checkpoint.second.safetensors"
    state = killed_after(second, saves, lambda: fit(file, changes, checkpoint))
    assert state["phase"] == phase
    epochs: list[str] = []
    resumed = CFN(**QUICK | changes).fit(
        Ratings.read(file),
        checkpoint=checkpoint,
        resume=True,
        progress=lambda step: epochs.append(step.what) if step.unit == "epoch" else None,
    )
    assert all(what.endswith("rows are users") for what in epochs)
    never_killed = fit(file, changes)
    assert weights(resumed, tmp_path / "a") == weights(never_killed, tmp_path / "b")
    assert resumed.measures == never_killed.measures
    assert told(resumed) == told(never_killed)
    assert checkpoint.exists()
    assert not second.exists()


def test_half_written_drafts_do_not_matter(file: Path, tmp_path: Path) -> None:
    """What a kill in the middle of writing leaves: a draft beside the checkpoint, or no checkpoint at all."""
    checkpoint = tmp_path / "checkpoint.safetensors"
    (tmp_path / ".checkpoint.safetensors.4711.part").write_bytes(b"half a file")
    resumed = fit(file, {}, checkpoint, resume=True)
    assert weights(resumed, tmp_path / "a") == weights(fit(file, {}), tmp_path / "b")


@pytest.fixture(scope="module")
def finished(file: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The checkpoint that a run leaves."""
    checkpoint = tmp_path_factory.mktemp("finished") / "checkpoint.safetensors"
    fit(file, {}, checkpoint)
    return checkpoint.read_bytes()


def test_a_checkpoint_of_other_settings_or_ratings_is_refused(file: Path, finished: bytes, tmp_path: Path) -> None:
    """How often it is saved may change."""
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(finished)
    lines = file.read_text().splitlines()
    one_changed = tmp_path / "ratings.csv"
    user, item, rating, *time_of = lines[1].split(",")
    lines[1] = ",".join([user, item, "3.0" if float(rating) != 3 else "3.5", *time_of])
    one_changed.write_text("\n".join(lines) + "\n")
    others = ({"seed": 1}, {"learning_rate": 0.01}, {"hidden": [9]}, {"epochs": 5}, {"threads": 2})
    for ratings, changes in ((one_changed, {}), *((file, other) for other in others)):
        with pytest.raises(CheckpointError, match="other ratings, side information or settings") as caught:
            fit(ratings, changes, checkpoint, resume=True)
        assert str(checkpoint) in str(caught.value)
        assert "\n" not in str(caught.value)
    fit(file, {"checkpoint_seconds": 9}, checkpoint, resume=True)


def test_a_truncated_checkpoint_or_something_else_is_refused(file: Path, finished: bytes, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    cut = [finished[:keep] for keep in (0, 7, 100, len(finished) // 2, len(finished) - 9)]
    for content in (*cut, b"no checkpoint", b"\x80\x04]", b"PK\x03\x04", b"{}" * 50):
        checkpoint.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: the checkpoint cannot be read"):
            fit(file, {}, checkpoint, resume=True)


def test_without_resume_an_old_checkpoint_is_replaced(file: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(b"of an earlier run")
    fit(file, {}, checkpoint)
    fit(file, {}, checkpoint, resume=True)


def test_a_run_that_cannot_save_says_so(file: Path, tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("a file")
    with pytest.raises(CheckpointError, match="written there"):
        fit(file, {}, tmp_path / "in the way" / "checkpoint.safetensors")


def test_long_arrays_are_not_in_the_head_of_the_file(tmp_path: Path) -> None:
    """It may have 100 MB, and what was judged is as long as the validation part."""
    kept = Checkpoint(tmp_path / "run.safetensors", run="a", seconds=0)
    weights, judged = {"bias": np.ones(3, np.float32)}, np.linspace(1, 5, 100_000, dtype=np.float32)
    kept.save(weights, None, {"epoch": 3, "judged": judged})
    with safetensors.safe_open(kept.path, framework="np") as file:
        assert sum(len(value) for value in file.metadata().values()) < 200
    loaded = kept.load()
    assert loaded is not None
    found, state = loaded
    assert list(found) == ["bias"]
    np.testing.assert_array_equal(state.pop("judged"), judged)
    assert state == {"epoch": 3}

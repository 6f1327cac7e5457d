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

from cofill import CFN
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


def kill_after(file: Path, changes: dict[str, Any], checkpoint: Path, saves: int) -> dict[str, Any]:
    """Train until it has saved that often; returns where the checkpoint stands."""
    return killed_after(checkpoint, saves, lambda: fit(file, changes, checkpoint))


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
    assert [(r.phase, r.epoch, r.loss) for r in resumed.history] == [
        (r.phase, r.epoch, r.loss) for r in never_killed.history
    ]


def test_killed_when_the_best_weights_are_kept(file: Path, tmp_path: Path) -> None:
    """The best epoch lies before the kill: its weights must have survived too."""
    changes: dict[str, Any] = {"refit": False, "epochs": 40, "patience": 6, "learning_rate": 0.2, "weight_decay": 0.0}
    changes |= {"decoder": "network", "learning_rate_decay": 0.0}
    checkpoint = tmp_path / "checkpoint.safetensors"
    never_killed = fit(file, changes)
    best = int(never_killed.measures["epochs"] or 0)
    assert best < len(never_killed.history) < 40
    state = kill_after(file, changes, checkpoint, best + 2)
    assert state["best_epoch"] == best < state["epoch"]
    resumed = fit(file, changes, checkpoint, resume=True)
    assert weights(resumed, tmp_path / "a") == weights(never_killed, tmp_path / "b")


@pytest.mark.parametrize("saves", [1, 5, 8])
def test_killed_when_the_learning_rate_is_lowered(file: Path, tmp_path: Path, saves: int) -> None:
    """Before and after: the first weights are those of a rate with which nothing is learned."""
    changes = {"learning_rate": 0.8, "weight_decay": 0.0, "epochs": 6, "decoder": "network"}
    checkpoint = tmp_path / "checkpoint.safetensors"
    state = kill_after(file, changes, checkpoint, saves)
    assert state["lowered"] == (0 if saves < 5 else 1)
    resumed, never_killed = fit(file, changes, checkpoint, resume=True), fit(file, changes)
    assert never_killed.history[-1].lowered == 1
    assert weights(resumed, tmp_path / "a") == weights(never_killed, tmp_path / "b")


@pytest.mark.parametrize(
    ("changes", "saves", "phase"),
    [({}, 2, "search"), ({}, 6, "train"), ({"refit": False}, 2, "search")],
    ids=["search", "train", "no refit"],
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
    assert [(r.rows, r.phase, r.epoch, r.loss) for r in resumed.history] == [
        (r.rows, r.phase, r.epoch, r.loss) for r in never_killed.history
    ]
    assert checkpoint.exists()
    assert not second.exists()


def test_a_checkpoint_of_every_epoch_leads_to_the_same_end(file: Path, tmp_path: Path) -> None:
    """Also that of the last one, after which nothing is left to do."""
    checkpoint = tmp_path / "checkpoint.safetensors"
    kept: list[bytes] = []
    model = CFN(**QUICK)

    def keep(step: Step) -> None:
        if step.unit == "epoch":
            kept.append(checkpoint.read_bytes())

    model.fit(Ratings.read(file), checkpoint=checkpoint, progress=keep)
    assert len(kept) == len(model.history) == QUICK["epochs"] + (model.measures["epochs"] or 0)
    expected = weights(model, tmp_path / "expected")
    for number, content in enumerate(kept):
        checkpoint.write_bytes(content)
        assert weights(fit(file, {}, checkpoint, resume=True), tmp_path / str(number)) == expected


def test_half_written_drafts_do_not_matter(file: Path, tmp_path: Path) -> None:
    """What a kill in the middle of writing leaves: a draft beside the checkpoint, or no checkpoint at all."""
    checkpoint = tmp_path / "checkpoint.safetensors"
    (tmp_path / ".checkpoint.safetensors.4711.part").write_bytes(b"half a file")
    resumed = fit(file, {}, checkpoint, resume=True)
    assert weights(resumed, tmp_path / "a") == weights(fit(file, {}), tmp_path / "b")


@pytest.mark.parametrize(
    "changes", [{"seed": 1}, {"learning_rate": 0.01}, {"hidden": [9]}, {"epochs": 5}, {"threads": 2}]
)
def test_a_checkpoint_of_other_settings_is_refused(file: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    fit(file, {}, checkpoint)
    with pytest.raises(CheckpointError, match="other ratings, side information or settings") as caught:
        fit(file, changes, checkpoint, resume=True)
    assert str(checkpoint) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_how_often_it_is_saved_may_change(file: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    fit(file, {}, checkpoint)
    fit(file, {"checkpoint_seconds": 9}, checkpoint, resume=True)


def test_a_checkpoint_of_other_ratings_is_refused(file: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    fit(file, {}, checkpoint)
    lines = file.read_text().splitlines()
    one_changed = tmp_path / "ratings.csv"
    user, item, rating, *time_of = lines[1].split(",")
    lines[1] = ",".join([user, item, "3.0" if float(rating) != 3 else "3.5", *time_of])
    one_changed.write_text("\n".join(lines) + "\n")
    with pytest.raises(CheckpointError, match="other ratings, side information or settings"):
        fit(one_changed, {}, checkpoint, resume=True)


@pytest.mark.parametrize("keep", [0, 7, 100, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(file: Path, tmp_path: Path, keep: float) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    fit(file, {}, checkpoint)
    content = checkpoint.read_bytes()
    checkpoint.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(CheckpointError, match=r"checkpoint\.safetensors: the checkpoint cannot be read"):
        fit(file, {}, checkpoint, resume=True)


@pytest.mark.parametrize("content", [b"", b"no checkpoint", b"\x80\x04]", b"PK\x03\x04", b"{}" * 50])
def test_something_else_is_refused(file: Path, tmp_path: Path, content: bytes) -> None:
    checkpoint = tmp_path / "checkpoint.safetensors"
    checkpoint.write_bytes(content)
    with pytest.raises(CheckpointError, match="cannot be read"):
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

"""cofill train --algorithm: the baselines on the command line, and every other command on their models."""

import json
from pathlib import Path

import pytest

from cofill.models import algorithms
from cofill.models.bias_models import BiasSettings
from tests.cli.conftest import Run

# What keeps each of them quick on a small world.
_SMALL = {
    "cfn": ["--hidden=8", "--epochs=2", "--threads=1"],
    "means": [],
    "als-wr": ["--set=rank=4", "--set=iterations=2"],
    "svdfeature": ["--set=rank=4", "--set=epochs=2"],
    "bpmf": ["--set=rank=3", "--set=samples=2", "--set=burn-in=1"],
    "llorma": ["--set=rank=2", "--set=anchors=3", "--set=iterations=2"],
    "lists": [],
    "popularity": [],
    "recent-popularity": [],
    "markov": [],
    "item-knn": ["--set=neighbours=20", "--set=shrinkage=1"],
    "ease": ["--set=penalty=auto"],
    "ials": ["--set=rank=4", "--set=unobserved=0.1", "--set=penalty=0.01", "--set=iterations=2"],
    "autorec": ["--hidden=8", "--epochs=2", "--threads=1"],
}


@pytest.mark.parametrize("name", algorithms())
def test_every_algorithm_is_trained_and_asked(name: str, run: Run, world: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    trained = run("train", world / "ratings.csv", "--algorithm", name, "--out", model, "--quiet", *_SMALL[name])
    assert trained.code == 0, trained.err
    assert json.loads((model / "model.json").read_text())["kind"] == name
    found = json.loads(run("recommend", model, "--user", "1", "-n", "3", "--json").out)
    assert len(found) == 3
    assert json.loads(run("evaluate", model, world / "ratings.csv", "--json").out)["rmse"] < 2
    similar = run("similar", model, "--item", str(found[0]["item"]))
    if name in ("popularity", "recent-popularity", "markov"):
        assert similar.err.startswith(f"cofill: a model of '{name}' knows nothing that makes one item like another")
    else:
        assert similar.code == 0


def test_a_setting_that_the_algorithm_does_not_have(run: Run, world: Path, tmp_path: Path) -> None:
    result = run("train", world / "ratings.csv", "--algorithm", "means", "--hidden", "8", "--out", tmp_path / "m")
    assert result.code == 1
    known = ", ".join(BiasSettings.model_fields)
    assert result.err == f"cofill: there is no setting 'hidden'; known: {known}\n"


def test_wrong_calls(run: Run, world: Path, tmp_path: Path) -> None:
    call = ("train", world / "ratings.csv", "--algorithm", "means", "--out", tmp_path / "m")
    assert run(*call, "--resume").err == (
        "cofill: means keeps no checkpoints, so there is nothing to resume; leave out --resume\n"
    )
    other = ("train", world / "ratings.csv", "--algorithm", "als-wr", "--out", tmp_path / "m")
    assert run(*other, "--item-features", world / "items.csv").err == (
        "cofill: als-wr makes no use of side information; leave out --item-features\n"
    )
    result = run("train", world / "ratings.csv", "--algorithm", "magic", "--out", tmp_path / "m")
    assert result.code == 2
    assert "invalid choice: 'magic'" in result.err
    result = run(*call, "--set", "mean_damping")
    assert result.code == 2
    assert "must be NAME=VALUE, such as rank=50, got 'mean_damping'" in result.err
    assert not (tmp_path / "m").exists()


def test_a_baseline_cannot_be_told_about_somebody_by_features(run: Run, world: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    run("train", world / "ratings.csv", "--algorithm", "means", "--out", model, "--quiet")
    result = run("recommend", model, "--describe", "age=25")
    assert result.code == 1
    assert "features" in result.err

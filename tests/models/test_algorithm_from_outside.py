"""The algorithm of docs/how-to/own-algorithm.md, of another package, in every command. The baselines need no torch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cofill.data.datasets.world import make_world
from tests.models.stored_models import make, pairs
from tests.pages import ROOT
from tests.warm_processes import run_warm

PAGE = (ROOT / "docs" / "how-to" / "own-algorithm.md").read_text(encoding="utf-8")
MODULE = PAGE.partition("cat > item_means.py <<'END'\n")[2].partition("END\n")[0]


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an installed package that brings an algorithm, and ratings."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "item_means.py").write_text(MODULE)
    about = folder / "item_means-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: item-means\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[cofill.algorithms]\nitem-means = item_means:ENTRY\n")
    make_world(users=60, items=40, ratings=900, seed=3).ratings.write(folder / "ratings.csv")
    return folder


def run(folder: Path, *words: str) -> str:
    paths = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    done = run_warm([*words], cwd=folder, env=os.environ | {"PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_works_in_every_command(outside: Path) -> None:
    train = ("train", "ratings.csv", "--algorithm", "item-means", "--set", "mean_damping=3", "--out", "m", "--json")
    trained = json.loads(run(outside, *train))
    assert trained["ratings"] == 900
    first = json.loads(run(outside, "recommend", "m", "--user", "1", "-n", "3", "--json"))
    assert len(first) == 3
    measured = json.loads(run(outside, "evaluate", "m", "ratings.csv", "--json"))
    assert 0.3 < measured["rmse"] < 1.3
    run(outside, "explain", "m", "2", "--user", "1")
    run(outside, "report", "m", "--out", "report.html")
    assert "item-means" in (outside / "report.html").read_text()


def test_it_takes_part_in_the_tables(outside: Path) -> None:
    some = ("--only", "item means", "fitted means")
    words = ("reproduce", "rmse", "--dataset", "ratings.csv", "--quick", *some, "--out", "results")
    assert "item means" in run(outside, *words)


@pytest.mark.parametrize("name", ["means", "als-wr", "svdfeature", "bpmf", "llorma"])
def test_a_baseline_loads_and_answers_without_torch(name: str, tmp_path: Path) -> None:
    made = make(name)
    made.save(tmp_path)
    code = f"""
import sys
from cofill import Recommender
model = Recommender.load({str(tmp_path)!r})
model.predict({pairs(made)!r})
model.recommend("ann")
model.add_ratings([("ann", "film 0", 3.0)])
model.explain("bob", "film 1")
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)

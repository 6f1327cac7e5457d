"""Everything but the engines of torch, other devices, `cofill.nn` and training with workers does without torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cofill.data.datasets.world import make_world

# As if it was not installed.
BLOCKED = "import sys\nsys.modules['torch'] = None\n"


def run_blocked(code: str, folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + code, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "making ratings" not in done.stderr
    return done.stdout


def command(folder: Path, *words: str) -> str:
    return run_blocked("from cofill.cli import main\nsys.exit(main(sys.argv[1:]))", folder, *words)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("without")
    make_world(users=60, items=40, ratings=900, seed=5).write(folder)
    return folder


def test_the_commands(world: Path) -> None:
    """With side information: every part of the default network takes part."""
    described = ("--item-features", "movies.csv", "--user-features", "users.csv")
    some = ("--set", "epochs=3", "--set", "hidden=8")
    trained = json.loads(command(world, "train", "ratings.csv", "--out", "model", *described, *some, "--json"))
    assert trained["ratings"] == 900
    assert len(json.loads(command(world, "recommend", "model", "--user", "1", "-n", "3", "--json"))) == 3
    assert 0.3 < json.loads(command(world, "evaluate", "model", "ratings.csv", "--json"))["rmse"] < 1.3
    command(world, "explain", "model", "2", "--user", "1")


def test_deep_and_pretrained_networks_both_orientations_and_autorec(world: Path) -> None:
    run_blocked(
        """
from cofill import CFN, Ratings
from cofill.models.baselines.autorec import AutoRec
ratings = Ratings.read("ratings.csv")
quick = {"epochs": 2, "pretrain_epochs": 1, "inner_epochs": 1}
CFN(hidden=(8, 4, 8), pretrain=True, decoder="network", **quick).fit(ratings).recommend(1)
CFN(hidden=8, orientation="both", **quick).fit(ratings).recommend({1: 5.0})
AutoRec(hidden=8, epochs=2).fit(ratings).predict(ratings)
""",
        world,
    )


def test_what_is_imported_to_serve(world: Path) -> None:
    run_blocked("import cofill.serving, cofill.cli.serve, cofill.tuning.search, cofill.experiments.plan", world)


def test_what_needs_it_says_so(world: Path) -> None:
    said = run_blocked(
        """
from cofill import CFN, CofillError, Ratings
ratings = Ratings.read("ratings.csv")
for settings in ({"engine": "dense"}, {"device": "cuda"}):
    try:
        CFN(**settings).fit(ratings)
    except CofillError as problem:
        print(problem)
try:
    import cofill.nn
except ImportError as problem:
    print(problem)
""",
        world,
    )
    needs = "needs torch, which is not installed. Run: pip install 'cofill[torch]'"
    wanting = ["engine 'dense'", "device 'cuda'", "cofill.nn"]
    assert said.splitlines() == [f"{what} {needs}" for what in wanting]

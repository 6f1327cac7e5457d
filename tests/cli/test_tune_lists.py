"""cofill tune --goal ndcg: for lists of ratings and of interactions, and what is refused."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofill.config import ListSettings, read_settings_file
from cofill.tuning.search import run_trials
from cofill.tuning.search_data import SearchData
from cofill.tuning.study import Plan, open_study
from tests.cli.conftest import QUICK, Run

TRIALS = ("--trials", "3")
PLAYS = ("--count-column", "plays")  # said, so that nobody has to be told that these are interactions


def search_here(data: SearchData, plan: Plan, *, url: str, name: str, trials: int, **_: Any) -> None:
    """What workers do, without the seconds that a process takes to start."""
    run_trials(open_study(url, name, plan), plan, data, trials)


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cofill.tuning.search.search", search_here)


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plays") / "plays.csv"
    pairs = [(user, (user * 7 + step * (1 + user % 3)) % 20) for user in range(30) for step in range(8)]
    path.write_text("\n".join(["user,item,plays", *(f"{u},{i},{1 + (u + i) % 5}" for u, i in pairs), ""]))
    return path


def test_lists_of_ratings(run: Run, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file of settings, for the network with its lists and for lists alone."""
    out = tmp_path / "t"
    done = run("tune", world / "ratings.csv", "--goal", "ndcg", "--out", out, *TRIALS, "--validation", 0.2)
    assert done.code == 0, done
    genes = "list_penalty, popularity_discount, list_grade_power, half_life"
    assert done.err.startswith(f"900 ratings; searching {genes}, scored by validation NDCG@10\n")
    assert "validation NDCG@10" in done.out
    assert "RMSE" not in done.out + done.err
    best = read_settings_file(out / "best.toml")
    assert set(best) == {"seed", *genes.split(", ")}
    told = json.loads((out / "trials.json").read_text())
    scores = [entry["validation_ndcg@10"] for entry in told]
    defaults = ListSettings()
    assert told[0]["settings"] == {name: getattr(defaults, name) for name in genes.split(", ")}
    comment, _, repeated = (out / "best.toml").read_text().splitlines()[:3]
    assert comment == f"# validation NDCG@10 {max(scores):.5f} in trial {scores.index(max(scores))}, the best of 3"
    again = run(*shlex.split(repeated)[2:], "--out", out, "--quiet", "--json")
    summary = json.loads(again.out)
    assert (summary["goal"], summary["complete"], again.err) == ("ndcg", 3, "")
    assert summary["best"]["validation_ndcg@10"] == max(scores)
    assert summary["best"]["settings"] == best
    monkeypatch.chdir(tmp_path)
    train = done.err.splitlines()[-1]
    assert train == f"next: cofill train {world / 'ratings.csv'} --out model --config {out / 'best.toml'}"
    words = shlex.split(train)[2:]
    for more in (QUICK, ("--algorithm", "lists", "--out", "lists")):
        trained = run(*words, *more, "--quiet", "--json")
        assert trained.code == 0, trained
    for model in ("model", "lists"):
        kept = json.loads((tmp_path / model / "model.json").read_text())["settings"]
        assert {name: kept[name] for name in best} == best


def test_interactions_are_searched_for_lists(
    run: Run, plays: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without times no half-life; with counts, the confidence in them."""
    done = run("tune", plays, *PLAYS, "--out", tmp_path / "t", *TRIALS, "--sampler", "tpe", "--list-rank", 15)
    assert done.code == 0, done
    assert "240 interactions; searching list_penalty, popularity_discount, confidence, scored by" in done.err
    best = read_settings_file(tmp_path / "t" / "best.toml")
    assert set(best) == {"seed", "list_rank", "list_penalty", "popularity_discount", "confidence"}
    (again,) = (line[2:] for line in (tmp_path / "t" / "best.toml").read_text().splitlines() if "cofill tune" in line)
    repeated = run(*shlex.split(again)[1:], "--out", tmp_path / "t", "--quiet", "--json")
    assert json.loads(repeated.out)["complete"] == 3
    monkeypatch.chdir(tmp_path)
    trained = run(*shlex.split(done.err.splitlines()[-1].removeprefix("next: "))[1:], "--quiet", "--json")
    assert trained.code == 0, trained
    kept = json.loads((tmp_path / "model" / "model.json").read_text())
    assert {name: kept["settings"][name] for name in best} == best


def test_the_best_of_both_goals_in_one_file(run: Run, world: Path, tmp_path: Path) -> None:
    network = ("--epochs", 2, "--hidden", 6, "--validation", 0.2)
    by_rmse = run("tune", world / "ratings.csv", "--out", tmp_path / "r", "--trials", 1, *network, "--quiet")
    assert by_rmse.code == 0, by_rmse
    config = tmp_path / "r" / "best.toml"
    words = ("tune", world / "ratings.csv", "--goal", "ndcg", "--config", config, "--out", tmp_path / "n")
    assert run(*words, "--trials", 1, "--quiet").code == 0
    before, after = read_settings_file(config), read_settings_file(tmp_path / "n" / "best.toml")
    assert {name: after[name] for name in before} == before
    assert "list_penalty" in after


def test_goals_do_not_mix(run: Run, refused: Callable[..., str], world: Path, tmp_path: Path) -> None:
    words = ("tune", world / "ratings.csv", "--out", tmp_path / "t", "--trials", 1, "--quiet")
    assert run(*words, "--goal", "ndcg").code == 0
    assert "is about goal ndcg, not rmse; go on with what it is about, or begin another with" in refused(*words)
    other = refused(*words, "--goal", "ndcg", "--validation-by", "time")
    assert "is about validation_by random, not time" in other


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--goal rmse", "interactions have no ratings whose RMSE could be measured; use --goal ndcg"),
        ("--epochs 3", "epochs is a setting of the network, which learns from ratings alone; leave it out"),
        ("--ranges paper", "the ranges paper are of the network; leave out --ranges, or use --goal rmse"),
        (
            "--validation 0",
            "a search scores its trials on validation interactions; set validation above 0, such as 0.1",
        ),
        ("--half-life 9d", "half_life needs to know when people did something, and these interactions have no times"),
        ("--validation-by time", "have no times to split by"),
    ],
)
def test_what_interactions_cannot_be_searched_with(
    refused: Callable[..., str], plays: Path, tmp_path: Path, flags: str, says: str
) -> None:
    assert says in refused("tune", plays, *PLAYS, "--out", tmp_path / "t", "--quiet", *flags.split())


def test_how_the_network_is_validated_is_its_own_affair(refused: Callable[..., str], world: Path) -> None:
    message = refused("tune", world / "ratings.csv", "--validation-by", "time")
    assert message == "--validation-by is for --goal ndcg; leave it out: the network is validated at random\n"

"""cofill reproduce: from the command line to the files, also after a kill."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cofill.cli.options import named_data_set
from tests.cli.conftest import Run
from tests.experiments.conftest import TINY
from tests.warm_processes import WarmProcess, run_warm


@pytest.fixture
def words(world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The options of a quick look that is quicker still, at a described file."""
    monkeypatch.setattr("cofill.experiments.plan.QUICK", {**TINY, "cfn": {"epochs": 2, "hidden": 30}})
    described = ["--user-features", world / "users.csv", "--feature-kind", "age=number"]
    return ["--dataset", world / "ratings.csv", *described, "--quick", "--quiet", "--out", tmp_path / "out"]


def test_a_picture_a_table_and_json(run: Run, words: list[object], tmp_path: Path) -> None:
    result = run("reproduce", "training-ratio", *words, "--only", "fitted means", "V-CFN")
    assert result.code == 0, result.err
    folder = tmp_path / "out" / "training-ratio-ratings-quick"
    assert sorted(path.name for path in folder.iterdir()) == [
        f"training-ratio.{ending}" for ending in ("json", "md", "svg")
    ]
    page = (folder / "training-ratio.md").read_text(encoding="utf-8")
    assert "**A quick look: few epochs, small models, few splits. Not the result.**" in page
    assert "![ratings: RMSE against the share trained on](training-ratio.svg)" in page
    assert "- ALS-WR at 10%, ALS-WR at 50%, ALS-WR at 90%, SVDFeature at 10%, " in page
    document = json.loads((folder / "training-ratio.json").read_text(encoding="utf-8"))
    assert [line["label"] for line in document["chart"]["lines"]] == ["fitted means", "V-CFN"]
    assert document["command"].startswith(f"cofill reproduce training-ratio --dataset {words[1]} --user-features ")
    assert f"{document['tables'][0]['rows'][0]['V-CFN']['mean']:.4f}" in result.out
    again = run("reproduce", "training-ratio", *words, "--only", "fitted means", "V-CFN", "--json")
    assert json.loads(again.out) | {"command": document["command"]} == document


def test_cost_is_measured_in_processes(run: Run, words: list[object], tmp_path: Path) -> None:
    result = run("reproduce", "cost", *words, "--only", "fitted means", "V-CFN", "--json")
    assert result.code == 0, result.err
    rows = {row["algorithm"]: row for row in json.loads(result.out)["tables"][0]["rows"]}
    assert rows["V-CFN"]["times V-CFN"] == 1.0
    assert rows["fitted means"]["times V-CFN"] < 1.0
    assert 60 + 40 < rows["fitted means"]["parameters"] <= 60 + 40 + 10  # deviations, the overall mean and variances


def test_a_killed_experiment_goes_on(world: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["reproduce", "rmse", "--dataset", str(world / "ratings.csv")]
    command += ["--quick", "--folds", "4", "--only", "fitted means", "V-CFN", "--out", str(out)]
    process = WarmProcess(command)
    runs = out / "runs"
    deadline = time.monotonic() + 300
    while len(list(runs.glob("*.json")) if runs.exists() else []) < 2:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = {path.name: path.stat().st_mtime_ns for path in runs.glob("*.json")}
    assert 2 <= len(before) < 8
    done = run_warm([*command, "--json"])
    assert done.returncode == 0, done.stderr
    after = {path.name: path.stat().st_mtime_ns for path in runs.glob("*.json")}
    assert len(after) == 8
    assert before.items() <= after.items()
    rows = {row["algorithm"]: row for row in json.loads(done.stdout)["tables"][0]["rows"]}
    assert len(rows["V-CFN"]["RMSE"]["values"]) == 4
    assert "8 of 8 runs" in done.stderr


def test_an_experiment_that_is_told_to_stop_leaves_nothing_behind(world: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    command = ["reproduce", "rmse", "--dataset", str(world / "ratings.csv")]
    command += ["--quick", "--folds", "9", "--only", "V-CFN", "--workers", "2", "--out", str(tmp_path / "out")]
    process = WarmProcess(command, env=os.environ | {"TMPDIR": str(scratch)})
    deadline = time.monotonic() + 300
    while not list((tmp_path / "out").glob("runs/*.json")):  # both workers are at work
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert said.endswith("the same command goes on where this one stopped\n")
    assert not list(scratch.glob("cofill-*"))


def test_the_command_has_every_option_even_zero(run: Run, words: list[object], tmp_path: Path) -> None:
    lines = Path(str(words[1])).read_text(encoding="utf-8").splitlines()[1:]
    own = tmp_path / "own.csv"
    own.write_text("".join(f"{','.join(line.split(',')[:3])}\n" for line in lines), encoding="utf-8")
    columns = ["--user-column", "0", "--item-column", "1", "--rating-column", "2", "--no-header"]
    only = ["--dataset", own, "--quick", "--quiet", "--out", tmp_path / "out", "--only", "fitted means", "--json"]
    result = run("reproduce", "rmse", *only, *columns)
    assert result.code == 0, result.err
    assert json.loads(result.out)["command"].split()[-len(columns) :] == columns


def test_a_file_called_as_a_data_set_is_a_file_and_a_folder_is_not(
    run: Run, words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ml-100k").write_bytes(Path(str(words[1])).read_bytes())
    result = run("reproduce", "rmse", "--dataset", "ml-100k", *words[2:], "--only", "fitted means", "--json")
    assert result.code == 0, result.err
    assert json.loads(result.out)["splits"] == "random 90/10, seeds 0 to 1"  # not folds that were published
    (tmp_path / "ml-1m").mkdir()
    assert [named_data_set(name) for name in ("ml-1m", "ml-100k", "ml-1m.csv")] == [True, False, False]


def test_other_ratings_of_the_same_name_are_refused(
    run: Run, refused: Callable[..., str], words: list[object], tmp_path: Path
) -> None:
    only = [*words[2:], "--only", "fitted means"]
    assert run("reproduce", "rmse", "--dataset", words[1], *only).code == 0
    other = tmp_path / "other" / "ratings.csv"
    other.parent.mkdir()
    other.write_text("\n".join(Path(str(words[1])).read_text("utf-8").splitlines()[:-1]) + "\n", encoding="utf-8")
    path = tmp_path / "out" / "rmse-ratings-quick" / "rmse.json"
    before = path.read_bytes()
    assert refused("reproduce", "rmse", "--dataset", other, *only) == (
        f"{path} is about other ratings that are called ratings too; name another folder with out=...\n"
    )
    assert path.read_bytes() == before
    assert run("reproduce", "rmse", "--dataset", words[1], *only).code == 0


def test_runs_of_another_version_are_told_and_fresh_does_them_again(
    run: Run, words: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ("reproduce", "rmse", *words, "--only", "fitted means")
    assert run(*call).code == 0
    for place in ("runs", "plan"):
        monkeypatch.setattr(f"cofill.experiments.{place}.version", lambda: "another")
    assert "2 finished runs are of another version or commit; --fresh runs them again\n" in run(*call).err
    assert "another version" not in run(*call, "--fresh").err
    assert "another version" not in run(*call).err


Refused = Callable[..., str]


def test_what_is_refused(refused: Refused, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = "rmse, side-information, loss, training-ratio, convergence, non-linearity, cost, ranking"
    assert refused("reproduce", "rsme") == f"there is no experiment 'rsme'; there are {names}\n"
    only = refused("reproduce", "loss", "--only", "BPMF", "--dataset", world / "ratings.csv")
    assert only == "--only BPMF: not in loss; there are V-CFN, U-CFN\n"
    none = "V-CFN++ needs side information, and there is none; give some, such as item_features=...\n"
    bare = ("--dataset", world / "ratings.csv", "--quiet", "--out", tmp_path / "out")
    assert refused("reproduce", "rmse", "--only", "V-CFN++", *bare) == none
    assert refused("reproduce", "side-information", *bare).startswith("side-information is about side information, ")
    assert not (tmp_path / "out").exists()
    monkeypatch.setenv("COFILL_DATA", str(tmp_path))
    monkeypatch.setenv("COFILL_CACHE", str(tmp_path))
    assert refused("reproduce", "rmse", "--dataset", "douban").startswith("douban cannot be downloaded.")
    assert refused("reproduce", "rmse", "--dataset", "ml1m").startswith("ml1m: neither a file nor a data set")

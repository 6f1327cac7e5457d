"""benchmarks/peers.py: what is kept, shown and said of failures, without installing anything; a tiny world is real."""

import json
import sys
import warnings
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cofill import algorithm, evaluate, evaluate_ranking

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module("peers")


@pytest.fixture
def library(peers: Any) -> SimpleNamespace:
    """The modules of the folder, by their names."""
    names = ("answering", "catalogue", "environments", "measuring", "problems", "results", "searching", "tables")
    return SimpleNamespace(**{name: import_module(f"peer_libraries.{name}") for name in names})


@pytest.fixture
def asked(peers: Any, tmp_path: Path) -> Any:
    """Calls the program on the tiny world, with folders of the test's own."""

    def ask(*more: str) -> dict[str, dict[str, Any]]:
        found = tmp_path / "found.json"
        folders = ["--out", str(tmp_path / "out"), "--venv", str(tmp_path / "venv"), "--json", str(found)]
        peers.main(["--datasets", "tiny", *folders, "--table", str(tmp_path / "table.md"), *more])
        return {result["peer"]: result for result in json.loads(found.read_text())["results"]}

    return ask


@pytest.fixture
def stored(library: SimpleNamespace, tmp_path: Path) -> Any:
    """A store, and a function that puts a result of ratings or of lists into it."""
    store = library.results.Store(tmp_path / "runs")
    part = {"users": 3, "items": 4, "train": 20, "test": 6, "cold": 1, "lists": 3}

    def put(peer: str, values: dict[str, list[float]], split: int = 0, seconds: float = 2.0) -> None:
        arrays = {name: np.array(of) for name, of in values.items()}
        measures = {name: float(of.mean()) for name, of in arrays.items() if name != "squares"}
        if "squares" in arrays:
            measures |= {"rmse": float((arrays["squares"].sum() / 6) ** 0.5), "mae": 0.5}
            arrays |= {"absolutes": arrays["squares"], "ratings": np.full(3, 2.0)}
        lap = {"wall": 2 * seconds, "processor": seconds}
        store.write(
            library.results.Result(
                "tiny", split, peer, "done", part=part, measures=measures, peak_bytes=5_000_000,
                seconds={"fit": lap, "predict": lap, "list": lap},
            ),
            arrays,
        )  # fmt: skip

    return SimpleNamespace(store=store, put=put)


def test_the_table_of_stored_results(stored: Any, library: SimpleNamespace) -> None:
    stored.put("cofill-lists", {"ndcg": [0.5, 0.7, 0.6], "recall": [0.5, 0.5, 0.5]})
    stored.put("popularity", {"ndcg": [0.25, 0.35, 0.3], "recall": [0.6, 0.6, 0.6]}, seconds=0.5)
    stored.put("cofill", {"squares": [1.0, 2.0, 3.0], "ndcg": [0.4, 0.4, 0.4], "recall": [0.4, 0.4, 0.4]})
    stored.put("surprise-svd", {"squares": [4.0, 8.0, 12.0]}, seconds=20.0)
    failed = library.results.Result("tiny", 0, "myfm", "not installed", reason="error: no compiler")
    stored.store.write(failed)
    names = ["cofill", "cofill-lists", "popularity", "surprise-svd", "myfm", "means"]
    text = library.tables.tables(stored.store, ["tiny"], 1, names, "python benchmarks/peers.py --datasets tiny")
    assert text.startswith("    python benchmarks/peers.py --datasets tiny\n")
    lines = [line for line in text.splitlines() if line.startswith("| ") and "---" not in line]
    assert [line.split(" | ")[0].strip("| ") for line in lines] == [
        *("", "**cofill** (V-CFN and lists)", "Surprise SVD", "myFM, ids"),
        *("", "**cofill**, lists alone", "**cofill** (V-CFN and lists)", "popularity (cofill)"),
    ]
    svd, no_myfm, popularity = lines[2], lines[3], lines[7]
    assert "2.0000 ± " in svd
    assert " 2.000 ± 0.000 | 20 | 10 | 40 | 20 | 5.0 MB |" in svd  # twice the error, ten times the processor
    assert "not installed: error: no compiler" in no_myfm
    assert "0.500 ± 0.000 | 0.50 | 0.25 |" in popularity
    assert "**0.6000** ± 0.0000" in popularity  # the better recall
    assert "1 of them of users or items without any" in text


def test_several_splits_are_one_row(stored: Any, library: SimpleNamespace) -> None:
    for split, best in ((0, 0.5), (1, 0.7)):
        stored.put("cofill-lists", {"ndcg": [best, best, best], "recall": [0.5, 0.5, 0.5]}, split)
        stored.put("ease", {"ndcg": [0.3, 0.3, 0.3], "recall": [0.5, 0.5, 0.5]}, split)
    late = replace(stored.store.read("tiny", 1, "ease"), state="time limit", reason="stopped after 15 minutes")
    stored.store.write(late)
    text = library.tables.tables(stored.store, ["tiny"], 2, ["cofill-lists", "ease"], "command")
    assert "**0.6000** ± " in text
    assert "EASE (cofill): 1 of 2 splits; time limit: stopped after 15 minutes" in text


def test_a_run_and_its_resumption(
    asked: Any, peers: Any, library: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Measures of the process are those of cofill's own evaluation; a second call runs what is missing alone."""
    found = asked("--only", "means", "popularity")
    part = library.problems.part("tiny", 0)
    means = evaluate(algorithm("means")().fit(part.train), part.test)
    assert found["means"]["measures"]["rmse"] == pytest.approx(means.rmse, abs=1e-5)
    popular = evaluate_ranking(algorithm("popularity")().fit(part.train), part.test)
    assert found["popularity"]["measures"]["ndcg"] == pytest.approx(popular.ndcg, abs=1e-6)
    assert found["popularity"]["measures"]["recall"] == pytest.approx(popular.recall, abs=1e-6)
    assert found["means"]["peak_bytes"] > 20_000_000
    assert found["means"]["seconds"].keys() == {"fit", "predict"}
    assert "popularity (cofill)" in (tmp_path / "table.md").read_text()
    shown = capsys.readouterr()
    assert "2 of 2: tiny, split 0, popularity (about " in shown.err
    assert "| biases with learned damping (cofill) |" in shown.out

    began: list[str] = []

    def run(name: str, *_: Any) -> Any:
        began.append(name)
        return library.results.Result("tiny", 0, name, "failed", settings=peers.PEERS[name].settings, reason="no luck")

    monkeypatch.setattr(peers, "run_peer", run)
    again = asked("--only", "means", "popularity", "ease")
    assert began == ["ease"]
    assert again["means"] == found["means"]
    assert "2 of 3 runs are there already" in capsys.readouterr().err
    changed = replace(peers.PEERS["means"], settings="others than before")
    monkeypatch.setattr(peers, "PEERS", peers.PEERS | {"means": changed})
    asked("--only", "means", "popularity", "--no-runs")
    assert began == ["ease"]
    asked("--only", "means", "popularity")
    assert began == ["ease", "means"]
    (tmp_path / "out" / "runs" / "tiny" / "0" / "popularity.json").write_text('{"half": ')
    asked("--only", "popularity")
    assert began == ["ease", "means", "popularity"]
    assert not list((tmp_path / "out").rglob("*.part"))


def test_what_does_not_install_is_said_and_the_others_go_on(
    asked: Any, library: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tried: list[str] = []

    def run(command: list[str], log: Path) -> None:
        tried.append(command[-1])
        if command[-1] == "cmfrec":
            raise library.environments.NotInstalled("error: command 'gcc' failed: No such file or directory")

    monkeypatch.setattr(library.environments, "run_logged", run)
    found = asked("--only", "cmfrec", "cmfrec-implicit", "popularity")
    for name in ("cmfrec", "cmfrec-implicit"):
        assert found[name]["state"] == "not installed"
        assert found[name]["reason"] == "error: command 'gcc' failed: No such file or directory"
    assert found["popularity"]["state"] == "done"
    assert tried == [str(tmp_path / "venv" / "cmfrec"), "threadpoolctl", "cmfrec"]  # once, for both of its models
    asked("--only", "cmfrec", "popularity")
    assert len(tried) == 3
    asked("--only", "cmfrec", "--retry")
    assert len(tried) == 6


def test_packages_are_installed_in_their_order(library: SimpleNamespace, tmp_path: Path) -> None:
    commands: list[list[str]] = []
    environments = library.environments
    python = environments.interpreter("recbole", tmp_path, run=lambda command, log: commands.append(command))
    assert [command[-1] for command in commands[1:3]] == ["torch==2.13.0", "recbole"]
    assert python.is_relative_to(tmp_path / "recbole")
    assert environments.interpreter("cofill", tmp_path) == Path(sys.executable)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("ERROR: No matching distribution found for lenskit\n\n", "ERROR: No matching distribution found for lenskit"),
        ("gcc: fatal error: no input\nerror: subprocess-exited-with-error\nnote: This error is not ours\n",
         "gcc: fatal error: no input"),
        ("Traceback\nValueError: 3\n", "ValueError: 3"),
        ("Killed", "Killed"),
        ("", "no reason was given"),
    ],
)  # fmt: skip
def test_the_last_line_of_a_reason(library: SimpleNamespace, log: str, reason: str) -> None:
    assert library.environments.last_reason(log) == reason


BROKEN = """
import time
import numpy as np

class Model:
    def __init__(self, problem): self.problem = problem
    def predict(self, users, items, days): return np.full(len(users), np.inf)
    def lists(self, users, n): return np.repeat(self.problem.popular()[:n][None], len(users), axis=0)

def broken(problem, seed): raise ValueError("no such luck")
def endless(problem, seed): time.sleep(600)
def busy(problem, seed):
    while True: pass
def model(problem, seed): return Model(problem)
"""


@pytest.mark.parametrize(
    ("function", "kind", "state", "reason"),
    [
        ("broken", "ratings", "failed", "ValueError: no such luck"),
        ("model", "ratings", "failed", "predictions are infinite"),
        ("model", "lists", "failed", "places of lists go to items that the user has rated in training"),
        ("busy", "lists", "time limit", "stopped after 0.01 minutes of processor time"),
        ("endless", "lists", "time limit", "stopped after 0.01 minutes of processor time"),
    ],
)
def test_a_peer_that_fails(
    asked: Any, peers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, function: str, kind: str, state: str,
    reason: str,
) -> None:  # fmt: skip
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "with_cofill.py").write_text(BROKEN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    spoilt = replace(peers.PEERS["means"], function=function, package="broken", kinds=(kind,))
    monkeypatch.setattr(peers, "PEERS", peers.PEERS | {"means": spoilt})
    monkeypatch.setattr(peers, "code", lambda name: "")
    found = asked("--only", "means", *(["--minutes", "0.01"] if state == "time limit" else []))
    assert found["means"]["state"] == state
    assert reason in found["means"]["reason"]
    assert reason in (tmp_path / "table.md").read_text()


@pytest.mark.parametrize("name", ["surprise-svd", "implicit-als", "implicit-bm25", "implicit-als-searched"])
def test_libraries_of_the_developers(library: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Real answers, from the libraries that tests have anyway."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    peer = library.catalogue.PEERS[name]
    if find_spec(library.catalogue.LIBRARIES[peer.library].imports) is None:
        pytest.skip(f"{peer.library} is not installed")
    module, _, function = peer.place.partition(":")
    part = library.problems.part("tiny", 0)
    fit = getattr(import_module(module), function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other people's code, as in a process of its own
        answers, told = library.answering.answer(part.problem, fit, peer.kinds, 0)
    assert told["fit"]["wall"] > 0
    if peer.kinds == ("ratings",):
        found = library.measuring.ratings(part, answers["predictions"]).measures["rmse"]
        assert 0.5 < found < float(part.test.values.std()) * 1.1
    else:
        found = library.measuring.lists(part, answers["lists"]).measures["ndcg"]
        assert found > 0.1
        assert ("regularization" in told["chosen"]) == (name == "implicit-als-searched")


def test_strangers_and_gaps_are_filled(library: SimpleNamespace) -> None:
    """Somebody without a rating gets what is popular, a prediction that cannot be made gets the mean."""
    problem = replace(
        library.problems.part("tiny", 0).problem,
        test_user=np.array([0, -1], np.int32), test_item=np.array([1, 2], np.int32), asked=np.array([-1, 0], np.int32),
    )  # fmt: skip

    class Model:
        def predict(self, users: Any, items: Any, days: Any) -> Any:
            return np.where(users < 0, np.nan, 99.0)

        def lists(self, users: Any, n: int) -> Any:
            return library.answering.best_of_scores(problem, users, n, lambda some: np.ones((len(some), problem.items)))

    answers = library.answering.asked(problem, Model(), ("ratings", "lists"), {})
    assert answers["predictions"].tolist() == [problem.high, pytest.approx(problem.rating.mean())]
    assert int(answers["fallback"]) == 1
    assert answers["lists"][0].tolist() == problem.popular()[:10].tolist()
    assert not np.isin(answers["lists"][1], problem.item[problem.user == 0]).any()


def test_a_search_looks_at_validation_ratings_alone(library: SimpleNamespace) -> None:
    problem = library.problems.part("tiny", 0).problem
    kept, held_out = library.searching.validation_part(problem, 0)
    assert (kept.users, kept.items) == (problem.users, problem.items)
    pairs = {*zip(kept.user.tolist(), kept.item.tolist(), strict=True)}
    assert pairs.isdisjoint(zip(held_out.user.tolist(), held_out.item.tolist(), strict=True))
    assert len(held_out.user) > 50


@pytest.mark.parametrize("wrong", [["--splits", "0"], ["--minutes", "-1"], ["--only", "nobody"]])
def test_bad_options(peers: Any, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        peers.main(["--datasets", "tiny", *wrong])
    assert wrong[0] in capsys.readouterr().err

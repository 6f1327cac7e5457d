"""Interactions by every command, from a file of events to a report."""

import json
from pathlib import Path

import pytest

from cofill.data.datasets.world import make_world
from tests.cli.conftest import Run

pytestmark = pytest.mark.filterwarnings("default::cofill.data.interactions.InteractionsRecognisedNote")


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    make_world(users=120, items=60, ratings=2400, seed=2).write(folder, events=True)
    return folder / "events.csv"


def test_from_events_to_a_report(run: Run, events: Path, tmp_path: Path) -> None:
    train, test, model = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "model"
    weights = ("--event-weight", "view=1", "--event-weight", "buy=5")
    split = run("split", events, "--train", train, "--test", test, *weights)
    assert split.code == 0, split.err
    assert "interactions" in split.out
    trained = run("train", train, "--out", model)
    assert trained.code == 0, trained.err
    assert "interactions, not ratings" in trained.err
    assert json.loads((model / "model.json").read_text())["kind"] == "lists"
    assert "RMSE" not in trained.out

    found = json.loads(run("recommend", model, "--user", "1", "-n", "3", "--json").out)
    assert len(found) == 3
    assert all("rating" not in entry and entry["raters"] > 0 for entry in found)
    assert run("similar", model, "--item", str(found[0]["item"])).code == 0
    why = json.loads(run("explain", model, str(found[0]["item"]), "--user", "1", "--json").out)
    together = why["base"] + sum(part["amount"] for part in why["contributions"])
    assert together == pytest.approx(found[0]["score"], abs=1e-5)

    measured = json.loads(run("evaluate", model, test, "--json").out)
    assert measured["ranking"]["ndcg"] > measured["ranking"]["popularity"]["ndcg"]
    page = tmp_path / "report.html"
    assert run("report", model, "--test", test, "--out", page, "--quiet").code == 0
    text = page.read_text(encoding="utf-8")
    assert "lists alone are measured" in text
    assert "RMSE" not in text.partition("<h2")[2].partition("Settings")[0]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("predict", "MODEL", "PAIRS"), "trained on interactions, so it knows no ratings to predict; ask for lists"),
        (
            ("recommend", "MODEL", "--user", "1", "--rank-by", "rating"),
            "was trained on interactions, so it knows no ratings",
        ),
    ],
)
def test_what_needs_ratings_says_so_on_one_line(
    run: Run, events: Path, tmp_path: Path, call: tuple[str, ...], told: str
) -> None:
    model = tmp_path / "model"
    run("train", events, "--out", model, "--quiet")
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("user,item\n1,1\n")
    result = run(*(model if word == "MODEL" else pairs if word == "PAIRS" else word for word in call))
    assert result.code == 1
    assert told in result.err
    assert len([line for line in result.err.splitlines() if not line.startswith("cofill: note")]) == 1


def test_a_network_does_not_learn_from_interactions(run: Run, events: Path, tmp_path: Path) -> None:
    result = run("train", events, "--algorithm", "cfn", "--out", tmp_path / "m", "--quiet")
    assert result.code == 1
    assert "CFN learns from ratings, and these are interactions" in result.err


def test_interactions_beside_ratings(run: Run, events: Path, tmp_path: Path) -> None:
    model, ratings = tmp_path / "model", events.parent / "ratings.csv"
    few = ("--hidden=8", "--epochs=1", "--threads=1", "--quiet")
    trained = run("train", ratings, "--interactions", events, "--event-weight", "view=1", "--event-weight", "buy=3",
                  "--out", model, *few)  # fmt: skip
    assert trained.code == 0, trained.err
    alone = tmp_path / "alone"
    assert run("train", ratings, "--out", alone, *few).code == 0
    both, without = (json.loads(run("recommend", m, "--user", "1", "--json").out) for m in (model, alone))
    assert [entry["item"] for entry in both] != [entry["item"] for entry in without]
    predicted = [entry["rating"] for entry in both]
    assert all(1 <= rating <= 5 or 0.5 <= rating <= 5 for rating in predicted)


def test_both_files_are_read_as_the_flags_say(run: Run, tmp_path: Path) -> None:
    ratings, clicks = tmp_path / "ratings.csv", tmp_path / "clicks.csv"
    pairs = [(person, film) for person in ("Zoë", "Ann", "Bob", "Cy") for film in ("Heat", "Alien", "Up")]
    rated = [f"{person}~{film}~{1 + at % 5}" for at, (person, film) in enumerate(pairs)]
    clicked = [f"{person}~{film}" for person, film in pairs]
    ratings.write_text("\n".join(["who~seen~rating", *rated]), encoding="latin-1")
    clicks.write_text("\n".join(["who~seen", *clicked]), encoding="latin-1")
    columns = ("--user-column", "who", "--item-column", "seen", "--separator", "~", "--encoding", "latin-1")
    words = ("--out", tmp_path / "model", "--hidden=4", "--epochs=1", "--threads=1", "--json", "--quiet")
    trained = run("train", ratings, "--interactions", clicks, *columns, *words)
    assert trained.code == 0, trained.err
    assert json.loads(trained.out)["users"] == 4  # whom both files call by the same names

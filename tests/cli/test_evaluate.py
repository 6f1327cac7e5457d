"""cofill evaluate: groups of items and of users, lists of recommendations"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cofill.cli import main
from cofill.data.ratings import Ratings
from cofill.data.splits import at_most_each
from cofill.evaluation import evaluate, evaluate_newcomers, evaluate_ranking
from cofill.models.lists.rules import By
from cofill.models.recommender import Recommender
from tests.cli.conftest import QUICK, Run

BOTH: tuple[By, ...] = ("list", "rating")


@pytest.fixture(scope="module")
def halves(world: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model of one part of the ratings, and the other part."""
    folder = tmp_path_factory.mktemp("halves")
    train, test, model = folder / "train.csv", folder / "test.csv", folder / "model"
    words = ["split", world / "ratings.csv", "--train", train, "--test", test, "--ratio", "0.7"]
    assert main([str(word) for word in words]) == 0
    assert main([str(word) for word in ("train", train, "--out", model, "--quiet", *QUICK)]) == 0
    return model, test


def test_lists_as_in_python(run: Run, halves: tuple[Path, Path]) -> None:
    model, test = halves
    result = run("evaluate", model, test, "--ranking", "--top", 5, "--relevant", 3.5, "--json", "--quiet")
    assert (result.code, result.err) == (0, "")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    loaded, ratings = Recommender.load(model), Ratings.read(test)
    for name, by in zip(("ranking", "ranking_by_rating"), BOTH, strict=True):
        expected = evaluate_ranking(loaded, ratings, n=5, relevant=3.5, by=by).as_json()
        assert document.pop(name) == json.loads(json.dumps(expected))
    assert document.pop("trained_on") == 0
    assert document == evaluate(loaded, ratings, intervals=True).as_json()


def test_lists_in_a_table(run: Run, halves: tuple[Path, Path]) -> None:
    model, test = halves
    result = run("evaluate", model, test, "--ranking")
    loaded, ratings = Recommender.load(model), Ratings.read(test)
    ranking, by_rating = (evaluate_ranking(loaded, ratings, by=by) for by in BOTH)
    assert result.code == 0
    assert f"Lists of 10 for {ranking.users} users" in result.out
    assert f"relevant from 3.875: {ranking.ratings} ratings" in result.out
    for name, value in (("NDCG", ranking.ndcg), ("MRR", ranking.mrr), ("novelty", ranking.novelty)):
        assert name in result.out
        assert f"{value:.4f}" in result.out
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.out.splitlines() if "│" in line]
    popular = ranking.popularity
    by_popularity, slots = (line for line in lines if line[0] == "popularity")
    assert by_popularity[1:3] == [f"{popular.ndcg:.4f}", f"{popular.precision:.4f}"]
    assert by_popularity[-2:] == [f"{popular.at(20).recall_capped:.4f}", f"{popular.at(100).ndcg:.4f}"]
    assert slots[1:] == [f"{share:.4f}" for share in (popular.slots.unrated, popular.slots.few, popular.slots.more)]
    assert [line[0] for line in lines if line[0] in ("list", "rating")] == ["list", "rating"] * 2
    _, most = (line for line in lines if line[0] == "80% to 100%")  # errors, then lists
    assert most[3:] == [f"{lists.clusters[-1].recall:.4f}" for lists in (ranking, by_rating, popular)]
    assert "NDCG" not in run("evaluate", model, test).out


def test_how_often_intervals_hold(run: Run, halves: tuple[Path, Path]) -> None:
    model, test = halves
    measures = json.loads(run("evaluate", model, test, "--json").out)
    assert 0.8 < measures["within_interval"] <= 1
    found = evaluate(Recommender.load(model), Ratings.read(test), intervals=True)
    assert [group["within_interval"] for group in measures["clusters"]] == [c.within_interval for c in found.clusters]
    table = run("evaluate", model, test).out
    assert "within 90 % interval" in table
    assert f"{measures['within_interval']:.4f}" in table
    assert f"{found.clusters[-1].within_interval:.4f}" in table


def test_a_model_without_intervals(run: Run, halves: tuple[Path, Path], tmp_path: Path) -> None:
    _, test = halves
    train = test.parent / "train.csv"
    assert run("train", train, "--out", tmp_path / "means", "--algorithm", "means", "--quiet").code == 0
    assert "within_interval" not in run("evaluate", tmp_path / "means", test, "--json").out
    assert "within 90 %" not in run("evaluate", tmp_path / "means", test).out


def test_groups_of_users(run: Run, halves: tuple[Path, Path]) -> None:
    model, test = halves
    groups = evaluate(Recommender.load(model), Ratings.read(test)).user_clusters
    result = run("evaluate", model, test, "--group-by", "users")
    assert "By number of training ratings of the user" in result.out
    assert f"{groups[0].rmse:.4f}" in result.out
    assert "By number of training ratings of the item" in run("evaluate", model, test).out


def test_what_the_model_knows_is_left_out_of_the_lists_aloud(run: Run, model: Path, tmp_path: Path) -> None:
    known = Ratings.read(model.parent / "w" / "ratings.csv")
    user, item = known.users.id(int(known.user_index[0])), known.items.id(int(known.item_index[0]))
    path = tmp_path / "test.csv"
    path.write_text(f"user,item,rating\n{user},{item},5\n{user},new,5\n", encoding="utf-8")
    result = run("evaluate", model, path, "--ranking", "--json")
    assert result.err.startswith("warning: the model was trained on 1 of these 2 ratings")
    assert "(lists are measured without them)" in result.err
    ranking = json.loads(result.out)["ranking"]
    assert (ranking["trained_on"], ranking["ratings"], ranking["unknown_items"], ranking["recall"]) == (1, 1, 1, 0)
    table = run("evaluate", model, path, "--ranking")
    assert "1 of the relevant ratings are of items that the model does not know: missed" in table.err


@pytest.fixture(scope="module")
def strangers(world: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A model of some of the users, and the ratings of the others in two parts."""
    folder = tmp_path_factory.mktemp("strangers")
    train, told, test, model = (folder / name for name in ("train.csv", "told.csv", "test.csv", "model"))
    words = [
        "split",
        world / "ratings.csv",
        "--strategy",
        "strong",
        "--train",
        train,
        "--fold-in",
        told,
        "--test",
        test,
    ]
    assert main([str(word) for word in (*words, "--ratio", "0.7")]) == 0
    assert main([str(word) for word in ("train", train, "--out", model, "--quiet", *QUICK)]) == 0
    return model, told, test


def test_new_users_are_folded_in(run: Run, strangers: tuple[Path, Path, Path]) -> None:
    model, told, test = strangers
    result = run("evaluate", model, test, "--fold-in", told, "--fold-in-ratings", 5, "--json", "--quiet")
    assert (result.code, result.err) == (0, "")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    few = at_most_each(Ratings.read(told), most=5)
    found = evaluate_newcomers(Recommender.load(model), few, Ratings.read(test))
    assert document["ranking"] == json.loads(json.dumps(found.as_json()))
    assert set(document) == {"trained_on", "ranking", "ranking_by_rating"}
    table = run("evaluate", model, test, "--fold-in", told)
    assert f"Lists of 10 for {found.users} new users" in table.out
    assert "RMSE" not in table.out


def test_interactions_are_measured_by_lists(
    run: Run, refused: Callable[..., str], halves: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, test = halves
    monkeypatch.setattr(Ratings, "rated", False, raising=False)
    result = run("evaluate", model, test)
    assert result.err.startswith("there are no ratings to compare predictions with: only lists are measured\n")
    assert f"every interaction is relevant: {len(Ratings.read(test))} interactions" in result.out
    assert "RMSE" not in result.out
    assert json.loads(run("evaluate", model, test, "--json").out)["ranking"]["relevant"] is None
    assert "--group-by groups the errors of predicted" in refused(
        "evaluate", model, test, "--group-by", "users", code=2
    )
    assert "relevant=4 is for ratings" in run("evaluate", model, test, "--relevant", 4).err


def test_wrong_calls(refused: Callable[..., str], halves: tuple[Path, Path]) -> None:
    model, test = halves
    assert "at least 1" in refused("evaluate", model, test, "--ranking", "--top", 0, code=2)
    assert "invalid choice: 'films'" in refused("evaluate", model, test, "--group-by", "films", code=2)
    assert "add --fold-in" in refused("evaluate", model, test, "--fold-in-ratings", 5, code=2)
    assert "the model was trained with" in refused("evaluate", model, test, "--fold-in", test)
    assert refused("evaluate", model, test, "--ranking", "--relevant", 6) == (
        "relevant=6 must be above the lowest rating, 0.5, and at most the highest, 5\n"
    )


def test_what_users_do_next(run: Run, refused: Callable[..., str], tmp_path: Path) -> None:
    lines = [f"{user},{(user + step) % 25},{1 + user % 4}" for user in range(40) for step in (0, 1, 2, 3, 5)]
    (tmp_path / "clicks.csv").write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    train, test, model = tmp_path / "train.csv", tmp_path / "test.csv", tmp_path / "model"
    assert (
        run("split", tmp_path / "clicks.csv", "--in-order", "--strategy", "last", "--train", train, "--test", test).code
        == 0
    )
    assert run("train", train, "--algorithm", "markov", "--out", model, "--quiet").code == 0
    result = run("evaluate", model, test, "--strategy", "last", "--train", train, "--json", "--quiet")
    assert result.code == 0, result.err
    document = json.loads(result.out)
    assert set(document) == {"this model", "popularity", "recent-popularity", "markov", "ease", "lists, any"}
    assert document["this model"] == document["markov"]
    assert document["markov"]["next"]["users"] == 40
    shown = run("evaluate", model, test, "--strategy", "last", "--quiet").out
    assert f"{document['this model']['next']['ndcg']:.4f}" in shown
    assert "popularity" in shown
    assert "leave it out" in refused("evaluate", model, test, "--strategy", "last", "--relevant", 4, code=2)
    assert "add --strategy" in refused("evaluate", model, test, "--train", train, code=2)
    cut = ("split", train, "--train", tmp_path / "a.csv", "--test", tmp_path / "b.csv", "--at", "2001-01-01")
    assert "--strategy time" in refused(*cut, code=2)

"""cofill evaluate: groups of items and of users, lists of recommendations"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from cofill.cli import main
from cofill.data.ratings import Ratings
from cofill.evaluation import evaluate, evaluate_ranking
from cofill.models.recommender import Recommender
from tests.cli.conftest import QUICK, Run


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
    document = json.loads(result.out)
    loaded, ratings = Recommender.load(model), Ratings.read(test)
    ranking = evaluate_ranking(loaded, ratings, n=5, relevant=3.5)
    assert document.pop("ranking") == pytest.approx(ranking.as_json())
    assert document.pop("trained_on") == 0
    assert document == evaluate(loaded, ratings).as_json()


def test_lists_in_a_table(run: Run, halves: tuple[Path, Path]) -> None:
    model, test = halves
    result = run("evaluate", model, test, "--ranking")
    ranking = evaluate_ranking(Recommender.load(model), Ratings.read(test))
    assert result.code == 0
    assert f"Lists of 10 for {ranking.users} users" in result.out
    assert f"relevant from 3.875: {ranking.ratings} ratings" in result.out
    for name, value in (("NDCG", ranking.ndcg), ("MRR", ranking.mrr), ("novelty", ranking.novelty)):
        assert name in result.out
        assert f"{value:.4f}" in result.out
    assert "NDCG" not in run("evaluate", model, test).out


def test_groups_of_users(run: Run, halves: tuple[Path, Path]) -> None:
    model, test = halves
    groups = evaluate(Recommender.load(model), Ratings.read(test)).user_clusters
    result = run("evaluate", model, test, "--by", "users")
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


def test_wrong_calls(refused: Callable[..., str], halves: tuple[Path, Path]) -> None:
    model, test = halves
    assert "--top says how to measure lists; add --ranking" in refused("evaluate", model, test, "--top", 5, code=2)
    assert "--relevant says how to" in refused("evaluate", model, test, "--relevant", 4, code=2)
    assert "at least 1" in refused("evaluate", model, test, "--ranking", "--top", 0, code=2)
    assert "invalid choice: 'films'" in refused("evaluate", model, test, "--by", "films", code=2)
    assert refused("evaluate", model, test, "--ranking", "--relevant", 6) == (
        "relevant=6 must be above the lowest rating, 0.5, and at most the highest, 5\n"
    )

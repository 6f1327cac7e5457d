"""Lists as people ask for them: they follow what is done, keep to rules, and explain themselves."""

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.data.features import Features
from cofill.data.interactions import Interactions
from cofill.data.ratings import Ratings, Scale
from cofill.data.vocabulary import Id
from cofill.errors import DataError
from cofill.models.bias_models import ListModel, Means
from cofill.models.cfn.model import CFN
from cofill.models.lists.by_features import KernelRegression
from cofill.models.lists.feedback import Grades
from cofill.models.lists.rules import Selection
from cofill.models.recommender import Recommender

KINDS = ("red", "green", "blue")
ITEMS, PEOPLE = 60, 300


def kind_of(item: int) -> str:
    return KINDS[item % 3]


@cache
def triples() -> tuple[tuple[int, int, float], ...]:
    """People who choose mostly items of one kind, and like those; the last six items are chosen by nobody."""
    rng = np.random.default_rng(5)
    found = []
    for person in range(PEOPLE):
        kind = person % 3
        appeal = rng.gumbel(size=ITEMS - 6) - 0.04 * np.arange(ITEMS - 6) + 2.0 * (np.arange(ITEMS - 6) % 3 == kind)
        for item in np.argsort(-appeal)[: int(rng.integers(6, 14))].tolist():
            found.append((person, item, float(rng.integers(4, 6) if item % 3 == kind else rng.integers(1, 4))))
    return tuple(found)


def features() -> Features:
    rows = {
        "item": list(range(ITEMS)),
        "kind": [kind_of(item) for item in range(ITEMS)],
        "year": list(range(1960, 2020)),
    }
    return Features.read(pl.DataFrame(rows), about="item")


@cache
def described() -> CFN:
    return CFN(epochs=2, hidden=8).fit(list(triples()), item_features=features())


@cache
def plain() -> Means:
    return Means().fit(list(triples()))


@cache
def of_lists() -> ListModel:
    return ListModel().fit(list(triples()[:300]))


def items_of(found: list[object]) -> list[Id]:
    return [entry.item for entry in found]  # type: ignore[attr-defined]


def test_lists_are_of_the_kind_that_somebody_likes() -> None:
    for person in range(30):
        kinds = Counter(kind_of(int(entry.item)) for entry in plain().recommend(person, 5))
        assert kinds[KINDS[person % 3]] >= 4


def test_lists_follow_ratings_and_leave_no_trace_of_what_is_forgotten() -> None:
    model = deepcopy(plain())
    before = model.score(0)
    liked = [(0, item, 5.0) for item in range(1, 40, 3)]
    liked = [one for one in liked if (one[0], one[1]) not in {(u, i) for u, i, _ in triples()}]
    model.add_ratings(liked)
    moved = model.recommend(0, 5)
    assert Counter(kind_of(int(entry.item)) for entry in moved)["green"] >= 2
    assert not {entry.item for entry in moved} & {item for _, item, _ in liked}
    model.remove_ratings([(user, item) for user, item, _ in liked])
    np.testing.assert_allclose(model.score(0), before, rtol=0, atol=1e-6)


@settings(max_examples=10, deadline=None)
@given(order=st.permutations([(1000 + n, item, 5.0) for n in range(6) for item in (2, 5, 99)]))
def test_a_new_item_is_listed_to_those_who_like_what_its_raters_like(order: list[tuple[int, int, float]]) -> None:
    model = deepcopy(plain())
    for one in order:
        model.add_ratings([one])
        model.recommend(3, 2)  # what was asked between makes no difference
    at_once = deepcopy(plain()).add_ratings(list(order))
    for person in (0, 1, 2):
        ours, theirs = model.score(person), at_once.score(person)
        index = [at_once.items.index(item) for item in model.items]
        np.testing.assert_allclose(ours, theirs[index], rtol=0, atol=1e-6)
    new = [model.score(person)[model.items.index(99)] for person in (0, 1, 2)]
    assert new[2] > max(new[0], new[1])


def test_a_model_that_comes_back_from_a_file_gives_the_same_lists(tmp_path: Path) -> None:
    model = deepcopy(plain()).add_ratings([(3, 1, 5.0), (999, 77, 4.0), (999, 3, 4.0)])
    model.remove_ratings([triples()[0][:2]])
    model.save(tmp_path)
    loaded = Recommender.load(tmp_path)
    for person in (0, 3, 999, "nobody"):
        ours, theirs = loaded.recommend(person, 60), model.recommend(person, 60)
        assert items_of(list(ours)) == items_of(list(theirs))
        np.testing.assert_allclose([r.score for r in ours], [r.score for r in theirs], rtol=0, atol=1e-7)


# Items without ratings


def test_items_that_nobody_has_rated_come_last_unless_they_are_given_places() -> None:
    model = described()
    unrated = set(range(ITEMS - 6, ITEMS))
    every = items_of(list(model.recommend(0, ITEMS)))
    assert set(every[-6:]) == unrated
    for share, places in ((0.0, 0), (0.1, 1), (0.25, 2), (0.5, 5)):
        found = items_of(list(model.recommend(0, 10, new_items=share)))
        assert len(set(found)) == 10
        assert len(unrated & set(found)) == places
    assert set(items_of(list(model.recommend(0, 6, new_items=1.0)))) == unrated


def test_lists_are_measured_as_they_are_recommended() -> None:
    """Also where there are items that nobody has rated, whose features promise much."""
    model = described()
    users = np.arange(9)
    for by in ("list", "rating"):
        scores = model.user_scores(users, by=by)
        for person, own in zip(users.tolist(), scores, strict=True):
            own[model.known_items(person)] = -np.inf
            ranked = [model.items.id(int(index)) for index in np.argsort(-own, kind="stable")[:54]]
            found = items_of(list(model.recommend(model.users.id(person), 54, by=by)))
            assert ranked[: len(found)] == found[: len(ranked)]
    nobody = model.stranger_scores()
    unrated = model.item_counts() == 0
    assert nobody[unrated].max() < nobody[~unrated].min()


def test_new_items_are_ranked_by_their_features() -> None:
    model = described()
    for person in range(9):
        first = items_of(list(model.recommend(person, 2, new_items=1.0)))
        assert {kind_of(int(item)) for item in first} == {KINDS[person % 3]}


def test_an_item_described_later_is_scored_at_once() -> None:
    model = deepcopy(described())
    model.describe_items({500: {"kind": "blue", "year": 1990}, 501: {"kind": "red", "year": 1990}})
    for person, first in ((2, 500), (0, 501)):
        assert model.recommend(person, 1, new_items=1.0, among=[500, 501])[0].item == first


def test_vectors_of_items_without_ratings_are_asked_for_where_they_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = deepcopy(described()), list[int]()
    usual = KernelRegression.expected

    def counted(self: KernelRegression, features: np.ndarray) -> np.ndarray:
        asked.append(len(features))
        return usual(self, features)

    red, blue = {"kind": "red", "year": 1990}, {"kind": "blue", "year": 1990}
    model.score(0)
    monkeypatch.setattr(KernelRegression, "expected", counted)
    model.add_ratings([(0, 50, 5.0)])
    model.score(0)
    assert sum(asked) == 0
    model.describe_items({500: red, 501: blue})
    model.score(0)
    model.describe_items({500: blue}).add_ratings([(0, 54, 5.0)])  # which had none before
    model.score(0)
    assert asked == [2, 1]
    scores, own = model.score(0), model.items.index
    assert scores[own(500)] == pytest.approx(scores[own(501)], rel=1e-5)
    other = deepcopy(described()).add_ratings([(0, 50, 5.0), (0, 54, 5.0)]).describe_items({500: blue, 501: blue})
    there = dict(zip(other.items, other.score(0).tolist(), strict=True))
    assert dict(zip(model.items, scores.tolist(), strict=True)) == pytest.approx(there, rel=1e-5, abs=1e-6)


# Rules


def test_rules_choose_among_items() -> None:
    model = described()
    blue = {item for item in range(ITEMS) if kind_of(item) == "blue"}
    assert set(items_of(list(model.recommend(0, 99, where={"kind": "blue"})))) <= blue
    late = items_of(list(model.recommend(0, 99, where={"kind": ["blue", "red"], "year": {"min": 1990}})))
    assert late
    assert all(int(item) >= 30 and kind_of(int(item)) != "green" for item in late)
    best = items_of(list(model.recommend(0, 3)))
    assert not set(best) & set(items_of(list(model.recommend(0, 10, exclude=best))))
    counts = model.item_counts()
    for least in (1, 40, 10_000):
        found = model.recommend(0, 99, min_ratings=least)
        assert all(entry.raters >= least for entry in found)
        known = model.known_items(0)
        assert len(found) == np.count_nonzero(np.delete(counts, known) >= least)


def test_a_boost_moves_items_up_and_down() -> None:
    model = described()
    usual, more, less = (
        np.mean([at for at, entry in enumerate(found) if kind_of(int(entry.item)) == "green"])
        for found in (
            model.recommend(0, 54),
            model.recommend(0, 54, boost={"kind": {"green": 5.0}}),
            model.recommend(0, 54, boost={"kind": {"green": 0.2}}),
        )
    )
    assert more < usual < less
    by_rating = model.recommend(0, 5, by="rating", boost={"kind": {"green": 50.0}})
    assert {kind_of(int(entry.item)) for entry in by_rating} == {"green"}


def test_at_most_so_many_of_a_kind() -> None:
    model = described()
    for most in (1, 2, 3):
        found = model.recommend(0, 9, at_most={"kind": most})
        assert Counter(kind_of(int(entry.item)) for entry in found) == dict.fromkeys(KINDS, most)
    assert len(model.recommend(0, 9, at_most={"kind": 1}, where={"kind": "red"})) == 1


def test_new_items_count_among_those_of_a_kind() -> None:
    model = described()
    for most in (1, 2):
        found = [int(entry.item) for entry in model.recommend(0, 3 * most, at_most={"kind": most}, new_items=0.5)]
        assert Counter(map(kind_of, found)) == dict.fromkeys(KINDS, most)
        assert len([item for item in found if item >= ITEMS - 6]) == 3 * most // 2


@pytest.mark.parametrize("n", [ITEMS, 300, 10**10])
def test_lists_of_many_that_are_as_long_as_there_are_items(n: int) -> None:
    model = plain()
    for person, found in model.recommend_many([0, 3, 4], n):
        assert found == model.recommend(person, n)
        assert len(found) == len(model.items) - len(model.known_items(model.users.index(person)))


def test_what_is_like_a_new_item_is_not_diverse() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0]], np.float32)
    flags = np.array([False, False, True])
    selection = Selection(None, flags, flags, 0.0, None, [], 0.6, vectors, 0.5)
    nothing = np.empty(0, np.int32)
    assert selection.best(np.array([0.6, 0.5, 0.4], np.float32), nothing, 2) == [1, 2]
    assert replace(selection, diversity=0.0).best(np.array([0.6, 0.5, 0.4], np.float32), nothing, 2) == [0, 2]


def test_diversity_makes_the_items_of_a_list_less_alike() -> None:
    model = plain()
    vectors = model.scorer.item_vectors()
    assert vectors is not None
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    def alike(diversity: float) -> float:
        total = 0.0
        for person in range(20):
            chosen = [model.items.index(entry.item) for entry in model.recommend(person, 5, diversity=diversity)]
            total += float((unit[chosen] @ unit[chosen].T).sum()) - 5
        return total

    assert alike(0.0) > alike(0.3) > alike(0.7)
    assert model.recommend(4, 5, diversity=0.0) == model.recommend(4, 5)
    assert model.recommend(4, 1, diversity=0.9) == model.recommend(4, 1)  # the first is the best


def test_everybody_is_recommended_to_by_the_same_rules() -> None:
    model = described()
    rules = {"where": {"kind": ["red", "blue"]}, "diversity": 0.2, "new_items": 0.2, "exclude": [3]}
    for person, found in model.recommend_many([0, 5, 9], 6, **rules):  # type: ignore[arg-type]
        alone = model.recommend(person, 6, **rules)  # type: ignore[arg-type]
        assert items_of(list(found)) == items_of(list(alone))


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"diversity": 1.5}, "diversity must be a number from 0 to 1. Got 1.5"),
        ({"new_items": -0.1}, "new_items must be a number from 0 to 1. Got -0.1"),
        ({"min_ratings": -1}, "min_ratings must be a whole number, 0 or more. Got -1"),
        ({"min_ratings": 1.5}, "min_ratings must be a whole number, 0 or more. Got 1.5"),
        ({"boost": {"kind": {"red": 0}}}, "the boost of 'kind' = 'red' must be a factor above 0"),
        ({"boost": {"kind": 2}}, "boost of 'kind' must be {value: factor}. Got 2"),
        ({"boost": {"colour": {"red": 2.0}}}, "there is no column 'colour'"),
        ({"at_most": {"kind": 0}}, "at_most of 'kind' must be a whole number of at least 1. Got 0"),
        ({"at_most": {"genre": 2}}, "there is no column 'genre'"),
        ({"where": {"kinds": "red"}}, "there is no column 'kinds'; did you mean 'kind'?"),
        ({"exclude": "12"}, "exclude is the text '12'; give a list of the ids of items"),
        ({"by": "taste"}, "lists are by 'list' or by 'rating'. Got 'taste'"),
    ],
)
def test_rules_that_make_no_sense(rules: dict[str, object], told: str) -> None:
    with pytest.raises(DataError) as caught:
        described().recommend(0, **rules)  # type: ignore[arg-type]
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


# Explanations


def test_the_shares_of_a_list_score_are_exact() -> None:
    model = described()
    for who in (0, 17, {1: 5.0, 4: 4.0, 2: 1.0}, {}):
        found = model.recommend(who, 4)
        for entry, why in zip(found, model.explain_many(who, items_of(list(found))), strict=True):
            assert why.by == "list"
            assert why.value == pytest.approx(entry.score, abs=1e-6)
            together = why.base + sum(one.amount for one in why.contributions)
            assert together == pytest.approx(entry.score, abs=1e-5)
            assert abs(why.remainder) < 1e-5
            amounts = [abs(one.amount) for one in why.contributions]
            assert amounts == sorted(amounts, reverse=True)


def test_features_of_somebody_who_did_nothing_are_explained() -> None:
    about = pl.DataFrame({"user": list(range(PEOPLE)), "colour": [KINDS[person % 3] for person in range(PEOPLE)]})
    model = CFN(epochs=2, hidden=8).fit(list(triples()), user_features=Features.read(about, about="user"))
    for place, colour in enumerate(KINDS):
        found = model.recommend({}, 4, features={"colour": colour})
        assert {kind_of(int(entry.item)) for entry in found} == {KINDS[place]}
        why = model.explain({}, found[0].item, features={"colour": colour})
        assert why.contributions[0].feature == "colour"
        assert why.contributions[0].amount > 0
        assert why.base + why.contributions[0].amount + why.remainder == pytest.approx(why.value, abs=1e-6)


# Similar items


def test_similar_items_keep_to_conditions() -> None:
    model = described()
    assert all(kind_of(int(entry.item)) == "blue" for entry in model.similar(0, 5, where={"kind": "blue"}))
    counts = model.item_counts()
    found = model.similar(0, 99, min_ratings=40)
    assert {entry.item for entry in found} == {item for item in range(1, ITEMS) if counts[item] >= 40}


# Grades


@settings(max_examples=50)
@given(
    low=st.floats(-100, 100),
    span=st.floats(0.5, 100),
    power=st.floats(0.3, 3),
    places=st.lists(st.floats(0, 1), min_size=2),
)
def test_grades_go_up_with_ratings(low: float, span: float, power: float, places: list[float]) -> None:
    grades = Grades(Scale(low, low + span), power=power)
    values = np.sort(np.array([low + span * place for place in places], np.float32))
    found = grades.of(values)
    assert (np.diff(found) >= -1e-6).all()
    assert found.min() >= 0.1 - 1e-6
    assert found.max() <= 1 + 1e-6


def test_interactions_count_alike_unless_there_is_confidence() -> None:
    weights = np.array([1, 3, 100], np.float32)
    np.testing.assert_array_equal(Grades(Scale(0, 100), rated=False).of(weights), [1, 1, 1])
    confident = Grades(Scale(0, 100), rated=False, confidence=1.0).of(weights)
    assert confident[0] == pytest.approx(1)
    assert (np.diff(confident) > 0).all()


@pytest.mark.parametrize("orientation", ["item", "user", "both"])
def test_somebody_of_whom_only_later_interactions_are_known(orientation: str, tmp_path: Path) -> None:
    """They are in the lists' world alone: predictions are those for anybody."""
    seen = [(person, item) for person, item, _ in triples()[:200]]
    model = CFN(orientation=orientation, hidden=4, epochs=1, threads=1, validation=0)
    model.fit(list(triples()[:200]), interactions=seen)
    model.add_interactions([(9000, 0), (9000, 3), (1, 777)])
    assert len(model.recommend(9000, 5)) == 5
    known = int(triples()[0][1])
    assert model.predict([(9000, known)]) == pytest.approx(model.predict([("nobody", known)]), abs=1e-5)
    assert model.predict([(1, 777)]) == pytest.approx(model.predict([(1, "nothing")]), abs=1e-5)
    model.save(tmp_path)
    assert [one.item for one in CFN.load(tmp_path).recommend(9000, 5)] == [one.item for one in model.recommend(9000, 5)]


# Interactions of a model that was trained on ratings alone


def of_ratings_alone() -> CFN:
    return CFN(hidden=4, epochs=1, threads=1, validation=0).fit(list(triples()[:300]))


def test_a_model_of_ratings_alone_follows_interactions(tmp_path: Path) -> None:
    model = of_ratings_alone()
    person, item = 9000, int(triples()[0][1])
    nobody = model.score("nobody")
    predicted = model.predict([(1, item)])
    model.add_interactions([(person, item, 1.0)])
    viewed = model.score(person)
    assert not np.array_equal(viewed, nobody)
    assert item not in [one.item for one in model.recommend(person, 100)]
    model.add_interactions([(person, item, 4.0)])
    bought = model.score(person)
    assert not np.array_equal(viewed, bought)
    np.testing.assert_array_equal(model.predict([(1, item)]), predicted)  # of ratings, which have not changed
    model.add_interactions([(person, item, 3.0)])
    np.testing.assert_array_equal(model.score(person), bought)  # as much as the highest rating already
    rated = of_ratings_alone().add_ratings([(person, item, model.scale.high)])
    np.testing.assert_allclose(rated.score(person), bought, atol=1e-5)
    for shards in (1, 2):
        model.save(tmp_path / str(shards), shards=shards)
        np.testing.assert_allclose(CFN.load(tmp_path / str(shards)).score(person), bought, atol=1e-6)


def test_a_rating_that_is_withdrawn_leaves_what_somebody_bought() -> None:
    """As it is for a process that hears of the withdrawal first."""
    item = int(triples()[0][1])
    model = of_ratings_alone().add_interactions([(9000, item, 5.0)])
    model.add_ratings([(9000, item, 1.0)]).remove_ratings([(9000, item)])
    later = of_ratings_alone().remove_ratings([(9000, item)]).add_interactions([(9000, item, 5.0)])
    np.testing.assert_allclose(model.score(9000), later.score(9000), atol=1e-5)
    assert item not in [one.item for one in model.recommend(9000, 100)]


@settings(max_examples=20, deadline=None)
@given(order=st.permutations(range(6)), again=st.lists(st.integers(0, 5), max_size=4))
def test_what_is_told_in_whole_may_come_in_any_order_and_again(order: list[int], again: list[int]) -> None:
    told = [(9000, 0, 1.0), (9000, 3, 5.0), (9001, 3, 2.0), (1, 777, 2.0), (1, 3, 1.0), (9002, 0, 3.0)]
    once, often = deepcopy(of_lists()), deepcopy(of_lists())
    once.add_interactions(told)
    for at in [*order, *again]:
        often.add_interactions([told[at]], replacing=True)
    for person in (9000, 9001, 9002, 1, 2):
        there = {item: float(score) for item, score in zip(once.items, once.score(person), strict=True)}
        here = {item: float(score) for item, score in zip(often.items, often.score(person), strict=True)}
        assert here == pytest.approx(there, abs=1e-5)


def test_to_replace_is_on_top_of_the_training_alone() -> None:
    trained = [(person, item, 2.0) for person, item, _ in triples()[:200]]
    trained[0] = (*trained[0][:2], 9.0)
    model = ListModel(confidence=1.0).fit(Interactions.read(trained))
    pair = trained[1][:2]
    model.add_interactions([(*pair, 3.0)], replacing=True)
    model.add_interactions([(*pair, 4.0)], replacing=True)
    user, item = model.users.index(pair[0]), model.items.index(pair[1])
    items, weights = model.predictor.known.row(user)
    assert weights[items == item] == [6.0]
    model.add_interactions([(*pair, 100.0)], replacing=True)
    items, weights = model.predictor.known.row(user)
    assert weights[items == item] == [9.0]


# Forgetting


def test_who_was_forgotten_begins_anew() -> None:
    trained = [(person, item, 3.0) for person, item, _ in triples()[:200]]
    model = ListModel(confidence=1.0).fit(Interactions.read(trained))
    pair = trained[0][:2]
    model.forget_users([pair[0]])
    for weight in (1.0, 2.0):  # the second finds what the first has left
        model.add_interactions([(*pair, weight)], replacing=True)
        items, weights = model.predictor.known.row(model.users.index(pair[0]))
        assert weights[items == model.items.index(pair[1])] == [weight]


@pytest.mark.parametrize("orientation", ["item", "user", "both"])
def test_who_is_forgotten_is_nobody_and_others_are_as_before_they_came(orientation: str, tmp_path: Path) -> None:
    about = {
        person: {"age": 20.0 + person % 7, "town": "abc"[person % 3]} for person in {t[0] for t in triples()[:300]}
    }
    frame = pl.DataFrame([{"user": person, **told} for person, told in about.items()])
    made = CFN(orientation=orientation, hidden=8, epochs=1, threads=1, validation=0)
    model = made.fit(list(triples()[:300]), user_features=frame)
    others = [person for person in list(about)[:5] if person != 1]
    before = {person: model.score(person) for person in others}
    model.add_ratings([(9000, 3, 5.0), (9000, 5, 1.0)])
    model.add_interactions([(9000, 0, 2.0), (9000, 4, 5.0)])
    model.describe_users({9000: {"age": 30.0, "town": "a"}})
    model.forget_users([9000, "never heard of"])
    for person, scores in before.items():
        np.testing.assert_allclose(model.score(person), scores, atol=1e-5)
    nobody = model.score("never heard of")
    np.testing.assert_allclose(model.score(9000), nobody, atol=1e-5)
    trained = next(iter(about))
    model.forget_users([trained])
    np.testing.assert_allclose(model.score(trained), model.score("never heard of"), atol=1e-5)
    assert model.user_counts()[model.users.index(trained)] == 0
    assert not model.predictor.user_features.described[model.users.index(trained)]
    model.save(tmp_path)
    again = CFN.load(tmp_path)
    np.testing.assert_allclose(again.score(trained), model.score(trained), atol=1e-5)
    assert not again.predictor.user_features.described[again.users.index(trained)]


def test_text_ids_join_a_history_of_integers(tmp_path: Path) -> None:
    model = of_ratings_alone()
    model.add_ratings([("visitor-1", 3, 5.0)])
    model.add_interactions([("visitor-2", "new item", 5.0), ("visitor-2", "3", 1.0)])
    assert [model.users.ids[-2:], model.items.ids[-1]] == [["visitor-1", "visitor-2"], "new item"]
    scores = model.score("visitor-2")
    for shards in (1, 2):
        model.save(tmp_path / str(shards), shards=shards)
        again = CFN.load(tmp_path / str(shards))
        assert (again.users, again.items) == (model.users, model.items)
        np.testing.assert_allclose(again.score("visitor-2"), scores, atol=1e-6)


# Time


def test_what_was_long_ago_counts_less() -> None:
    old, new = 0.0, 100 * 86_400.0
    timed = [(user, item, rating, old if item % 3 == 0 else new) for user, item, rating in triples()]
    mixed = [*timed, *((5000, item, 5.0, old if item % 3 == 0 else new) for item in (0, 3, 6, 1, 4))]
    usual = Means().fit(mixed).score(5000)
    model = Means(half_life="10d").fit(mixed)
    forgetful = model.score(5000)

    def red_less_green(scores: np.ndarray) -> float:
        return float(scores[[9, 12, 15]].mean() - scores[[7, 10, 13]].mean())

    assert red_less_green(forgetful) < red_less_green(usual)
    assert model.settings.half_life == 10.0  # type: ignore[attr-defined]


def test_time_decay_is_kept_and_needs_times(tmp_path: Path) -> None:
    timed = [(user, item, rating, 86_400.0 * item) for user, item, rating in triples()]
    model = Means(half_life=20).fit(timed).add_ratings([(0, 50, 5.0)])
    model.save(tmp_path)
    for person in (0, 3):
        np.testing.assert_array_equal(Recommender.load(tmp_path).score(person), model.score(person))


def test_a_half_life_without_times_is_refused_before_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Means, "_learn", None)  # it may take hours
    with pytest.raises(DataError, match="half_life needs to know when people rated"):
        Means(half_life="3w").fit(list(triples()))


def test_weights_of_a_new_user_that_are_no_numbers() -> None:
    model = ListModel().fit(Interactions.read([(person, item) for person, item, _ in triples()]))
    assert model.recommend({1: 7.0}) == model.recommend({1: 1.0})  # more than the greatest of the training is it
    for weight in ("2", None, -1.0, float("nan")):
        with pytest.raises(DataError, match=r"the weight of item 1 must be a number of at least 0. Got"):
            model.recommend({1: weight})  # type: ignore[dict-item]


def test_ratings_are_read_with_their_scale() -> None:
    low = Means().fit(Ratings.read([(u, i, r * 2) for u, i, r in triples()], scale=(2, 10)))
    np.testing.assert_allclose(low.score(3), plain().score(3), rtol=0, atol=1e-5)

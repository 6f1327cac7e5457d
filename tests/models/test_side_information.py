"""A model with side information: what it gains for rare and cold ones, and that it stays one model in every way."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from cofill import CFN, Features, Ratings, evaluate, split
from cofill.data.datasets.world import make_world
from cofill.data.described import FeatureWidthWarning
from cofill.errors import DataError
from cofill.models.baselines.svdfeature import SVDFeature
from tests.models.contract import stars

# As in the contract of a model, for so small a world.
QUICK: dict[str, Any] = {"validation": 0, "threads": 1, "noise_ratio": 0.5, "beta": 0.2, "hidden": 64, "epochs": 20}
BY_ORIENTATION: dict[str, dict[str, Any]] = {
    "item": {"batch": 5, "weight_decay": 0.15},
    "user": {"batch": 10, "weight_decay": 0.05, "learning_rate": 0.06, "learning_rate_decay": 0.2},
}
# How far features alone are believed is learned on a validation part.
LEARNED: dict[str, Any] = {"validation": 0.1}
FILM: dict[str, object] = {"title": None, "year": 1999, "genres": "Comedy|Drama", "tags": None}
PERSON: dict[str, object] = {"age": 30, "occupation": "artist"}
both = pytest.mark.parametrize("orientation", ["item", "user"])


class Sides(NamedTuple):
    ratings: Ratings
    items: Features
    users: Features


@cache
def sides() -> Sides:
    with TemporaryDirectory() as folder:
        world = make_world(users=400, items=300, ratings=16_000, seed=5, choice=0.0)
        world.write(folder)
        items = Features.join([Features.read(f"{folder}/{name}.csv", reduce_to=20) for name in ("movies", "tags")])
        return Sides(world.ratings, items, Features.read(f"{folder}/users.csv"))


@cache
def cold(by: Any) -> tuple[Ratings, Ratings]:
    """Training part, and all ratings of a tenth of the items or of the users."""
    return split(sides().ratings, by, 0.9, 1)


def fitted(orientation: str, train: Ratings | None = None, *, side: bool = True, **changes: Any) -> CFN:
    known: dict[str, Any] = {"item_features": sides().items, "user_features": sides().users} if side else {}
    return CFN(**{"orientation": orientation, **QUICK, **BY_ORIENTATION[orientation], **changes}).fit(
        train or sides().ratings, **known
    )


@pytest.fixture(scope="module", params=["item", "user"])
def model(request: pytest.FixtureRequest) -> CFN:
    """Shared: not to be changed."""
    return fitted(request.param, **LEARNED)


def fresh(model: CFN, folder: Path) -> CFN:
    """A copy to be changed."""
    model.save(folder)
    return CFN.load(folder)


# What it is worth


@pytest.mark.parametrize("orientation", ["item", pytest.param("user", marks=pytest.mark.slow)])
def test_cold_items_are_predicted_better_than_by_means(orientation: str) -> None:
    """The films of the world are liked for their genres and tags, so a film without a rating can be told."""
    train, test = cold("cold-items")
    without = evaluate(fitted(orientation, train, side=False, **LEARNED), test).rmse
    assert evaluate(fitted(orientation, train, **LEARNED), test).rmse < 0.96 * without


@pytest.mark.parametrize("orientation", ["user", pytest.param("item", marks=pytest.mark.slow)])
def test_cold_users_are_hardly_predicted_worse(orientation: str) -> None:
    """Ages and occupations of 360 people tell next to nothing about 40 others; that must not do harm."""
    train, test = cold("cold-users")
    without = evaluate(fitted(orientation, train, side=False, **LEARNED), test).rmse
    assert evaluate(fitted(orientation, train, **LEARNED), test).rmse < without


@pytest.mark.parametrize("orientation", [pytest.param("item", marks=pytest.mark.slow), "user"])
def test_features_help_known_items_too(orientation: str) -> None:
    """The rarest items of one split have few test ratings, which tell as much by chance as by features: two splits."""
    shares = []
    for seed in (2, 3):
        train, test = split(sides().ratings, "random", 0.8, seed)
        plain, side = (evaluate(fitted(orientation, train, side=side, **LEARNED), test) for side in (False, True))
        assert side.rmse < 0.992 * plain.rmse
        rarest = plain.clusters[0].rmse, side.clusters[0].rmse
        assert rarest[0] is not None
        assert rarest[1] is not None
        shares.append(rarest[1] / rarest[0])
    assert np.mean(shares) < 0.96


# New ones


def test_a_new_film_without_a_rating_is_told_apart_by_its_features(model: CFN, tmp_path: Path) -> None:
    changed = fresh(model, tmp_path / "m")
    changed.describe_items({7001: FILM, 7002: FILM | {"genres": "Horror"}, 7003: FILM})
    comedy, horror, twin = (changed.predict([(user, film) for user in range(1, 60)]) for film in (7001, 7002, 7003))
    np.testing.assert_array_equal(comedy, twin)
    assert np.abs(comedy - horror).max() > 0.05
    assert len(changed.items) == len(model.items) + 3
    assert {7001, 7002} <= {entry.item for entry in changed.recommend(1, n=500)}
    assert changed.similar(7001, n=1)[0].item == 7003


def test_somebody_new_is_recommended_to_by_features_alone_and_with_ratings(model: CFN) -> None:
    young = model.recommend({}, n=300, features=PERSON)
    old = model.recommend({}, n=300, features=PERSON | {"age": 75, "occupation": "retired"})
    nobody = model.recommend({}, n=300)
    ratings = {entry.item: stars(entry) for entry in young}
    assert max(abs(ratings[entry.item] - stars(entry)) for entry in old) > 0.02
    unlike = {entry.item: stars(entry) for entry in old}  # the young one is much like the mean of all
    assert max(abs(unlike[entry.item] - stars(entry)) for entry in nobody) > 0.02
    with_ratings = model.recommend({1: 5.0, 2: 1.0}, n=300, features=PERSON)
    assert max(abs(ratings[entry.item] - stars(entry)) for entry in with_ratings) > 0.02
    assert 1 not in {entry.item for entry in with_ratings}


def test_a_described_user_is_as_good_as_the_same_description(model: CFN, tmp_path: Path) -> None:
    changed = fresh(model, tmp_path / "m")
    changed.describe_users({9999: PERSON})
    asked = {entry.item: stars(entry) for entry in model.recommend({}, n=400, features=PERSON)}
    known = {entry.item: stars(entry) for entry in changed.recommend(9999, n=400)}
    assert known.keys() == asked.keys()
    np.testing.assert_allclose([known[item] for item in asked], list(asked.values()), atol=1e-5)


def test_the_order_of_ratings_and_descriptions_does_not_matter(model: CFN, tmp_path: Path) -> None:
    steps = [
        lambda m: m.describe_items({7001: FILM}),
        lambda m: m.describe_users({9001: PERSON}),
        lambda m: m.add_ratings([(9001, 7001, 5.0), (1, 7001, 1.0), (9001, 1, 2.0)]),
        lambda m: m.describe_items({1: FILM | {"genres": "War"}}),
    ]
    pairs = [(user, item) for user in (1, 2, 9001) for item in (1, 2, 7001)]
    answers = []
    for order in ((0, 1, 2, 3), (2, 3, 1, 0), (3, 0, 2, 1)):
        changed = fresh(model, tmp_path / str(order))
        for step in order:
            steps[step](changed)
            changed.predict([(1, 1)])  # a question in between
        answers.append(changed.predict(pairs))
    np.testing.assert_allclose(answers[1], answers[0], atol=1e-5)
    np.testing.assert_allclose(answers[2], answers[0], atol=1e-5)


def test_batch_equals_single_for_cold_and_described_ones(model: CFN, tmp_path: Path) -> None:
    changed = fresh(model, tmp_path / "m")
    changed.describe_items({7001: FILM}).describe_users({9001: PERSON})
    everybody = dict(changed.recommend_many([1, 9001], n=1000, exclude_known=False))
    for user, found in everybody.items():
        alone = {entry.item: stars(entry) for entry in changed.recommend(user, n=1000, exclude_known=False)}
        together = {entry.item: stars(entry) for entry in found}
        pairs = changed.predict([(user, item) for item in together])
        np.testing.assert_allclose(pairs, list(together.values()), atol=1e-5)
        np.testing.assert_allclose([alone[item] for item in together], list(together.values()), atol=1e-5)


# Kept


def test_a_model_with_features_comes_back_as_it_was(model: CFN, tmp_path: Path) -> None:
    changed = fresh(model, tmp_path / "m")
    changed.describe_items({7001: FILM, 5: FILM}).describe_users({9001: PERSON})
    changed.add_ratings([(9001, 7001, 4.0), (2, 7001, 3.0)])
    changed.save(tmp_path / "again")
    loaded = CFN.load(tmp_path / "again")
    pairs = [(user, item) for user in (1, 2, 9001, 123_456) for item in (1, 5, 7001, 123_456)]
    np.testing.assert_array_equal(loaded.predict(pairs), changed.predict(pairs))
    for side in ("item_features", "user_features"):
        before, after = getattr(changed, side), getattr(loaded, side)
        assert after.report() == before.report()
        assert loaded.data_summary[side] == model.data_summary[side]
    np.testing.assert_array_equal(loaded.item_features.encode(FILM), sides().items.encode(FILM))  # type: ignore[union-attr]
    loaded.describe_items({7002: FILM})  # still learns of new ones
    assert loaded.describe_items({}).items == loaded.items


@both
def test_a_model_that_does_not_mark_empty_rows_is_read(orientation: str, tmp_path: Path) -> None:
    """As those trained without cold rows are."""
    model = fitted(orientation, cold_ratio=0)
    model.describe_items({7002: FILM})
    model.save(tmp_path)
    pairs = [(1, 1), (2, 5), (1, 7002), (123_456, 7002)]
    # Arrays that are mapped lie elsewhere, and a product may be rounded otherwise.
    np.testing.assert_allclose(CFN.load(tmp_path).predict(pairs), model.predict(pairs), rtol=1e-6)


# What is counted aloud, and what is refused


def test_ids_with_only_one_of_both_are_kept_and_counted() -> None:
    ratings = [(user, item, 3.0 + (user + item) % 2) for user in range(12) for item in range(10)]
    films = Features.read([(item, "even" if item % 2 == 0 else "odd") for item in range(4, 15)], kind="tags")
    model = CFN(epochs=2, hidden=4, threads=1, validation=0).fit(ratings, item_features=films)
    assert model.data_summary["user_features"] is None
    counted = model.data_summary["item_features"]
    assert counted == {"columns": films.width, "described": 6, "undescribed": 4, "unrated": 5}
    assert len(model.items) == 15
    assert model.item_counts()[model.items.index(14)] == 0
    assert 14 in {entry.item for entry in model.recommend(0, n=20)}


def test_features_of_other_ids_are_refused() -> None:
    films = Features.read([("x1", "a"), ("x2", "a")], kind="tags")
    with pytest.raises(DataError, match="none of the 2 items with features is among the 1 with ratings"):
        CFN().fit([("u", "a", 1.0)], item_features=films)


def test_too_many_features_or_too_few_columns_are_warned_of() -> None:
    ratings = [(user, item, 3.0 + (user + item) % 2) for user in range(9) for item in range(7)]
    vectors = Features.read({item: np.eye(7)[item].tolist() for item in range(7)})
    with pytest.warns(FeatureWidthWarning, match=r"7 feature columns beside a hidden layer of 6.*hidden=.*above 7"):
        CFN(epochs=1, hidden=6, threads=1, validation=0).fit(ratings, item_features=vectors)
    with pytest.warns(FeatureWidthWarning, match="hidden layer of 9 is not narrower than the 9 columns"):
        CFN(epochs=1, hidden=9, threads=1, validation=0).fit(ratings, item_features=vectors)


def test_what_is_wrong_with_a_description_is_said(model: CFN) -> None:
    people = model.user_features
    assert people is not None
    for features, said in (
        ({"age": 30}, "'occupation' is missing"),
        (PERSON | {"occupation": "astronaut"}, "astronaut"),
        (PERSON | {"age": "old"}, "old"),
        (PERSON | {"ages": 3}, "did you mean 'age'"),
    ):
        with pytest.raises(DataError, match=said):
            model.recommend({}, features=features)
    with pytest.raises(DataError, match="1 is an id"):
        model.recommend(1, features=PERSON)
    with pytest.raises(DataError, match="trained without features of users"):
        fitted("item", side=False, epochs=1).recommend({}, features=PERSON)
    users, items = len(model.users), len(model.items)
    with pytest.raises(DataError):
        model.describe_items({7001: FILM, 7002: {"genres": "Comedy"}})
    assert (len(model.users), len(model.items)) == (users, items)  # all or nothing


@both
def test_zeros_that_are_known_are_not_unknown(orientation: str, tmp_path: Path) -> None:
    """A flag that is 0 says as much as one that is 1; and what is known survives the model folder."""
    ratings = [(user, item, 3.0 + (user + item) % 2) for user in range(30) for item in range(25)]
    flags = Features.read(pl.DataFrame({"item": range(20), "scary": [0, 1] * 10}))
    model = CFN(orientation=orientation, epochs=3, hidden=6, threads=1, validation=0).fit(ratings, item_features=flags)
    model.describe_items({100: {"scary": 0}})
    assert model.similar(100, n=1)
    model.save(tmp_path)
    loaded = CFN.load(tmp_path)
    assert loaded.similar(100, n=1) == model.similar(100, n=1)
    assert loaded.item_features is not None
    assert list(loaded.item_features.ids) == list(range(20))


def test_vectors_of_any_size_weigh_as_much_as_other_features() -> None:
    rng = np.random.default_rng(0)
    ratings = [(user, item, 3.0 + (user + item) % 2) for user in range(30) for item in range(25)]
    vectors = rng.normal(size=(25, 4))
    models = [
        CFN(epochs=3, hidden=6, threads=1, validation=0).fit(
            ratings, item_features=Features.read({item: (vectors[item] * size).tolist() for item in range(25)})
        )
        for size in (1.0, 1e4)
    ]
    pairs = [(user, item) for user in range(5) for item in range(25)]
    np.testing.assert_allclose(models[0].predict(pairs), models[1].predict(pairs), atol=1e-3)
    models[0].describe_items({99: {"vectors": [1e30, -1e30, 0.0, 1.0]}})
    assert np.isfinite(models[0].predict([(1, 99)])).all()
    assert len(models[0].similar(3)) == 10


def test_a_table_that_says_nothing_of_tags_leaves_them_alone(model: CFN, tmp_path: Path) -> None:
    changed = fresh(model, tmp_path / "m")
    side = (
        changed.network_predictor.row_features
        if changed.orientation == "item"
        else changed.network_predictor.column_features
    )
    tags = changed.item_features.names.index("tags[0]")  # type: ignore[union-attr]
    tagged = int(np.flatnonzero(side.values[:, tags:].any(axis=1))[0])
    item, kept = changed.items.id(tagged), side.values[tagged, tags:].copy()
    before = changed.predict([(user, item) for user in range(1, 9)])
    movies = {"item": [item, 777_777], "title": ["?", "?"], "year": [1999, 1999], "genres": ["Comedy", "War"]}
    changed.describe_items(pl.DataFrame(movies))
    np.testing.assert_array_equal(side.values[tagged, tags:], kept)
    assert not side.values[-1, tags:].any()
    assert np.isfinite(side.values).all()
    assert np.abs(changed.predict([(user, item) for user in range(1, 9)]) - before).max() > 1e-4


# In words


def test_what_items_are_follows_descriptions(model: CFN, tmp_path: Path) -> None:
    """Also after the model folder, and with what was said of tags alone left as it was."""
    changed = fresh(model, tmp_path / "m")
    words = changed.item_attributes
    assert [(column.name, column.kind) for column in words.columns()] == [
        *(("year", "number"), ("genres", "several"), ("tags", "several"))
    ]
    assert [words.of(item) for item in changed.items] == [model.item_attributes.of(item) for item in model.items]
    tagged = next(item for item in changed.items if words.of(item)["tags"])
    tags = words.of(tagged)["tags"]
    changed.describe_items({7001: FILM | {"tags": None}, 5: FILM | {"year": None}})
    changed.describe_items(pl.DataFrame({"item": [tagged, 7002], "title": "?", "year": 1999, "genres": ["War", None]}))
    changed.add_ratings([(1, 7003, 4.0)])
    changed.save(tmp_path / "again")
    for now in (words, CFN.load(tmp_path / "again").item_attributes):
        assert now.of(7001) == {"year": 1999, "genres": ["Comedy", "Drama"], "tags": None}
        assert now.of(5) == {"year": None, "genres": ["Comedy", "Drama"], "tags": None}
        assert now.of(tagged) == {"year": 1999, "genres": ["War"], "tags": tags}
        assert now.of(7002) == {"year": 1999, "genres": None, "tags": None}
        assert now.of(7003) == {"year": None, "genres": None, "tags": None}
        comedies = now.matching({"genres": "Comedy", "year": {"min": 1999, "max": 1999}})
        assert len(comedies) == len(changed.items)
        assert comedies[changed.items.index(7001)]
        assert not comedies[[changed.items.index(item) for item in (5, tagged, 7002, 7003)]].any()


def test_a_refused_description_changes_no_words(model: CFN, tmp_path: Path) -> None:
    changed = fresh(model, tmp_path / "m")
    before = changed.item_attributes.frame()
    for wrong in ({5: FILM | {"colour": "red"}}, {5: FILM, 7001: FILM | {"genres": "Comdy"}}, {5: {"year": 1999}}):
        with pytest.raises(DataError, match="description"):
            changed.describe_items(wrong)
    changed.describe_users({5: PERSON})
    assert changed.item_attributes.frame().equals(before)


def test_baselines_keep_what_items_are(tmp_path: Path) -> None:
    side = SVDFeature(rank=2, epochs=1).fit(sides().ratings, item_features=sides().items)
    assert [column.name for column in side.item_attributes.columns()] == ["year", "genres", "tags"]
    side.save(tmp_path)
    loaded = SVDFeature.load(tmp_path)
    assert [loaded.item_attributes.of(item) for item in loaded.items] == [
        side.item_attributes.of(item) for item in side.items
    ]
    plain = SVDFeature(rank=2, epochs=1).fit(sides().ratings)
    assert plain.item_attributes.columns() == []
    assert plain.item_attributes.matching({}).all()
    assert len(plain.item_attributes.matching({})) == len(plain.items)

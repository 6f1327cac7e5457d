"""A model in shards: whole it is the model that was saved, in part it says of its users what the whole model says."""

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cofill import CFN, Interactions, Ratings, Recommender, algorithm
from cofill.cli import main
from cofill.errors import DataError, ModelFileError, SettingsError
from cofill.evaluation.ratings import evaluate
from cofill.models.lists.rules import By
from cofill.models.persistence import (
    Card,
    Cut,
    Divided,
    ShardCard,
    cut_evenly,
    divided,
    finish,
    parts_of,
    write_shard,
    write_shared,
)
from tests.models.contract import assert_same_recommendations
from tests.models.stored_models import _features
from tests.models.test_model_file import Change, alter, card_of, names, poke, rewrite

# Sums of the same numbers in another order.
ROUNDING: dict[str, Any] = {"rtol": 1e-6, "atol": 2e-6}
USERS, ITEMS = 23, 17
WAYS: tuple[By, ...] = ("list", "rating")

MODELS: dict[str, dict[str, Any]] = {
    "plain": {"hidden": 6},
    "deep, with features": {"hidden": (9, 7, 9), "features": True},
    "network": {"hidden": 6, "decoder": "network", "output": "tanh"},
    "network, with features": {"hidden": 9, "decoder": "network", "features": True},
    "validated": {"hidden": 6, "validation": 0.2, "neighbours": 4},
    "interactions, with decay": {"hidden": 6, "half_life": "10d", "interactions": True},
    "autorec": {"hidden": 6},
}
ROWS_OF_USERS: dict[str, dict[str, Any]] = {
    "users": {"orientation": "user", "hidden": 6, "half_life": "10d", "interactions": True},
    "users, with features": {"orientation": "user", "hidden": 9, "features": True},
    "users, network": {"orientation": "user", "hidden": 6, "decoder": "network"},
}


def ratings(seed: int = 1) -> Ratings:
    """People and films of two kinds who like their own kind; the last film has no rating, one person a single one."""
    rng = np.random.default_rng(seed)
    frame = [
        (f"user {user}", f"film {item}", float(np.clip(3 + 1.5 * (-1) ** (user + item) + rng.normal(0, 0.6), 1, 5)))
        for user in range(USERS)
        for item in range(ITEMS - 1)
        if (item == 3 if user == 5 else rng.random() < 0.2 + 0.6 * user / USERS)
    ]
    users, items, values = zip(*frame, strict=True)
    times = 1_500_000_000 + 86_400 * rng.integers(0, 60, len(frame))
    return Ratings.read(pl.DataFrame({"user": users, "item": items, "rating": values, "time": times}), scale=(1, 5))


def made(options: dict[str, Any], name: str = "cfn") -> Recommender:
    options, known = dict(options), ratings()
    told: dict[str, Any] = _features(known) if options.pop("features", False) else {}
    if options.pop("interactions", False):
        rng = np.random.default_rng(8)
        seen = {(f"user {rng.integers(USERS)}", f"film {rng.integers(ITEMS)}") for _ in range(90)}
        frame = pl.DataFrame([(*pair, 1_500_000_000 + 86_400 * day) for day, pair in enumerate(sorted(seen))],
                             schema=["user", "item", "time"], orient="row")  # fmt: skip
        told["interactions"] = Interactions.read(frame)
    own = {"validation": 0} | options
    return algorithm(name)(epochs=3, threads=1, **own).fit(known, **told)


@cache
def model(name: str) -> Recommender:
    """Nobody changes it."""
    return made((MODELS | ROWS_OF_USERS)[name], "autorec" if name == "autorec" else "cfn")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model in three shards."""
    model("deep, with features").save(tmp_path / "model", shards=3)
    return tmp_path / "model"


def path_of(folder: Path, kind: str, shard: int) -> Path:
    return folder / str(card_of(folder)["shards"][shard]["files"][kind]["name"])


def pairs_of(asked: Recommender) -> list[tuple[Any, Any]]:
    """Everybody in it, and somebody it has never seen, with everything."""
    return [(user, item) for user in [*asked.users, "nobody"] for item in [*asked.items, "nothing"]]


def assert_equal(one: Recommender, other: Recommender, pairs: list[tuple[Any, Any]]) -> None:
    np.testing.assert_array_equal(one.predict(pairs), other.predict(pairs))


def assert_same(one: Recommender, other: Recommender) -> None:
    """To rounding: arrays that have grown lie in memory in another way, and some processors add up by that."""
    pairs = pairs_of(other)
    np.testing.assert_allclose(one.predict(pairs), other.predict(pairs), **ROUNDING)


# The law


def assert_answers_as(part: Recommender, whole: Recommender) -> None:
    """Of everybody in the part, whatever they may be asked about."""
    here = np.arange(len(part.users))
    there = whole.users.find(part.users.ids).astype(np.int64)
    pairs = pairs_of(part)
    np.testing.assert_allclose(part.predict(pairs), whole.predict(pairs), **ROUNDING)
    assert part.has_intervals == whole.has_intervals
    if part.has_intervals:
        for one, other in zip(*(m.predict(pairs, with_interval=True) for m in (part, whole)), strict=True):
            np.testing.assert_allclose(one, other, **ROUNDING)
    np.testing.assert_array_equal(part.item_counts(), whole.item_counts())
    np.testing.assert_array_equal(part.user_counts(), whole.user_counts()[there])
    np.testing.assert_allclose(part.item_vectors(), whole.item_vectors(), **ROUNDING)
    assert_lists_alike(part, whole, here, there)
    somebody: dict[Any, float] = {"film 2": 5.0, "film 3": 1.0}
    for by in WAYS:
        assert_same_recommendations(part.recommend(somebody, by=by), whole.recommend(somebody, by=by))
    assert [one.item for one in part.similar("film 1", 4)] == [one.item for one in whole.similar("film 1", 4)]


def assert_lists_alike(part: Recommender, whole: Recommender, here: Any, there: Any) -> None:
    rules: dict[str, Any] = {"min_ratings": 4, "diversity": 0.3, "exclude": ["film 0"], "new_items": 0.3}
    for by in WAYS:
        np.testing.assert_allclose(part.user_scores(here, by=by), whole.user_scores(there, by=by), rtol=1e-5, atol=1e-5)
        mine = dict(part.recommend_many(by=by, n=4, **rules))
        for user, found in whole.recommend_many(part.users.ids, by=by, n=4, **rules):
            assert_same_recommendations(mine[user], found)
    for place, index in zip(here.tolist(), there.tolist(), strict=True):
        np.testing.assert_array_equal(part.known_items(place), whole.known_items(index))
    for user in part.users.ids[:3]:
        for by in WAYS:
            assert_same_recommendations(part.recommend(user, by=by), whole.recommend(user, by=by))
            one, other = (m.explain(user, "film 4", by=by) for m in (part, whole))
            named = [{c.item or c.feature: c.amount for c in e.contributions} for e in (one, other)]
            assert named[0] == pytest.approx(named[1], abs=1e-5)
            assert (one.value, one.base, one.low) == pytest.approx((other.value, other.base, other.low), abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_part_answers_as_the_whole_model_does(name: str, tmp_path: Path) -> None:
    whole = model(name)
    whole.save(tmp_path, shards=3)
    assert [part.number for part in parts_of(tmp_path)] == [0, 1, 2]
    for about in parts_of(tmp_path):
        part = Recommender.load(tmp_path, part=about.number)
        assert part.part == about
        assert f"part {about.number} of 3" in repr(part)
        assert part.users.ids == whole.users.ids[about.first : about.first + about.users]
        assert part.items == whole.items
        assert_answers_as(part, whole)


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.sets(st.integers(1, USERS - 1), max_size=5).map(sorted), chosen=st.integers(0, 5))
def test_wherever_it_is_cut(cuts: list[int], chosen: int, tmp_path: Path) -> None:
    whole = model("validated")
    parts = divided(whole)
    ranges = [range(first, last) for first, last in pairwise([0, *cuts, USERS])]
    finish(tmp_path, write_shared(tmp_path, parts), [write_shard(tmp_path, parts, columns) for columns in ranges])
    assert len(parts_of(tmp_path)) == len(cuts) + 1
    assert_equal(CFN.load(tmp_path), whole, pairs_of(whole))
    assert_answers_as(CFN.load(tmp_path, part=chosen % (len(cuts) + 1)), whole)


@pytest.mark.parametrize("name", [*MODELS, *ROWS_OF_USERS])
@pytest.mark.parametrize("shards", [1, 4])
def test_loaded_whole_it_is_the_model_that_was_saved(name: str, shards: int, tmp_path: Path) -> None:
    whole = model(name)
    whole.save(tmp_path / "piece")
    whole.save(tmp_path / "shards", shards=shards)
    loaded = Recommender.load(tmp_path / "shards")
    assert loaded.part is None
    assert_equal(loaded, whole, pairs_of(whole))
    loaded.save(tmp_path / "again")
    assert names(tmp_path / "again") == names(tmp_path / "piece")  # which are their content
    loaded.save(tmp_path / "shards again", shards=shards)
    assert names(tmp_path / "shards again") == names(tmp_path / "shards")


@pytest.mark.parametrize("name", ["deep, with features", "interactions, with decay", "users, with features"])
def test_a_model_that_has_changed_is_whole_again_too(name: str, tmp_path: Path) -> None:
    options = (MODELS | ROWS_OF_USERS)[name]
    changed = made(options)
    changed.add_ratings([("user 3", "film 1", 4.0), ("somebody new", "film 2", 2.0), ("user 3", "a new film", 5.0)])
    changed.remove_ratings([("user 20", item) for item in ("film 1", "film 2", "film 3", "film 4")])
    if options.get("features"):
        changed.describe_users({"user 4": {"age": 60, "gender": "f"}})
    else:
        changed.add_interactions([("user 2", "film 9"), ("yet another", "film 9")])
    changed.save(tmp_path, shards=3)
    loaded = Recommender.load(tmp_path)
    assert loaded.users == changed.users
    assert_same(loaded, changed)
    for one, other in zip(loaded.recommend_many(), changed.recommend_many(), strict=True):
        assert one[0] == other[0]
        assert_same_recommendations(one[1], other[1])
    loaded.save(tmp_path / "piece")
    assert_same(Recommender.load(tmp_path / "piece"), changed)
    with pytest.raises(ModelFileError, match="load it whole"):
        Recommender.load(tmp_path, part=0)


# Written by several


def test_processes_that_have_a_part_each_write_one_model(folder: Path, tmp_path: Path) -> None:
    """Each has what a worker of a cluster has: its own columns, and what all columns say of the rows."""
    whole = model("deep, with features")
    workers = [divided(CFN.load(folder, part=part)) for part in range(3)]
    cards = []
    for worker in workers:
        for columns in cut_evenly(worker, 3):
            written = write_shard(tmp_path / "new", worker, columns)
            cards.append(ShardCard.model_validate_json(written.model_dump_json()))
    shared = write_shared(tmp_path / "new", workers[1])
    assert len(cards) > 6
    finish(tmp_path / "new", Card.model_validate_json(shared.model_dump_json(exclude_unset=True)), cards)
    assert_equal(CFN.load(tmp_path / "new"), whole, pairs_of(whole))
    for about in parts_of(tmp_path / "new")[::4]:
        assert_answers_as(CFN.load(tmp_path / "new", part=about.number), whole)


def test_a_process_without_a_column_adds_none(tmp_path: Path) -> None:
    parts = divided(model("plain"))
    cards = [write_shard(tmp_path, parts, columns) for columns in (range(0), range(USERS), range(USERS, USERS))]
    finish(tmp_path, write_shared(tmp_path, parts), cards)
    assert len(parts_of(tmp_path)) == 1
    with pytest.raises(ModelFileError, match="the shards have 0 columns with 0 ratings, and the model has"):
        finish(tmp_path, write_shared(tmp_path, parts), cards[:1])


def test_a_writer_that_is_stopped_before_the_card_leaves_the_old_model(folder: Path) -> None:
    other = divided(model("plain"))
    for columns in (range(9), range(9, USERS)):
        write_shard(folder, other, columns)
    write_shared(folder, other)
    (folder / ".ratings.0123456789abcdef.safetensors").write_bytes(b"half")
    whole = model("deep, with features")
    assert_equal(CFN.load(folder), whole, pairs_of(whole))
    CFN.load(folder, part=2)
    whole.save(folder, shards=3)
    document = card_of(folder)
    named = [file["name"] for part in (document, *document["shards"]) for file in part["files"].values()]
    assert names(folder) == sorted(["model.json", *named])  # what the other left behind is gone


def test_one_form_takes_the_place_of_the_other(folder: Path) -> None:
    model("plain").save(folder)
    assert len(names(folder)) == 6
    model("plain").save(folder, shards=2)
    assert_equal(CFN.load(folder), model("plain"), pairs_of(model("plain")))


# Where it is cut


def divided_with(counts: list[int]) -> Divided:
    """Columns with so many ratings, and 40 bytes more each."""
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    entries = np.zeros(int(ends[-1]), np.float32)
    arrays: dict[str, dict[str, Any]] = {
        "ratings": {"indptr": ends, "indices": entries.astype(np.int32), "values": entries},
        "weights": {"input.weight": np.zeros((len(counts), 8), np.float32), "decoder.pull": entries},
        "lists": {},
    }
    unused: Any = None
    return Divided(unused, unused, arrays, Cut("users", ["input.weight"], ["decoder.pull"], dict))


COUNTS = st.lists(st.integers(0, 30) | st.sampled_from([0, 1000]), min_size=1, max_size=40)


@given(counts=COUNTS, shards=st.integers(1, 50))
def test_even_shards_are_a_partition(counts: list[int], shards: int) -> None:
    parts = divided_with(counts)
    ranges = cut_evenly(parts, shards)
    assert [column for columns in ranges for column in columns] == list(range(len(counts)))
    assert len(ranges) == min(shards, len(counts))
    assert all(ranges)
    sizes = [40 + 12 * count for count in counts]
    assert parts.sizes().tolist() == sizes
    room = len(counts) - len(ranges)  # columns that need not stand alone
    even, most = sum(sizes) / len(ranges), max(sizes)
    assert all(sum(sizes[c] for c in columns) <= even + 2 * most for columns in ranges) or room < len(ranges)


def test_even_shards_have_about_as_many_bytes(folder: Path) -> None:
    assert sum(part.ratings for part in parts_of(folder)) == len(ratings())
    shards = card_of(folder)["shards"]
    sizes = [sum(file["bytes"] for file in shard["files"].values()) for shard in shards]
    assert max(sizes) < 1.3 * min(sizes)


# What is read


def test_a_part_is_read_without_the_others(folder: Path) -> None:
    whole = model("deep, with features")
    document = card_of(folder)
    for number in (0, 2):
        for file in document["shards"][number]["files"].values():
            (folder / file["name"]).unlink()
    assert_answers_as(CFN.load(folder, part=1), whole)
    with pytest.raises(ModelFileError, match="missing"):
        CFN.load(folder)


def test_what_all_columns_say_of_the_rows_is_for_parts_alone(folder: Path) -> None:
    rows = folder / card_of(folder)["files"]["rows"]["name"]
    rows.unlink()
    CFN.load(folder)
    with pytest.raises(ModelFileError, match="missing"):
        CFN.load(folder, part=0)


def test_test_ratings_of_a_parts_users(folder: Path) -> None:
    whole, test = model("deep, with features"), ratings(seed=2)
    squares = count = 0.0
    for about in parts_of(folder):
        part = CFN.load(folder, part=about.number)
        own = test.select(part.users.find(test.users.ids)[test.user_index] >= 0)
        found = evaluate(part, own, intervals=True)
        assert found.within_interval is not None
        squares, count = squares + found.rmse**2 * found.ratings, count + found.ratings
    assert count == len(test)
    assert np.sqrt(squares / count) == pytest.approx(evaluate(whole, test).rmse, abs=1e-6)


def test_a_part_is_asked_and_not_changed(folder: Path, tmp_path: Path) -> None:
    part = CFN.load(folder, part=1)
    before = part.predict(pairs_of(part))
    calls: list[Callable[[], object]] = [
        lambda: part.add_ratings([("user 1", "film 1", 3.0)]),
        lambda: part.remove_ratings([("user 1", "film 1")]),
        lambda: part.add_interactions([("user 1", "film 1")]),
        lambda: part.describe_users({"user 1": {"age": 20, "gender": "m"}}),
        lambda: part.describe_items({"film 1": {"genres": "odd", "year": 1999}}),
        lambda: part.save(tmp_path / "part"),
        lambda: part.save(tmp_path / "part", shards=2),
    ]
    for call in calls:
        with pytest.raises(DataError, match=r"this is part 1 of 3 of a model in shards, .*; load it whole"):
            call()
    np.testing.assert_array_equal(part.predict(pairs_of(part)), before)
    assert not (tmp_path / "part").exists()
    assert part.fit(ratings()).add_ratings([("user 1", "film 1", 3.0)]).part is None


# What is refused


def test_a_part_that_there_is_none_of(folder: Path, tmp_path: Path) -> None:
    for number in (3, -1):
        with pytest.raises(ModelFileError, match=f"there is no part {number}; the model has 3, from 0 to 2"):
            CFN.load(folder, part=number)
    model("plain").save(tmp_path / "piece")
    for call in (lambda: CFN.load(tmp_path / "piece", part=0), lambda: parts_of(tmp_path / "piece")):
        with pytest.raises(ModelFileError, match="this model is in one piece; load it whole"):
            call()
    model("users").save(tmp_path / "users", shards=2)
    with pytest.raises(ModelFileError, match="hold items, and each user is in all of them; load it whole"):
        CFN.load(tmp_path / "users", part=0)


def test_what_cannot_be_cut(tmp_path: Path) -> None:
    both = CFN(orientation="both", hidden=4, epochs=1, threads=1, validation=0).fit(ratings())
    others: list[tuple[Recommender, Any, str]] = [
        (both, 2, "a model of 'cfn' is saved in one piece, unless it is one network"),
        (algorithm("als-wr")(rank=2, iterations=1).fit(ratings()), 2, "a model of 'als-wr' is saved in one piece"),
        (model("plain"), 0, "at least one shard. Got shards=0"),
    ]
    for one, shards, words in others:
        with pytest.raises(SettingsError, match=words):
            one.save(tmp_path / "model", shards=shards)
    assert not (tmp_path / "model").exists()


KINDS = ("weights", "ratings", "users", "features")


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_that_is_missing_truncated_or_altered(folder: Path, kind: str) -> None:
    path = path_of(folder, kind, 1)
    content = path.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 4
    for written, words in (
        (content[:-9], "truncated or altered"),
        (bytes(flipped), "altered since"),
        (None, "missing"),
    ):
        path.unlink() if written is None else path.write_bytes(written)
        for part in (None, 1):
            with pytest.raises(ModelFileError, match=words) as caught:
                CFN.load(folder, part=part)
            assert str(path) in str(caught.value)
            assert "\n" not in str(caught.value)
        CFN.load(folder, part=0)


CARDS: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda card: card["shards"][1].update(columns=-1), r"shards.1.columns"),
    (lambda card: card.update(columns="cups"), "columns"),
    (lambda card: card["shards"][0]["files"].pop("weights"), "do not fit together"),
    (lambda card: card["shards"][0]["files"]["users"].update(name="../users"), "names a file elsewhere"),
    (lambda card: card["shards"][1]["files"].update(users=card["shards"][0]["files"]["users"]), "do not fit together"),
    (lambda card: card["files"].pop("weights"), "do not fit together"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), CARDS, ids=[f"{at}: {words}" for at, (_, words) in enumerate(CARDS)])
def test_a_card_that_was_made_to_fit(folder: Path, change: Callable[[dict[str, Any]], object], words: str) -> None:
    rewrite(folder, change, sign=True)
    with pytest.raises(ModelFileError, match=words) as caught:
        CFN.load(folder)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def _shorter(name: str) -> Change:
    return lambda arrays: arrays.update({name: arrays[name][:-1]})


ALTERED: list[tuple[int | None, str, Change]] = [
    (1, "weights", lambda arrays: arrays.pop("input.weight")),
    (1, "ratings", poke("indices", 900)),
    (1, "ratings", _shorter("indices")),
    (None, "rows", _shorter("counts")),
    (None, "rows", lambda arrays: arrays.pop("codes")),
]


@pytest.mark.parametrize(("shard", "kind", "change"), ALTERED)
def test_altered_arrays(folder: Path, shard: int | None, kind: str, change: Change) -> None:
    """An author who signs them again: what a compiled loop would index by, and what is missing, is refused."""
    alter(folder, kind, change, shard)
    with pytest.raises(ModelFileError, match="do not fit together"):
        CFN.load(folder, part=1 if kind == "rows" else None)


# From the command line


def test_commands_read_it_as_any_other(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "ratings.csv"
    ratings().to_polars().select("user", "item", "rating").write_csv(known)
    assert main(["recommend", str(folder), "--user", "user 3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "film" in json.dumps(found)
    assert main(["evaluate", str(folder), str(known), "--json"]) == 0
    words = ["--epochs", "1", "--hidden", "4", "--threads", "1", "--quiet"]
    assert main(["train", str(known), "--out", str(folder), *words]) == 0
    assert len(names(folder)) == 7  # one of them the map

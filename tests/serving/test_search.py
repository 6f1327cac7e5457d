"""The indexes that answer while somebody types, and the items to begin with."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.data.vocabulary import Id, Vocabulary
from cofill.serving.live.search import ItemSearch, UserSearch, folded_words, starter_items

TITLES = [
    "Amélie",
    "The Red-Shoes (1948)",
    "Red Dawn",
    "A Shoe",
    "RED",
    "Straße nach Süden",
    "羅生門 Rashomon",
    "!!!",
    "Bells, The (1926)",
]


@pytest.fixture
def search() -> ItemSearch:
    items = Vocabulary(list(range(10, 10 + len(TITLES))))
    return ItemSearch(items, dict(zip(items, TITLES, strict=True)))


COUNTS = np.array([5, 1, 9, 0, 9, 2, 3, 7, 0])


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("amelie", [0]),
        ("AMÉ", [0]),
        ("red", [2, 4, 1]),
        ("red sho", [1]),
        ("sho red", [1]),
        ("strasse", [5]),
        ("sud", [5]),
        ("羅", [6]),
        ("12", [2]),
        ("1948", [1]),
        ("edna", []),
        ("%", []),
        ("the bells", [8]),
        ("bells, the", [8]),
        ("", [2, 4, 7, 0, 6, 5, 1, 3, 8]),
    ],
)
def test_titles_are_found(search: ItemSearch, query: str, found: list[int]) -> None:
    assert search.find(query, COUNTS, 10) == found
    assert search.find(query, COUNTS, 1) == found[:1]


def test_titles_that_change_are_found_by_their_new_names() -> None:
    items = Vocabulary(["a", "b"])
    titles: dict[Id, str] = {"a": "Old Name", "b": "Other"}
    search = ItemSearch(items, titles)
    items.add(["c"])
    titles |= {"a": "New Name", "c": "Old Times"}
    search.changed("a")
    search.changed("c")
    counts = np.array([1, 2, 3])
    assert search.find("old", counts, 9) == [2]
    assert search.find("na", counts, 9) == [0]
    for number in range(2000):  # more than are looked through one by one
        items.add([f"item {number}"])
        titles[f"item {number}"] = f"Title {number}"
        search.changed(f"item {number}")
    counts = np.arange(len(items))
    assert search.find("old", counts, 9) == [2]
    assert search.find("title 1999", counts, 9) == [items.index("item 1999")]


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8), st.text(max_size=6))
def test_what_is_found_is_what_the_words_say(titles: list[str], query: str) -> None:
    items = Vocabulary([f"id{number}" for number in range(len(titles))])
    search = ItemSearch(items, dict(zip(items, titles, strict=True)))
    wanted = folded_words(query)
    expected = [
        index
        for index, title in enumerate(titles)
        if wanted and all(any(own.startswith(word) for own in folded_words(title)) for word in wanted)
    ]
    if wanted:
        assert sorted(search.find(query, np.zeros(len(titles), np.int64), 100)) == expected


def test_users_are_found_by_the_beginnings_of_their_ids() -> None:
    users = Vocabulary([1, 11, 12, 2, 112])
    search = UserSearch(users)
    users.add([113, 3])
    counts = np.array([0, 5, 9, 7, 1, 8, 2])
    assert [users.id(index) for index in search.find("1", counts, 10)] == [1, 12, 113, 11, 112]
    assert [users.id(index) for index in search.find("11", counts, 2)] == [11, 113]
    assert search.find("9", counts, 10) == []


def test_starters_are_much_rated_and_unlike_each_other() -> None:
    rng = np.random.default_rng(0)
    centres = np.eye(8, 16, dtype=np.float32) * 4
    groups = np.repeat(np.arange(8), 100)
    vectors = centres[groups] + rng.normal(0, 0.1, (800, 16)).astype(np.float32)
    counts = rng.integers(1, 1000, 800)
    chosen = starter_items(vectors, counts, 8)
    rank = np.argsort(np.argsort(-counts, kind="stable"))
    assert all(rank[item] < 200 for item in chosen)
    assert len({groups[item] for item in chosen}) >= 6
    assert chosen == starter_items(vectors, counts, 100)[:8]
    assert len(set(starter_items(vectors, counts, 100))) == 100


def test_starters_of_a_model_that_knows_no_likeness_are_the_most_rated() -> None:
    counts = np.array([3, 0, 9, 5])
    assert starter_items(np.zeros((4, 0), np.float32), counts, 10) == [2, 3, 0]
    assert starter_items(np.zeros((4, 2), np.float32), np.zeros(4, np.int64), 10) == []

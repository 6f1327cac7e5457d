"""Ids <-> indices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError, UnknownIdError

INTEGERS = st.integers(-(2**63), 2**63 - 1)
STRINGS = st.text(min_size=1, max_size=8)
ID_LISTS = st.one_of(st.lists(INTEGERS, unique=True), st.lists(STRINGS, unique=True))


@given(ID_LISTS)
def test_ids_come_back_as_they_went_in(ids: list[Id]) -> None:
    vocabulary = Vocabulary(ids)
    assert vocabulary.ids == ids == list(vocabulary)
    assert len(vocabulary) == len(ids)
    assert [type(id) for id in vocabulary] == [type(id) for id in ids]
    assert [vocabulary.id(index) for index in range(len(ids))] == ids
    assert [vocabulary.index(id) for id in ids] == list(range(len(ids)))
    assert vocabulary.find(ids).tolist() == list(range(len(ids)))
    assert vocabulary.find(ids).dtype == np.int32
    assert all(id in vocabulary for id in ids)
    assert Vocabulary(vocabulary.array()) == vocabulary


@given(ID_LISTS, st.data())
def test_adding_appends_what_is_new_and_nothing_else(ids: list[Id], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(ids)))
    vocabulary = Vocabulary(ids[:first])
    twin = vocabulary.copy()
    assert vocabulary.add(ids).tolist() == list(range(len(ids)))
    assert vocabulary.ids == ids
    assert twin.ids == ids[:first]  # a copy grows on its own
    assert (vocabulary == twin) == (first == len(ids))


@given(st.lists(st.integers(-300, 300), unique=True), st.lists(st.integers(-400, 400), min_size=65))
def test_the_fast_look_up_agrees_with_the_dictionary(known: list[int], wanted: list[int]) -> None:
    vocabulary = Vocabulary(np.array(known, np.int64))
    expected = [known.index(id) if id in known else -1 for id in wanted]
    for dtype in (np.int64, np.int32, np.int16):
        assert vocabulary.find(np.array(wanted, dtype)).tolist() == expected
    assert vocabulary.find(wanted).tolist() == expected
    vocabulary.add([1000])  # what was sorted before must not be used again
    assert vocabulary.find(np.full(65, 1000))[0] == len(known)


def test_an_unsigned_id_beyond_int64_is_unknown_not_negative() -> None:
    vocabulary = Vocabulary([-1, 5])
    wanted = np.array([2**64 - 1, 5] * 50, np.uint64)
    assert vocabulary.find(wanted)[:2].tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("known", "wanted", "found"),
    [
        (
            [42, -3, 0],
            ["42", "-3", "0", "042", "+42", "42.0", " 42", "-0", "", "x"][:8],
            [0, 1, 2, -1, -1, -1, -1, -1],
        ),
        ([42], ["x", "99999999999999999999", "٤٢"], [-1, -1, -1]),
        (["42", "042"], [42, 43, np.int64(42)], [0, -1, 0]),
        ([7], np.array(["7", "07"]), [0, -1]),
        ([], [1, "1"], [-1, -1]),
    ],
)
def test_either_form_of_an_id_is_found_where_it_is_unambiguous(
    known: Sequence[Id], wanted: Any, found: list[int]
) -> None:
    vocabulary = Vocabulary(known)
    assert vocabulary.find(wanted).tolist() == found
    assert [id in vocabulary for id in wanted] == [index >= 0 for index in found]


def test_the_first_id_decides_the_type() -> None:
    vocabulary = Vocabulary()
    assert len(vocabulary) == 0
    vocabulary.add([3])
    assert vocabulary.integers
    assert vocabulary.add(["4", "3"]).tolist() == [1, 0]
    assert vocabulary.ids == [3, 4]
    strings = Vocabulary(["3"])
    assert not strings.integers
    assert strings.add([4]).tolist() == [1]
    assert strings.ids == ["3", "4"]
    assert Vocabulary(np.empty(0, np.int32)).integers


def test_numpy_scalars_become_python_ids() -> None:
    assert type(Vocabulary([np.int32(3)]).id(0)) is int  # type: ignore[list-item]
    assert type(Vocabulary(np.array(["a"])).id(0)) is str
    assert type(Vocabulary(np.array([1, 2], np.uint8)).ids[0]) is int
    assert Vocabulary(["a"]).array().dtype == np.object_
    assert Vocabulary([1]).array().dtype == np.int64


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 1], r"unique ids: 1 of 2 repeat"),
        ([1, "a"], r"all strings or all integers: found 1 and 'a'"),
        (["a", 1], r"all strings or all integers: found 'a' and 1"),
        ([True], r"an id is True of type bool; ids are strings or integers"),
        ([1.0], r"an id is the float 1.0; ids are strings or integers .*astype\('int64'\)"),
        (np.array([1.0]), r"an id is the float 1.0"),
        ([float("nan")], r"an id is NaN: it is missing; drop that row"),
        ([None], r"an id is None of type NoneType"),
        ([""], r"an id is an empty string"),
        ([2**63], r"the integer id 9223372036854775808 does not fit 64 bits"),
        (np.array([2**63], np.uint64), r"does not fit 64 bits"),
        ([b"a"], r"an id is b'a' of type bytes"),
    ],
)
def test_refused_ids(ids: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Vocabulary(ids)


@pytest.mark.parametrize("id", ["x", "042", "99999999999999999999", "4 2"])
def test_a_word_joins_integers_and_both_come_back_as_they_are(id: str) -> None:
    vocabulary = Vocabulary([1])
    assert (vocabulary.integers, vocabulary.mixed) == (True, False)
    assert vocabulary.add([2, id, "3", 1]).tolist() == [1, 2, 3, 0]
    assert vocabulary.ids == [1, 2, id, 3]
    assert (vocabulary.integers, vocabulary.mixed) == (False, True)
    assert vocabulary.find([id, "2", 3, "unknown"]).tolist() == [2, 1, 3, -1]
    assert id in vocabulary
    assert vocabulary.array().tolist() == [1, 2, id, 3]
    assert vocabulary.column().to_list() == ["1", "2", id, "3"]
    assert (vocabulary.own("7"), vocabulary.own(id)) == (7, id)
    twin = vocabulary.copy()
    assert twin == vocabulary
    assert twin.add(["4"]).tolist() == [4]
    assert vocabulary.only([2, 0]).ids == [id, 1]
    kinds = pl.Series([isinstance(one, int) for one in vocabulary])
    assert Vocabulary.restored(vocabulary.column(), kinds) == vocabulary
    with pytest.raises(DataError, match="do not fit together"):
        Vocabulary.restored(vocabulary.column(), ~kinds)
    with pytest.raises(UnknownIdError, match="each an integer or a string"):
        vocabulary.index("unknown")


def test_in_a_data_set_a_word_among_integers_is_a_mistake() -> None:
    with pytest.raises(DataError, match="ids are all strings or all integers: found 1 and 'x'"):
        Vocabulary([1, "x"])


def test_unknown_ids_and_indices() -> None:
    vocabulary = Vocabulary(["a"])
    with pytest.raises(UnknownIdError, match=r"unknown id 'b': it is not among the 1 known ids \(each a string\)"):
        vocabulary.index("b")
    with pytest.raises(UnknownIdError, match="index 1 is outside this vocabulary of 1 ids"):
        vocabulary.id(1)
    with pytest.raises(UnknownIdError, match="index -1"):
        vocabulary.id(-1)
    with pytest.raises(DataError, match="float"):
        vocabulary.find([1.5])  # type: ignore[list-item]
    nothing: list[object] = [None, 1.0, True, np.True_, [], "b"]
    for never in nothing:
        assert never not in vocabulary
    assert True not in Vocabulary([1])  # though True == 1 in Python


def test_equality_and_repr() -> None:
    assert Vocabulary(["1"]) != Vocabulary([1])
    assert Vocabulary([1, 2]) != Vocabulary([2, 1])
    assert Vocabulary() == Vocabulary()
    assert Vocabulary([1]) != [1]
    assert repr(Vocabulary([1])) == "Vocabulary(1 integer ids)"
    with pytest.raises(TypeError):
        hash(Vocabulary())

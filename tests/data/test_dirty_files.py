"""What real files brought: one small file of each kind in tests/data/dirty, and how it is read or refused."""

import bz2
import gzip
import io
import lzma
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cofill.data.features import Features
from cofill.data.pairs import read_pairs, read_somebody, read_titles
from cofill.data.ratings import Ratings, SkippedLinesWarning, UnusualRatingWarning
from cofill.errors import DataError

DIRTY = Path(__file__).parent / "dirty"
ROWS = [(1, 10, 3.5), (1, 20, 5.0), (22, 10, 1.0)]
NAMED = [(1, "Amélie", 3.5), (1, "Señor", 5.0), (22, "Amélie", 1.0)]
JESTER = [
    *((1, 1, -7.82), (1, 3, 8.79), (1, 6, 0.0)),
    *((2, 1, 4.08), (2, 2, -0.29), (2, 3, 6.36), (2, 4, 4.37), (2, 5, -2.38), (2, 6, -9.66)),
    *((3, 4, 9.03), (3, 5, 9.27), (3, 6, 9.13)),
    *((4, 2, 8.35), (4, 4, 1.80), (4, 6, -2.1)),
]


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("aligned.txt", {"time": ""}, ROWS),
        ("aligned_without_header.txt", {}, ROWS),
        ("backslash_quotes.csv", {}, ROWS),
        ("backslash_at_the_end.csv", {}, ROWS),
        ("latin_1.csv", {"encoding": "latin-1"}, NAMED),
        ("utf_16.csv", {"encoding": "utf-16"}, NAMED),
        ("decimal_commas.csv", {}, ROWS),
        ("trailing_separator.csv", {}, ROWS),
        ("trailing_separator_below_header.csv", {}, ROWS),
        ("trailing_separator.dat", {}, ROWS),
        ("padded_ids.csv", {}, ROWS),
        ("lines.jsonl", {"time": ""}, [("A1", "B10", 3.5), ("A1", "B20", 5.0), ("A22", "B10", 1.0)]),
        ("jester.csv", {"wide": True, "unknown": 99}, JESTER),
        (
            "wide_with_header.csv",
            {"wide": True},
            [("ann", "Alien", 5), ("ann", "Jaws", 3), ("ann", "Vertigo", 1), ("bob", "Heat", 4), ("bob", "Up", 2)],
        ),
    ],
)
def test_read(name: str, options: dict[str, Any], expected: list[Any]) -> None:
    assert Ratings.read(DIRTY / name, **options).frame().rows() == [
        (user, item, pytest.approx(rating)) for user, item, rating in expected
    ]


@pytest.mark.parametrize("name", ["dates_in_words.csv", "dates_day_first.csv", "dates_of_a_log.csv"])
def test_dates_in_words(name: str) -> None:
    times = Ratings.read(DIRTY / name).times
    assert times is not None
    assert times.tolist() == [1262649600, 1298903400, 946598400]


def test_titles_with_quotes_inside() -> None:
    assert Ratings.read(DIRTY / "backslash_quotes.csv").titles == {10: 'The "Burbs', 20: 'Say "yes", or no'}
    assert read_titles(DIRTY / "backslash_quotes.csv") == {10: 'The "Burbs', 20: 'Say "yes", or no'}
    assert Ratings.read(DIRTY / "backslash_at_the_end.csv").titles == {10: "C:\\", 20: "D:\\"}


def test_lines_of_json_have_times_and_lines(tmp_path: Path) -> None:
    times = Ratings.read(DIRTY / "lines.jsonl").times
    assert times is not None
    assert times.tolist() == [881250949, 881250950, 881250951]
    text = (DIRTY / "lines.jsonl").read_text()
    (tmp_path / "r.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert len(Ratings.read(tmp_path / "r.jsonl.gz")) == 3
    (tmp_path / "r.jsonl").write_text(text.replace('"overall": 1', '"overall": null'))
    with pytest.raises(DataError, match=r"r[.]jsonl, line 4, column 'overall': the cell is empty"):
        Ratings.read(tmp_path / "r.jsonl")
    (tmp_path / "r.jsonl").write_text(text.replace('"asin": "B20",', '"asin": B20,'))
    with pytest.raises(DataError, match=r"r[.]jsonl, line 3: found .* where a JSON object belongs"):
        Ratings.read(tmp_path / "r.jsonl")


def test_side_information_of_json(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"id": 1, "age": 30, "job": "cook"}\n{"id": 2, "age": 40, "job": "cook"}\n')
    features = Features.read(tmp_path / "f.jsonl")
    assert (features.ids.ids, features.names[0]) == ([1, 2], "age")


@pytest.mark.parametrize(("name", "ids"), [("spaced_links.txt", [1, 2, 4, 3]), ("aligned_links.txt", [1, 22, 2, 3])])
def test_links_separated_by_blanks(name: str, ids: list[int]) -> None:
    assert Features.read(DIRTY / name, kind="links").ids.ids == ids


def zipped(data: bytes, *names: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, data)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("pack", "ending"),
    [
        (gzip.compress, ".gz"),
        (bz2.compress, ".bz2"),
        (lzma.compress, ".xz"),
        (lambda data: zipped(data, "sub/r.csv"), ".zip"),
    ],
)
def test_packed_files(pack: Callable[[bytes], bytes], ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"r.csv{ending}"
    path.write_bytes(pack((DIRTY / "decimal_commas.csv").read_bytes()))
    assert Ratings.read(path).frame().rows() == ROWS
    assert read_pairs(path) == ([1, 1, 22], [10, 20, 10])
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataError, match=rf"r[.]csv[{ending}]+: the .* data is broken or cut short .*; fetch"):
        Ratings.read(path)
    path.write_bytes(b"user,item,rating\n1,2,3\n")
    with pytest.raises(DataError, match=r"this is not .* data; rename it without"):
        Ratings.read(path)


def test_an_archive_of_several_files(tmp_path: Path) -> None:
    (tmp_path / "r.zip").write_bytes(zipped(b"1,2,3\n", "a.csv", "b.csv"))
    with pytest.raises(DataError, match=r"r[.]zip: this is a zip archive of 2 files: 'a[.]csv', 'b[.]csv'; unpack it"):
        Ratings.read(tmp_path / "r.zip")


def test_encodings_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("item,rating,title,user\nß,3,Führer,ü\n".encode("latin-1"))
    assert read_titles(path, encoding="latin-1") == {"ß": "Führer"}
    assert read_pairs(path, encoding="latin-1") == (["ü"], ["ß"])
    assert read_somebody(path, encoding="latin-1") == {"ß": 3.0}
    assert Features.read(path, encoding="latin-1", id="user").ids.ids == ["ü"]
    path.write_bytes(b"user,item,rating\n1,\x93Heat\x94,3\n")
    with pytest.raises(DataError, match=r"line 2: byte 0x93 is not UTF-8; .* encoding='cp1252'"):
        Ratings.read(path)
    assert Ratings.read(path, encoding="cp1252").items.ids == ["“Heat”"]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nul_in_an_id.csv", r", line 3, column 'item': found 'b\x00c' where an id belongs, which has no NUL"),
        ("jester.csv", ": 7 columns of numbers, which looks like a row for each user and a column for each item; "
         "pass wide=True, and unknown=99 if that stands for unknown"),
        ("wide_with_header.csv", ": 6 columns of numbers, which looks like a row for each user and a column for each "
         "item; pass wide=True, and unknown=... if a number stands for unknown"),
        ("another_order.dat", ": 39 of 60 ratings repeat a user and item"),
    ],
)  # fmt: skip
def test_refused(name: str, says: str) -> None:
    with pytest.raises(DataError) as caught:
        Ratings.read(DIRTY / name)
    assert str(caught.value).startswith(f"{DIRTY / name}{says}")
    assert "user=0" not in str(caught.value)


def test_nul_in_an_id_of_a_frame() -> None:
    with pytest.raises(DataError, match=r"row 1, the user: found .* where an id belongs, which has no NUL"):
        Ratings.read([("a\0", 1, 3.0)])


def test_a_wide_table_without_a_word_for_unknown() -> None:
    with pytest.raises(DataError, match=r"99 is in 9 of 24 cells, .*; pass unknown=99 if it stands for unknown"):
        Ratings.read(DIRTY / "jester.csv", wide=True)
    with pytest.raises(DataError, match="a number for unknown; goes with wide=True"):
        Ratings.read(DIRTY / "jester.csv", unknown=99)


def test_a_bad_cell_of_a_wide_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text((DIRTY / "wide_with_header.csv").read_text().replace("4,,2", "4,,two"))
    with pytest.raises(DataError, match=r"w[.]csv, line 3, column 'Up': found 'two' where a rating belongs"):
        Ratings.read(path, wide=True)


def test_a_wide_table_of_repeated_users(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("7,1,2,3,4,5\n7,2,3,4,5,1\n")
    with pytest.raises(DataError, match=r"line 1, .* found '7' in several rows, .* pass user='' to number the rows"):
        Ratings.read(path, wide=True)
    ratings = Ratings.read(path, wide=True, user="")
    assert (len(ratings), ratings.users.ids) == (12, [1, 2])


def test_one_rating_far_beyond_the_others_is_told() -> None:
    path = DIRTY / "one_million.csv"
    with pytest.warns(UnusualRatingWarning, match=r"line 22, column 'rating': found 1e\+06, while 20 other"):
        ratings = Ratings.read(path)
    assert ratings.scale.high == 1_000_000
    with pytest.raises(DataError, match=r"line 22, column 'rating': found '1000000' outside the scale 1 to 5"):
        Ratings.read(path, scale=(1, 5))


LINES = [f"{number},{number % 7},{1 + number % 5}" for number in range(190)]


@pytest.mark.parametrize("bad", ["7,,3", "7,1,", "7,1", "7,1,3,4", "7,1,good", "", "7,a\0b,3", '"7",,3'])
def test_bad_lines_are_skipped_if_that_is_said(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["user,item,rating", *LINES[:100], bad, *LINES[100:], ""]))
    with pytest.raises(DataError, match=r"r[.]csv, line 102"):
        Ratings.read(path)
    with pytest.warns(SkippedLinesWarning, match=r"r[.]csv: 1 bad line was skipped \(line 102\); 190 ratings are left"):
        ratings = Ratings.read(path, skip_bad_lines=100)
    path.write_text("\n".join(["user,item,rating", *LINES, ""]))
    assert ratings.frame().rows() == Ratings.read(path, skip_bad_lines=100).frame().rows()


def test_too_many_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["user,item,rating", *LINES, "7,1", "8,,3", "9,1,x", "10,1,y", ""]))
    with pytest.warns(SkippedLinesWarning, match=r"4 bad lines were skipped \(line 192, 193, 194, 195\)"):
        Ratings.read(path, skip_bad_lines=4)
    for most in (1, 2, 3):
        with pytest.raises(DataError, match=r"are too many to skip; correct them, or raise skip_bad_lines=[.]{3}"):
            Ratings.read(path, skip_bad_lines=most)
    with pytest.raises(DataError, match="give 0 or more"):
        Ratings.read(path, skip_bad_lines=-1)


def test_columns_in_another_order_are_read_when_they_are_said() -> None:
    ratings = Ratings.read(DIRTY / "another_order.dat", user=2, item=1, rating=0)
    assert (len(ratings), ratings.scale) == (60, (1, 5))


def test_data_names_no_flags() -> None:
    """The words of the command line belong to it."""
    from cofill import data

    for path in Path(str(data.__file__)).parent.glob("*.py"):
        assert " --" not in path.read_text(), path
        assert "(--" not in path.read_text(), path


def test_clean_files_are_read_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Ratings.read(DIRTY / "padded_ids.csv", skip_bad_lines=3)) == 3

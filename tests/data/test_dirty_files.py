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

import polars as pl
import pytest

from cofill.data import table
from cofill.data.features import Features
from cofill.data.pairs import read_pairs, read_somebody, read_titles
from cofill.data.ratings import Ratings, SkippedLinesWarning, UnusualRatingWarning
from tests.bad_input import BadCall, BadFile, Said, refusal

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
    assert Ratings.read(DIRTY / name, **options).to_polars().rows() == [
        (user, item, pytest.approx(rating)) for user, item, rating in expected
    ]


def test_dates_with_points() -> None:
    times = Ratings.read(DIRTY / "dates_with_points.csv").times
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


def test_side_information_of_json(tmp_path: Path) -> None:
    (tmp_path / "f.jsonl").write_text('{"id": 1, "age": 30, "job": "cook"}\n{"id": 2, "age": 40, "job": "cook"}\n')
    features = Features.read(tmp_path / "f.jsonl")
    assert (features.ids.ids, features.names[0]) == ([1, 2], "age")


@pytest.mark.parametrize(("name", "ids"), [("spaced_links.txt", [1, 2, 3, 4]), ("aligned_links.txt", [1, 2, 3, 22])])
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
        (lambda data: zipped(data, "r.csv", "__MACOSX/._r.csv"), ".zip"),  # as a Mac packs it
    ],
)
def test_packed_files(pack: Callable[[bytes], bytes], ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"r.csv{ending}"
    path.write_bytes(pack((DIRTY / "decimal_commas.csv").read_bytes()))
    assert Ratings.read(path).to_polars().rows() == ROWS
    assert read_pairs(path) == ([1, 1, 22], [10, 20, 10])
    path.write_bytes(path.read_bytes()[:-12])
    Said("", "data … cut short", "fetch … again").check(refusal(Ratings.read, path), path)
    path.write_bytes(b"user,item,rating\n1,2,3\n")
    Said("", "not … data", f"rename … without {ending}").check(refusal(Ratings.read, path), path)


@pytest.mark.parametrize("content", [zipped(b"<xml/>", "xl/workbook.xml"), b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"])
def test_excel_workbooks(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.xlsx"
    path.write_bytes(content)
    monkeypatch.setattr(table, "find_spec", lambda name: None)
    Said("", "Excel workbook … package … not installed", "fastexcel … CSV").check(refusal(Ratings.read, path), path)
    monkeypatch.setattr(table, "find_spec", lambda name: name)
    full, empty = pl.DataFrame(ROWS, ["user", "item", "rating"], orient="row"), pl.DataFrame()
    for sheets, found in (
        ({"one": empty, "two": full}, None),
        ({"one": full, "two": full}, "2 sheets with rows: 'one', 'two'"),
        ({}, "0 sheets with rows: none"),
    ):
        monkeypatch.setattr(pl, "read_excel", lambda path, sheets=sheets, **options: sheets)
        if found is None:
            assert Ratings.read(path).to_polars().rows() == ROWS
        else:
            assert found in refusal(Ratings.read, path).found


def test_encodings_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("item,rating,title,user\nß,3,Führer,ü\n".encode("latin-1"))
    assert read_titles(path, encoding="latin-1") == {"ß": "Führer"}
    assert read_pairs(path, encoding="latin-1") == (["ü"], ["ß"])
    assert read_somebody(path, encoding="latin-1") == ({"ß": 3.0}, None)
    assert Features.read(path, encoding="latin-1", id="user").ids.ids == ["ü"]
    path.write_bytes(b"user,item,rating\n1,\x93Heat\x94,3\n")
    said = Said("line 2", "byte 0x93 … not UTF-8", "save … UTF-8", {"encoding": "cp1252"})
    said.check(refusal(Ratings.read, path), path)
    assert Ratings.read(path, encoding="cp1252").items.ids == ["“Heat”"]


def dirty(name: str, replacing: tuple[str, str] = ("", ""), **options: Any) -> BadFile:
    """One of the files, with something in it replaced."""
    content = (DIRTY / name).read_bytes()
    old, new = (text.encode() for text in replacing)
    assert old in content
    return BadFile(content.replace(old, new) if old else content, options, name)


REFUSED = {
    "a NUL in an id": dirty("nul_in_an_id.csv"),
    **{
        name: dirty(name)
        for name, found in (
            ("dates_in_words.csv", "January 5, 2010"),
            ("dates_day_first.csv", "05-Jan-2010"),
            ("dates_of_a_log.csv", "Tue Jan 05 00:00:00 +0000 2010"),
        )
    },
    "a wide table with 99 for unknown": dirty("jester.csv"),
    "a wide table with a header": dirty("wide_with_header.csv"),
    "columns in another order": dirty("another_order.dat"),
    "a wide table without a word for unknown": dirty("jester.csv", wide=True),
    "a bad cell of a wide table": dirty("wide_with_header.csv", ("4,,2", "4,,two"), wide=True),
    "one rating of a million outside the scale": dirty("one_million.csv", scale=(1, 5)),
    "null in JSON lines": dirty("lines.jsonl", ('"overall": 1', '"overall": null')),
    "broken JSON lines": dirty("lines.jsonl", ('"asin": "B20",', '"asin": B20,')),
    "Latin-1": dirty("latin_1.csv"),
    "Windows quotes": BadFile(b"user,item,rating\n1,\x93Heat\x94,3\n"),
    "an archive of several files": BadFile(zipped(b"1,2,3\n", "a.csv", "b.csv"), {}, "r.zip"),
    "an SQLite database": BadFile(b"SQLite format 3\0", {}, "r.sqlite"),
    "an Arrow file": BadFile(b"ARROW1\0\0\xff", {}, "r.feather"),
    "a JSON array": BadFile('[\n  {"user": 1, "item": 2, "rating": 3}\n]\n', {}, "r.json"),
    "a wide table of repeated users": BadFile("7,1,2,3,4,5\n7,2,3,4,5,1\n", {"wide": True}),
}
OPTIONS = {
    "unknown without wide": BadCall(lambda: Ratings.read(DIRTY / "jester.csv", unknown=99)),
    "fewer than no bad lines": BadCall(lambda: Ratings.read(DIRTY / "padded_ids.csv", skip_bad_lines=-1)),
    "a NUL in an id of tuples": BadCall(lambda: Ratings.read([("a\0", 1, 3.0)])),
}


def test_a_wide_table_of_repeated_users(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("7,1,2,3,4,5\n7,2,3,4,5,1\n")
    ratings = Ratings.read(path, wide=True, user="")
    assert (len(ratings), ratings.users.ids) == (12, [1, 2])


def test_one_rating_far_beyond_the_others_is_told() -> None:
    path = DIRTY / "one_million.csv"
    with pytest.warns(UnusualRatingWarning, match=r"line 22, column 'rating': found 1e\+06, while 20 other"):
        ratings = Ratings.read(path)
    assert ratings.scale.high == 1_000_000


LINES = [f"{number},{number % 7},{1 + number % 5}" for number in range(190)]


@pytest.mark.parametrize("bad", ["7,,3", "7,1,", "7,1", "7,1,3,4", "7,1,good", "", "7,a\0b,3", '"7",,3'])
def test_bad_lines_are_skipped_if_that_is_said(bad: str, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["user,item,rating", *LINES[:100], bad, *LINES[100:], ""]))
    place = refusal(Ratings.read, path).where
    assert place is not None
    assert (place.source, place.number) == (str(path), 102)
    with pytest.warns(SkippedLinesWarning, match=r"r[.]csv: 1 bad line was skipped \(line 102\); 190 ratings are left"):
        ratings = Ratings.read(path, skip_bad_lines=100)
    path.write_text("\n".join(["user,item,rating", *LINES, ""]))
    assert ratings.to_polars().rows() == Ratings.read(path, skip_bad_lines=100).to_polars().rows()


def test_too_many_bad_lines(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("\n".join(["user,item,rating", *LINES, "7,1", "8,,3", "9,1,x", "10,1,y", ""]))
    with pytest.warns(SkippedLinesWarning, match=r"4 bad lines were skipped \(line 192, 193, 194, 195\)"):
        Ratings.read(path, skip_bad_lines=4)
    for most, place, found in (
        (1, "line 194, column 'rating'", "'x' … number … 3 bad lines"),
        (2, "line 194, column 'rating'", "'x' … number … 3 bad lines"),
        (3, "line 193, column 'item'", "empty … id … 4 bad lines"),
    ):
        said = Said(place, f"{found} … too many to skip", "correct … raise", {"skip_bad_lines": ...})
        said.check(refusal(Ratings.read, path, skip_bad_lines=most), path)


def test_columns_in_another_order_are_read_when_they_are_said() -> None:
    ratings = Ratings.read(DIRTY / "another_order.dat", user=2, item=1, rating=0)
    assert (len(ratings), ratings.scale) == (60, (1, 5))


def test_clean_files_are_read_without_a_word() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Ratings.read(DIRTY / "padded_ids.csv", skip_bad_lines=3)) == 3

"""Tables and notes on terminals of any width: all is there, and no word is broken on a usual one."""

import re

import pytest

from cofill.charts.markup import Stars, shown
from cofill.cli.output import print_table
from cofill.evaluation.intervals import Interval
from cofill.serving.api.requests import rounded, significant

WIDTHS = (80, 100)
CLUSTERS = ("films", "training ratings up to", "test ratings", "ratings alone", "with side information")
MEASURES = (
    "lists by",
    "NDCG",
    "precision",
    "recall",
    "F1",
    "MRR",
    "coverage",
    "novelty",
    "capped recall@20",
    "NDCG@100",
)
TABLES: dict[str, tuple[tuple[str, ...], list[tuple[object, ...]]]] = {
    "clusters": (CLUSTERS, [("0% to 20%", 30, 203, 0.8918, 0.8818), ("80% to 100%", 848, 6741, 0.8188, 0.8136)]),
    "measures": (MEASURES, [(name, *(0.1234 for _ in MEASURES[1:])) for name in ("list", "rating", "popularity")]),
    "names": (("who predicts", "known films", "new people"), [("the truth, which nobody can beat", 0.7746, None)]),
    "features": (
        ("source", "column", "kind", "columns made", "missing", "example"),
        [("movies.csv", "genres", "several", 18, 0, "Adventure, Animation, Children's, Comedy, Fantasy")],
    ),
    "nothing": (("name", "made"), []),
    "no name": (("", "item", "score", "title"), [(1, "a" * 30, 0.5, "The Scarlet Wolf of Frank Fairview (1993)")] * 12),
}


def words_of(text: str) -> list[str]:
    """What stands between the lines of a table, in order; cells that are broken are joined by a blank."""
    return re.findall(r"[^\s│┃┏┓┗┛━─┌┐└┘├┤┡┩╇┴┳┬]+", text)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_of_a_table_is_broken(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    columns, rows = TABLES[name]
    print_table("A title of a table, which may be longer than the table itself is wide", columns, rows)
    told = capsys.readouterr().out
    assert max(map(len, told.splitlines())) <= width
    printed = set(words_of(told))
    assert "…" not in told
    filled = [at for at in range(len(columns)) if not rows or any(row[at] is not None for row in rows)]
    for at in filled:
        assert set(columns[at].split()) <= printed
        for row in rows:
            cell = row[at]
            expected = f"{cell:,}" if isinstance(cell, int) else f"{cell:.4f}" if isinstance(cell, float) else str(cell)
            assert set(expected.split()) <= printed | {"None"}


def test_a_word_longer_than_the_terminal_is_all_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    long = "0123456789" * 9
    print_table("Ids", ("item", "score"), [(long, 0.5)])
    told = capsys.readouterr().out
    assert long in "".join(words_of(told)).replace("0.5000", "")
    assert max(map(len, told.splitlines())) <= 40


def test_minus_zero_is_never_printed() -> None:
    """Which of the two a sum of amounts rounds to is chance, and differs between processors."""
    nothing = -1e-9
    assert [shown(nothing), shown(Stars(nothing))] == ["0.0000", "0.00"]
    assert str(Interval(nothing, 0.5, (nothing,))) == "0.0000 ± 0.5000"
    assert [rounded(nothing), significant(-0.0)] == [0, 0]
    assert "-" not in f"{rounded(nothing)}{significant(-0.0)}"

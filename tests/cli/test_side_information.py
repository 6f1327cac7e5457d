"""cofill train with side information, and what a model that has learned from it answers."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cofill.data.datasets import UnpublishedFileWarning
from cofill.data.described import FeatureWidthWarning
from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.models.cfn.model import CFN
from tests.cli.conftest import HYBRID, QUICK, Run
from tests.cli.test_train import weights
from tests.data.dataset_files import put, shrink

NEW_ITEMS = "item,title,year,genres\n101,Brand New,2004,Comedy\n102,Quite New (2003),2003,Comedy|Drama\n"
NEW_USERS = "user,age,occupation\n201,70,retired\n202,15,pupil\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def file(text: str, name: str = "input.csv", encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding=encoding)
        return path

    return file


@pytest.fixture
def train(run: Run, some: Path, tmp_path: Path) -> Callable[..., Any]:
    """The summary of a training on some ratings, and what was said beside it."""

    def call(*words: object, out: Path = tmp_path / "m", settings: tuple[str, ...] = HYBRID) -> tuple[Any, str]:
        result = run("train", some, "--out", out, "--json", *words, *settings)
        assert result.code == 0, result.err
        return json.loads(result.out), result.err

    return call


# Training


def test_what_is_shown(train: Callable[..., Any], about: list[str], tmp_path: Path, run: Run, some: Path) -> None:
    summary, said = train(*about)
    assert summary["item_features"] == {"columns": 10, "described": 38, "undescribed": 0, "unrated": 2}
    assert summary["user_features"]["unrated"] == 2
    assert (summary["items"], summary["users"]) == (38, 58)  # those with ratings
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in said.splitlines() if line.startswith("│")]
    assert [line[:5] for line in lines][:4] == [
        ["movies.csv", "title", "date", "1", "0"],
        ["movies.csv", "year", "date", "1", "0"],
        ["movies.csv", "genres", "several", "4", "0"],
        ["tags", "tags", "tags", "4", "0"],
    ]
    assert [line[:3] for line in lines][4:] == [
        ["users.csv", "age", "number"],
        ["users.csv", "occupation", "category"],
        ["links", "links", "links"],
    ]
    assert "Side information about items: 40 ids, 10 columns made\n" in said
    counted = "with ratings alone (zeros stand in for features), 2 with features alone (kept: they are cold)\n"
    assert f"items: 38 with ratings and features, 0 {counted}" in said
    assert f"users: 58 with ratings and features, 0 {counted}" in said
    table = run("train", some, "--out", tmp_path / "m", "--quiet", *about, *HYBRID)  # over the model that is there
    assert table.err == ""
    assert "│ cold items, with features alone │" in table.out
    assert [path.name.partition("-")[0] for path in sorted((tmp_path / "m").iterdir())] == [
        *("attributes", "features", "items", "lists", "map", "model.json", "ratings", "users", "weights"),
    ]


def test_the_same_as_in_python(hybrid: Path, some: Path, world: Path) -> None:
    films = Features.join(
        [
            Features.read(world / "movies.csv", reduce_to=4),
            Features.read(world / "tags.csv", kind="tags", reduce_to=4),
        ]
    )
    people = Features.join(
        [
            Features.read(world / "users.csv", reduce_to=4),
            Features.read(world / "friends.csv", kind="links", reduce_to=4),
        ]
    )
    model = CFN(epochs=40, hidden=30, threads=1).fit(Ratings.read(some), item_features=films, user_features=people)
    pairs = [(user, item) for user in (1, 30, 59, 60) for item in (1, 20, 39, 40)]
    np.testing.assert_array_equal(CFN.load(hybrid).predict(pairs), model.predict(pairs))


@pytest.mark.parametrize("option", ["--item-features", "--item-text"])
def test_several_files_of_a_kind(train: Callable[..., Any], write: Callable[..., Path], option: str) -> None:
    one, two = (
        write("item,a\n1,3\n2,4\n3,6\n", "one.csv"),
        write("item,b\n1,yes\n2,no\n900,yes\n", "two.csv"),
    )
    together, _ = train(option, one, two)
    apart, _ = train(option, one, option, two)
    assert together["item_features"] == apart["item_features"]
    assert apart["item_features"] == {"columns": 2, "described": 3, "undescribed": 35, "unrated": 1}


def test_tags_links_and_vectors_of_both_sides(train: Callable[..., Any], world: Path, tmp_path: Path) -> None:
    ids = list(range(1, 39))
    frame = pl.DataFrame({"id": ids, "vector": [[id / 40, 1.0, -id / 40] for id in ids]})
    frame.write_parquet(tmp_path / "vectors.parquet")
    tags, links, vectors = world / "tags.csv", world / "friends.csv", tmp_path / "vectors.parquet"
    (tmp_path / "more.csv").write_text(tags.read_text())
    train("--item-tags", tags, tmp_path / "more.csv", "--item-links", links, "--item-vectors", vectors)
    learned = CFN.load(tmp_path / "m").item_features
    assert learned is not None
    assert [line.column for line in learned.report()] == ["tags", "more", "links", "vectors"]
    assert [line.width for line in learned.report()] == [4, 4, 4, 3]
    (tmp_path / "of-users.csv").write_text(tags.read_text().replace("item,", "user,"))
    train("--user-tags", tmp_path / "of-users.csv", "--user-links", links, "--user-vectors", vectors)
    learned = CFN.load(tmp_path / "m").user_features
    assert learned is not None
    assert [line.column for line in learned.report()] == ["tags", "links", "vectors"]


def test_links_one_way(train: Callable[..., Any], world: Path, tmp_path: Path) -> None:
    found = []
    for words in ([], ["--one-way-links"]):
        train("--user-links", world / "friends.csv", *words)
        found.append(CFN.load(tmp_path / "m").user_features)
    expected = Features.read(world / "friends.csv", kind="links", reduce_to=4, both_ways=False)
    assert found[0] is not None
    assert found[1] is not None
    np.testing.assert_array_equal(found[1].aligned(expected.ids), expected.values)
    assert not np.array_equal(found[0].aligned(expected.ids), expected.values)


def test_kinds_reach_the_tables_that_have_the_columns(train: Callable[..., Any], world: Path, tmp_path: Path) -> None:
    train(
        *("--item-features", world / "movies.csv", "--user-features", world / "users.csv"),
        *("--feature-kind", "title=skip", "--feature-kind", "age=skip"),
    )
    model = CFN.load(tmp_path / "m")
    assert model.item_features is not None
    assert model.user_features is not None
    assert "title" not in model.item_features.names
    assert {line.column: line.kind for line in model.user_features.report()}["age"] == "skip"


def test_latin_letters(train: Callable[..., Any], write: Callable[..., Path], tmp_path: Path) -> None:
    table = write("item,land\n1,Österreich\n2,Österreich\n3,Perú\n4,Perú\n", encoding="latin-1")
    _, said = train("--item-features", table)
    assert f"{table}: is not UTF-8, so it is read as Latin-1; save it as UTF-8 if letters look wrong\n" in said
    learned = CFN.load(tmp_path / "m").item_features
    assert learned is not None
    assert learned.names == ("land=Perú", "land=Österreich")


def test_latin_titles(train: Callable[..., Any], write: Callable[..., Path], tmp_path: Path) -> None:
    train("--item-features", write("item,title,n\n1,Amélie,3\n2,Führer,4\n3,Heat,5\n", encoding="latin-1"))
    titles = CFN.load(tmp_path / "m").titles
    assert (titles[1], titles[2]) == ("Amélie", "Führer")


def test_latin_letters_of_new_ones(run: Run, hybrid: Path, write: Callable[..., Path]) -> None:
    text = NEW_ITEMS.replace("Brand New", "Amélie")
    utf_8, latin_1 = write(text, "a.csv"), write(text, "b.csv", encoding="latin-1")
    words = ["recommend", hybrid, "--user", 1, "-n", 100, "--json", "--item-features"]
    told, found = run(*words, utf_8), run(*words, latin_1)
    assert "Amélie" in found.out
    assert (found.code, found.out) == (0, told.out)
    assert found.err == f"{latin_1}: is not UTF-8, so it is read as Latin-1; save it as UTF-8 if letters look wrong\n"
    assert run(*words, latin_1, "--quiet").err == ""
    users = write("user,age,occupation\n201,Köchin,\n", "c.csv", encoding="latin-1")
    refused = run("recommend", hybrid, "--user", 201, "--user-features", users, "--quiet").err
    assert refused.startswith(f"cofill: {users}, line 2, column 'age': found 'Köchin' where a number belongs; ")


def test_the_tags_that_users_gave(
    train: Callable[..., Any], refused: Callable[..., str], write: Callable[..., Path], some: Path, tmp_path: Path
) -> None:
    tags = write("userId,movieId,tag,timestamp\n1,30,dark,3\n2,31,dark,4\n2,32,slow,4\n")
    assert train("--user-tags", tags)[0]["user_features"]["described"] == 2
    assert train("--item-tags", tags)[0]["item_features"]["described"] == 3
    users = write("user,age\n1,3\n2,4\n", "users.csv")
    assert refused("train", some, "--out", tmp_path / "m", "--item-features", users, *QUICK, "--quiet") == (
        f"{users}: it is given as being about items, but column 'user' holds ids of users; "
        "swap the files of items and users, or rename the column to 'item'\n"
    )


def test_titles_come_with_the_features(hybrid: Path, train: Callable[..., Any], write: Callable[..., Path]) -> None:
    titles = CFN.load(hybrid).titles
    assert len(titles) == 40  # of the cold ones, too
    nameless = write("1,Drama\n2,Comedy\n3,Drama\n4,Comedy\n5,Drama\n6,Drama\n")
    out = nameless.parent / "m"
    train("--item-features", nameless)
    assert CFN.load(out).titles == {}


def test_too_many_features_are_warned_of(run: Run, some: Path, world: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default", FeatureWidthWarning)
        result = run(
            *("train", some, "--out", tmp_path / "m", "--quiet", "--item-features", world / "movies.csv"), *QUICK
        )
    assert result.code == 0
    assert result.err.startswith("cofill: warning: 16 feature columns beside a hidden layer of 8 may outweigh")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--one-way-links", "--one-way-links goes with --item-links or --user-links; leave it out"),
        ("--feature-size 3", "--feature-size is for files of side information, and none is given; leave it out"),
        ("--feature-kind age=skip", "--feature-kind is about the columns of tables, and none is given; leave it out"),
        (
            "--user-features {world}/users.csv --feature-kind ag=skip",
            "--feature-kind ag=skip: no table has a column 'ag'; did you mean 'age'?",
        ),
        (
            "--user-features {world}/users.csv --feature-kind zzz=skip",
            "--feature-kind zzz=skip: no table has a column 'zzz'; there are age, occupation, user",
        ),
        (
            "--user-features {world}/users.csv --feature-kind age=skip --feature-kind age=number",
            "--feature-kind age=... is given twice; keep one of them",
        ),
        (
            "--without-side-information --item-tags {world}/tags.csv",
            "--without-side-information and --item-tags exclude each other; leave out one",
        ),
        (
            "--item-features {world}/movies.csv {world}/movies.csv",
            "{world}/movies.csv: its column 'title' is also in {world}/movies.csv; rename one of them",
        ),
        (
            "--item-vectors v.npy",
            "v.npy: a .npy file has no ids; write a Parquet file with a column of ids, or read it in Python with "
            "Features.read(path, ids=...)",
        ),
        ("--item-features nowhere.csv", "nowhere.csv: there is no such file; check the path"),
        (
            "--item-features {other}",
            "none of the 2 items with features is among the 38 with ratings ('x1' here, 1 there); check which column "
            "holds the ids",
        ),
        (
            "--user-features {world}/users.csv --feature-kind occupation=number",
            "{world}/users.csv, line 2, column 'occupation': found ",
        ),
    ],
)
def test_refused(
    refused: Callable[..., str],
    some: Path,
    world: Path,
    write: Callable[..., Path],
    tmp_path: Path,
    words: str,
    says: str,
) -> None:
    other = write("item,runtime\nx1,90\nx2,100\n")
    given = words.format(world=world, other=other).split()
    message = refused("train", some, "--out", tmp_path / "m", *given)
    assert message.startswith(says.format(world=world))
    assert not (tmp_path / "m").exists()


# Data sets by their names


@pytest.fixture
def ml_1m(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set of three ratings in COFILL_DATA."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COFILL_DATA", str(tmp_path / "data"))
    shrink(monkeypatch)
    return put(tmp_path, "ml-1m")


def test_a_data_set_brings_its_own(run: Run, ml_1m: Path, write: Callable[..., Path], tmp_path: Path) -> None:
    def summary(*words: object) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnpublishedFileWarning)
            warnings.simplefilter("ignore", FeatureWidthWarning)
            result = run("train", "ml-1m", "--out", tmp_path / "m", "--quiet", "--json", *words, *QUICK)
        assert (result.code, result.err) == (0, "")
        found: dict[str, Any] = json.loads(result.out)
        return found

    own = summary()
    assert own["item_features"] == {"columns": 4, "described": 2, "undescribed": 0, "unrated": 1}
    assert own["user_features"] == {"columns": 7, "described": 2, "undescribed": 0, "unrated": 1}
    assert CFN.load(tmp_path / "m").titles[30] == "Unseen (1999)"
    more = summary("--item-features", write("item,runtime\n10,90\n20,100\n40,70\n"))
    assert more["item_features"] == {"columns": 5, "described": 2, "undescribed": 0, "unrated": 2}
    plain = summary("--without-side-information")
    assert (plain["item_features"], plain["user_features"]) == (None, None)
    ratings = write("1::10::3::978300760\n1::20::5::978300761\n2::10::1::978300762\n", "ratings.dat")
    result = run("train", ratings, "--out", tmp_path / "file", "--quiet", "--scale", 1, 5, *QUICK)
    assert result.code == 0
    assert weights(tmp_path / "m") == weights(tmp_path / "file")
    assert not list((tmp_path / "m").glob("features-*"))


def test_that_is_warned_of_once(run: Run, ml_1m: Path, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("default", UnpublishedFileWarning)
        warnings.simplefilter("ignore", FeatureWidthWarning)
        result = run("train", "ml-1m", "--out", tmp_path / "m", "--quiet", *QUICK)
    assert result.err.count("its MD5 is") == 1
    assert result.err.count("\n") == 1


def test_a_data_set_without_its_side_information(refused: Callable[..., str], ml_1m: Path, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(ml_1m) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith("users.dat")}
    put(tmp_path, "ml-1m", members)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnpublishedFileWarning)
        message = refused("train", "ml-1m", "--out", tmp_path / "m", *QUICK)
        assert "users.dat" in message
        assert message.endswith(" Or train on its ratings alone with --without-side-information.\n")


# Asking


def test_cold_items_are_recommended(run: Run, hybrid: Path) -> None:
    found = json.loads(run("recommend", hybrid, "--user", 1, "-n", 100, "--json").out)
    cold = [entry for entry in found if entry["item"] in (39, 40)]
    assert len(cold) == 2
    assert all(entry["title"] for entry in cold)
    everybody = run("recommend", hybrid, "--all", "-n", 1, "--json", "--quiet").out.splitlines()
    assert [json.loads(line)["user"] for line in everybody][-2:] == [59, 60]


def test_predict_for_described_ones(run: Run, hybrid: Path, write: Callable[..., Path]) -> None:
    pairs = write("user,item\n1,101\n201,102\n202,1\n1,2\n", "pairs.csv")
    items, users = write(NEW_ITEMS, "items.csv"), write(NEW_USERS, "users.csv")
    result = run("predict", hybrid, pairs, "--item-features", items, "--user-features", users, "--json")
    assert (result.code, result.err) == (0, "")
    model = CFN.load(hybrid).describe_items(items).describe_users(users)
    told = [document["rating"] for document in json.loads(result.out)]
    assert told == model.predict([(1, 101), (201, 102), (202, 1), (1, 2)]).tolist()
    untold = run("predict", hybrid, pairs, "--json")
    assert untold.err == "3 of 4 pairs have a user or an item that is not in the model: means stand in\n"
    differ = [abs(a["rating"] - b) > 1e-5 for a, b in zip(json.loads(untold.out), told, strict=True)]
    assert differ == [True, True, True, False]


def test_new_items_may_be_recommended(run: Run, hybrid: Path, write: Callable[..., Path]) -> None:
    items = write(NEW_ITEMS)
    found = json.loads(run("recommend", hybrid, "--user", 1, "--item-features", items, "-n", 100, "--json").out)
    titles = {entry["item"]: entry["title"] for entry in found}
    assert (titles[101], titles[102]) == ("Brand New", "Quite New (2003)")
    expected = CFN.load(hybrid).describe_items(items).recommend(1, 100)
    assert [(entry["item"], entry["rating"]) for entry in found] == [(entry.item, entry.rating) for entry in expected]


def test_recommend_to_a_described_user(run: Run, hybrid: Path, write: Callable[..., Path]) -> None:
    users = write(NEW_USERS)
    result = run("recommend", hybrid, "--user", 202, "--user-features", users, "--json")
    assert (result.code, result.err) == (0, "")
    expected = CFN.load(hybrid).describe_users(users).recommend(202)
    assert [entry["rating"] for entry in json.loads(result.out)] == [entry.rating for entry in expected]
    lines = run("recommend", hybrid, "--all", "--user-features", users, "-n", 1, "--json").out.splitlines()
    assert [json.loads(line)["user"] for line in lines][-2:] == [201, 202]


def test_recommend_to_somebody_described(run: Run, hybrid: Path, write: Callable[..., Path]) -> None:
    ratings = write("item,rating\n1,4.5\n2,1.5\n")
    model = CFN.load(hybrid)
    about = {"age": 70, "occupation": "retired", "links": [1, 2]}
    words = ["--describe", "age=70", "--describe", "occupation=retired", "--describe", "links=1|2"]
    cold = run("recommend", hybrid, *words, "--json")
    assert (cold.code, cold.err) == (0, "")
    assert_same(cold.out, model.recommend({}, features=about))
    ratings_of_anybody = [entry.rating for entry in model.recommend({})]
    assert [entry["rating"] for entry in json.loads(cold.out)] != pytest.approx(ratings_of_anybody, abs=0.01)
    warm = run("recommend", hybrid, *words, "--ratings", ratings, "--json")
    assert_same(warm.out, model.recommend({1: 4.5, 2: 1.5}, features=about))
    partly = run("recommend", hybrid, "--describe", "age=70", "--describe", "occupation=", "--json")
    assert partly.err == "not described, so taken as unknown: links\n"
    assert_same(partly.out, model.recommend({}, features={"age": 70, "occupation": None, "links": None}))
    assert run("recommend", hybrid, "--describe", "age=70", "--json", "--quiet").err == ""
    table = run("recommend", hybrid, *words, "--ratings", ratings)
    assert table.out.startswith("For a user with 2 ratings, age 70, occupation retired, links 1|2\n")


def assert_same(printed: str, expected: list[Any]) -> None:
    """The same items; ratings to rounding, which depends on where arrays lie in memory."""
    found = json.loads(printed)
    assert [entry["item"] for entry in found] == [entry.item for entry in expected]
    assert [entry["rating"] for entry in found] == pytest.approx([entry.rating for entry in expected], abs=1e-4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "--describe age=old",
            "the description, 'age': found 'old' where a number belongs; correct it, or leave it empty (None)",
        ),
        (
            "--describe age=3 --describe user=42",
            "--describe user=42 is an id, and --describe is for a new user; use --user 42",
        ),
        ("--describe agee=3", "the description: there is no column 'agee'; did you mean 'age'?"),
        ("--describe age=3 --describe age=4", "--describe age=... is given twice; keep one of them"),
        (
            "--describe age=3 --user 1",
            "--describe is for a new user; leave out --user, or describe users by their ids with --user-features",
        ),
        (
            "--describe age=3 --all",
            "--describe is for a new user; leave out --all, or describe users by their ids with --user-features",
        ),
        (
            "--user-features {users} --ratings {users}",
            "--user-features describes users by their ids; give --user ID or --all with it, or --describe COLUMN=VALUE "
            "instead for a user without an id",
        ),
        ("--user-features {users} --describe age=3", "--user-features describes users by their ids; give --user ID"),
        ("--user 1 --user-features {items}", "{items}: there is no column 'age', which holds a number; add it"),
        ("--user 1 --item-features nowhere.csv", "nowhere.csv: there is no such file"),
    ],
)
def test_wrong_descriptions(
    refused: Callable[..., str], hybrid: Path, write: Callable[..., Path], words: str, says: str
) -> None:
    users, items = write(NEW_USERS, "users.csv"), write(NEW_ITEMS, "items.csv")
    message = refused("recommend", hybrid, *words.format(users=users, items=items).split())
    assert message.startswith(says.format(items=items))


@pytest.mark.parametrize(
    ("words", "side"),
    [
        ("recommend {model} --describe age=3", "user"),
        ("recommend {model} --user 1 --user-features {users}", "user"),
        ("predict {model} {users} --item-features {users}", "item"),
    ],
)
def test_a_model_without_side_information(
    refused: Callable[..., str], model: Path, write: Callable[..., Path], words: str, side: str
) -> None:
    said = refused(*words.format(model=model, users=write(NEW_USERS)).split())
    assert said.startswith(f"the model was trained without features of {side}s")


def test_a_model_folder_with_features_is_ours(run: Run, hybrid: Path, some: Path, tmp_path: Path) -> None:
    copy = tmp_path / "m"
    shutil.copytree(hybrid, copy)
    (copy / ".features.123.safetensors").touch()  # of a writer that was killed
    assert run("train", some, "--out", copy, "--quiet", *QUICK).code == 0
    assert not list(copy.glob("*features*"))


@pytest.mark.parametrize("flag", ["--titles", "--item-features"])
def test_titles_in_a_table_without_a_header(run: Run, tmp_path: Path, flag: str) -> None:
    """As u.item of MovieLens-100K: an id, a title with its year, and much else, in Latin-1."""
    ratings, films = tmp_path / "u.data", tmp_path / "u.item"
    ratings.write_text(
        "".join(f"{user}\t{film}\t{1 + (user + film) % 5}\n" for user in range(20) for film in range(1, 5))
    )
    titles = ["Am\u00e9lie (2001)", "Copycat (1995)", "Crumb (1994)", "Babe (1995)"]
    lines = [f"{at}|{title}|01-Jan-1995||http://films/{at}|{at % 2}|{at // 3}" for at, title in enumerate(titles, 1)]
    films.write_text("\n".join(lines), encoding="latin-1")
    few = ("--hidden=8", "--epochs=1", "--threads=1", "--quiet")
    trained = run("train", ratings, flag, films, "--out", tmp_path / "model", *few)
    assert trained.code == 0, trained.err
    found = json.loads(run("recommend", tmp_path / "model", "--user", "1", "--include-known", "--json").out)
    assert {entry["item"]: entry["title"] for entry in found} == dict(enumerate(titles, 1))

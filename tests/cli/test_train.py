"""cofill train"""

import gzip
import json
import os
import resource
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import polars as pl
import pytest

from cofill.cli import main
from cofill.config import CFNSettings
from cofill.data.ratings import Ratings
from cofill.errors import CofillError
from cofill.models.cfn.model import CFN
from tests.cli.conftest import QUICK, Run

DATA = Path(__file__).parents[3] / "shared" / "data"


def another_value(name: str) -> Any:
    """A value of a setting that is allowed and not its default."""
    default, annotation = getattr(CFNSettings(), name), CFNSettings.model_fields[name].annotation
    if get_origin(annotation) is Literal:
        return next(choice for choice in get_args(annotation) if choice != default)
    if name == "hidden":
        return (6, 4, 6)
    if name == "device":
        return "cpu:0"
    if isinstance(default, bool):
        return not default
    if default is None:  # by the data
        return 3 if annotation == int | None else 2.5
    return default + 1 if isinstance(default, int) else default / 2 or 0.5


def flag_of(name: str, value: Any) -> str:
    words = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{words}" if value else f"--no-{words}"
    return f"--{words}={','.join(map(str, value)) if isinstance(value, tuple) else value}"


def weights(folder: Path) -> tuple[str, bytes]:
    """Name, which has the hash, and content of a model's weights."""
    (path,) = folder.glob("weights-*.safetensors")
    return path.name, path.read_bytes()


@pytest.fixture
def settings_of(monkeypatch: pytest.MonkeyPatch, run: Run, world: Path, tmp_path: Path) -> Callable[..., CFNSettings]:
    """The settings that reach the model in a call of train, without the training."""

    def call(*words: object) -> CFNSettings:
        seen: list[CFNSettings] = []

        def fit(self: CFN, *_: object, **__: object) -> CFN:
            seen.append(self.settings)
            raise CofillError("that is enough")

        monkeypatch.setattr(CFN, "fit", fit)
        result = run("train", world / "ratings.csv", "--out", tmp_path / "m", "--quiet", *words)
        assert result.err == "cofill: that is enough\n"
        return seen[0]

    return call


@pytest.mark.parametrize("name", CFNSettings.model_fields)
def test_every_setting_is_a_flag_that_reaches_the_model(settings_of: Callable[..., CFNSettings], name: str) -> None:
    value = another_value(name)
    found = settings_of(flag_of(name, value), *(["--hidden=6,4,6"] if name == "pretrain" else []))
    assert getattr(found, name) == value
    assert getattr(found, name) != getattr(CFNSettings(), name)
    assert found.model_fields_set - {"hidden"} <= {name}


def test_flags_win_over_the_file_and_the_file_over_defaults(
    settings_of: Callable[..., CFNSettings], tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('epochs = 3\n[network]\nhidden = [6, 4, 6]\n[any]\norientation = "user"\nrefit = false\n')
    found = settings_of("--config", file, "--epochs", "5", "--refit")
    assert (found.epochs, found.hidden, found.orientation, found.refit) == (5, (6, 4, 6), "user", True)
    defaults = CFNSettings(orientation="user")
    assert (found.batch, found.patience) == (defaults.batch, defaults.patience)


def test_a_preset_is_overridden_by_the_file_and_by_flags(
    settings_of: Callable[..., CFNSettings], tmp_path: Path
) -> None:
    assert settings_of("--preset", "paper") == CFNSettings.preset("paper")
    file = tmp_path / "settings.toml"
    file.write_text('epochs = 3\nbeta = 0.5\norientation = "user"\n')
    found = settings_of("--preset", "paper", "--config", file, "--beta", "0.4", "--no-refit")
    assert found == CFNSettings.preset("paper", epochs=3, beta=0.4, orientation="user", refit=False)


def test_the_network_of_the_paper(run: Run, refused: Callable[..., str], world: Path, tmp_path: Path) -> None:
    words = ("train", world / "ratings.csv", "--out", tmp_path / "m", "--preset", "paper")
    assert run(*words, "--quiet", *QUICK).code == 0
    model = CFN.load(tmp_path / "m")
    assert model.settings == CFNSettings.preset("paper", epochs=2, hidden=8, threads=1)
    assert not model.has_intervals
    says = refused(*words, "--algorithm", "means")
    assert says == "--preset paper is for the network alone; leave it out, or use cfn\n"
    assert "invalid choice: 'book'" in refused(*words[:-1], "book", code=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hiden = 4", "there is no setting 'hiden'; did you mean 'hidden'?"),
        ("epochs = = 1", "not a TOML file"),
        ("epochs = 0", "the setting 'epochs' must be greater than or equal to 1. Got 0"),
        ("epochs = 1\n[a]\nepochs = 2", "epochs is set twice"),
    ],
)
def test_bad_settings_file(refused: Callable[..., str], world: Path, tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    assert says in refused("train", world / "ratings.csv", "--out", tmp_path / "m", "--config", file)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--epochs two", "the setting 'epochs' must be a valid integer"),
        ("--hidden 8,,8", "the setting 'hidden'"),
        ("--noise pink", "'mask', 'gaussian' or 'salt-and-pepper'. Got 'pink'"),
        ("--learning-rate nan", "must be a finite number"),
        ("--pretrain", "pretrain needs a symmetric stack"),
        ("--config nowhere.toml", "no such settings file"),
        ("--scale 5 1", "is not a scale"),
        ("--scale 3 5", "outside the scale 3 to 5"),
        ("--user-column nobody", "there is no column 'nobody'"),
        ("--titles nowhere.csv", "nowhere.csv: there is no such file"),
    ],
)
def test_bad_flags(refused: Callable[..., str], world: Path, tmp_path: Path, flags: str, says: str) -> None:
    assert says in refused("train", world / "ratings.csv", "--out", tmp_path / "m", *flags.split())
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("nowhere.csv", "nowhere.csv: there is no such file"),
        ("ml-9m", "ml-9m: neither a file nor a data set; check the path, or name one of ml-100k, ml-1m"),
        (".", "this is a folder"),
    ],
)
def test_no_such_ratings(refused: Callable[..., str], tmp_path: Path, source: str, says: str) -> None:
    assert says in refused("train", source, "--out", tmp_path / "m")


def test_columns_of_a_data_set_are_known(refused: Callable[..., str], tmp_path: Path) -> None:
    message = refused("train", "ml-1m", "--out", tmp_path / "m", "--user-column", "0")
    assert message == "ml-1m is a data set, whose columns are known; leave out user=...\n"


@pytest.mark.parametrize("kind", ["csv", "tsv", "dat", "parquet", "csv.gz"])
def test_kinds_of_files(run: Run, world: Path, tmp_path: Path, model: Path, kind: str) -> None:
    ratings = Ratings.read(world / "ratings.csv")
    path = tmp_path / f"ratings.{kind}"
    if kind == "dat":
        path.write_text((world / "ratings.csv").read_text().partition("\n")[2].replace(",", "::"))
    elif kind == "csv.gz":
        path.write_bytes(gzip.compress((world / "ratings.csv").read_bytes()))
    else:
        ratings.write(path)
    result = run("train", path, "--out", tmp_path / "m", "--quiet", "--json", *QUICK)
    assert (result.code, result.err) == (0, "")
    assert weights(tmp_path / "m") == weights(model)


def test_output(run: Run, world: Path, tmp_path: Path) -> None:
    shown = run("train", world / "ratings.csv", "--out", tmp_path / "m", *QUICK)
    assert shown.code == 0
    assert "validation RMSE" in shown.out
    assert "900 ratings of 40 items by 60 users\n" in shown.err
    assert "training for validation: epoch 1 of 2" in shown.err
    assert shown.err.endswith(f"next: cofill recommend {tmp_path / 'm'} --user 1\n")
    again = run("train", world / "ratings.csv", "--out", tmp_path / "m", "--json", *QUICK)
    summary = json.loads(again.out)
    assert (summary["users"], summary["items"], summary["ratings"]) == (60, 40, 900)
    history = json.loads((tmp_path / "m" / "model.json").read_text())["history"]
    by_epoch = {record["epoch"]: record["validation_rmse"] for record in history if record["phase"] == "search"}
    assert len(by_epoch) == 2
    assert summary["epochs"] == min(by_epoch, key=by_epoch.__getitem__)
    assert len(list((tmp_path / "m").iterdir())) == 7  # the first model was replaced, the checkpoint removed
    quiet = run("train", world / "ratings.csv", "--out", tmp_path / "m", "--quiet", *QUICK)
    assert quiet.err == ""
    assert quiet.out.startswith("Trained ")


def test_the_seed_decides(run: Run, world: Path, tmp_path: Path, model: Path) -> None:
    for name, seed in (("same", 0), ("other", 1)):
        run("train", world / "ratings.csv", "--out", tmp_path / name, "--quiet", "--seed", seed, *QUICK)
    assert weights(tmp_path / "same") == weights(model)
    assert weights(tmp_path / "other") != weights(model)


def test_titles(run: Run, refused: Callable[..., str], world: Path, model: Path, tmp_path: Path) -> None:
    titles = CFN.load(model).titles
    assert titles[1] == "[red]Alien[/red]"
    assert not {5, 99} & titles.keys()  # an empty title, and an item that nobody rated
    named = pl.read_csv(world / "ratings.csv").with_columns(item="m" + pl.col("item").cast(pl.String))
    named.write_csv(tmp_path / "named.csv")
    message = refused(
        *("train", tmp_path / "named.csv", "--out", tmp_path / "m", "--titles", world / "movies.csv"), *QUICK
    )
    assert "none of its items is among those that are rated" in message


def test_out_that_is_something_else(refused: Callable[..., str], world: Path, tmp_path: Path) -> None:
    (tmp_path / "diary").mkdir()
    (tmp_path / "diary" / "monday.txt").write_text("dear diary")
    for out in ("diary", "diary/monday.txt"):
        assert "exists and is not a model's folder" in refused(
            "train", world / "ratings.csv", "--out", tmp_path / out, *QUICK
        )
    below = refused("train", world / "ratings.csv", "--out", tmp_path / "diary" / "monday.txt" / "m", *QUICK)
    assert "not written (Not a directory)" in below
    assert [path.name for path in (tmp_path / "diary").iterdir()] == ["monday.txt"]


def test_nothing_to_resume(run: Run, world: Path, tmp_path: Path) -> None:
    result = run("train", world / "ratings.csv", "--out", tmp_path / "m", "--resume", *QUICK)
    assert result.code == 0
    assert f"nothing to resume in {tmp_path / 'm'}, starting anew\n" in result.err


@pytest.mark.parametrize("checkpoint_seconds", [0, 1000])
def test_no_space_left(run: Run, world: Path, tmp_path: Path, model: Path, checkpoint_seconds: int) -> None:
    """`model` comes first: the kernels are compiled and kept before files are limited."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, hard))
    try:
        result = run(
            *("train", world / "ratings.csv", "--out", tmp_path / "m", "--quiet", *QUICK, "--hidden", "64"),
            *("--checkpoint-seconds", checkpoint_seconds),
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("cofill: ")
    assert "File too large" in result.err
    assert result.err.count("\n") == 1
    assert list((tmp_path / "m").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind root")
def test_read_only_folder(refused: Callable[..., str], world: Path, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    message = refused("train", world / "ratings.csv", "--out", tmp_path / "locked" / "m", *QUICK)
    assert "no permission to write there" in message


def test_ratings_that_repeat_are_mentioned_in_one_line(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\n1,1,3\n1,1,4\n2,1,3\n")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = run("train", path, "--out", tmp_path / "m", "--quiet", *QUICK)
    assert result.code == 0
    assert result.err.startswith("cofill: warning: ")
    assert result.err.endswith("1 of 3 ratings repeat a user and item; the latest by order were kept\n")


def test_an_exception_nobody_foresaw(run: Run, monkeypatch: pytest.MonkeyPatch, world: Path, tmp_path: Path) -> None:
    def fit(*_: object, **__: object) -> None:
        raise RuntimeError("the moon\nis blue")

    monkeypatch.setattr(CFN, "fit", fit)
    words = ["train", str(world / "ratings.csv"), "--out", str(tmp_path / "m"), "--quiet"]
    result = run(*words)
    assert result.code == 1
    assert result.err == "cofill: RuntimeError: the moon is blue; COFILL_TRACE=1 in the environment shows where\n"
    monkeypatch.setenv("COFILL_TRACE", "1")
    with pytest.raises(RuntimeError, match="the moon"):
        main(words)


@pytest.mark.real_data
@pytest.mark.skipif(not DATA.is_dir(), reason="the data sets are not here")
def test_a_data_set_by_its_name(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COFILL_DATA", str(DATA))
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # the file may have been packed anew
        result = run("train", "ml-100k", "--out", tmp_path / "m", "--json", "--quiet", *QUICK)
    summary = json.loads(result.out)
    assert (summary["users"], summary["items"], summary["ratings"]) == (943, 1682, 100_000)
    assert CFN.load(tmp_path / "m").titles[1] == "Toy Story (1995)"

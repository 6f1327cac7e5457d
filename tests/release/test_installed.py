"""The wheel in an empty virtual environment, without extras and with each of them alone, outside of the repository.

One environment has the plain install. That of an extra sees it, and pip adds what is missing there, so that each extra
is alone and nothing is installed twice. `benchmarks/install.py` measures whole installs.
"""

import json
import re
import signal
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import cofill
from tests.release.conftest import REPOSITORY, Distributions
from tests.release.environments import Environment, clean_environment, interpreter, require_registry

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
OFFERED = PROJECT["optional-dependencies"].keys()
FOR_DEVELOPERS = {"dev", "docs", "peers"}  # the suite itself, the site and the comparison run on these
QUICK = ["--epochs", "2", "--quiet"]
TINY_WORLD = ["--users", "40", "--items", "20", "--ratings", "300"]


@pytest.fixture(scope="module")
def plain(distributions: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    folder = tmp_path_factory.mktemp("plain")
    require_registry(folder / "registry")
    environment = Environment(folder / "environment")
    environment.install(str(distributions.wheel))
    return environment


@pytest.fixture(scope="module")
def work(plain: Environment, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the plain install made of nothing: a world of films, and a model of it."""
    folder = tmp_path_factory.mktemp("work")
    plain.cofill("datasets", "make", "--out", "world", *TINY_WORLD, "--quiet", folder=folder)
    plain.cofill("train", "world/ratings.csv", "--out", "model", *QUICK, folder=folder)
    return folder


@pytest.fixture
def with_extra(
    distributions: Distributions, plain: Environment, tmp_path: Path, request: pytest.FixtureRequest
) -> Environment:
    return extended(distributions, request.param, tmp_path, plain)


def extended(distributions: Distributions, extra: str, folder: Path, *below: Environment) -> Environment:
    environment = Environment(folder / extra, *below)
    environment.install(f"{distributions.wheel}[{extra}]")
    return environment


# Without extras


def test_the_plain_install_runs_the_demo(plain: Environment, tmp_path: Path) -> None:
    said = plain.ran(plain.folder / "bin" / "cofill", "--version", folder=tmp_path)
    assert said == f"cofill {cofill.__version__}\n"
    told = plain.cofill("demo", "--out", "demo", *TINY_WORLD, folder=tmp_path)
    assert "A new user who rated nothing" in told
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"model", "report.html", "test.csv", "world"}


def test_the_plain_install_is_what_pyproject_names(plain: Environment, tmp_path: Path) -> None:
    listing = "import importlib.metadata as m, json; print(json.dumps([d.name.lower() for d in m.distributions()]))"
    installed = set(json.loads(plain.ran("-c", listing, folder=tmp_path)))
    optional = {name_of(one) for extra in PROJECT["optional-dependencies"].values() for one in extra}
    needed = {name_of(one) for one in PROJECT["dependencies"]}
    assert needed <= installed
    assert not (optional - needed - {"cofill"}) & installed


def test_public_names_of_the_plain_install(plain: Environment, tmp_path: Path) -> None:
    plain.ran("-c", "import cofill\nfor name in cofill.__all__: getattr(cofill, name)", folder=tmp_path)


def test_a_source_distribution_can_be_installed(
    distributions: Distributions, plain: Environment, tmp_path: Path
) -> None:
    """Built anew by pip, with nothing but what build-system.requires names."""
    environment = Environment(tmp_path / "environment", plain)
    environment.install("--no-deps", "--force-reinstall", str(distributions.sdist))
    assert (environment.packages / "cofill").is_dir()
    assert environment.cofill("--version", folder=tmp_path) == f"cofill {cofill.__version__}\n"


def test_the_doctor_finds_nothing_wrong(plain: Environment, tmp_path: Path) -> None:
    told = json.loads(plain.cofill("doctor", "--json", folder=tmp_path))
    assert told["ok"], told["verdicts"]
    assert not any(extra["installed"] for extra in told["extras"].values())


# What says that an extra is missing

MISSING = {
    "sklearn": ["-c", "import cofill.sklearn"],
    "client": ["-c", "from cofill.client import Client; Client('http://localhost')"],
    "cluster": ["-m", "cofill.cli", "train", "world/ratings.csv", "--out", "other", "--workers", "2"],
    "hdf5": ["-c", "from cofill.data.datasets import load; load('monti-douban')"],
    "pandas": ["-c", "from cofill import Ratings; Ratings.read([(1, 1, 3.0)]).to_pandas()"],
    "serve": ["-m", "cofill.cli", "serve", "model"],
    "torch": ["-m", "cofill.cli", "train", "world/ratings.csv", "--out", "other", "--engine", "dense"],
    "tune": ["-m", "cofill.cli", "tune", "world/ratings.csv", "--out", "tuning"],
}


@pytest.mark.parametrize("extra", sorted(MISSING.keys() & OFFERED))
def test_without_an_extra_its_install_command_is_told(plain: Environment, work: Path, extra: str) -> None:
    words = MISSING[extra]
    if extra == "hdf5":  # it is found before it is read
        (work / "data" / "monti-douban").mkdir(parents=True)
        (work / "data" / "monti-douban" / "training_test_dataset.mat").touch()
        words = ["-c", f"import os; os.environ['COFILL_DATA'] = 'data'; {words[1].strip()}"]
    assert f"Run: pip install 'cofill[{extra}]'\n" in plain.ran(*words, folder=work, code=1)


# One extra at a time

READ_MATLAB = """
import dataclasses, pathlib
import h5py, numpy
from cofill.data.datasets import dataset, matlab
matrices = {"M": [[3.0, 5.0], [1.0, 0.0]], "Otraining": [[1.0, 0.0], [1.0, 0.0]], "Otest": [[0.0, 1.0], [0.0, 0.0]]}
with h5py.File("small.mat", "w") as file:
    for name, matrix in matrices.items():
        file[name] = numpy.array(matrix).T
small = dataclasses.replace(dataset("monti-douban"), users=2, items=2, ratings=3)
ratings = matlab.read_ratings(small, pathlib.Path("small.mat"))
assert ratings.to_polars().rows() == [(1, 1, 3.0), (1, 2, 5.0), (2, 1, 1.0)]
"""

PANDAS = """
import pandas
from cofill import CFN, Ratings
ratings = Ratings.read(pandas.read_csv("world/ratings.csv"))
frame = ratings.to_pandas()
assert isinstance(frame, pandas.DataFrame)
again = Ratings.read(frame)
assert again.to_polars().equals(ratings.to_polars())
"""

SKLEARN = """
import csv
from sklearn.model_selection import cross_val_score
from cofill import algorithm
from cofill.sklearn import RatingRegressor
rows = [(int(row["user"]), int(row["item"]), float(row["rating"])) for row in csv.DictReader(open("world/ratings.csv"))]
pairs, ratings = [row[:2] for row in rows], [row[2] for row in rows]
assert len(cross_val_score(RatingRegressor(algorithm("means")()), pairs, ratings, cv=2)) == 2
"""

ASK = """
import sys
from cofill.client import Client
with Client(sys.argv[1]) as client:
    recommended = client.recommend(1, n=3)
assert len(recommended.items) == 3
"""


SCRIPTS = {"hdf5": READ_MATLAB, "pandas": PANDAS, "sklearn": SKLEARN}


@pytest.mark.parametrize("with_extra", sorted(SCRIPTS.keys() & OFFERED), indirect=True)
def test_what_is_for_python(with_extra: Environment, work: Path) -> None:
    name = with_extra.folder.name
    with_extra.ran("-c", SCRIPTS[name], folder=work)


@pytest.mark.parametrize("with_extra", ["tune"], indirect=True)
def test_two_trials(with_extra: Environment, work: Path) -> None:
    with_extra.cofill("tune", "world/ratings.csv", "--out", "tuning", "--trials", "2", *QUICK, folder=work)
    assert (work / "tuning" / "best.toml").exists()


@pytest.mark.parametrize("with_extra", ["torch"], indirect=True)
def test_torch(with_extra: Environment, work: Path) -> None:
    words = ["--engine", "dense", "--out", "trained-by-torch", *QUICK]
    with_extra.cofill("train", "world/ratings.csv", *words, folder=work)
    with_extra.ran("-c", "import cofill.nn", folder=work)


def test_two_workers(distributions: Distributions, plain: Environment, work: Path, tmp_path: Path) -> None:
    environment = extended(distributions, "cluster", tmp_path, plain)
    plain.cofill("partition", "world/ratings.csv", "--out", "parts", "--quiet", folder=work)
    environment.cofill("train", "parts", "--workers", "2", "--out", "trained-by-two", *QUICK, folder=work)
    assert "score" in plain.cofill("recommend", "trained-by-two", "--user", "1", folder=work)


@pytest.mark.parametrize("with_extra", ["postgres"], indirect=True)
def test_a_database_of_postgresql(with_extra: Environment, postgresql: str, work: Path) -> None:
    said = with_extra.cofill("export", "--database", postgresql, "--out", "exported", folder=work, code=1)
    assert "no live ratings are kept there" in said  # it was asked, and has no table of ours
    assert "cofill[" not in said


def test_the_server_answers_the_client(
    distributions: Distributions, plain: Environment, work: Path, tmp_path: Path
) -> None:
    """Each in an environment of its own."""
    server, client = (extended(distributions, extra, tmp_path, plain) for extra in ("serve", "client"))
    refused = server.cofill("serve", "model", "--database", "postgresql://localhost/x", folder=work, code=1)
    assert "Run: pip install 'cofill[postgres]'\n" in refused
    with served(server, work) as address:
        with urllib.request.urlopen(f"{address}/v1/recommendations?user=1&n=3", timeout=60) as answer:
            assert len(json.load(answer)["items"]) == 3
        with urllib.request.urlopen(address, timeout=60) as page:
            assert b"<!doctype html>" in page.read().lower()
        client.ran("-c", ASK, address, folder=work)


@contextmanager
def served(environment: Environment, folder: Path) -> Iterator[str]:
    """The address of `cofill serve model`."""
    words = [str(environment.python), "-m", "cofill.cli", "serve", "model", "--port", "0", "--json"]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    told = b""
    try:
        while not told.rstrip().endswith(b"}"):
            line = process.stdout.readline()
            assert line, (folder / "server.log").read_text()
            told += line
        yield json.loads(told)["address"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


TRIED = {"client", "cluster", "postgres", "serve", "torch", "tune", *SCRIPTS}


def test_every_extra_is_tried() -> None:
    assert set(OFFERED) <= TRIED | FOR_DEVELOPERS, "try the new extra here"


def name_of(requirement: str) -> str:
    """cofill of cofill[serve]>=1"""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return found.group().lower().replace("_", "-")


# Other versions of Python


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_plain_install_under_another_python(
    distributions: Distributions, plain: Environment, tmp_path: Path, version: str
) -> None:
    """`plain` is there for its look at the registry."""
    if any(name_of(one) == "torch" for one in PROJECT["dependencies"]):
        pytest.skip("the CPU build of torch at hand is for Python 3.11; the one for all fetches gigabytes")
    environment = Environment(tmp_path / "environment", python=interpreter(version))
    environment.install(str(distributions.wheel))
    assert "A new user who rated nothing" in environment.cofill("demo", *TINY_WORLD, folder=tmp_path)

"""What is in the wheel and in the sdist, and nothing else."""

import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path, PurePosixPath

import cofill
from tests.release.conftest import Distributions
from tests.release.environments import build

VERSION = cofill.__version__
KINDS = {".py", ".js", ".css", ".html", ".typed"}  # of files in the package
MOST_MEGABYTES = 2  # a data set, a picture or a report would be more


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def sources(tree: Path) -> set[str]:
    """The files of the package, as a wheel names them."""
    root = tree / "src"
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_the_wheel_is_the_package_and_its_papers(distributions: Distributions) -> None:
    found = contents(distributions.wheel)
    about = f"cofill-{VERSION}.dist-info"
    papers = {name for name in found if name.startswith(f"{about}/")}
    assert set(found) - papers == sources(distributions.tree)
    assert {PurePosixPath(name).relative_to(about).as_posix() for name in papers} == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "licenses/NOTICE",
    }  # fmt: skip
    assert {PurePosixPath(name).suffix for name in set(found) - papers} == KINDS
    assert "cofill/py.typed" in found
    assert "cofill/serving/page/index.html" in found
    assert distributions.wheel.stat().st_size < MOST_MEGABYTES * 1e6


def test_the_wheel_says_what_pyproject_says(distributions: Distributions) -> None:
    about = Parser().parsestr(contents(distributions.wheel)[f"cofill-{VERSION}.dist-info/METADATA"].decode())
    assert about["Name"] == "cofill"
    assert about["Version"] == VERSION
    assert about["License-Expression"] == "MIT"
    assert about["Description-Content-Type"] == "text/markdown"
    assert str(about.get_payload()).startswith("# cofill")
    offered = tomllib.loads((distributions.tree / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(about.get_all("Provides-Extra", [])) == set(offered)


def test_the_sdist_is_what_a_wheel_is_built_from(distributions: Distributions) -> None:
    with tarfile.open(distributions.sdist) as packed:
        found = {PurePosixPath(one.name).relative_to(f"cofill-{VERSION}").as_posix() for one in packed if one.isfile()}
    assert {f"src/{name}" for name in sources(distributions.tree)} <= found
    assert {name for name in found if not name.startswith("src/")} == {
        ".gitignore", "CHANGELOG.md", "CITATION.cff", "LICENSE", "NOTICE", "PKG-INFO", "README.md", "pyproject.toml",
    }  # fmt: skip


def test_the_wheel_of_the_sdist_is_that_of_the_tree(distributions: Distributions, tmp_path: Path) -> None:
    with tarfile.open(distributions.sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    again = build(tmp_path / f"cofill-{VERSION}", tmp_path / "wheel", "--wheel")
    assert again.name == distributions.wheel.name
    assert contents(again) == contents(distributions.wheel)

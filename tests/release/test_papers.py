"""What stands beside the code: the changelog, the citation, the templates, the bounds of dependencies."""

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import cofill
from tests.release.conftest import REPOSITORY

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]


def test_the_changelog_begins_with_this_version() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[?(\d+\.\d+\.\d+)", text, re.MULTILINE)
    assert versions[0] == cofill.__version__
    kinds = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert len(kinds) == len(set(kinds)) * len(versions) or len(versions) > 1


def test_the_version_stands_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT


def read_yaml(path: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((REPOSITORY / path).read_text(encoding="utf-8"))


def test_the_citation_can_be_read() -> None:
    """What the schema 1.2.0 of the Citation File Format asks of it, and of the version."""
    found = read_yaml("CITATION.cff")
    assert found["cff-version"] == "1.2.0"
    assert {"authors", "cff-version", "message", "title"} <= found.keys()
    assert found.keys() <= {
        "abstract", "authors", "cff-version", "commit", "contact", "date-released", "doi", "identifiers", "keywords",
        "license", "license-url", "message", "preferred-citation", "references", "repository", "repository-artifact",
        "repository-code", "title", "type", "url", "version",
    }  # fmt: skip
    assert found["type"] == "software"
    assert str(found["version"]) == cofill.__version__
    assert found["license"] == PROJECT["license"]
    (paper,) = found["references"]
    assert {"authors", "title", "type"} <= paper.keys()
    assert [author["family-names"] for author in paper["authors"]] == ["Strub", "Mary", "Gaudel"]
    for person in (*found["authors"], *paper["authors"]):
        assert person.keys() in ({"name"}, {"family-names", "given-names"})


@pytest.mark.parametrize("name", ["bug", "data", "question"])
def test_a_template_of_an_issue_is_a_form(name: str) -> None:
    form = read_yaml(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    asked = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in asked}) == len(asked) > 0
    assert all(field["attributes"]["label"] for field in asked)
    assert any(field.get("validations", {}).get("required") for field in asked)


# Private names of others may be gone with any version, so a version that was not tried is not taken.
PRIVATE = {
    "numba": ["_cache", "_index_key", "_py_func"],  # compiling.py
    "uvicorn": [],  # serving/: HttpToolsProtocol and Server are extended
    "ray": [],  # cluster/session.py: done without where they are gone
}
OF_PYTHON = {  # namedtuple's, which are public, argparse's, and those of interrupts.py
    "_asdict", "_fields", "_make", "_replace",
    "_action_groups", "_actions", "_ArgumentGroup", "_get_formatter", "_group_actions", "_option_string_actions",
    "_SubParsersAction",
    "_current_exceptions", "_exit", "_run_exitfuncs",
}  # fmt: skip


def test_whose_private_names_are_used_has_an_upper_bound() -> None:
    requirements = [
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ]
    for name in PRIVATE:
        (needed,) = {one for one in requirements if re.match(rf"{name}\b", one)}
        assert "<" in needed or "~=" in needed, needed
    known = OF_PYTHON | {name for names in PRIVATE.values() for name in names}
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in sorted((REPOSITORY / "src").rglob("*.py"))]
    own = set().union(*map(names_made, modules))
    assert set().union(*map(private_names, modules)) - own <= known, "give its package an upper bound, and name it here"


def names_made(module: ast.Module) -> set[str]:
    """Whatever is defined or assigned there."""
    made = set()
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            made.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
    return made


def private_names(module: ast.Module) -> set[str]:
    """Attributes that begin with one underscore, and modules and names of others that are imported and do."""
    found = {node.attr for node in ast.walk(module) if isinstance(node, ast.Attribute)}
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith(("cofill", "__future__")):
            found |= {*node.module.split("."), *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {part for alias in node.names for part in alias.name.split(".")}
    return {name for name in found if re.match(r"_[^_]", name)}


def test_the_papers_link_to_what_there_is() -> None:
    for paper in ("SECURITY.md", "CONTRIBUTING.md", "docs/how-to/install.md"):
        path = REPOSITORY / paper
        for link in re.findall(r"\]\((?!https?:|#)(.*?)(?:#.*?)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / Path(link)).exists(), f"{paper}: {link}"

"""The code in the docs runs, and what README promises is there."""

import re
from contextlib import nullcontext
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
import torch

from cofill import CFN
from tests.pages import Player, blocks
from tests.wording import judged, options

ROOT = Path(__file__).parent.parent

EXAMPLES = [
    "docs/how-to/python.md",
    "docs/how-to/recommend.md",
    "docs/explanation/baselines.md",
    "docs/reference/data.md",
    "docs/reference/datasets.md",
]


HOW_TOS = [
    "cold-start",
    "evaluate",
    "from-csv-to-production",
    "interactions",
    "many-machines",
    "migrate",
    "own-algorithm",
    "tuning",
    "your-data",
]
"""How-tos that can be followed from nothing: every block runs, in an empty folder."""


def python_blocks(document: str) -> list[str]:
    """Apart from those that say why nobody can run them here."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"(?<! -->\n)```python\n(.*?)```", text, re.DOTALL)


def test_the_network_of_the_docs_learns() -> None:
    names: dict[str, Any] = {}
    (source,) = python_blocks("docs/explanation/network.md")
    exec(compile(source, "docs/explanation/network.md", "exec"), names)
    assert len([line for line in source.splitlines() if line.strip()]) <= 26
    torch.manual_seed(0)  # the dropout of the example draws from the global generator
    known = torch.rand(30, 20) < 0.5
    rows, columns = known.nonzero(as_tuple=True)
    values = torch.where((rows + columns) % 2 == 0, 0.8, -0.8)
    network = names["MyNetwork"](20)
    first = names["train"](network, rows, columns, values, 30, steps=1)
    assert names["train"](network, rows, columns, values, 30) < first / 3


@pytest.mark.parametrize("document", EXAMPLES)
def test_the_examples_of_the_docs_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small file with the users and films that they name."""
    monkeypatch.chdir(tmp_path)
    films = ["Alien", "Heat", "Notting Hill", *(f"Film {number}" for number in range(20))]
    lines = [f"{user},{film},{1 + (user + len(film)) % 5}" for user in range(40, 60) for film in films[:-3]]
    Path("ratings.csv").write_text("\n".join(["user,item,rating", *lines]), encoding="utf-8")
    plays = [f"{user},{film},{1 + len(film)}" for user in range(40, 60) for film in films[user % 3 :: 3]]
    Path("plays.csv").write_text("\n".join(["user,item,plays", *plays]), encoding="utf-8")
    events = [
        f"{user},{film},{event}"
        for user in range(40, 60)
        for film, event in zip(films, ("view", "cart", "buy"), strict=False)
    ]
    Path("events.csv").write_text("\n".join(["user,item,event", *events]), encoding="utf-8")
    genres, jobs = ("Horror|Sci-Fi", "Comedy", "Horror"), ("artist", "doctor", "student")
    movies = [f"{film},{1970 + place},{genres[place % 3]}" for place, film in enumerate(films)]
    Path("movies.csv").write_text("\n".join(["item,year,genres", *movies]), encoding="utf-8")
    tags = [f"{film},{tag}" for place, film in enumerate(films) for tag in ("space", "slow")[place % 2 :]]
    Path("tags.csv").write_text("\n".join(["item,tag", *tags]), encoding="utf-8")
    people = [f"{user},{user - 20},{jobs[user % 3]}" for user in range(40, 60)]
    Path("users.csv").write_text("\n".join(["user,age,occupation", *people]), encoding="utf-8")
    CFN(epochs=2, hidden=8).fit("ratings.csv", item_features="movies.csv").save("model")
    for source in python_blocks(document):
        exec(compile(source.replace("CFN()", "CFN(epochs=2, hidden=12)"), document, "exec"), {})


@pytest.mark.slow
@pytest.mark.parametrize("name", HOW_TOS)
def test_a_how_to_can_be_followed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block, as it stands there; what it shows is printed."""
    monkeypatch.chdir(tmp_path)
    follow(ROOT / "docs" / "how-to" / f"{name}.md", tmp_path)


def follow(page: Path, folder: Path) -> None:
    player = Player(page.name, folder)
    try:
        for block in blocks(page.read_text(encoding="utf-8")):
            player.play(block)
    finally:
        player.close()


@pytest.mark.parametrize(
    ("promised", "holds"),
    [
        ("RMSE 0.90 of 1,000", True),  # other processors round otherwise
        ("RMSE 0.70 of 1,000", False),
        ("RMSE ... of 1,000\nthe end", True),
        ("the end\nRMSE 0.90 of 1,000", False),  # in their order
        ("MAE 0.90 of 1,000", False),
        ("RMSE 0.90 of 1,001", False),  # a whole number is counted, not computed
        ("│ RMSE   │  0.9130 │ of │ 1,000 │\n│        │         │    │ the end │", True),  # no width counts
    ],
)
def test_a_page_that_promises_what_is_not_printed_is_found(promised: str, holds: bool, tmp_path: Path) -> None:
    page = f"```python\nprint('RMSE  0.91 of 1,000')\nprint('the end')\n```\n\n```text\n{promised}\n```\n"
    (block,) = blocks(page)
    player = Player("page.md", tmp_path)
    with nullcontext() if holds else pytest.raises(AssertionError, match="is not what it prints"):
        player.play(block)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["compare", "first-steps"])
def test_a_notebook_runs(name: str, tmp_path: Path) -> None:
    """In a kernel of its own, every cell; what is stored beside the cells is small, and of the kinds that they show."""
    import nbformat
    from nbclient import NotebookClient

    path = ROOT / "docs" / "notebooks" / f"{name}.ipynb"
    assert path.stat().st_size < 25_000
    notebook = nbformat.read(path, 4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    stored = [{part.output_type for part in cell.outputs} for cell in code]  # a text may come in several pieces
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert [{part.output_type for part in cell.outputs} for cell in code] == stored
    printed = [text for cell in code for text in printed_by(cell)]
    assert not any("Warning" in text for text in printed)


def printed_by(cell: Any) -> list[str]:
    """The texts that a cell of a notebook printed, on either channel, or showed."""
    return [part.get("text") or part["data"]["text/plain"] for part in cell.outputs]


@pytest.mark.parametrize("name", HOW_TOS)
def test_a_how_to_leads_somewhere(name: str) -> None:
    """It has a goal, few blocks that do not run, and links to files that exist."""
    page = ROOT / "docs" / "how-to" / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    assert text.splitlines()[2].startswith("**Goal:** ")
    assert sum(bool(block.not_run) for block in blocks(text)) <= 3
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert links
    for link in links:
        assert (page.parent / link).exists(), link


def test_readme_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    follow(ROOT / "README.md", tmp_path)


def test_readme_is_short_names_both_commands_and_links_to_what_there_is() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 130
    for command in ("make demo", "make test", "make test-all"):
        assert f"`{command}`" in readme or f"\n{command}\n" in readme
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", readme)
    assert any(link.endswith(".png") for link in links)
    for link in links:
        assert (ROOT / link).exists(), link


OF_OTHERS = {
    "--volume",
    "--publish",
    "--file",
    "--tag",
    "--system",
    "--home-dir",
    "--shell",
    "--directory",
    "--owner",
} | {
    *(
        "--group",
        "--mode",
        "--now",
        "--command",
        "--silent",
        "--fail",
        "--retry",
        "--retry-connrefused",
        "--data-binary",
    ),
    *(
        "--editable",
        "--dest",
        "--no-index",
        "--find-links",
        "--index-url",
        "--no-build-isolation",
        "--inplace",
        "--strict",
        "--user",
    ),
}
"""Options of pip, curl, docker, systemd and others."""


def test_every_option_module_and_file_that_the_docs_name_exists() -> None:
    known = options() | OF_OTHERS
    for script in (ROOT / "benchmarks").glob("*.py"):
        known |= set(re.findall(r"\"(--[a-z][\w-]+)\"", script.read_text(encoding="utf-8")))
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
    wrong = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *pages]:
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"(?<![\w-])--[a-z][\w-]*\w", text)) - known
        files = set(re.findall(r"\b(?:src/cofill|tests|benchmarks|deploy)/[\w./-]*\w", text))
        modules = set(re.findall(r"\bcofill(?:\.[a-z_]+)+\b", text)) - {
            "cofill.algorithms",
            "cofill.service",
            "cofill.json",
        }
        wrong += [f"{page.name}: {one}" for one in named]
        wrong += [f"{page.name}: {one}" for one in files if not (ROOT / one).exists()]
        wrong += [f"{page.name}: {one}" for one in modules if not is_there(one)]
    assert not wrong


def is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_wording_that_the_house_does_not_write_is_found() -> None:
    page = "Somebody rates `a b`.\n\n- Users rate [items](x.md).\n\n```sh\nwhoever\n```\n" + "word " * 36 + "end.\n"
    assert [one.what for one in judged("page.md", page)] == [
        "says Somebody",
        "says whoever",
        "has a sentence of 37 words",
    ]


def test_the_path_of_a_rating_is_that_of_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("### The path of one rating")[2]
    named = re.findall(r"[\w./]+\.py", text.partition("\n\n    ")[2].partition("\n\n")[0])
    here = {path.name for path in (ROOT / "src" / "cofill").rglob("*.py")}
    assert not {name.rpartition("/")[2] for name in named} - here
    assert len(named) == len(set(named))
    assert f"passes through these {len(named) - 1} files" in text  # torch.py is named, and not on the way

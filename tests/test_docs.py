"""The code in the docs runs, and what README promises is there."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from cofill import CFN

ROOT = Path(__file__).parent.parent

EXAMPLES = [
    "README.md",
    "docs/how-to/python.md",
    "docs/how-to/recommend.md",
    "docs/explanation/rivals.md",
    "docs/reference/data.md",
    "docs/reference/datasets.md",
]


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
    CFN(epochs=2, hidden=8).fit("ratings.csv").save("model")
    for source in python_blocks(document):
        exec(compile(source.replace("CFN()", "CFN(epochs=2, hidden=12)"), document, "exec"), {})


def test_readme_names_both_commands_and_every_document() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in readme
    assert "make test" in readme
    for link in re.findall(r"\]\(([^)#]+\.md)[^)]*\)", readme):
        assert (ROOT / link).exists(), link


def test_the_path_of_a_rating_is_that_of_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("### The path of one rating")[2]
    named = re.findall(r"[\w./]+\.py", text.partition("\n\n    ")[2].partition("\n\n")[0])
    here = {path.name for path in (ROOT / "src" / "cofill").rglob("*.py")}
    assert not {name.rpartition("/")[2] for name in named} - here
    assert len(named) == len(set(named)) == 60

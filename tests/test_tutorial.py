"""docs/tutorial/first-list.md, followed word by word in an empty folder: what it shows is what is printed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pages import missing_lines
from tests.serving.running_server import Server

TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorial" / "first-list.md"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "http://127.0.0.1:8000"


class Newcomer:
    """Somebody who types what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: Server | None = None
        self.printed = ""

    def type(self, text: str) -> None:
        """Run the lines of one block; what they print is kept."""
        self.printed = ""
        for line in text.splitlines():
            if line.startswith("pip install"):
                continue  # the tests of the release do that
            if line == "cofill serve model":
                self.server = Server(self.folder / "model")
            else:
                self.printed += self._run(line)

    def _run(self, line: str) -> str:
        if self.server is not None:
            line = line.replace(ADDRESS, self.server.told["address"])
        script = f'set -euo pipefail; cofill() {{ {sys.executable} -m cofill.cli "$@"; }}\n{line}\n'
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=os.environ | {"COLUMNS": "100"},  # no title is broken
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}: {done.stderr}"
        return done.stdout + "\n"


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Newcomer]:
    typing = Newcomer(tmp_path)
    yield typing
    if typing.server is not None:
        assert typing.server.stop() == 0, typing.server.errors()


def test_the_tutorial_is_what_happens(newcomer: Newcomer) -> None:
    if shutil.which("bash") is None or shutil.which("curl") is None:
        pytest.skip("the tutorial needs bash and curl")
    blocks = BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))
    assert sum(language == "text" for language, _ in blocks) >= 7
    for language, text in blocks:
        if language == "sh":
            newcomer.type(text)
        else:
            unlike = missing_lines(text, newcomer.printed)
            assert not unlike, f"{unlike!r} is not what it prints, which is\n{newcomer.printed}"
    assert newcomer.server is not None
    assert newcomer.server.ratings("me") == {35: 5}

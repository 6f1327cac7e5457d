"""A page of the docs, played: its blocks run one after the other in a folder, as a reader would run them.

    ```sh        every command; `cofill` in this process, because a reader's first second is the import of torch
    ```python    all blocks of a page share their names
    ```text      directly below a block: what it printed, line by line; decimals may be off by a few percent, and
                 `...` stands for anything. With a line that begins with "cofill: " the command is to fail
    ```toml      and others: read, not run

`<!-- not run: WHY -->` on the line above a block says that nobody can run it here, such as Docker.
"""

import io
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from cofill.cli import main
from cofill.errors import DataWarning
from tests.serving.running_server import Server
from tests.warm_processes import run_warm

ROOT = Path(__file__).parent.parent
ADDRESS = re.compile(r"http://(?:127\.0\.0\.1|localhost):8000")
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?")
SIGNALS = {"-9": signal.SIGKILL, "-HUP": signal.SIGHUP}
_FENCE = re.compile(r"^(?:<!-- not run: (?P<why>[^\n]+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
_ANYTHING = re.compile(r"(?:\\ )?\\\.\\\.\\\.(?:\\ )?")  # " ... ", escaped


class Block(NamedTuple):
    language: str
    text: str
    printed: str  # what the page says that it prints
    not_run: str  # why not, or nothing


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a page, each with the output that directly follows it."""
    found = list(_FENCE.finditer(text))
    for number, one in enumerate(found):
        if one["language"] == "text":
            continue
        follower = found[number + 1] if number + 1 < len(found) else None
        printed = ""
        if follower and follower["language"] == "text" and not text[one.end() : follower.start()].strip():
            printed = follower["text"]
        yield Block(one["language"], one["text"], printed, one["why"] or "")


def sections(text: str) -> list[tuple[str, list[Block]]]:
    """(heading, its blocks) of every section."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return [(heading, list(blocks(body))) for heading, body in zip(parts[::2], parts[1::2], strict=True)]


class Player:
    """What the blocks of a page have done so far, in a folder of its own, which is the current one."""

    def __init__(self, page: str, folder: Path, *, quick: Sequence[str] = ()) -> None:
        """`quick` is added to every `cofill train`."""
        self.page, self.folder, self.quick = page, folder, list(quick)
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.server: Server | None = None
        self._has_served = False  # the first server of a page starts as a reader's does, the others quickly
        self._installed: ExitStack | None = None

    def play(self, block: Block) -> str:
        """Run it, and check what it prints, which is returned."""
        if block.not_run or block.language not in ("sh", "python"):
            return ""
        out = io.StringIO()
        fails = bool(re.search(r"^cofill: (?!warning|note)", block.printed, re.MULTILINE))
        with redirect_stdout(out), redirect_stderr(out), warnings.catch_warnings():
            warnings.simplefilter("always", DataWarning)  # a reader is told; for all other tests it is an error
            if block.language == "sh":
                codes = [self._run(command, fails) for command in commands(block.text)]
            else:
                codes = self._python(block.text)
        assert any(codes) == fails, f"{self.page}: exit codes {codes} of\n{block.text}\n{out.getvalue()}"
        unlike = missing_lines(block.printed, out.getvalue())
        assert not unlike, f"{self.page}: {unlike!r} is not what it prints, which is\n{out.getvalue()}"
        return out.getvalue()

    def close(self) -> None:
        if self.server is not None:
            self.server.stop(signal.SIGKILL)
        if self._installed:
            self._installed.close()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the server, which is there, and has nothing to complain of."""
        if self.server is not None:
            code = self.server.stop(number)
            assert code in (0, -signal.SIGKILL), self.server.errors()
            assert "Traceback" not in self.server.errors()
        self.server = None

    def _python(self, text: str) -> list[int]:
        exec(compile(self._here(text), self.page, "exec"), self.names)
        return [0]

    def _run(self, command: str, fails: bool) -> int:
        words = [] if "<<" in command else shlex.split(command, comments=True)
        if words[:1] == ["kill"]:
            assert words[-1] == "$server", "name the process that is to end"
            self._signal(words)
        elif words[:2] == ["cofill", "serve"] and not fails:
            self._serve([word for word in words[2:] if word != "&"])
        elif words == ["server=$!"]:
            assert self.server is not None  # whose process `kill $server` ends
        elif words[:1] == ["cofill"] and not {"|", "<"} & set(words):
            return self._cofill(words[1:])
        elif words[:2] == ["pip", "install"]:
            self._install(words[2:])
        else:
            return self._bash(command)
        return 0

    def _cofill(self, words: list[str]) -> int:
        words, target = (words[:-2], Path(words[-1])) if ">" in words[-2:-1] else (words, None)
        more = self.quick if words[0] == "train" else []
        if self._installed:  # a package that came meanwhile is seen by a process that starts after it
            done = run_warm([*words, *more], env=os.environ)
            sys.stdout.write(done.stderr + done.stdout)
            return done.returncode
        if target is None:
            return main([*words, *more])
        out = io.StringIO()
        with redirect_stdout(out):
            code = main([*words, *more])
        target.write_text(out.getvalue(), encoding="utf-8")
        return code

    def _bash(self, command: str) -> int:
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": programs}
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._here(command)], env=environment, capture_output=True, text=True
        )
        sys.stdout.write(done.stdout + done.stderr)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return 0

    def _here(self, text: str) -> str:
        """A server of a test has a free port, and another one when it is started again."""
        return text if self.server is None else ADDRESS.sub(self.server.told["address"], text)

    def _signal(self, words: list[str]) -> None:
        number = SIGNALS.get(words[1], signal.SIGTERM)
        if number != signal.SIGHUP:
            self.stop(number)
            return
        assert self.server is not None
        self.server.process.send_signal(number)

    def _serve(self, words: list[str]) -> None:
        assert self.server is None
        options = shlex.split(" ".join(words).replace("--model ", "--model="))
        one = [] if options[0].startswith("--") else [options.pop(0)]
        self.server = Server(self.folder / (one or ["several"])[0], *options, from_nothing=not self._has_served)
        self._has_served = True

    def _install(self, words: list[str]) -> None:
        """A package of the page's own is installed as far as its entry points go; of others, all are there."""
        if "." not in words:
            return
        project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
        name, version = project["name"], project["version"]
        about = Path(f"{name.replace('-', '_')}-{version}.dist-info")
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = []
        for group, entries in project["entry-points"].items():
            lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
        (about / "entry_points.txt").write_text("\n".join(lines))
        self._installed = ExitStack()
        self._installed.enter_context(_found_here())


@contextmanager
def _found_here() -> Iterator[None]:
    """What is in this folder counts as installed, here and in processes that are started."""
    from cofill.models import algorithms, contenders

    def forget() -> None:
        algorithms.cache_clear()
        contenders.cache_clear()

    here, path, modules = str(Path.cwd()), os.environ.get("PYTHONPATH"), set(sys.modules)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *([path] if path else [])])
    sys.path.insert(0, here)
    forget()
    try:
        yield
    finally:
        sys.path.remove(here)
        del os.environ["PYTHONPATH"]
        os.environ |= {"PYTHONPATH": path} if path else {}
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(here):
                del sys.modules[name]
        forget()


def commands(text: str) -> list[str]:
    """The commands of a block: lines joined that end in a backslash, and text up to the end of a here-document."""
    found: list[str] = []
    end = ""  # of the here-document that is being read
    for line in text.splitlines():
        if end or (found and found[-1].endswith("\\")):
            found[-1] += "\n" + line
            end = "" if line == end else end
        elif line.strip() and not line.startswith("#"):
            found.append(line)
            begun = re.search(r"<<\s*'?(\w+)'?", line)
            end = begun[1] if begun else ""
    return [one.replace("\\\n", " ") if "<<" not in one else one for one in found]


def missing_lines(promised: str, printed: str) -> list[str]:
    """Lines that a page promises and a block did not print, in their order."""
    rest, missing = _plain(printed), []
    for line in promised.splitlines():
        if (words := _plain(line)) in ("", "..."):
            continue
        end = _end_of(words, rest)
        if end is None:
            missing.append(line)
        else:
            rest = rest[end:]
    return missing


def _plain(text: str) -> str:
    """Its words, one blank apart: the width of a column, and where a cell is broken for it, say nothing."""
    return re.sub(r"[\s━─┏┳┓┡╇┩└┴┘│┃]+", " ", text).strip()


def _end_of(promised: str, printed: str) -> int | None:
    """Where the promised words end in what is printed; None where they are not there."""
    values, words = NUMBER.findall(promised), NUMBER.split(promised)
    pattern = f"({NUMBER.pattern})".join(_ANYTHING.sub(".*?", re.escape(part)) for part in words)
    for found in re.finditer(rf"(?<!\S)(?=({pattern})(?!\S))", printed):  # ahead: matches may overlap
        if all(map(_alike, values, found.groups()[1:])):
            return found.end(1)
    return None


def _alike(promised: str, printed: str) -> bool:
    """The same whole numbers, and others that are nearly the same: another processor rounds in another way."""
    one, other = (float(text.replace(",", "")) for text in (promised, printed))
    return one == other if "." not in promised else math.isclose(one, other, rel_tol=0.05, abs_tol=0.03)

"""Ctrl-C ends a command at any moment, whatever it is doing: exit code 130, one line, nothing half-written."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cofill.cli import main
from tests.cli.conftest import QUICK, Run

PATIENCE = 60.0

# In place of a command; `press` is Ctrl-C, `in_c` is code in C that lets go of the interpreter and does not return.
STAND_IN = """
import ctypes, os, signal, sys, threading, time, types
from concurrent.futures import ThreadPoolExecutor
from hashlib import pbkdf2_hmac
from pathlib import Path
from cofill.cli import main
from cofill.files import replacing
from cofill.interrupts import orderly_end

def press(): signal.raise_signal(signal.SIGINT)
def in_c(): pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
def for_ever():
    while True: time.sleep(0.01)

def run(options):
{body}
    return 0

command = types.ModuleType("cofill.cli.doctor")
command.run_doctor, command.add_doctor = run, lambda parser: None
sys.modules[command.__name__] = command
sys.argv = ["cofill", "doctor"]
main()
"""

OBEYED = {
    "plain": "press()",
    "swallowed by a callback from C": "ctypes.CFUNCTYPE(None)(press)(); for_ever()",
    "swallowed by a destructor": "type('Gone', (), {'__del__': lambda self: press()})(); for_ever()",
    "swallowed by a bare except": """
try: press()
except: pass
for_ever()""",
    "turned into another error": """
try: press()
except BaseException: raised = True
raise ImportError('numpy cannot be imported')""",
    "turned into an error that is no Exception": """
try: press()
except BaseException: raise type('Panic', (BaseException,), {}) from None""",
    "in C": """
with replacing(Path('out')) as draft:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    in_c()""",
    "while threads are in C": """
with ThreadPoolExecutor(1) as pool:
    pool.submit(in_c)
    press()""",
    "by way of C that runs Python": """
ctypes.pythonapi.PyRun_String.restype = ctypes.py_object
ctypes.pythonapi.PyRun_String(b'press()', 258, ctypes.py_object(globals()), ctypes.py_object({}))""",
    "while a draft is written": """
with replacing(Path('out')) as draft:
    draft.write_text('half')
    press()""",
    "pressed again by somebody who does not want to wait": """
with orderly_end():
    try: press()
    finally:
        press()
        for_ever()""",
}  # fmt: skip


def stood_in(body: str, folder: Path) -> tuple[int, str]:
    """Exit code and what was printed to stderr."""
    indented = "".join(f"    {line}\n" for line in body.strip().splitlines())
    words = [sys.executable, "-c", STAND_IN.replace("{body}", indented)]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.returncode, done.stderr


@pytest.mark.parametrize("body", OBEYED.values(), ids=OBEYED)
def test_an_interrupt_is_obeyed(body: str, tmp_path: Path) -> None:
    assert stood_in(body, tmp_path) == (130, "cofill: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_what_stops_other_processes_is_waited_for(tmp_path: Path) -> None:
    """Longer than anything else is given, which is 1.5 seconds."""
    body = "with orderly_end():\n    try: press()\n    finally: time.sleep(3); print('tidy', file=sys.stderr)"
    assert stood_in(body, tmp_path) == (130, "tidy\ncofill: stopped\n")


@pytest.mark.slow
def test_what_does_not_stop_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    body = "with orderly_end():\n    try: press()\n    finally: for_ever()"
    assert stood_in(body, tmp_path) == (130, "cofill: stopped\n")


def test_an_interrupt_after_the_end_comes_too_late(tmp_path: Path) -> None:
    assert stood_in("import atexit; atexit.register(press)", tmp_path) == (0, "")


def test_a_command_in_the_background_of_a_shell_ignores_interrupts(tmp_path: Path) -> None:
    words = [sys.executable, "-c", STAND_IN.replace("{body}", "    press()")]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_call_from_python_leaves_no_traces(run: Run) -> None:
    before = signal.getsignal(signal.SIGINT), sys.unraisablehook, signal.set_wakeup_fd(-1), threading.active_count()
    assert run("datasets", "list").code == 0
    assert before == (
        signal.getsignal(signal.SIGINT), sys.unraisablehook, signal.set_wakeup_fd(-1), threading.active_count()
    )  # fmt: skip


def test_a_world_that_was_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: object) -> None:
    from cofill.data.datasets.world_truth import Truth

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    words = ["datasets", "make", "--users=9", "--items=9", "--ratings=30", "--quiet", f"--out={tmp_path / 'w'}"]
    with monkeypatch.context() as patched:
        patched.setattr(Truth, "write", stop)
        assert main(words) == 130
    assert list(tmp_path.iterdir()) == []
    assert main(words) == 0


def test_a_training_that_fails_by_an_interrupt_tells_how_to_go_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, world: Path, tmp_path: Path
) -> None:
    """As one does where numba is compiling: llvmlite swallows the interrupt, and numba misses what was compiled."""
    from cofill.models.cfn.model import CFN

    def fail(*_: object, checkpoint: Path, **__: object) -> None:
        checkpoint.touch()
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise RuntimeError("no compiled object yet") from interrupt

    monkeypatch.setattr(CFN, "fit", fail)
    stopped = run("train", world / "ratings.csv", "--out", tmp_path / "m", "--quiet")
    assert stopped.code == 130
    assert stopped.err == "the same command with --resume goes on from the last checkpoint\ncofill: stopped\n"


def test_a_model_that_was_stopped(monkeypatch: pytest.MonkeyPatch, model: Path, tmp_path: Path) -> None:
    from cofill.models import persistence
    from cofill.models.recommender import Recommender

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    loaded = Recommender.load(model)
    with monkeypatch.context() as patched:
        patched.setattr(persistence, "finish", stop)
        with pytest.raises(KeyboardInterrupt):
            loaded.save(tmp_path / "new")
    assert list((tmp_path / "new").iterdir()) == []


# At random moments

COMMANDS = {
    "train": ("train", "{world}/ratings.csv", "--out", "out", *QUICK),
    "evaluate": ("evaluate", "{model}", "{world}/ratings.csv"),
    "recommend": ("recommend", "{model}", "--all", "--out", "out.csv"),
    "tune": ("tune", "{world}/ratings.csv", "--out", "out", "--trials", "4", "--workers", "1", *QUICK),
    "datasets": ("datasets", "make", "--users=600", "--items=400", "--ratings=20000", "--out", "out"),
    "report": ("report", "{model}", "--test", "{world}/ratings.csv", "--out", "out.html"),
}
SECONDS_OF_PROCESSOR = {"train": 4.0, "evaluate": 2.5, "recommend": 2.0, "tune": 4.0, "datasets": 1.5, "report": 3.0}
"""About as long as each takes; one that has ended before is right, too."""
_TURNS = [(name, turn) for turn in range(5) for name in COMMANDS]


@pytest.mark.parametrize(
    ("name", "turn"),
    [pytest.param(name, turn, marks=[pytest.mark.slow] if turn else []) for name, turn in _TURNS],
    ids=[f"{name} {turn}" for name, turn in _TURNS],
)
def test_a_random_moment(name: str, turn: int, world: Path, model: Path, tmp_path: Path) -> None:
    # From the moment when cofill itself runs: before that, an interrupt is the affair of Python.
    moment = random.Random(f"{name} {turn}").uniform(0.0, SECONDS_OF_PROCESSOR[name])
    words = [word.format(world=world, model=model) for word in COMMANDS[name]]
    with (tmp_path / "err").open("w+") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "cofill.cli", *words],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=printed,
            start_new_session=True,  # a terminal sends the interrupt to the whole group
        )
        while process.poll() is None and not (is_watching(process.pid) and seconds_used(process.pid) >= moment):
            time.sleep(0.002)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        code = process.wait(PATIENCE)
        printed.seek(0)
        said = printed.read()
    assert code in (0, 130), said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert said[-16:] == "cofill: stopped\n" if code else "cofill: stopped" not in said
    assert said.count("cofill: ") <= 1 + said.count("cofill: warning")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} - {"err"}
    assert not [path for path in left if ".part" in path or "/." in path]
    if code == 130 and name != "tune" and not left <= {"out", "out/checkpoint.safetensors"}:
        assert is_whole(name, tmp_path)  # it was in place before the interrupt came


def is_whole(name: str, folder: Path) -> bool:
    """What a command writes is there to its end."""
    from cofill import Ratings, Recommender

    match name:
        case "train":
            return len(Recommender.load(folder / "out").users) == 60
        case "datasets":
            return len(Ratings.read(folder / "out" / "ratings.csv")) == 20_000
        case "recommend":
            return (folder / "out.csv").read_text().endswith("\n")
        case "report":
            return (folder / "out.html").read_text().rstrip().endswith("</html>")
    return False


def is_watching(process: int) -> bool:
    """The thread that watches over interrupts is the first that there is beside the main one."""
    try:
        return len(os.listdir(f"/proc/{process}/task")) > 1  # noqa: PTH208
    except FileNotFoundError:
        return False


def seconds_used(process: int) -> float:
    """Of the processor: on a busy machine, too, as far as it has come."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

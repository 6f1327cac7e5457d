"""What is shown while a model is trained."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from cofill import progress
from cofill.progress import Step, shown, unseen
from tests.cli.conftest import HYBRID, Run
from tests.cli.test_process import COFILL


def test_quiet() -> None:
    with shown(quiet=True) as progress:
        assert progress is unseen


def test_solving_in_a_log(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    with shown() as show:
        for share in (0.0, 0.25, 0.5):
            show(Step("solving the columns", share, 1.0, share))
    assert capsys.readouterr().err == "solving the columns: 25%\nsolving the columns: 50%\n"  # it begins with the first


def test_solving_that_is_quick_is_not_worth_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with shown() as show:
        for share in (0.0, 0.5):
            show(Step("solving the columns", share, 1.0, share))
    assert capsys.readouterr().err == ""


def test_what_happened_on_the_way_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with shown() as show:
        show(Step("training", 0, 1, 0.0, note="training diverged; begins anew"))
    assert capsys.readouterr().err == "training: training diverged; begins anew\n"


def test_a_learning_rate_that_was_lowered_is_told(some: Path, tmp_path: Path, run: Run) -> None:
    rate = ["--learning-rate", "50", "--weight-decay", "0"]
    told = run("train", some, "--out", tmp_path / "m", "--epochs", "3", "--hidden", "6", *rate).err
    assert "training for validation: training diverged in epoch " in told
    assert " with a learning rate of 50; begins anew with 12.5\n" in told


def test_on_a_terminal(some: Path, about: list[str], tmp_path: Path) -> None:
    here, there = pty.openpty()
    words = [*COFILL, "train", str(some), "--out", str(tmp_path / "m"), *about, *HYBRID]
    process = subprocess.Popen(words, stderr=there, stdout=subprocess.DEVNULL, env=os.environ | {"COLUMNS": "140"})
    os.close(there)
    shown = b""
    try:
        while part := os.read(here, 4096):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(here)
    assert process.wait() == 0, shown
    text = shown.decode()
    for line in ("Side information about items", "training for validation", "training", "solving the columns"):
        assert line in text
    assert "100%" in text.partition("solving the columns")[2]

"""Runs in a process of its own: a JSON line on standard input for each, progress and record on standard output.

python -m cofill.experiments.worker DATA THREADS PARENT    DATA as `ExperimentData.write` left it
"""

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any, TextIO

from cofill.errors import CofillError


class OrphanedError(Exception):
    """Whoever wanted the result has gone."""


def main(words: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to everybody; the parent decides
    path, threads, parent = Path(words[0]), int(words[1]), int(words[2])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints shall not be taken for an answer
    warnings.showwarning = _show_warning

    import torch

    from cofill.experiments.data import read_once
    from cofill.experiments.measuring import perform
    from cofill.experiments.run import Run

    if threads:
        torch.set_num_threads(threads)

    def report(share: float) -> None:
        if os.getppid() != parent:
            raise OrphanedError
        _answer(answers, share=share)

    try:
        for line in sys.stdin:
            try:
                record = perform(Run.from_json(json.loads(line)), read_once(path), threads=threads, report=report)
            except CofillError as error:
                _answer(answers, problem=" ".join(str(error).split()))
            else:
                _answer(answers, record=record)
    except (OrphanedError, BrokenPipeError):
        return 1
    return 0


def _answer(answers: TextIO, **what: Any) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    sys.stderr.write(f"cofill: warning: {message}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

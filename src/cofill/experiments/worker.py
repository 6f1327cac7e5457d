"""Runs in a process of its own: a JSON line on standard input for each, progress and record on standard output.

python -m cofill.experiments.worker DATA THREADS PARENT    DATA as `ExperimentData.write` left it
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

from cofill.errors import CofillError
from cofill.processes import behave_as_worker


class OrphanedError(Exception):
    """Whoever wanted the result has gone."""


def main(words: list[str]) -> int:
    behave_as_worker()
    path, threads, parent = Path(words[0]), int(words[1]), int(words[2])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else prints shall not be taken for an answer

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
            except (OrphanedError, BrokenPipeError):
                raise
            except Exception as error:
                if os.environ.get("COFILL_TRACE"):
                    traceback.print_exc()
                _answer(answers, problem=problem_of(error))
            else:
                _answer(answers, record=record)
    except (OrphanedError, BrokenPipeError):
        return 1
    return 0


def problem_of(error: Exception) -> str:
    """What went wrong in a run, on one line; with its type where it is none of ours."""
    text = " ".join(str(error).split())
    return text if isinstance(error, CofillError) else f"{type(error).__name__}: {text}".removesuffix(": ")


def _answer(answers: TextIO, **what: Any) -> None:
    answers.write(json.dumps(what) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

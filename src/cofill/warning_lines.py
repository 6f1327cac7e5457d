"""Warnings for people at a terminal. A module of its own, so that `cofill --help` need not load any other."""

import sys
from typing import Any


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """In place of `warnings.showwarning`: one line, without the place in the code."""
    sys.stderr.write(f"cofill: warning: {message}\n")

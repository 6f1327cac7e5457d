"""python -m cofill.serving.worker FD: one process of several; its settings come on standard input."""

import json
import os
import signal
import socket
import sys
import threading
from typing import Any

from cofill.errors import CofillError
from cofill.processes import behave_as_worker
from cofill.serving.running import serve_here
from cofill.serving.settings import ServingSettings


def main() -> int:
    behave_as_worker()
    settings = ServingSettings.model_validate_json(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    listening = socket.socket(fileno=int(sys.argv[1]))
    try:
        serve_here(settings, listening, _say, interrupts=False)
    except CofillError as error:
        sys.stderr.write(f"cofill: {error}\n")
        return 1
    return 0


def _say(summary: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    """The pipe from the parent ends when it does, however it ended."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())

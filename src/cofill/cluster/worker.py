"""One worker of a team: the process of a Ray actor, which runs the program of the team on its share.

The program runs on one thread and answers are given on another, so that the driver always hears whether the worker
lives. Everything that goes to the driver is JSON.
"""

import json
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cofill import __version__
from cofill.cluster.gloo import ExchangeError, Gloo, Meeting, join_meeting
from cofill.cluster.transported import Told, told_error, told_step, told_warning
from cofill.errors import CofillError
from cofill.exchange import ALONE, Exchange
from cofill.progress import Progress, Step, unseen
from cofill.workers import problem_of

Program = Callable[[Exchange, Mapping[str, Any], Progress], Any]
"""What each worker runs: with its exchange, the arguments of the run, and whom to tell how far it is."""

_MOST_NEWS = 1000  # that are kept for the driver


@dataclass(frozen=True)
class Duty:
    """What one worker has to do."""

    program: str
    """package.module:function"""
    arguments: Mapping[str, Any]
    rank: int
    size: int
    address: str
    """Its own, at which the others reach it."""
    meeting: tuple[str, int]
    """Address and port of the store that worker 0 has opened."""
    seconds: float
    """How long it waits for the others in an exchange."""


class Worker:
    """The actor. Its methods are called by the driver, several at a time."""

    def __init__(self) -> None:
        self._meeting: Meeting | None = None
        self._exchange: Exchange | None = None  # kept to the end: closed connections would look like a failure of ours
        self._news: list[Told] = []
        self._speaking = threading.Lock()

    def prepare(self, size: int) -> str:
        """Do what takes long and needs no other worker, so that all do it at once; returns the version of cofill."""
        if size > 1:
            import_module("torch.distributed")
        return __version__

    def open_meeting(self, address: str, seconds: float) -> int:
        """Let the others find this worker, at the port that is returned."""
        self._meeting = Meeting(address, seconds)
        return self._meeting.port

    def news(self) -> str:
        """What there is to tell since the last time, and how often it has exchanged (`Gloo.turns`)."""
        with self._speaking:
            news, self._news = self._news, []
        turns = self._exchange.turns if isinstance(self._exchange, Gloo) else 0
        return json.dumps({"told": news, "turns": turns}, default=str)

    def run(self, duty_in_json: str) -> str:
        """Do all of the duty; returns the result of the program, or why there is none."""
        duty = Duty(**json.loads(duty_in_json))
        first = duty.rank == 0
        if first:
            warnings.showwarning = self._warned
        try:
            module, _, name = duty.program.partition(":")
            program: Program = getattr(import_module(module), name)
            self._exchange = exchange = self._connected(duty)
            result = program(exchange, duty.arguments, self._tell if first else unseen)
            return json.dumps({"result": result})
        except Exception as error:
            if os.environ.get("COFILL_TRACE"):
                traceback.print_exc()
            return json.dumps(_outcome(error), default=str)

    def _connected(self, duty: Duty) -> Exchange:
        if duty.size == 1:
            return ALONE
        address, port = duty.meeting
        store = join_meeting(address, port, duty.seconds) if self._meeting is None else self._meeting.store
        return Gloo(store, duty.rank, duty.size, address=duty.address, seconds=duty.seconds)

    def _tell(self, step: Step) -> None:
        with self._speaking:
            if len(self._news) >= _MOST_NEWS:  # nobody asks; what is remarkable is kept
                self._news = [told for told in self._news if "warning" in told or told["step"]["note"]]
            self._news.append({"step": told_step(step)})

    def _warned(self, message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        with self._speaking:
            self._news.append({"warning": told_warning(message, category)})


def _outcome(error: Exception) -> Told:
    """An error that ends the run for good, or a failure after which another team can go on."""
    cause: BaseException | None = error
    while cause is not None:  # whoever writes a file may have turned a failed exchange into an error of writing
        if isinstance(cause, ExchangeError):
            return {"failure": str(cause), "in_exchange": True}
        cause = cause.__cause__
    if isinstance(error, CofillError):
        return {"error": told_error(error)}
    return {"failure": problem_of(error), "in_exchange": False}

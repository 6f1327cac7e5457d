"""Several models at once: which of them answers whom.

Somebody with an id always gets the same model, whichever process is asked and whenever: it goes by a hash of the id. If
the shares change, only as many people change models as have to. Whoever has no id gets one by chance, each time.
"""

import random
from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple, Self

from cofill.serving.problems import ProblemError
from cofill.serving.settings import ServingSettings


class Choice(NamedTuple):
    """A model that can be chosen, and how large a share of people it gets."""

    name: str
    folder: Path
    share: float


class Split:
    """The models that are served; the first one answers whatever is not about a person."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self.choices = list(choices)
        self._names = {choice.name: at for at, choice in enumerate(self.choices)}
        self._ends = list(accumulate(choice.share for choice in self.choices))[:-1]

    @classmethod
    def of(cls, settings: ServingSettings) -> Self:
        shares = settings.shares
        return cls([Choice(name, folder, shares[name]) for name, folder in settings.models.items()])

    def chosen(self, who: object = None, model: str | None = None) -> int:
        """The place of the model of that name, or else of the one that somebody gets; None is nobody known."""
        if model is not None:
            return self.named(model)
        if not self._ends:
            return 0
        if who is None:
            return bisect_right(self._ends, random.random())  # no secret
        digest = blake2b(str(who).encode("utf-8", "surrogatepass"), digest_size=8, person=b"cofill-split").digest()
        return bisect_right(self._ends, int.from_bytes(digest, "big") / 2**64)

    def named(self, model: str) -> int:
        if model not in self._names:
            known = ", ".join(self._names)
            raise ProblemError(422, f"model: there is no model {model!r} here; there is {known}")
        return self._names[model]

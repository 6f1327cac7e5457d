"""The map of the items, as `cofill train` drew it.

For a model without one, it is drawn once in a process of its own (`python -m cofill.serving.item_map`) and kept beside
the model.
"""

import fcntl
import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import Query, Response
from pydantic import BaseModel, Field

from cofill.arrays import Floats
from cofill.data.attributes import AttributeColumn
from cofill.data.vocabulary import Id
from cofill.errors import CofillError
from cofill.files import json_of, replacing
from cofill.models.results import most_rated, placed
from cofill.serving.live_model import LiveModel
from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError
from cofill.serving.request_messages import NothingQuery
from cofill.serving.routing import Right, Routes, answer, rounded
from cofill.serving.served_model import ServedModel
from cofill.serving.settings import beside
from cofill.workers import THREADS_OF_LIBRARIES, interrupts_blocked

log = logging.getLogger("cofill.serving")

Place = tuple[Id, float, float]

_MOST_GROUPS = 8  # that colours can tell apart; everything else has none
_MOST_VALUES = 40  # of a column that tells what kind of thing an item is
_SECONDS_TO_TRY_AGAIN = 60.0


class MapItem(BaseModel):
    id: int | str
    title: str | None
    x: float
    y: float
    ratings: int
    group: str | None = Field(description="what it is by the column of the groups; null if that is not known")


class Map(BaseModel):
    items: list[MapItem]
    group_column: str | None = Field(description="the column that items are grouped by; null if there is none")
    model_version: str


def add_map(routes: Routes, live: LiveModel, item_map: "ItemMap") -> None:
    @routes.add("GET", "/v1/map", Right.READS, Map, "The most rated items in two dimensions")
    def get_map(_: Annotated[NothingQuery, Query()]) -> Response:
        """Items that the same people choose stand near each other."""
        with live.asked() as served:
            return answer(item_map.of(served))


class ItemMap:
    """Positions of the most rated items of the served model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = beside(folder, ".map.json")
        self._version: str | None = None  # of the places
        self._places: list[Place] = []
        self._drawing: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._failed = -np.inf  # when

    def of(self, served: ServedModel) -> dict[str, Any]:
        """The map, or a problem that says when to retry. Called by one thread at a time."""
        version = served.card.version
        if self._version != version and not self._take(version, self._found(served)):
            self._begin(served)
            kind = ProblemType.NOT_DRAWN_YET
            raise ProblemError(503, "the map is being drawn; ask again", kind=kind, headers={"Retry-After": "2"})
        column, group_of = _grouping(served)
        counts, items = served.model.item_counts(), served.model.items
        entries = [
            {
                "id": item,
                "title": served.model.titles.get(item),
                "x": x,
                "y": y,
                "ratings": int(counts[items.index(item)]),
                "group": group_of(item),
            }
            for item, x, y in self._places
            if item in items and served.availability.shown(item)
        ]
        return {"items": entries, "group_column": column, "model_version": version}

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()

    def _take(self, version: str, places: list[Place] | None) -> bool:
        if places is None:
            return False
        self._places, self._version = places, version
        return True

    def _found(self, served: ServedModel) -> list[Place] | None:
        drawn = _drawn(served)
        return self._kept(served.card.version) if drawn is None else drawn

    def _kept(self, version: str) -> list[Place] | None:
        """The stored map, if it belongs to this model."""
        try:
            document = json_of(self._file.read_text(encoding="utf-8"))
            if document["version"] != version:
                return None
            return [(item, float(x), float(y)) for item, x, y in document["items"]]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _begin(self, served: ServedModel) -> None:
        if self._drawing is not None and self._drawing.is_alive():
            return
        if time.monotonic() - self._failed < _SECONDS_TO_TRY_AGAIN:
            kind = ProblemType.NOT_DRAWN_YET
            raise ProblemError(503, "the map could not be drawn; the server's log tells why", kind=kind)
        model = served.model
        vectors = model.item_vectors()
        chosen = most_rated(model.item_counts(), vectors)
        vectors = vectors[chosen].astype(np.float32)
        ids = [model.items.id(int(index)) for index in chosen]
        self._drawing = threading.Thread(
            target=self._draw, args=(served.card.version, ids, vectors), name="map", daemon=True
        )
        self._drawing.start()

    def _draw(self, version: str, ids: list[Id], vectors: Floats) -> None:
        try:
            with (self._folder / "model.json").open("rb") as held:
                fcntl.flock(held, fcntl.LOCK_EX)  # one process draws, the others find what it drew
                if self._take(version, self._kept(version)):
                    return
                places = self._placed(vectors) if ids else np.zeros((0, 2), np.float32)
                document = {"version": version, "items": _together(ids, places)}
                self._take(version, document["items"])  # type: ignore[arg-type]
                with replacing(self._file) as draft:
                    draft.write_text(json.dumps(document), encoding="utf-8")
        except (OSError, ValueError, CofillError) as error:
            if self._version != version:
                self._failed = time.monotonic()
            log.error("the map of the items: %s", error)

    def _placed(self, vectors: Floats) -> Floats:
        """(n, 2): places from 0 to 1, computed by a process of low priority."""
        told = io.BytesIO()
        np.save(told, vectors, allow_pickle=False)
        with interrupts_blocked():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cofill.serving.item_map"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | dict.fromkeys(THREADS_OF_LIBRARIES, "1"),
            )
        drawn, _ = self._process.communicate(told.getvalue())
        if self._process.returncode != 0:
            raise ValueError(f"drawing it ended with exit code {self._process.returncode}")
        places: Floats = np.load(io.BytesIO(drawn), allow_pickle=False)
        return places


def _drawn(served: ServedModel) -> list[Place] | None:
    """The map that was drawn when the model was trained, if one was."""
    drawn = served.model.item_places
    if drawn is None:
        return None
    return _together([served.model.items.id(item) for item in drawn.items.tolist()], drawn.places)


def _together(ids: list[Id], places: Floats) -> list[Place]:
    return [(item, rounded(x), rounded(y)) for item, (x, y) in zip(ids, places.tolist(), strict=True)]


def _grouping(served: ServedModel) -> tuple[str | None, Callable[[Id], str | None]]:
    """Groups to colour by: the most frequent values of a column with few, or else yes/no columns, such as genres.

    An item is in the first group that it has; in none if it has only rare ones.
    """
    columns = served.model.item_attributes.columns()
    few = [column for column in columns if 1 < len(column.values) <= _MOST_VALUES and not _is_flag(column)]
    if few:
        name = few[0].name
        groups = {str(value) for value, _ in few[0].values[:_MOST_GROUPS]}
        cells = served.attributes_of
        return name, lambda item: next((one for one in _each(cells(item).get(name)) if one in groups), None)
    flags = sorted((dict(column.values).get(True, 0), column.name) for column in columns if _is_flag(column))
    rarest_first = [name for _, name in flags[-_MOST_GROUPS:]] if len(flags) > 1 else []

    def flag_of(item: Id) -> str | None:
        attributes = served.attributes_of(item)
        return next((name for name in rarest_first if attributes.get(name) is True), None)

    return None, flag_of


def _is_flag(column: AttributeColumn) -> bool:
    return any(isinstance(value, bool) for value, _ in column.values)


def _each(value: Any) -> list[str]:
    return [] if value is None else [str(one) for one in (value if isinstance(value, list) else [value])]


def main() -> None:
    """The process that draws the map: vectors (.npy) on standard input, places from 0 to 1 on standard output."""
    os.nice(19)
    vectors = np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
    drawn = io.BytesIO()
    np.save(drawn, placed(vectors), allow_pickle=False)
    sys.stdout.buffer.write(drawn.getvalue())


if __name__ == "__main__":
    main()

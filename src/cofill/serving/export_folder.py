"""Everything that a database of live data holds for the next training, in a folder.

    export.json                   which database, and up to which change
    ratings.csv                   user, item, rating, time; one without a rating was taken back
    interactions.csv              user, item, count, time: what the weights of events add up to
    items.ndjson, users.ndjson    descriptions, a line for each, as the server takes them in bulk
    removed.ndjson                {"user": hash of an id} and {"item": id}: who and what was deleted

A folder appears whole or not at all. Only its owner can read it: it is about people.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

import polars as pl

from cofill.data.frames import safe_in_a_spreadsheet
from cofill.data.table import write_frame
from cofill.data.vocabulary import Id
from cofill.errors import CofillError, DataError
from cofill.files import explain_write_failure, json_of, sync
from cofill.serving.live_export import id_column, opened, rating_frame
from cofill.serving.tombstones import Tombstones

if TYPE_CHECKING:
    from cofill.serving.database import LiveInteraction, LiveRating

MANIFEST = "export.json"
_FORMAT = 1


class Exported(NamedTuple):
    """How much was written."""

    ratings: int
    taken_back: int
    interactions: int
    items: int
    users: int
    removed: int


class Description(NamedTuple):
    """What was said of an item or a user while it was served."""

    title: str | None
    features: Mapping[str, Any] | None


class ExportFolder(NamedTuple):
    """A folder that was read again."""

    folder: Path
    ratings: Path
    interactions: Path
    items: dict[Id, Description]
    users: dict[Id, Description]
    removed_users: Tombstones
    removed_items: list[Id]
    learned: dict[str, Any]
    """For the model that is trained with it: up to which change of which database it knows everything."""


def write_export(out: Path, database: str | None, model: Path | None, ending: str = "csv") -> Exported:
    """Write the folder; in the place of an earlier export, and of nothing else."""
    if out.exists() and not is_export(out):
        raise DataError(f"{out}: exists and is no export", "choose another out=..., or remove it")
    with opened(database, model) as store:
        change = store.begin_export()
        changes = store.changes_since(0, until=change)
        identity, forgotten, meanwhile = store.counter().database, store.forgotten(), store.forgotten(after=change)
    known = {one.user for one in changes.ratings} | {one.user for one in changes.interactions}
    users_gone = set(meanwhile.among(known | {one.user for one in changes.users}))
    deleted = {item.item for item in changes.items if item.deleted}

    def stays(one: "LiveRating | LiveInteraction") -> bool:
        return one.item not in deleted and one.user not in users_gone  # the tables are read one after the other

    ratings = [rating for rating in changes.ratings if stays(rating)]
    interactions = [one for one in changes.interactions if stays(one)]
    items = [one for one in changes.items if not one.deleted]
    users = [one for one in changes.users if one.features is not None and one.user not in users_gone]
    frames = {
        "ratings": rating_frame(ratings),
        "interactions": pl.DataFrame(
            {
                "user": id_column([one.user for one in interactions]),
                "item": id_column([one.item for one in interactions]),
                "count": pl.Series([one.weight for one in interactions], dtype=pl.Float64),
                "time": pl.Series([one.time for one in interactions], dtype=pl.Float64),
            }
        ),
    }
    removed = [{"user": digest} for digest in forgotten.digests] + [{"item": item} for item in sorted(deleted)]
    with _replacing_folder(out) as draft:
        for name, frame in frames.items():
            write_frame(frame if ending == "parquet" else safe_in_a_spreadsheet(frame), draft / f"{name}.{ending}")
        lines = [
            {"id": one.item, "title": one.title, "features": one.features, "available": one.available} for one in items
        ]
        _write_lines(draft / "items.ndjson", lines)
        _write_lines(draft / "users.ndjson", [{"id": one.user, "features": one.features} for one in users])
        _write_lines(draft / "removed.ndjson", removed)
        manifest = {"format": "cofill-export", "version": _FORMAT, "database": identity, "change": change}
        manifest |= {"tables": ending, "salt": forgotten.salt}
        (draft / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    taken_back = sum(rating.rating is None for rating in ratings)
    return Exported(len(ratings) - taken_back, taken_back, len(interactions), len(items), len(users), len(removed))


def is_export(path: Path) -> bool:
    """Whether a folder was written as an export."""
    return (path / MANIFEST).is_file()


def read_export(folder: Path) -> ExportFolder:
    """The folder, checked as far as it is read here."""
    if not is_export(folder):
        raise DataError(f"{folder}: is no export; `cofill export` makes one")
    try:
        manifest = json_of((folder / MANIFEST).read_text(encoding="utf-8"))
        version, ending = int(manifest["version"]), str(manifest["tables"])
        learned = {"database": str(manifest["database"]), "change": int(manifest["change"])}
        salt = str(manifest["salt"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(f"{folder / MANIFEST}: is damaged; export again") from None
    if version > _FORMAT or ending not in ("csv", "parquet"):
        raise DataError(f"{folder}: written by a newer cofill (format {version}); upgrade cofill")
    removed = list(_lines(folder / "removed.ndjson"))
    return ExportFolder(
        folder,
        folder / f"ratings.{ending}",
        folder / f"interactions.{ending}",
        _descriptions(folder / "items.ndjson"),
        _descriptions(folder / "users.ndjson"),
        Tombstones(salt, [line["user"] for line in removed if "user" in line]),
        [line["item"] for line in removed if "item" in line],
        learned,
    )


def _descriptions(path: Path) -> dict[Id, Description]:
    try:
        return {line["id"]: Description(line.get("title"), line.get("features")) for line in _lines(path)}
    except KeyError:
        raise DataError(f"{path}: is damaged; export again") from None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json_of(line)
    except (OSError, ValueError):
        raise DataError(f"{path}: is missing or damaged; export again") from None


def _write_lines(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        for line in lines:
            said = {name: value for name, value in line.items() if value is not None}
            file.write(json.dumps(said, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def _replacing_folder(target: Path) -> Iterator[Path]:
    """A folder beside `target`, which takes its place once the block has ended well."""
    draft = target.with_name(f".{target.name}.{uuid4().hex[:12]}.part")
    before = draft.with_suffix(".before")
    try:
        draft.mkdir(mode=0o700, parents=True)
        yield draft
        for path in (*draft.iterdir(), draft):
            sync(path)
        if target.exists():
            target.rename(before)
        draft.rename(target)
        sync(target.parent)
    except CofillError:
        raise
    except OSError as problem:
        raise DataError(explain_write_failure(target, problem)) from problem
    finally:
        for leftover in (draft, before):
            shutil.rmtree(leftover, ignore_errors=True)

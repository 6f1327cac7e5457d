"""A folder of Parquet parts that many tasks write, each one on its own, and a manifest that is written last.

    part-00000.parquet   the rows of one task
    part-00000.json      its rows, bytes and digest, and of which question it is; gone once the manifest has it
    NAME.begun.json      the question and the ranges of all parts, written first; gone in the end
    NAME.json            the manifest: the question, counts, and the digests of all parts

A part that is whole and of the same question is not computed again; one that was cut short or altered is.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cofill import __version__
from cofill.cluster.model_parts import Range
from cofill.errors import ClusterError, DataError, Remedy
from cofill.files import json_of, replacing

if TYPE_CHECKING:
    import polars as pl

FORMAT_VERSION = 1


@dataclass(frozen=True)
class Part:
    """One file of the folder, as its manifest tells of it."""

    name: str
    first: int
    last: int
    rows: int
    bytes: int
    sha256: str


def digest_of(question: Mapping[str, Any]) -> str:
    """The same for the same question."""
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def part_name(number: int) -> str:
    return f"part-{number:05d}.parquet"


# What a task does


def finished_part(folder: Path, number: int, people: Range, question: str) -> Part | None:
    """The part of that number, if it is there, whole, and of this question."""
    path = folder / part_name(number)
    try:
        found = json_of(path.with_suffix(".json").read_text(encoding="utf-8"))
        if found.pop("question") != question:
            return None
        part = Part(**found)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return part if (part.first, part.last) == tuple(people) and is_whole(folder, part) else None


def is_whole(folder: Path, part: Part) -> bool:
    path = folder / part.name
    try:
        return path.stat().st_size == part.bytes and _sha256(path) == part.sha256
    except OSError:
        return False


def write_part(
    folder: Path,
    number: int,
    people: Range,
    question: str,
    schema: "Mapping[str, pl.DataType | type[pl.DataType]]",
    frames: "Iterator[pl.DataFrame]",
) -> Part:
    """Write the rows of a task as they come, and then what tells that they are all there."""
    path = folder / part_name(number)
    rows = 0
    failed: list[BaseException] = []

    def source(*_: Any) -> "Iterator[pl.DataFrame]":
        nonlocal rows
        try:
            for frame in frames:
                rows += len(frame)
                yield frame
        except BaseException as error:
            failed.append(error)
            raise

    from polars.io.plugins import register_io_source

    try:
        with replacing(path, ClusterError) as draft:
            # As a stream: rows are written as they come, and few of them are held.
            register_io_source(source, schema=schema).sink_parquet(draft, maintain_order=True, row_group_size=100_000)
            size, digest = draft.stat().st_size, _sha256(draft)
    except ClusterError:
        if failed:  # it was not the writing that failed
            raise failed[0] from None
        raise
    part = Part(path.name, people.first, people.last, rows, size, digest)
    _write_json(path.with_suffix(".json"), {"question": question, **asdict(part)})
    return part


# What the driver does


class PartFolder:
    """The folder of one question, from its first part to its manifest."""

    def __init__(self, folder: Path, name: str, question: Mapping[str, Any]) -> None:
        """`name` is what the parts are, such as "lists"."""
        self.folder, self.name, self.question = folder.absolute(), name, dict(question)
        self.digest = digest_of(self.question)
        self._manifest = self.folder / f"{name}.json"
        self._begun = self.folder / f"{name}.begun.json"

    def ranges(self, cut: Callable[[], Sequence[Range]]) -> list[Range]:
        """The ranges of all parts: those of the same command before, or new ones; another question is refused."""
        before = _read(self._manifest) or _read(self._begun)
        if before is None:
            self._refuse_strangers()
            found = list(cut())
        else:
            self._refuse_other_question(before)
            found = [Range(*pair) for pair in before["ranges"]]
            self._give_parts_their_cards(before)
        _write_json(self._begun, self._document(found))
        self._manifest.unlink(missing_ok=True)
        return found

    def finish(self, parts: Sequence[Part], **facts: Any) -> dict[str, Any]:
        """Write the manifest, and remove what only a run under way needs."""
        document = self._document([Range(part.first, part.last) for part in parts]) | {
            "rows": sum(part.rows for part in parts),
            **facts,
            "parts": [asdict(part) for part in parts],
        }
        _write_json(self._manifest, document | {"sha256": digest_of(document)})
        self._begun.unlink(missing_ok=True)
        for path in (*self.folder.glob("part-?????.json"), *self.folder.glob(".*.part")):
            path.unlink(missing_ok=True)
        return document

    def _document(self, ranges: Sequence[Range]) -> dict[str, Any]:
        return {
            "format": f"cofill-{self.name}",
            "format_version": FORMAT_VERSION,
            "cofill_version": __version__,
            "question": self.question,
            "ranges": [list(one) for one in ranges],
        }

    def _give_parts_their_cards(self, manifest: Mapping[str, Any]) -> None:
        """Of a folder that was finished, so that its parts are checked like those of one that was not."""
        for found in manifest.get("parts", ()):
            card = {"question": self.digest, **found}
            _write_json((self.folder / found["name"]).with_suffix(".json"), card)

    def _refuse_other_question(self, before: Mapping[str, Any]) -> None:
        other = before.get("question")
        if other == self.question and before.get("format_version") == FORMAT_VERSION:
            return
        asked: dict[str, Any] = other if isinstance(other, dict) else {}
        differing = sorted(key for key in {*asked, *self.question} if asked.get(key) != self.question.get(key))
        about = ", ".join(_in_words(key) for key in differing) or "version of cofill"
        raise DataError(
            f"{self.folder}: holds the {self.name} of another question (another {about})",
            Remedy.passing("name another folder with {out}, or remove this one", out=...),
        )

    def _refuse_strangers(self) -> None:
        if self.folder.exists() and not self.folder.is_dir():
            raise DataError(f"{self.folder}: this is a file; {self.name} of a cluster are written into a folder")
        strange = next(iter(sorted(self.folder.iterdir())), None) if self.folder.exists() else None
        if strange is not None:
            raise DataError(
                f"{self.folder}: holds {strange.name}, which does not belong to {self.name} of a cluster",
                Remedy.passing("name an empty or a new folder with {out}", out=...),
            )


def _in_words(key: str) -> str:
    return key.replace("_", " ")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json_of(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        document = None
    signed = document.pop("sha256", None) if isinstance(document, dict) else None
    if (
        not isinstance(document, dict)
        or "ranges" not in document
        or (signed is not None and signed != digest_of(document))
    ):
        raise DataError(
            f"{path}: truncated or altered", Remedy.passing("remove the folder, or name another with {out}", out=...)
        )
    return document


def _write_json(path: Path, document: Mapping[str, Any]) -> None:
    with replacing(path, ClusterError) as draft:
        draft.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

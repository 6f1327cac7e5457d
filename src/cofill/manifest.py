"""A folder of files, and one document that lists them with their checksums: a model, or a partition of ratings.

The document is written last, and read first. Files are read to the end to compare their SHA-256, side by side on all
cores: hashing is as fast as a disk, and a remembered check could not see a disk that goes bad. Arrays are then mapped,
not read (copy-on-write): processes share their memory, and what a process never asks for takes none.
"""

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from cofill import __version__
from cofill.arrays import Arrays
from cofill.errors import CofillError
from cofill.files import json_of

_DTYPES: dict[str, Any] = {
    **{"F64": np.float64, "F32": np.float32, "F16": np.float16, "BOOL": np.bool_},
    **{f"{sign}{bits}": np.dtype(f"{sign.lower()}{bits // 8}") for sign in "IU" for bits in (8, 16, 32, 64)},
}  # of safetensors


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Document(BaseModel):
    """A part of the document."""

    model_config = ConfigDict(extra="forbid")


class FileCard(Document):
    """One file of the folder."""

    name: str
    bytes: int
    sha256: str


class Manifest(Document):
    """The document. Each kind of folder has fields of its own, and a class of errors."""

    NAME: ClassVar[str]
    """Of its file."""
    WHAT: ClassVar[tuple[str, str]]
    """What the folder is, and what helps where it is none."""
    ERROR: ClassVar[type[CofillError]]
    REMEDY: ClassVar[str]
    """Against a damaged folder."""
    UNSIGNED: ClassVar[set[str]] = {"sha256"}

    format: str
    format_version: int = 1
    cofill_version: str = __version__
    sha256: str = ""  # of the document without the fields UNSIGNED

    def digest(self) -> str:
        signed = self.model_dump(mode="json", exclude=self.UNSIGNED)
        return hashlib.sha256(json.dumps(signed, sort_keys=True).encode()).hexdigest()

    def signed(self) -> str:
        """What is to be written."""
        self.sha256 = self.digest()
        return self.model_dump_json(indent=2) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Self:
        """That of a folder, checked; the files that it names are not. What is missing or altered is refused."""
        path, (what, remedy), newest = folder / cls.NAME, cls.WHAT, cls.model_fields["format_version"].default
        try:
            document = json_of(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            raise cls.ERROR(f"not {what}, there is no {cls.NAME} in it", remedy, where=str(folder)) from None
        except OSError as error:
            raise cls.ERROR(f"cannot be read: {error.strerror}", where=str(path)) from None
        except ValueError as error:
            raise cls._refused(path, f"truncated or altered, it is not JSON ({error})") from None
        if not isinstance(document, dict) or document.get("format") != cls.model_fields["format"].default:
            raise cls.ERROR(f"not the description of {what}", "check the path", where=str(path))
        version = document.get("format_version")
        if not isinstance(version, int) or version > newest:
            raise cls.ERROR(
                f"{what} of format {version}, this cofill {__version__} reads up to {newest}",
                f"upgrade cofill (it was written by {document.get('cofill_version')})",
                where=str(path),
            )
        try:
            manifest = cls.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            raise cls._refused(path, f"altered, {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        if manifest.sha256 != manifest.digest():
            raise cls._refused(path, "altered since it was written")
        return manifest

    @classmethod
    def path_of(cls, folder: Path, file: FileCard) -> Path:
        if Path(file.name).name != file.name:
            raise cls._refused(folder / cls.NAME, "altered, it names a file elsewhere")
        return folder / file.name

    @classmethod
    def verify(cls, folder: Path, files: Iterable[FileCard]) -> None:
        """Read files to the end; the error names the first that is not as it was written."""

        def check(file: FileCard) -> None:
            path = cls.path_of(folder, file)
            try:
                size, digest = path.stat().st_size, sha256_of(path)
            except FileNotFoundError:
                raise cls._refused(path, "missing") from None
            except OSError as error:
                raise cls.ERROR(f"cannot be read: {error.strerror}", where=str(path)) from None
            if size != file.bytes:
                raise cls._refused(path, f"truncated or altered, {size} bytes where {file.bytes} were written")
            if digest != file.sha256:
                raise cls._refused(path, "altered since it was written")

        with ThreadPoolExecutor() as pool:
            list(pool.map(check, files))

    @classmethod
    def mapped(cls, folder: Path, file: FileCard) -> Arrays:
        """The arrays of a safetensors file, in memory that is shared until it is written to (copy-on-write)."""
        path = cls.path_of(folder, file)
        try:
            whole = np.memmap(path, np.uint8, "c").view(np.ndarray)
            start = 8 + int.from_bytes(whole[:8], "little")
            data, header = whole[start:], json_of(whole[8:start].tobytes())
            return {
                name: data[slice(*about["data_offsets"])].view(_DTYPES[about["dtype"]]).reshape(about["shape"])
                for name, about in header.items()
                if name != "__metadata__"
            }
        except OSError as error:
            raise cls.ERROR(f"cannot be read: {error.strerror}", where=str(path)) from None
        except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise cls._refused(path, f"not a safetensors file ({error})") from None

    @classmethod
    def _refused(cls, path: Path, found: str) -> CofillError:
        return cls.ERROR(found, cls.REMEDY, where=str(path))

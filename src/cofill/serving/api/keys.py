"""Who may ask, who may write and who may do everything: a file of keys, of which only hashes are kept.

A key is 256 random bits, so nobody finds it by trying words, and a plain SHA-256 of it is as safe as a slow hash would
be: slow hashes make up for secrets that people think up.
"""

import fcntl
import hashlib
import hmac
import json
import logging
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cofill.errors import SettingsError
from cofill.files import explain_write_failure, replacing

log = logging.getLogger("cofill.serving")

_PREFIX = "cofill_"  # so that a key that was published by mistake can be found


KeyRight = Literal["read", "write", "admin"]
"""What a key is for; each may do what those before it may."""


class Key(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    right: KeyRight
    created: str


class _KeyFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: list[Key]


def read_keys(path: Path) -> list[Key]:
    try:
        return _KeyFile.model_validate_json(path.read_bytes()).keys
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: no such file of keys; make one with `cofill keys new --file {path} --write --name me`"
        ) from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError:
        raise SettingsError(f"{path}: not a file of keys; make a new one with `cofill keys new`") from None


def new_key(path: Path, name: str, right: KeyRight) -> str:
    """Add a key to a file, which is created if needed; the key itself is returned only here."""
    token = _PREFIX + secrets.token_urlsafe(32)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        key = Key(name=name, sha256=_digest(token), right=right, created=created)
    except ValidationError:
        raise SettingsError(f"the name of a key has 1 to 100 characters. Got {len(name)}") from None
    with _alone(path):
        keys = read_keys(path) if path.exists() else []
        if any(other.name == name for other in keys):
            raise SettingsError(
                f"{path}: there is a key of the name {name!r} already; choose another, or remove that one"
            )
        _write(path, [*keys, key])
    return token


def remove_key(path: Path, name: str) -> None:
    read_keys(path)  # a wrong path shall not leave a folder behind
    with _alone(path):
        keys = read_keys(path)
        if all(key.name != name for key in keys):
            known = ", ".join(repr(key.name) for key in keys) or "none"
            raise SettingsError(f"{path}: there is no key of the name {name!r}; there are {known}")
        _write(path, [key for key in keys if key.name != name])


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock a key file against other writers, by a lock file beside it, because the key file itself is replaced."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_name(f".{path.name}.lock").open("w")
    except OSError as error:
        raise SettingsError(explain_write_failure(path, error)) from None
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(path: Path, keys: list[Key]) -> None:
    document = json.dumps({"keys": [key.model_dump() for key in keys]}, indent=2)
    with replacing(path, SettingsError, private=True) as draft:
        draft.write_text(document + "\n", encoding="utf-8")


class KeyRing:
    """The keys in a file as it is now: a removed key is refused at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._seen = self._stamp()
        self._keys = read_keys(path)

    def find(self, token: str) -> Key | None:
        """The matching key; hashes are compared in constant time, against timing attacks."""
        self._refresh()
        digest = _digest(token)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found

    def _refresh(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        with self._guard:
            self._seen = stamp
            try:
                self._keys = read_keys(self._path)
            except SettingsError as error:  # which keys were removed is not known
                self._keys = []
                log.error("no key is taken until its file is mended: %s", error)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)  # noqa: PTH116  # before every request
            return found.st_mtime_ns, found.st_size, found.st_ino
        except OSError:
            return None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()

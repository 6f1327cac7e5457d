"""The model that is served and the one before it, kept beside the model's folder, so that one can go back.

model                    the folder: what is in it is served
model.kept/3f21.../      the same files, as hard links, which outlive what a training replaces
model.kept/9c04.../      the model that was served before
model.kept/served.json   their versions, the newest last
"""

import fcntl
import json
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cofill.errors import CofillError, ModelFileError
from cofill.files import json_of, replacing
from cofill.models.persistence import copy_model
from cofill.serving.live.served import read_card
from cofill.serving.settings import beside

log = logging.getLogger("cofill.serving")

_MOST = 2


class KeptModels:
    """Of one folder. All processes that serve it share them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._place = beside(folder, ".kept")
        self._list = self._place / "served.json"

    def keep(self, version: str) -> None:
        """Keep what is in the folder, if it is that version; without space or permission it is told, and not done."""
        try:
            with self._alone():
                order = self._order()
                if order[-1:] == [version] and self.path(version).is_dir():
                    return
                if not self.path(version).is_dir():
                    self._take(version)
                order = [*(other for other in order if other != version), version][-_MOST:]
                with replacing(self._list) as draft:
                    draft.write_text(json.dumps(order), encoding="utf-8")
                for old in self._place.iterdir():
                    if old.is_dir() and old.name not in order:
                        shutil.rmtree(old, ignore_errors=True)
        except (OSError, CofillError) as error:
            log.info("the model cannot be kept for a rollback: %s", error)

    def before(self, current: str) -> str | None:
        """The version of the model that was served before the `current` one; None if there is none."""
        others = [version for version in self._order() if version != current and self.path(version).is_dir()]
        return others[-1] if others else None

    def path(self, version: str) -> Path:
        return self._place / version

    def put_back(self, version: str) -> None:
        """Put a kept model into the folder, in one piece."""
        with self._alone():
            copy_model(self.path(version), self._folder)

    def _take(self, version: str) -> None:
        draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=self._place))
        try:
            copy_model(self._folder, draft / version)
            if read_card(draft / version).version != version:
                raise ModelFileError(f"{self._folder}: was replaced meanwhile")
            (draft / version).rename(self.path(version))
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _order(self) -> list[str]:
        try:
            found = json_of(self._list.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        names = found if isinstance(found, list) else []
        return [name for name in names if isinstance(name, str) and name == Path(name).name and name not in ("", "..")]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Several processes serve one folder."""
        self._place.mkdir(exist_ok=True)
        with (self._place / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

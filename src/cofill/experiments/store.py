"""Finished runs on disk, a JSON file each: what was interrupted goes on, and what is there is not run again."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from cofill import __version__
from cofill.errors import DataError
from cofill.experiments.run import Run
from cofill.files import replacing

Record = dict[str, Any]


class Store:
    """A folder of records, named by the digests of their runs; each says in which session it was made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.session = uuid4().hex[:12]

    def path(self, run: Run) -> Path:
        return self.folder / f"{run.digest}.json"

    def find(self, run: Run) -> Record | None:
        """The record of a run, or None if it has not been finished yet."""
        path = self.path(run)
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, OSError) as error:
            raise DataError(f"{path}: not the record of a run ({error}); remove it, and it is run again") from error
        if not isinstance(record, dict) or record.get("digest") != run.digest:
            raise DataError(f"{path}: not the record of the run of that name; remove it, and it is run again")
        return record

    def outdated(self, run: Run) -> bool:
        """Whether the run was finished with other code than this, and not with this."""
        return not self.path(run).exists() and any(self.folder.glob(f"{run.definition}-*.json"))

    def keep(self, run: Run, record: Record) -> None:
        document = {
            "digest": run.digest,
            "code": run.code,
            "version": __version__,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "session": self.session,
            "run": run.as_json() | {"settings": run.all_settings},
            **record,
        }
        with replacing(self.path(run)) as draft:
            draft.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n", encoding="utf-8")

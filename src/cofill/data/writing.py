"""A frame of ratings into a file, all of it or nothing."""

import gzip
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from cofill.errors import DataError
from cofill.files import replacing

if TYPE_CHECKING:
    import polars as pl

SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_ending(path: Path) -> list[str]:
    """The ending that says how a file is written, such as [".csv", ".gz"]; DataError if there is none."""
    endings = path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]
    if endings not in ([".csv"], [".tsv"], [".parquet"], [".csv", ".gz"], [".tsv", ".gz"]):
        raise DataError(f"{path}: cannot tell the format; end the name in .csv, .tsv, .csv.gz, .tsv.gz or .parquet")
    return endings


def write_frame(frame: "pl.DataFrame", path: str | PathLike[str]) -> None:
    """Write `frame` to `path`; the ending says how. The file appears when it is complete and on the disk."""
    target = Path(path)
    endings = check_ending(target)
    with replacing(target, DataError) as draft, draft.open("wb") as file:
        if endings[-1] == ".gz":
            # No name and no time inside: the same ratings give the same bytes.
            with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                _write_text(frame, cast(IO[bytes], packed), SEPARATORS[endings[0]])
        elif endings[0] == ".parquet":
            frame.write_parquet(file)
        else:
            _write_text(frame, file, SEPARATORS[endings[0]])


def _write_text(frame: "pl.DataFrame", file: IO[bytes], separator: str) -> None:
    import polars as pl

    texts = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    special = any(frame[name].str.contains('[\r\n\t",;|:]').any() for name in texts)
    # Quotes throughout if any cell needs them: what a reader has to guess is then the same in every line.
    frame.write_csv(file, separator=separator, quote_style="non_numeric" if special else "never")

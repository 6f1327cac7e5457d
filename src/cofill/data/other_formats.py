"""Formats of tables that are not read, recognised by how a file begins, so that the error can say what to do."""

import re
import zipfile
from pathlib import Path

from cofill.errors import DataError

WORKBOOK = ("an Excel workbook", "save the sheet as CSV, or read it with pandas and pass the frame")
_BEGINNINGS = {
    rb"\xd0\xcf\x11\xe0": WORKBOOK,
    rb"SQLite f": ("an SQLite database", "select the rows in Python and pass them, or write them to a CSV file"),
    rb"ARROW1": ("an Arrow (Feather) file", "write it as Parquet, or read it with polars and pass the frame"),
    rb"\s*\[\s*\{": ("a JSON array", "write one JSON object in each line, without brackets and commas around them"),
}
_IN_WORKBOOKS = "xl/workbook."


def refuse_other_formats(magic: bytes, path: Path) -> None:
    """DataError if a file that begins with `magic` (8 bytes) has one of these formats."""
    for beginning, (what, remedy) in _BEGINNINGS.items():
        if re.match(beginning, magic):
            raise DataError(f"this is {what}", remedy, where=str(path))


def refuse_workbook(archive: zipfile.ZipFile, path: Path) -> None:
    """DataError if a zip archive is one of the newer Excel files (.xlsx, .xlsb)."""
    if any(name.startswith(_IN_WORKBOOKS) for name in archive.namelist()):
        what, remedy = WORKBOOK
        raise DataError(f"this is {what}", remedy, where=str(path))

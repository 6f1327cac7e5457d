"""A table of results: Markdown for a page, cells for a terminal, JSON for programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cofill.evaluation import Interval

Cell = str | int | float | Interval | None


@dataclass(frozen=True)
class Column:
    """The heading of a column, and the format of its numbers."""

    name: str
    digits: int = 4
    unit: str = ""
    signed: bool = False

    def shown(self, cell: Cell) -> str:
        """A cell as text; None is a dash."""
        if cell is None:
            return "-"
        if isinstance(cell, str):
            return cell
        if isinstance(cell, int):
            return f"{cell:,}{self.unit}"
        mean = cell.mean if isinstance(cell, Interval) else cell
        text = f"{mean:{'+' if self.signed else ''},.{self.digits}f}"
        if isinstance(cell, Interval) and cell.half_width is not None:  # of one run nothing more can be said
            text += f" ± {cell.half_width:.{self.digits}f}"
        return text + self.unit


@dataclass(frozen=True)
class Table:
    """Rows of cells; a column without a single value is not shown."""

    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]

    def shown(self) -> tuple[list[str], list[list[str]]]:
        """The names of the columns, and the cells, as text."""
        filled = [at for at in range(len(self.columns)) if any(row[at] is not None for row in self.rows)]
        names = [self.columns[at].name for at in filled]
        return names, [[self.columns[at].shown(row[at]) for at in filled] for row in self.rows]

    def markdown(self) -> str:
        names, rows = self.shown()
        numeric = [
            not any(isinstance(row[at], str) for row in self.rows)
            for at in range(len(self.columns))
            if self.columns[at].name in names
        ]
        lines = [names, ["---:" if right else "---" for right in numeric], *rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def as_json(self) -> dict[str, Any]:
        rows = [{column.name: _json(cell) for column, cell in zip(self.columns, row, strict=True)} for row in self.rows]
        return {"title": self.title, "rows": rows}


def _json(cell: Cell) -> Any:
    return cell.as_json() if isinstance(cell, Interval) else cell

"""The map of the items, as `cofill train` drew it, with groups to colour by."""

from collections.abc import Callable
from typing import Any

from cofill.data.attributes import AttributeColumn
from cofill.data.vocabulary import Id
from cofill.serving.live.served import ServedModel

_MOST_GROUPS = 8  # that colours can tell apart; everything else has none
_MOST_VALUES = 40  # of a column that tells what kind of thing an item is
_DIGITS = 6


def map_of(served: ServedModel) -> dict[str, Any]:
    """The most rated items in two dimensions; none of a model that was stored without a map."""
    column, group_of = _grouping(served)
    model, drawn = served.model, served.model.item_places
    counts = model.item_counts()
    indices, places = ([], []) if drawn is None else (drawn.items.tolist(), drawn.places.tolist())
    entries = [
        {
            "id": item,
            "title": model.titles.get(item),
            "x": round(x, _DIGITS),
            "y": round(y, _DIGITS),
            "ratings": int(counts[index]),
            "group": group_of(item),
        }
        for index, (x, y) in zip(indices, places, strict=True)
        if served.availability.shown(item := model.items.id(index))
    ]
    return {"items": entries, "group_column": column, "model_version": served.card.version}


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

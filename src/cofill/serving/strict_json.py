"""JSON as RFC 8259 has it: no NaN, no Infinity, no name twice, nothing but UTF-8."""

import json
from collections import Counter
from typing import Any, NoReturn


def parse(body: bytes) -> Any:
    """ValueError for whatever is not a JSON text that everybody reads alike."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except ValueError as error:  # also of a number with thousands of digits
        raise ValueError(str(error).partition(";")[0]) from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the name {twice!r} stands twice in one object")
    return found

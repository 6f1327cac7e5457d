"""How a table is read: the options that Python, the command line, partitions and the catalogue have in common."""

import math
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from cofill.errors import DataError

Role = Literal["user", "item", "rating", "count", "event", "time", "title"]
ROLES: tuple[Role, ...] = get_args(Role)
ZeroMeans = Literal["rating", "unrated"]
Column = str | int | None
"""A column's name, its position from 0, "" for none, or None to look for it."""


def _column(role: Role) -> Any:
    return Field(None, description=f"column of the {role}: name or position from 0")


class ReadOptions(BaseModel):
    """How ratings or interactions are read; None means to detect it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: Column = _column("user")
    item: Column = _column("item")
    rating: Column = _column("rating")
    count: Column = _column("count")
    event: Column = _column("event")
    time: Column = _column("time")
    title: Column = _column("title")
    separator: str | None = Field(None, description="separator between columns, such as , or ::")
    header: bool | None = Field(None, description="whether the first line holds column names")
    encoding: str = Field("utf-8", description="character encoding, such as latin-1 (default utf-8)")
    scale: tuple[float, float] | None = Field(None, description="least and greatest rating")
    wide: bool = Field(False, description="the file has a row for each user and a column for each item")
    unknown: float | None = Field(None, description="in a wide file: the value that means unknown, such as 99")
    zero_means: ZeroMeans | None = Field(
        None, description="whether a 0 is a rating or stands for none, and is left out (default rating)"
    )
    event_weights: dict[str, float] | None = Field(
        None,
        description="how much an event of this name counts, such as buy=5; 0 leaves it out (repeatable; default 1 for "
        "all)",
    )
    skip_bad_lines: int = Field(
        0, ge=0, description="skip up to N lines that are not ratings or interactions (default 0)"
    )

    @classmethod
    def of(cls, **said: Any) -> Self:
        """Options by name; DataError if one is not valid."""
        try:
            return cls(**said)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            cause = first.get("ctx", {}).get("error")
            if isinstance(cause, DataError):
                raise cause from None
            name = str(first["loc"][0])
            raise DataError(f"{name}={first['input']!r} is not valid ({first['msg']})", _VALID.get(name, "")) from None

    @property
    def given(self) -> dict[str, Any]:
        """Those that differ from their defaults."""
        usual = type(self).model_fields
        return {name: value for name, value in self if value != usual[name].default}

    @property
    def columns(self) -> dict[Role, Column]:
        """What is said of each role."""
        return {role: getattr(self, role) for role in ROLES}

    @field_validator("scale")
    @classmethod
    def _scale(cls, scale: tuple[float, float] | None) -> tuple[float, float] | None:
        return None if scale is None else checked_scale(scale)

    @field_validator("event_weights")
    @classmethod
    def _weights(cls, weights: dict[str, float] | None) -> dict[str, float] | None:
        checked = {event.strip(): weight for event, weight in (weights or {}).items()}
        for event, weight in checked.items():
            if not (math.isfinite(weight) and weight >= 0):
                found = f"{weight:g} cannot be the weight of the event {event!r}"
                raise DataError(found, "give 0 or a number above it")
        return checked or None

    @model_validator(mode="after")
    def _unknown(self) -> Self:
        if self.unknown is not None and not self.wide:
            raise DataError("a number for unknown is for wide tables", "pass wide=True too, or leave it out")
        return self


DEFAULTS = ReadOptions.of()


def checked_scale(scale: tuple[float, float]) -> tuple[float, float]:
    """The least and the greatest rating that a caller gives; DataError if they are none."""
    if not -math.inf < scale[0] < scale[1] < math.inf:
        raise DataError(f"scale={tuple(scale)} is not a scale", _VALID["scale"])
    return scale


_VALID = {
    "scale": "give its least and greatest rating, such as (1, 5)",
    "skip_bad_lines": "give 0 or more",
    "zero_means": "give 'rating' or 'unrated'",
    "event_weights": "give each event a number from 0 on",
}

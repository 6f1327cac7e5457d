"""model.json, the card of a model's folder: what the model is, the files that belong to it, and its shards."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cofill import __version__
from cofill.errors import ModelFileError
from cofill.files import json_of

# 1 knew no features, 2 no presence, 3 no mark of empty rows, 4 no length_cap, 5 no list scorer, 6 no learned damping,
# 7 no shards, 8 no time of training, no map, no texts among integer ids
FORMAT_VERSION = 9
CARD_NAME = "model.json"
Sides = Literal["users", "items"]


class FileCard(BaseModel):
    """One file of a model's folder."""

    model_config = ConfigDict(extra="forbid")

    name: str
    bytes: int
    sha256: str


class ShardCard(BaseModel):
    """One shard of a model: some columns of its network, next to each other, and their files by kind."""

    model_config = ConfigDict(extra="forbid")

    run: str  # what wrote it: shards of two runs do not become one model
    first: int = Field(ge=0)  # of its columns, among those of all shards
    columns: int = Field(ge=0)
    ratings: int = Field(ge=0)
    files: dict[str, FileCard]


class SharedCard(BaseModel):
    """What model.json says of a model, apart from its shards."""

    model_config = ConfigDict(extra="forbid")

    format: str
    format_version: int
    cofill_version: str
    kind: str
    settings: dict[str, Any]
    scale: tuple[float, float]
    overall_mean: float | None = None  # of a network
    typical_length: float | None = None
    mean_damping: float | None = None
    unit: float | None = None
    networks: dict[str, float] = {}  # the same of two networks, such as item.unit
    data: dict[str, Any]
    measures: dict[str, float | int | None]
    history: list[dict[str, Any]]
    trained: datetime | None = None  # the end of the training; older models do not say
    features: dict[str, dict[str, Any]] = {}  # what was learned about those of "users" and "items"
    columns: Sides | None = None  # what the shards are cut by
    ratings: int | None = None  # of the training, in all shards
    changed: bool = False  # whether there are ratings, features or ids that came after the training
    run: str = ""
    files: dict[str, FileCard]


class Card(SharedCard):
    """model.json"""

    shards: list[ShardCard] = []
    sha256: str  # of this document without this field and without the time: the same training is the same model

    def digest(self) -> str:
        # Fields that an older version did not write are not part of what it signed.
        signed = self.model_dump(mode="json", exclude={"sha256", "trained"}, exclude_unset=True)
        text = json.dumps(signed, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class PartInfo(NamedTuple):
    """One part of a model in shards, which can be read alone."""

    number: int  # from 0
    parts: int  # how many there are
    first: int  # of its users, among those of the whole model
    users: int
    ratings: int
    bytes: int  # of the files that it alone has
    shared_bytes: int  # of those that every part has

    def __str__(self) -> str:
        return f"part {self.number} of {self.parts}"


def read_card(folder: Path) -> Card:
    """What model.json says, checked; the files that it names are not."""
    path = folder / CARD_NAME
    try:
        text = path.read_text(encoding="utf-8")
        document = json_of(text)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(f"{folder}: not a model, there is no {CARD_NAME} in it; check the path") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ModelFileError(
            f"{path}: truncated or altered, it is not JSON ({error}); copy or train the model again"
        ) from None
    if not isinstance(document, dict) or document.get("format") != "cofill-model":
        raise ModelFileError(f"{path}: not the description of a cofill model; check the path")
    version = document.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path}: the model has format {version}, this cofill {__version__} reads up to {FORMAT_VERSION}; "
            f"upgrade cofill (the model was written by {document.get('cofill_version')})"
        )
    try:
        card = Card.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ModelFileError(f"{path}: altered, {where}: {first['msg']}; copy or train the model again") from None
    if card.sha256 != card.digest():
        raise ModelFileError(f"{path}: altered since it was written; copy or train the model again")
    if problem := _wrong_with_shards(card):
        raise ModelFileError(f"{path}: altered, {problem}; copy or train the model again")
    return card


def _wrong_with_shards(card: Card) -> str | None:
    if (card.columns is None) == bool(card.shards):
        return "it does not say what its shards hold" if card.shards else f"there is no shard of its {card.columns}"
    expected = 0
    for number, shard in enumerate(card.shards):
        if shard.run != card.run:
            return f"shard {number} is of the run {shard.run!r} instead of {card.run!r}"
        if shard.first != expected:
            return f"shard {number} begins at column {shard.first} instead of {expected}"
        expected += shard.columns
    if card.shards and sum(shard.ratings for shard in card.shards) != card.ratings:
        found = sum(shard.ratings for shard in card.shards)
        return f"its {len(card.shards)} shards have {found} ratings instead of {card.ratings}"
    return None


def part_of(folder: Path, card: Card, number: int) -> PartInfo:
    """One part of a model; ModelFileError where it has no parts, or none of that number."""
    if not card.shards:
        raise ModelFileError(f"{folder}: this model is in one piece, it has no part {number}; load it whole")
    if card.columns != "users":
        raise ModelFileError(
            f"{folder}: the rows of this model's network are users, so its shards hold items, and each user is in all "
            f"of them; load it whole, or train with orientation 'item'"
        )
    if card.changed:
        raise ModelFileError(
            f"{folder}: ratings, features or ids were added to this model after its training, which all parts would "
            f"have to know of; load it whole, or train again"
        )
    if not 0 <= number < len(card.shards):
        raise ModelFileError(
            f"{folder}: there is no part {number}; the model has {len(card.shards)}, from 0 to {len(card.shards) - 1}"
        )
    shard = card.shards[number]
    own, shared = (sum(file.bytes for file in some.files.values()) for some in (shard, card))
    return PartInfo(number, len(card.shards), shard.first, shard.columns, shard.ratings, own, shared)

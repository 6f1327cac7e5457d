"""Options that several commands share, made from the declarations of `config.py` and the readers of `data/`."""

import argparse
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from cofill.config import PRESETS, CFNSettings, Settings, preset_values, read_settings_file
from cofill.data.reading import ROLES, ReadOptions, Role, ZeroMeans
from cofill.errors import DataError, SettingsError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from cofill.data.ratings import Ratings

SHAPES = ("ml-1m", "ml-10m", "ml-20m", "douban")
"""Published data sets whose shape a generated world can have."""

_Settings = TypeVar("_Settings", bound=Settings)

LAYOUT = ("separator", "header", "encoding")
"""How a text file is laid out, whatever its columns."""


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add --config, and a flag for every setting."""
    group = parser.add_argument_group(
        "settings", "A flag or --set wins over --config, which wins over --preset, which wins over the default."
    )
    group.add_argument("--config", type=Path, metavar="FILE.toml", help="settings from a TOML file")
    group.add_argument(
        "--preset",
        choices=tuple(PRESETS),
        help="settings that belong together; " + "; ".join(f"{name}: {about}" for name, (about, _) in PRESETS.items()),
    )
    group.add_argument(
        "--set",
        action="append",
        type=name_and_value,
        metavar="NAME=VALUE",
        help="any setting, such as rank=50 of a baseline; an unknown name prints the known ones",
    )
    for name, field in CFNSettings.model_fields.items():
        flag = "--" + name.replace("_", "-")
        text = f"{field.description} (default {default_text(field)})"
        if field.annotation is bool:
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=text)
        else:
            group.add_argument(flag, metavar=_metavar(name, field), default=argparse.SUPPRESS, help=text)


def settings_from(options: argparse.Namespace) -> CFNSettings:
    """Settings: defaults, overridden by the file, overridden by flags."""
    return settings_of(options, CFNSettings)


def settings_of(options: argparse.Namespace, wanted: type[_Settings]) -> _Settings:
    """Settings of any algorithm; those without a flag come from --set."""
    values: dict[str, Any] = {}
    if options.preset:
        if wanted is not CFNSettings:
            raise SettingsError(f"--preset {options.preset} is for the network alone; leave it out, or use cfn")
        values = preset_values(options.preset)
    if options.config:
        given = read_settings_file(options.config)
        try:
            wanted.of(given)
        except SettingsError as error:
            raise SettingsError(f"{options.config}: {error}") from None
        values |= given
    values |= {name: value for name, value in vars(options).items() if name in CFNSettings.model_fields}
    for name, value in options.set or ():
        if name in vars(options):
            raise SettingsError(f"{name} is given by --set and by a flag; leave out one of them")
        values[name] = value
    return wanted.of(values)


def add_reading(parser: argparse.ArgumentParser, columns: tuple[Role, ...] = ROLES) -> None:
    """Add a flag for every field of `ReadOptions`; only those of the layout for a file with some of the columns."""
    group = parser.add_argument_group(
        "reading",
        "Only needed where a file's columns are not recognised. Messages name these as Python does: separator=';' is "
        "--separator ';', user='id' is --user-column id, header=False is --no-header.",
    )
    for name, field in ReadOptions.model_fields.items():
        how = _READING.get(name, {"type": name_or_position, "metavar": "COLUMN"})
        if name in columns or (name not in ROLES and (columns == ROLES or name in LAYOUT)):
            group.add_argument(_reading_flag(name), dest=f"reading_{name}", help=field.description, **how)
    if columns == ROLES:
        group.add_argument(
            "--in-order",
            action="store_true",
            default=None,
            help="the lines of a user are in the order in which things were done; for a file without times",
        )


def reading_from(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of `ReadOptions` that the caller gave."""
    given = {name: getattr(options, f"reading_{name}", None) for name in ReadOptions.model_fields}
    if given["event_weights"]:
        given["event_weights"] = dict(given["event_weights"])
    return {name: value for name, value in given.items() if value is not None}


def _reading_flag(name: str) -> str:
    flag = {"event_weights": "event-weight"}.get(name, f"{name}-column" if name in ROLES else name.replace("_", "-"))
    return f"--{flag}"


def load_ratings(source: str, options: argparse.Namespace) -> "Ratings":
    """Ratings or interactions of a file, of a partition, or of a data set by its name."""
    from cofill.data import datasets
    from cofill.data.interactions import read_ratings_or_interactions
    from cofill.data.partition import Partition, is_partition

    if Path(source).is_file():
        read = read_ratings_or_interactions(Path(source), **reading_from(options))
        return read.in_order() if getattr(options, "in_order", None) else read
    if is_partition(Path(source)):
        for given in reading_from(options):
            raise DataError(f"{source} is a partition, whose columns are known; leave out {given}=...")
        return Partition.open(source).read_ratings()
    if source in datasets.catalogue():
        for given in reading_from(options):
            raise DataError(f"{source} is a data set, whose columns are known; leave out {given}=...")
        return datasets.load(source, quiet=getattr(options, "quiet", False))
    if "/" in source or "." in source or Path(source).exists():
        return read_ratings_or_interactions(Path(source), **reading_from(options))
    known = ", ".join(datasets.catalogue())
    raise DataError(f"{source}: neither a file nor a data set; check the path, or name one of {known}")


def add_count(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", type=count, default=10, metavar="N", help="how many (default 10)")


def add_seed(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--seed", type=count_or_zero, default=0, metavar="SEED", help=f"{text} (default 0)")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, such as rank=50, got {text!r}")
    return name.strip().replace("-", "_"), value.strip()


def name_and_weight(text: str) -> tuple[str, float]:
    """An event and how much it counts; the name may have an = in it."""
    name, _, value = text.rpartition("=")
    try:
        weight = float(value)
    except ValueError:
        weight = math.nan
    if not name.strip() or not 0 <= weight < math.inf:
        raise argparse.ArgumentTypeError(
            f"must be NAME=WEIGHT, such as buy=5, with a weight of 0 or more, got {text!r}"
        )
    return name.strip(), weight


def count(text: str) -> int:
    """A number of things, at least one."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, got {text!r}")
    return int(text)


def moment(text: str) -> float:
    """A date or a time, in UTC unless it has an offset, as Unix seconds."""
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a date or a time such as 2001-01-31, got {text!r}") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def size(text: str) -> float:
    """How much of a published data set's ratings to generate."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 10:
        raise argparse.ArgumentTypeError(f"must be a number above 0 and at most 10, got {text!r}")
    return value


def count_or_zero(text: str) -> int:
    """A number of things, or none; also a seed."""
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"must be a whole number, 0 or more, got {text!r}")
    return int(text)


def name_or_position(text: str) -> str | int:
    """A column, as --user-column and the like name it."""
    return int(text) if text.isdecimal() else text


def _metavar(name: str, field: "FieldInfo") -> str:
    if get_origin(field.annotation) is Literal:
        return "{" + ",".join(map(str, get_args(field.annotation))) + "}"
    return name.rpartition("_")[2].upper()


def default_text(field: "FieldInfo") -> str:
    """What a setting is unless it is given, for help and docs."""
    extra = field.json_schema_extra
    if isinstance(extra, dict) and isinstance(by := extra.get("default_by_orientation"), dict):
        return ", ".join(f"{_shown(value)} for {orientation} rows" for orientation, value in by.items())
    return _shown(field.default)


def _shown(value: Any) -> str:
    if value is None:
        return "by the data"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


_READING: dict[str, dict[str, Any]] = {
    "separator": {"metavar": "TEXT"},
    "header": {"action": argparse.BooleanOptionalAction},
    "encoding": {"metavar": "NAME"},
    "scale": {"nargs": 2, "type": float, "metavar": ("LOW", "HIGH")},
    "wide": {"action": "store_true", "default": None},
    "unknown": {"type": float, "metavar": "NUMBER"},
    "zero_means": {"choices": get_args(ZeroMeans)},
    "event_weights": {"type": name_and_weight, "action": "append", "metavar": "NAME=WEIGHT"},
    "skip_bad_lines": {"type": count_or_zero, "metavar": "N"},
}
"""How each field of `ReadOptions` that is no column is a flag."""


# A call of a command, written such that a shell takes it


def command_line(
    command: str, add_options: Callable[[argparse.ArgumentParser], None], values: Mapping[str, object]
) -> str:
    """`cofill COMMAND` with these values of its options, by the names that argparse gives them.

    None, and False where no flag says so, are left out; a 0 is not. Options that the command does not have are left
    out too, so that the options of one command can be handed on to another.
    """
    parser = argparse.ArgumentParser(add_help=False)
    add_options(parser)
    options = sorted(parser._actions, key=lambda option: bool(option.option_strings))  # a list would swallow the others
    words = ["cofill", command]
    for option in options:
        value = values.get(option.dest)
        if value is not None:
            words += _words(option, value)
    return " ".join(quote(word) for word in words)


def _words(option: argparse.Action, value: object) -> list[str]:
    several = list(value) if isinstance(value, list) else [value]
    if not option.option_strings:
        return [_word(one) for one in several]
    flag = option.option_strings[0]
    if isinstance(value, bool):
        if isinstance(option, argparse.BooleanOptionalAction):
            return [flag if value else f"--no-{flag.removeprefix('--')}"]
        return [flag] if value else []
    if option.nargs is not None:
        return [flag, *map(_word, several)] if several else []
    if isinstance(value, list):  # the flag once for each; what it was read into was written NAME=VALUE
        return [
            word
            for one in several
            for word in (flag, "=".join(map(str, one)) if isinstance(one, tuple) else _word(one))
        ]
    word = _word(value)
    return [f"{flag}={word}"] if word.startswith("-") else [flag, word]


def _word(value: object) -> str:
    """With every digit."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)

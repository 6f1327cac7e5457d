"""Options that several commands share. Those of settings and of reading are made from the fields that declare them."""

import argparse
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel

from cofill.charts.markup import Amount
from cofill.cli.output import print_json, print_table
from cofill.config import PRESETS, CFNSettings, Settings, preset_values, read_settings_file
from cofill.data.reading import ROLES, ReadOptions, Role
from cofill.errors import DataError, SettingsError
from cofill.memory import data_size
from cofill.progress import duration

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from cofill.cluster.score import Division, Scored
    from cofill.data.ratings import Ratings

SHAPES = ("ml-1m", "ml-10m", "ml-20m", "douban")
"""Published data sets whose shape a generated world can have."""
Group = argparse.ArgumentParser | argparse._ArgumentGroup
_Settings = TypeVar("_Settings", bound=Settings)
_Value = TypeVar("_Value")


# Values


def whole(least: int) -> Callable[[str], int]:
    """A whole number that is not below `least`."""

    def read(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
        return int(text)

    return read


def number(low: float, high: float, *, above: bool = False) -> Callable[[str], float]:
    """A number from low to high; `above`: low itself is too little."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high or (above and value == low):
            bounds = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"
            raise argparse.ArgumentTypeError(f"must be a number {bounds}, got {text!r}")
        return value

    return read


def pair(form: str, such_as: str, value: Callable[[str], _Value]) -> Callable[[str], tuple[str, _Value]]:
    """NAME=VALUE; the name may have an = of its own where the value is no text."""

    def read(text: str) -> tuple[str, _Value]:
        name, equals, rest = text.partition("=") if value is str else text.rpartition("=")
        try:
            if name.strip() and equals:
                return name.strip(), value(rest)
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"must be {form}, such as {such_as}, got {text!r}")

    return read


count, count_or_zero, share = whole(1), whole(0), number(0, 1)
name_and_value = pair("NAME=VALUE", "rank=50", str)


def moment(text: str) -> float:
    """A date or a time, in UTC unless it has an offset, as Unix seconds."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a date or a time such as 2001-01-31, got {text!r}") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def name_or_position(text: str) -> str | int:
    """A column, as --user-column and the like name it."""
    return int(text) if text.isdecimal() else text


def given_once(flag: str, pairs: Iterable[tuple[str, _Value]] | None) -> dict[str, _Value]:
    """Names and values of a repeatable NAME=VALUE flag; a repeated name is an error."""
    found: dict[str, _Value] = {}
    for name, value in pairs or ():
        if name in found:
            raise SettingsError(f"{flag} {name}=... is given twice; keep one of them")
        found[name] = value
    return found


# Flags that many commands have


def add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")


def add_output(parser: argparse.ArgumentParser, quiet: str = "show no progress") -> None:
    parser.add_argument("--quiet", action="store_true", help=quiet)
    add_json(parser)


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_count(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", type=count, default=10, metavar="N", help="how many (default 10)")


def add_seed(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--seed", type=count_or_zero, default=0, metavar="SEED", help=f"{text} (default 0)")


# Flags that are made from the fields of a class


def add_fields(
    group: Group,
    declared: type[BaseModel],
    names: Iterable[str],
    text: Callable[[str, "FieldInfo"], str],
    special: Mapping[str, Mapping[str, Any]] = {},
    prefix: str = "",
) -> None:
    """Add a flag for each of these fields, of which the class itself checks the values.

    What is given goes into the options under the field's name behind the `prefix`. `special` is what argparse cannot
    see in a field; "flag" there is another name.
    """
    for name in names:
        field, own = declared.model_fields[name], dict(special.get(name, {}))
        flag = own.pop("flag", name.replace("_", "-"))
        kinds = (field.annotation, *get_args(field.annotation))
        choices = next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())
        how: dict[str, Any] = {"metavar": f"{{{','.join(choices)}}}" if choices else name.rpartition("_")[2].upper()}
        if bool in kinds:
            how = {"action": argparse.BooleanOptionalAction}
        elif isinstance(field.default, tuple | Mapping):
            how["action"] = "append"
        how |= {"dest": prefix + name, "default": argparse.SUPPRESS, "help": text(name, field), **own}
        group.add_argument(f"--{flag}", **how)


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


# Settings


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Add --config, --preset, --set, and a flag for every setting."""
    group = parser.add_argument_group(
        "settings", "A flag or --set wins over --config, which wins over --preset, which wins over the default."
    )
    group.add_argument("--config", type=Path, metavar="FILE.toml", help="settings from a TOML file")
    presets = "; ".join(f"{name}: {about}" for name, (about, _) in PRESETS.items())
    group.add_argument("--preset", choices=tuple(PRESETS), help=f"settings that belong together; {presets}")
    group.add_argument(
        "--set",
        action="append",
        type=name_and_value,
        metavar="NAME=VALUE",
        help="any setting, such as rank=50 of a baseline; an unknown name prints the known ones",
    )
    names = CFNSettings.model_fields
    add_fields(group, CFNSettings, names, lambda _, field: f"{field.description} (default {default_text(field)})")


def settings_of(options: argparse.Namespace, wanted: type[_Settings]) -> _Settings:
    """Defaults, overridden by the preset, by the file, and by flags; those of baselines come from --set."""
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
        name = name.replace("-", "_")
        if name in vars(options):
            raise SettingsError(f"{name} is given by --set and by a flag; leave out one of them")
        values[name] = value
    return wanted.of(values)


# Reading

LAYOUT = ("separator", "header", "encoding")
"""How a text file is laid out, whatever its columns."""
_PREFIX = "reading_"
_SPECIAL: dict[str, dict[str, Any]] = {
    **{role: {"flag": f"{role}-column", "type": name_or_position, "metavar": "COLUMN"} for role in ROLES},
    "scale": {"nargs": 2, "metavar": ("LOW", "HIGH")},
    "event_weights": {
        "flag": "event-weight",
        "action": "append",
        "type": pair("NAME=WEIGHT", "buy=5", float),
        "metavar": "NAME=WEIGHT",
    },
    "skip_bad_lines": {"metavar": "N"},
}


def add_reading(parser: argparse.ArgumentParser, columns: tuple[Role, ...] = ROLES) -> None:
    """Add a flag for every field of `ReadOptions`; only those of the layout for a file with some of the columns."""
    group = parser.add_argument_group(
        "reading",
        "Only needed where a file's columns are not recognised. Messages name these as Python does: separator=';' is "
        "--separator ';', user='id' is --user-column id, header=False is --no-header.",
    )
    names = [name for name in ReadOptions.model_fields if name in (*columns, *LAYOUT) or columns == ROLES]
    add_fields(group, ReadOptions, names, lambda _, field: str(field.description), _SPECIAL, _PREFIX)
    if columns == ROLES:
        group.add_argument(
            "--in-order",
            action="store_true",
            help="the lines of a user are in the order in which things were done; for a file without times",
        )


def reading_from(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of `ReadOptions` that the caller gave."""
    given = {name.removeprefix(_PREFIX): value for name, value in vars(options).items() if name.startswith(_PREFIX)}
    return given | ({"event_weights": dict(given["event_weights"])} if "event_weights" in given else {})


def words_about_files(options: argparse.Namespace, *more: Callable[[argparse.ArgumentParser], None]) -> list[str]:
    """The words of this call that say how files are read, and which others there are: flags that `more` add."""
    parser = argparse.ArgumentParser(add_help=False)
    for add in (add_reading, *more):
        add(parser)
    kept, words = False, []
    for word in options.words:
        if word.startswith("--"):
            kept = word.partition("=")[0] in parser._option_string_actions
        if kept and word != options.ratings:
            words.append(word)
    return words


def load_ratings(source: str, options: argparse.Namespace) -> "Ratings":
    """Ratings or interactions of a file, of a partition, or of a data set by its name."""
    from cofill.data import datasets
    from cofill.data.interactions import read_ratings_or_interactions
    from cofill.data.partition import Partition, is_partition

    partitioned = is_partition(Path(source))
    if partitioned or named_data_set(source):
        for given in reading_from(options):
            what = "partition" if partitioned else "data set"
            raise DataError(f"{source} is a {what}, whose columns are known; leave out {given}=...")
        if partitioned:
            return Partition.open(source).read_ratings()
        return datasets.load(source, quiet=getattr(options, "quiet", False))
    read = read_ratings_or_interactions(Path(source), **reading_from(options))
    return read.in_order() if getattr(options, "in_order", False) else read


def named_data_set(source: str) -> bool:
    """Whether a source of ratings is a data set by its name, and no file; an error if it looks like neither."""
    from cofill.data import datasets

    if Path(source).is_file():
        return False
    if source in datasets.catalogue():
        return True
    if "/" in source or "." in source or Path(source).exists():
        return False
    known = ", ".join(datasets.catalogue())
    raise DataError(f"{source}: neither a file nor a data set; check the path, or name one of {known}")


# Work on a Ray cluster


def add_ray(parser: argparse.ArgumentParser, what: str) -> argparse._ArgumentGroup:
    """Add --ray, in the group for clusters, where more may be added."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "--ray",
        metavar="ADDRESS",
        help=f"{what}: HOST:PORT, auto for one that this machine belongs to, or local to start one here "
        "(pip install 'cofill[cluster]')",
    )
    return group


def add_scoring(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --ray and how the work is divided there."""
    group = add_ray(parser, what)
    tasks, cores = "number of tasks (default: a few for each core)", "cores of each task (default 1)"
    group.add_argument("--tasks", type=count, metavar="N", help=f"with --ray: {tasks}")
    group.add_argument("--task-cores", type=count, metavar="N", help=f"with --ray: {cores}; more of them share memory")


def check_ray(options: argparse.Namespace) -> None:
    """Refuse at once what cannot be done without Ray, or makes no sense without it."""
    if options.ray is not None:
        from cofill.cluster.session import require_ray

        require_ray()
        return
    for name in ("tasks", "task_cores"):
        if getattr(options, name, None) is not None:
            raise SettingsError(f"--{name.replace('_', '-')} says how to divide work on a cluster; add --ray ADDRESS")


def check_folder(options: argparse.Namespace, what: str) -> None:
    """Refuse what does not go with writing a folder of Parquet files."""
    if options.out is None:
        raise SettingsError(f"--ray writes {what} into a folder of Parquet files; add --out FOLDER")
    if options.item_features or options.user_features:
        raise SettingsError("--ray asks many processes, and new features reach one alone; leave out --ray or features")


def division(options: argparse.Namespace) -> "Division":
    from cofill.cluster.score import Division

    return Division(options.ray, options.tasks, options.task_cores or 1)


def show_scored(options: argparse.Namespace, scored: "Scored", what: str) -> None:
    """Print what was written."""
    if options.json:
        print_json(scored.as_json())
        return
    memory = Amount(data_size(scored.peak_bytes)) if scored.peak_bytes else None
    print_table(
        f"{what[0].upper()}{what[1:]} written to {scored.folder}",
        ("rows", "parts", "of these kept", "time", "memory of a task, at most"),
        [(scored.rows, scored.parts, scored.kept, Amount(duration(scored.seconds)), memory)],
    )

"""Serving: cofill serve, cofill export of what a server has stored, cofill keys that open it"""

import argparse
import os
import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from cofill.cli.options import add_fields, add_json, add_output
from cofill.cli.output import note, print_json, print_table
from cofill.errors import SettingsError
from cofill.serving.settings import ServingSettings, require_server, require_sqlalchemy

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_METAVARS = {
    "database": "URL", "keys": "FILE", "workers": "N", "requests_per_second": "N", "image_host": "ORIGIN",
    "event_weight": "KIND=WEIGHT", "traffic_split": "SHARES",
}  # fmt: skip
_DATABASE = "COFILL_DATABASE"
COMMON = (
    "--host", "--port", "--database", "--keys", "--workers", "--traffic-split", "--read-only",
    "--requests-per-second", "--event-weight",
)  # fmt: skip


def add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="a model's folder")
    parser.add_argument(
        "--model",
        metavar="NAME=FOLDER",
        dest="models",
        action="append",
        default=argparse.SUPPRESS,
        help="in place of MODEL: one of several models that are served at once, under a name; for each of them",
    )
    names = [name for name in ServingSettings.model_fields if name not in ("model", "models")]
    special = {name: {"metavar": metavar} for name, metavar in _METAVARS.items()}
    add_fields(parser.add_argument_group("more"), ServingSettings, names, _about, special)
    add_output(parser, "print nothing but the address")
    parser.epilog = "SIGHUP, or POST /v1/model/reload, serves the model that is in the folder then."


def _about(name: str, field: "FieldInfo") -> str:
    default = f" (default {field.default})" if isinstance(field.default, str | int | float) else ""
    also = f"; also ${_DATABASE}" if name == "database" else ""
    return f"{field.description}{also}{'' if field.annotation is bool else default}"


def run_serve(options: argparse.Namespace) -> int:
    require_server()
    given = {name: value for name, value in vars(options).items() if name in ServingSettings.model_fields}
    if given["model"] is None:
        del given["model"]
    elif "models" in given:
        raise SettingsError(f"either MODEL or --model NAME=FOLDER, not both; write --model NAME={given['model']}")
    if _has_password(given.get("database", "")):
        note(f"every user of this machine can read the password in --database; set ${_DATABASE} instead")
    if "database" not in given and not given.get("read_only") and os.environ.get(_DATABASE):
        given["database"] = os.environ[_DATABASE]
    settings = ServingSettings.of(given)
    quiet = options.quiet or options.json or settings.log_format == "json"
    if not quiet:
        note(f"reading {', '.join(map(str, settings.models.values()))}")

    from cofill.serving.processes import address_of, listen, serve_by_workers, serve_here

    listening = listen(settings)
    address = address_of(listening)

    def ready(summary: dict[str, Any]) -> None:
        if options.json:
            print_json({"address": address, "model": str(settings.model), **summary})
        else:
            if not quiet:
                note(
                    f"serving {settings.model}: {summary['kind']}, {summary['users']:,} users, {summary['items']:,} "
                    f"items; {summary['live_ratings']:,} live ratings in {summary['database']}"
                )
            sys.stdout.write(f"{address}\n")
        sys.stdout.flush()  # whoever reads it over a pipe waits for it

    with listening:
        if settings.workers == 1:
            serve_here(settings, listening, ready)
        else:
            serve_by_workers(settings, listening, ready)
    if not quiet:
        note("stopped")
    return 0


def _has_password(url: str) -> bool:
    return ":" in url.partition("://")[2].rpartition("@")[0] or "password=" in url.partition("?")[2]


# cofill export


def add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="the folder of a model that was served")
    parser.add_argument("--database", metavar="URL", help="the database, if it is not the file beside MODEL")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder to write")
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv", help="of its tables (default csv)")
    add_output(parser, "print no notes")


def run_export(options: argparse.Namespace) -> int:
    require_sqlalchemy()
    database = options.database or (None if options.model else os.environ.get(_DATABASE))
    if (options.model is None) == (database is None):
        raise SettingsError("give either the folder of the model that was served, or --database URL")

    from cofill.serving.live.export import write_export

    found = write_export(options.out, database, options.model, options.format)
    if options.json:
        print_json({"folder": str(options.out), **found._asdict()})
    elif not options.quiet:
        note(
            f"{found.ratings:,} ratings, {found.interactions:,} pairs with events, {found.items:,} items and "
            f"{found.users:,} users that were described, {found.taken_back:,} ratings taken back and "
            f"{found.removed:,} people and items removed, written to {options.out}"
        )
        again = f"cofill train RATINGS --live-export {quote(str(options.out))} --out DIR"
        note(f"next: {again}, RATINGS as at the last training")
    return 0


# cofill keys


def add_keys(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    new = actions.add_parser("new", help="make a key; it is printed once, and only its hash is kept")
    rights = new.add_mutually_exclusive_group(required=True)
    for right, may in (
        ("read", "only read"),
        ("write", "read and write: what a storefront needs"),
        ("admin", "also delete users and items, reload and roll back"),
    ):
        rights.add_argument(f"--{right}", dest="right", action="store_const", const=right, help=f"a key that may {may}")
    new.add_argument("--name", required=True, metavar="NAME", help="name of the key; rate limits and removal use it")
    listing = actions.add_parser("list", help="the keys of a file: names and rights")
    remove = actions.add_parser("remove", help="remove a key; a running server refuses it at once")
    remove.add_argument("--name", required=True, metavar="NAME", help="the key's name")
    for action in (new, listing, remove):
        action.add_argument("--file", type=Path, required=True, metavar="FILE", help="the file of keys")
    for action in (new, listing):
        add_json(action)
    for action in (new, remove):
        action.add_argument("--quiet", action="store_true", help="print no notes")


def run_keys(options: argparse.Namespace) -> int:
    from cofill.serving.api.keys import new_key, read_keys, remove_key

    if options.action == "new":
        key = new_key(options.file, options.name, options.right)
        if options.json:
            print_json({"name": options.name, "right": options.right, "key": key})
        else:
            sys.stdout.write(f"{key}\n")
        if not options.quiet:
            note(f"this is the only time it is shown; send it as Authorization: Bearer {key[:10]}...")
    elif options.action == "list":
        keys = read_keys(options.file)
        if options.json:
            print_json([key.model_dump(include={"name", "right", "created"}) for key in keys])
        else:
            rows = [(key.name, key.right, key.created) for key in keys]
            print_table(f"Keys of {options.file}", ("name", "may", "made"), rows)
    else:
        remove_key(options.file, options.name)
        if not options.quiet:
            note(f"{options.name} opens nothing any more")
    return 0

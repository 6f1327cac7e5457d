"""cofill serve MODEL"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from cofill.cli.options import add_json
from cofill.cli.output import note, print_json
from cofill.errors import SettingsError
from cofill.serving.settings import ServingSettings

_METAVARS = {
    "database": "URL",
    "keys": "FILE",
    "workers": "N",
    "allow_origin": "ORIGIN",
    "image_host": "ORIGIN",
    "body_bytes": "BYTES",
    "requests_per_second": "N",
    "drain_seconds": "SECONDS",
    "stale_seconds": "SECONDS",
    "event_weight": "KIND=WEIGHT",
    "keep_shown_days": "DAYS",
    "keep_events_days": "DAYS",
    "forget_events_days": "DAYS",
}
_DATABASE = "COFILL_DATABASE"
COMMON = (
    "--host", "--port", "--database", "--keys", "--workers", "--words", "--split", "--read-only",
    "--requests-per-second", "--event-weight",
)  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, nargs="?", help="a model's folder")
    parser.add_argument(
        "--model",
        metavar="NAME=FOLDER",
        dest="models",
        action="append",
        default=argparse.SUPPRESS,
        help="in place of MODEL: one of several models that are served at once, under a name; for each of them",
    )
    more = parser.add_argument_group("more")
    for name, field in ServingSettings.model_fields.items():
        if name in ("model", "models"):
            continue
        several = isinstance(field.default, tuple | Mapping)
        default = "" if several or field.default is None else f" (default {field.default})"
        also = f"; also ${_DATABASE}" if name == "database" else ""
        flag: dict[str, Any] = {"metavar": _METAVARS.get(name, name.upper())}
        if field.annotation is bool:
            flag, default = {"action": argparse.BooleanOptionalAction}, ""
        elif get_origin(field.annotation) is Literal:
            flag = {"choices": get_args(field.annotation)}
        elif several:
            flag["action"] = "append"
        more.add_argument(
            "--" + name.replace("_", "-"),
            default=argparse.SUPPRESS,
            help=f"{field.description}{also}{default}",
            **flag,
        )
    parser.add_argument("--quiet", action="store_true", help="print nothing but the address")
    add_json(parser)
    parser.epilog = "SIGHUP, or POST /v1/model/reload, serves the model that is in the folder then."


def run(options: argparse.Namespace) -> int:
    from cofill.serving.settings import require_server

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
            _announce(address, settings, summary, quiet)
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


def _announce(address: str, settings: ServingSettings, summary: dict[str, Any], quiet: bool) -> None:
    if not quiet:
        note(
            f"serving {settings.model}: {summary['kind']}, {summary['users']:,} users, {summary['items']:,} items; "
            f"{summary['live_ratings']:,} live ratings in {summary['database']}"
        )
    sys.stdout.write(f"{address}\n")

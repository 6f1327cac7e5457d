"""cofill keys new|list|remove"""

import argparse
import sys
from pathlib import Path

from cofill.cli.options import add_json
from cofill.cli.output import note, print_json, print_table


def add_options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="action")
    new = actions.add_parser("new", help="make a key; it is printed once, and only its hash is kept")
    rights = new.add_mutually_exclusive_group(required=True)
    rights.add_argument("--write", action="store_true", help="a key that may read and write")
    rights.add_argument("--read", action="store_true", help="a key that may only read")
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


def run(options: argparse.Namespace) -> int:
    from cofill.serving.api.keys import new_key, read_keys, remove_key

    if options.action == "new":
        key = new_key(options.file, options.name, write=options.write)
        if options.json:
            print_json({"name": options.name, "write": options.write, "key": key})
        else:
            sys.stdout.write(f"{key}\n")
        if not options.quiet:
            note(f"this is the only time it is shown; send it as Authorization: Bearer {key[:10]}...")
    elif options.action == "list":
        keys = read_keys(options.file)
        if options.json:
            print_json([key.model_dump(include={"name", "write", "created"}) for key in keys])
        else:
            rows = [(key.name, "read, write" if key.write else "read", key.created) for key in keys]
            print_table(f"Keys of {options.file}", ("name", "may", "made"), rows)
    else:
        remove_key(options.file, options.name)
        if not options.quiet:
            note(f"{options.name} opens nothing any more")
    return 0

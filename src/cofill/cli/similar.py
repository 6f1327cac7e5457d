"""cofill similar MODEL --item ID"""

import argparse
from pathlib import Path

from cofill.cli.list_rules import add_similar_rules, narrowed, similar_rules_from
from cofill.cli.options import add_count, add_json
from cofill.cli.output import note, print_json, print_table
from cofill.errors import UnknownIdError


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", type=Path, help="a model's folder")
    parser.add_argument("--item", metavar="ID", required=True, help="the item")
    add_count(parser)
    add_similar_rules(parser)
    parser.add_argument("--quiet", action="store_true", help="print no notes")
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    from cofill.models.recommender import Recommender

    model = Recommender.load(options.model)
    if options.item not in model.items:
        raise UnknownIdError(f"item {options.item!r} is not in the model; check the id")
    rules = similar_rules_from(options, model)
    found = model.similar(options.item, options.n, **rules)
    flags = narrowed(options)
    if not found and flags and not options.quiet:
        note(f"no other item fits {' and '.join(flags)}; ask for less of them")
    if options.json:
        print_json([{k: v for k, v in entry._asdict().items() if v is not None} for entry in found])
        return 0
    title = model.titles.get(model.items.id(model.items.index(options.item)))
    print_table(
        f"Like {title or options.item}",
        ("", "item", "similarity", "title"),
        [(rank, str(entry.item), entry.similarity, entry.title) for rank, entry in enumerate(found, 1)],
    )
    return 0

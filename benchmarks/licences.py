"""The licences of what is installed beside cofill, from the metadata of the packages themselves.

    python benchmarks/licences.py                     # what cofill needs, and what that needs, without extras
    python benchmarks/licences.py serve tune          # with these extras
    python benchmarks/licences.py --all --json

A package says it in one of three places, and the first one found is shown: a licence expression (SPDX), its
classifiers, a line of its own. "?" is a package that says nothing: look into its files.
"""

import argparse
import json
import re
from importlib.metadata import PackageNotFoundError, distribution, metadata
from typing import NamedTuple

try:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name
except ModuleNotFoundError:
    raise SystemExit(
        "what packages ask for is read with packaging, which is not installed. Run: pip install packaging"
    ) from None

FOR_DEVELOPERS = {"dev", "docs", "peers"}


class Licence(NamedTuple):
    package: str
    version: str
    licence: str
    needed_by: str
    """"cofill", an extra such as "cofill[serve]", or the package that needs it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extras", nargs="*", metavar="EXTRA", help="such as serve")
    parser.add_argument("--all", action="store_true", help="with all extras for whoever uses cofill")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    offered = set(metadata("cofill").get_all("Provides-Extra") or ()) - FOR_DEVELOPERS
    if unknown := set(options.extras) - offered:
        parser.error(f"there is no extra {min(unknown)}; there are {', '.join(sorted(offered))}")
    found = licences(offered if options.all else set(options.extras))
    if options.json:
        print(json.dumps([one._asdict() for one in found], indent=2))
        return
    print("| package | version | licence | needed by |\n|---|---|---|---|")
    for one in found:
        print(f"| {one.package} | {one.version} | {one.licence} | {one.needed_by} |")


def licences(extras: set[str]) -> list[Licence]:
    """All packages that are needed and installed, by name."""
    found: dict[str, Licence] = {}
    waiting = [("cofill", "", "")] + [("cofill", extra, "") for extra in sorted(extras)]
    seen = set()
    while waiting:
        name, extra, needed_by = waiting.pop(0)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            package = distribution(name)
        except PackageNotFoundError:  # for another system, or an extra that is not installed
            continue
        if needed_by and name not in found:
            found[name] = Licence(package.name, package.version, licence_of(name), needed_by)
        asking = f"{package.name}[{extra}]" if extra else package.name
        for text in package.requires or ():
            needed = Requirement(text)
            # Of an extra, what it adds; without one, what is always needed.
            if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
                continue
            if extra and needed.marker is None:
                continue
            other = canonicalize_name(needed.name)
            waiting += [(other, more, asking) for more in ("", *sorted(needed.extras))]
    return sorted(found.values(), key=lambda one: one.package.lower())


def licence_of(name: str) -> str:
    about = metadata(name)
    if "License-Expression" in about:
        return about["License-Expression"]
    classes = [
        line.rsplit(" :: ", 1)[-1] for line in about.get_all("Classifier") or () if line.startswith("License ::")
    ]
    if classes:
        return "; ".join(sorted(set(classes)))
    own = about["License"].strip() if "License" in about else ""
    return re.sub(r"\s+", " ", own.splitlines()[0]) if own else "?"


if __name__ == "__main__":
    main()

"""How signatures and names of the Python reference are shown: short, and as a user imports them."""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import cofill
import cofill.client
import cofill.nn

_ARRAY = re.compile(r"(?:~?numpy\.)?ndarray\[tuple\[(?:~?typing\.)?Any, \.\.\.\], (?:~?numpy\.)?dtype\[[\w.~]+\]\]")
_CALL = re.compile(r"^~?(?:cofill\.client\.transport\.)?Call\[(.*)\]$")
_UNPACKED = re.compile(r"\*\*rules: \*?<class '[\w.]*?(\w+)'>|\*\*rules: [~*\w.\[]*?((?:Similar)?Rules)\]?")


def shorten(
    app: Sphinx, what: str, name: str, obj: object, options: Any, arguments: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Arrays without their type parameters; what a call of the client is answered with, instead of the call."""
    if arguments is not None:
        arguments = _ARRAY.sub("~numpy.ndarray", arguments)
        arguments = _UNPACKED.sub(lambda found: f"**rules: {found[1] or found[2]}", arguments)
        arguments = re.sub(r"=<cofill\.[^>]*>|=<object object[^>]*>|=<factory>", "=...", arguments)
    if returned is not None:
        returned = _CALL.sub(r"\1", _ARRAY.sub("~numpy.ndarray", returned))
        returned = "None" if returned == "NoneType" else returned
    return arguments, returned


def find_public_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement
) -> nodes.Element | None:
    """The entry of a name that is public, wherever the code has it."""
    if node.get("refdomain") != "py":
        return None
    name = str(node["reftarget"]).rpartition(".")[2]
    domain = env.get_domain("py")
    for module in (cofill, cofill.nn, cofill.client):
        if name in module.__all__:
            return domain.resolve_xref(
                env, node["refdoc"], app.builder, "obj", f"{module.__name__}.{name}", node, content
            )
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-signature", shorten)
    app.connect("missing-reference", find_public_name)
    return {"parallel_read_safe": True}

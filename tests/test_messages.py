"""The golden file of messages is what the code says; and messages name arguments, not flags."""

import ast
import re
from difflib import unified_diff
from pathlib import Path

import pytest

import cofill
from tests.messages import COMMAND, GOLDEN, text


def test_messages_are_those_of_the_golden_file() -> None:
    kept, said = GOLDEN.read_text(encoding="utf-8").splitlines(), text().splitlines()
    if kept != said:
        changes = "\n".join(unified_diff(kept, said, "tests/messages.md", "what the code says", n=1, lineterm=""))
        pytest.fail(f"messages have changed; if they read well, run `{COMMAND}`\n{changes}", pytrace=False)


ELSEWHERE = ("cli", "serving", "report", "charts")
"""What speaks of the command line by itself: the command line, and pages and servers that it starts."""
A_COMMAND = re.compile(r"(cofill|ray) (train|partition|keys|start|serve|report)\b.*")


def test_no_message_below_the_command_line_names_a_flag() -> None:
    package = Path(cofill.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).parts[0] in ELSEWHERE:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        explained = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        } | {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in explained:
                said = A_COMMAND.sub("", node.value)
                assert not re.search(r"(?<![\w-])--[a-z]", said), f"{path.name}, line {node.lineno}: {node.value}"

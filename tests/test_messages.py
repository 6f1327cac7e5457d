"""The golden file of messages is what the code says."""

from difflib import unified_diff

import pytest

from tests.messages import COMMAND, GOLDEN, text


def test_messages_are_those_of_the_golden_file() -> None:
    kept, said = GOLDEN.read_text(encoding="utf-8").splitlines(), text().splitlines()
    if kept != said:
        changes = "\n".join(unified_diff(kept, said, "tests/messages.md", "what the code says", n=1, lineterm=""))
        pytest.fail(f"messages have changed; if they read well, run `{COMMAND}`\n{changes}", pytrace=False)

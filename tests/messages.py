"""What cofill says of every case of bad input, written into messages.md: `make messages`.

Each names its source and a way out, on one line. Whether it says what it must is for people to judge, in the diff of
that file.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from cofill.data.attributes import Attributes
from cofill.data.features import Features
from cofill.data.interactions import Interactions, read_ratings_or_interactions
from cofill.data.ratings import Ratings
from cofill.errors import DataError
from tests.bad_input import BadCall, BadFile, refusal
from tests.data import test_attributes, test_bad_input, test_dirty_files, test_features_bad_input, test_interactions

GOLDEN = Path(__file__).with_name("messages.md")
COMMAND = "make messages"
PREFACE = f"""\
# What cofill says of bad input

Every case of bad input in the tests, and its message, which is the same in Python and on the command line. Written by
`{COMMAND}` (`python -m tests.messages`). Read the diff before you commit.
"""

OF_OTHERS = re.compile(r"(cut short|broken one|properly) \(.*\)(?=;)")
"""What another library said, which may change with its version."""


Cases = Iterator[tuple[str, str]]
"""The name of each case, and the message."""


def checked(error: DataError) -> str:
    """The message, which has a finding and a way out, on one line."""
    assert error.found, error
    assert error.remedy or "; " in error.found, error
    assert "\n" not in str(error), error
    return str(error)


def of_files(cases: Mapping[str, BadFile], read: Callable[..., object], folder: Path) -> Cases:
    for name, case in cases.items():
        yield name, checked(refusal(read, case.written(folder), **case.options))


def of_calls(cases: Mapping[str, BadCall]) -> Cases:
    for name, case in cases.items():
        yield name, checked(refusal(case.call))


def sections(folder: Path) -> Iterator[tuple[str, Cases]]:
    """The title and the cases of each section."""
    learned = test_features_bad_input.learned()
    films = test_attributes.read_films(folder)
    attributes = Attributes.of_features(films.ids, films)
    yield "Ratings files", of_files(test_bad_input.FILES, Ratings.read, folder)
    yield "Ratings in frames, arrays and tuples", of_calls(test_bad_input.OBJECTS)
    yield "Dirty files of ratings", of_files(test_dirty_files.REFUSED, Ratings.read, folder)
    yield "Options that do not fit", of_calls(test_dirty_files.OPTIONS)
    yield "Files of interactions", of_files(test_interactions.REFUSED, Interactions.read, folder)
    yield (
        "Files of ratings or interactions",
        of_files(test_interactions.UNCLEAR, read_ratings_or_interactions, folder),
    )
    yield "Interactions in Python", of_calls(test_interactions.CALLS)
    yield "Files of side information", of_files(test_features_bad_input.FILES, Features.read, folder)
    yield (
        "Tables of new users or items",
        of_files(test_features_bad_input.NEW_ONES, learned.encode_table, folder),
    )
    yield "Side information in frames, arrays and tuples", of_calls(test_features_bad_input.OBJECTS)
    good = test_features_bad_input.GOOD
    described = {
        name: BadCall(partial(learned.encode, good | wrong))
        for name, wrong in test_features_bad_input.DESCRIPTIONS.items()
    }
    yield "Descriptions of one user or item", of_calls(described)
    filtered = {
        name: BadCall(partial(attributes.matching, {column: wrong}))
        for name, (column, wrong) in test_attributes.CONDITIONS.items()
    }
    yield "Filters", of_calls(filtered)


def text() -> str:
    """All messages, as they are now."""
    lines = [PREFACE]
    with tempfile.TemporaryDirectory() as folder:
        for title, cases in sections(Path(folder)):
            lines += [f"## {title}\n", "```text"]
            for name, message in cases:
                lines += [name, f"    {message}"]
            lines += ["```\n"]
    said = "\n".join(lines).replace(f"{folder}/", "").replace(f"{test_dirty_files.DIRTY}/", "")
    return OF_OTHERS.sub(r"\1 (...)", said.replace(f"folder is {Path.cwd()}", "folder is ..."))


if __name__ == "__main__":
    GOLDEN.write_text(text(), encoding="utf-8")

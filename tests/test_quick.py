"""What `make quick` runs: something of every package, from files that exist."""

from pathlib import Path

TESTS = Path(__file__).parent
CHOSEN = (TESTS / "quick.txt").read_text().split()


def test_every_package_has_something_in_the_quick_run() -> None:
    packages = {path.parent for path in TESTS.rglob("test_*.py")}
    covered = {(TESTS.parent / name.partition("::")[0]).parent for name in CHOSEN}
    assert packages <= covered, f"name a central test of {packages - covered} in tests/quick.txt"


def test_what_is_chosen_exists_and_is_named_once() -> None:
    def exists(name: str) -> bool:
        path, _, test = name.partition("::")
        file = TESTS.parent / path
        return file.is_file() and (not test or f"def {test}(" in file.read_text(encoding="utf-8"))

    missing = [name for name in CHOSEN if not exists(name)]
    assert not missing, "take it out of tests/quick.txt, or name it as it is called now"
    assert len(set(CHOSEN)) == len(CHOSEN)

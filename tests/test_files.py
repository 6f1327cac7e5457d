"""Files that are written whole: who may read them, and JSON of any depth."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from safetensors import SafetensorError

from cofill.errors import CofillError
from cofill.files import json_of, make_private, replacing


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o022, 0o027, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_whoever_writes_it_a_file_can_be_read_as_any_other(tmp_path: Path, umask: int) -> None:
    with replacing(tmp_path / "text") as draft:
        draft.write_text("1")
    with replacing(tmp_path / "arrays") as draft:  # safetensors itself makes files for its user alone
        safetensors.numpy.save_file({"a": np.zeros(1)}, draft)
    assert [mode(tmp_path / name) for name in ("text", "arrays")] == [0o666 & ~umask] * 2


def test_a_private_file_stays_private(tmp_path: Path, umask: int) -> None:
    target = tmp_path / "keys"
    for text in ("1", "2"):
        with replacing(target, private=True) as draft:
            assert mode(draft) == 0o600  # before anything is in it
            draft.write_text(text)
        assert (mode(target), target.read_text()) == (0o600, text)


def test_what_everybody_could_read_is_closed_and_told(tmp_path: Path) -> None:
    path = tmp_path / "database"
    assert not make_private(path)
    assert mode(path) == 0o600
    path.chmod(0o644)
    assert make_private(path)
    assert mode(path) == 0o640  # the group may have been let in on purpose
    assert not make_private(path)


@pytest.mark.parametrize("mishap", [MemoryError("a list of everything"), IndexError("a bug"), KeyboardInterrupt()])
def test_what_has_nothing_to_do_with_the_disk_is_not_blamed_on_it(mishap: BaseException, tmp_path: Path) -> None:
    with pytest.raises(type(mishap)), replacing(tmp_path / "table"):
        raise mishap
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mishap", [OSError(28, "No space left on device"), SafetensorError("No space left on device")])
def test_a_full_disk_is_told_whichever_library_meets_it(mishap: Exception, tmp_path: Path) -> None:
    with pytest.raises(CofillError, match="table: not written, the disk is full"), replacing(tmp_path / "table"):
        raise mishap


@pytest.mark.parametrize("deep", [101, 900, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_json_that_is_nested_without_end(opening: str, closing: str, deep: int) -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        json_of(opening * deep + "1" + closing * deep)


def test_json_of_ours() -> None:
    assert json_of(b'{"a": [1, {"b": []}, null]}') == {"a": [1, {"b": []}, None]}
    assert json_of("[" * 100 + "]" * 100) == json_of("[" * 100 + "]" * 100)
    with pytest.raises(ValueError, match="Expecting value"):
        json_of("")

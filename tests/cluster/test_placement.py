"""Where workers go, and what a worker's process is told; errors and warnings arrive as they were raised."""

import json
import os
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cofill.cluster.placement import environment, planned
from cofill.cluster.session import Machine
from cofill.cluster.transported import heard_error, show_again, told_error, told_warning
from cofill.errors import (
    CheckpointError,
    CofillError,
    DataError,
    DataNote,
    Place,
    Remedy,
    UnknownIdError,
)


def machines(*cpus: int) -> list[Machine]:
    return [Machine(f"node {at}", f"10.0.0.{at}", each) for at, each in enumerate(cpus)]


def test_one_a_machine_with_all_its_cores() -> None:
    plan = planned(machines(16, 16, 16, 4), 3)
    assert (plan.strategy, plan.cpus) == ("STRICT_SPREAD", 16)
    plan = planned(machines(16, 16, 16, 4), 4)
    assert (plan.strategy, plan.cpus) == ("STRICT_SPREAD", 4)
    plan = planned(machines(16, 16, 2), 3, threads=8)
    assert (plan.strategy, plan.cpus) == ("SPREAD", 8), "the third has too few"


@given(st.lists(st.integers(1, 20), max_size=6), st.integers(1, 12))
def test_a_plan_fits_if_anything_does_and_no_core_more_would(cpus: list[int], workers: int) -> None:
    plan = planned(machines(*cpus), workers)
    if plan.strategy == "STRICT_SPREAD":
        assert sum(each >= plan.cpus for each in cpus) >= workers > sum(each > plan.cpus for each in cpus)
    else:
        assert len(cpus) < workers or workers == 1
        if sum(cpus) >= workers:
            assert sum(each // plan.cpus for each in cpus) >= workers
        else:
            assert plan.cpus == 1
        assert sum(each // (plan.cpus + 1) for each in cpus) < workers


def test_a_worker_imports_what_the_driver_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COFILL_TRACE", "1")
    found = environment(3)
    assert found["OMP_NUM_THREADS"] == found["NUMBA_NUM_THREADS"] == found["POLARS_MAX_THREADS"] == "3"
    assert found["COFILL_TRACE"] == "1"
    paths = found["PYTHONPATH"].split(os.pathsep)
    assert paths[0] == str(tmp_path)
    assert paths[-1] == "${PYTHONPATH}"
    assert not any("site-packages" in path for path in paths)


class UnusualError(CheckpointError):
    """One that is not made of its message."""

    def __init__(self, number: int, *, of: int) -> None:
        super().__init__(f"{number} of {of} are broken")


@pytest.mark.parametrize(
    "error",
    [
        CofillError("all of it"),
        UnknownIdError("user 'x' is not known"),
        UnusualError(2, of=3),
        DataError("two of them"),
        DataError(
            "no good", Remedy.passing("give {sep} or {scale}", sep=";", scale=...), where=Place("a.csv", "line", 3)
        ),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_arrives_as_it_was(error: CofillError) -> None:
    arrived = heard_error(json.loads(json.dumps(told_error(error))))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    if isinstance(error, DataError):
        assert isinstance(arrived, DataError)
        assert (arrived.found, arrived.remedy, arrived.where) == (error.found, error.remedy, error.where)


def test_an_error_of_a_class_that_only_the_worker_has() -> None:
    told = told_error(CofillError("odd")) | {"class": "not.here:OddError"}
    assert type(heard_error(told)) is CofillError
    assert type(heard_error(told | {"class": "builtins:ValueError"})) is CofillError


def test_a_warning_arrives_as_it_was() -> None:
    for warning in (DataNote("read", Remedy.passing("give {sep}", sep=...), where="a.csv"), RuntimeWarning("hot")):
        with pytest.warns(type(warning)) as caught:
            show_again(json.loads(json.dumps(told_warning(warning, type(warning)))))
        assert str(caught[0].message) == str(warning)
    with warnings.catch_warnings(record=True) as odd:
        warnings.simplefilter("always")
        show_again({"class": "not.here:OddWarning", "message": "odd"})
    assert odd[0].category is UserWarning

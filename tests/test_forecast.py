"""How long a task will still take, and how durations and sizes are written."""

import pytest

from cofill.data.datasets.world import make_world
from cofill.memory import data_size
from cofill.models.cfn.fit import LEARN, SEARCH, SOLVE, TRAIN
from cofill.models.cfn.model import CFN, LISTS
from cofill.progress import Step, duration, shown


def test_a_log_tells_what_is_left_by_what_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first step is not measured: it may have compiled kernels, or be where another run stopped."""
    now = [100.0]
    monkeypatch.setattr("cofill.progress.time.monotonic", lambda: now[0])
    with shown() as progress:
        for seconds, share in ((50.0, 0.1), (20.0, 0.3), (60.0, 0.5), (1.0, 1.0)):
            now[0] += seconds
            progress(Step("train", 10 * share, 10, share, unit="epoch"))
    assert capsys.readouterr().err.splitlines() == [
        "train: epoch 1 of 10",
        "train: epoch 3 of 10  about 1 min 10 s left",
        "train: epoch 5 of 10  about 1 min 40 s left",
        "train: epoch 10 of 10",
    ]


@pytest.mark.parametrize("orientation", ["item", "both"])
def test_every_part_of_a_training_is_foreseen(orientation: str) -> None:
    steps: list[Step] = []
    ratings = make_world(users=60, items=40, ratings=900, seed=2).ratings
    CFN(orientation=orientation, epochs=3, hidden=6, threads=1).fit(ratings, progress=steps.append)
    told = {step.what.partition(",")[0] for step in steps}
    assert told == {SEARCH, LEARN, TRAIN, SOLVE, LISTS}
    shares = [step.share for step in steps if not step.note]
    assert shares == sorted(shares)
    assert shares[-1] == 1


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.02, "0 s"), (0.42, "0.4 s"), (0.97, "1 s"), (59.4, "59 s"), (80, "1 min 20 s"), (7800, "2 h 10 min")],
)
def test_durations_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (812, "812 bytes"),
        (4_200, "4.2 kB"),
        (340_000, "340 kB"),
        (1.24e9, "1.2 GB"),
        (999_700, "1.0 MB"),
        (2.5e10, "25 GB"),
    ],
)
def test_sizes_as_people_write_them(count: float, words: str) -> None:
    assert data_size(count) == words

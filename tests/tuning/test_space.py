"""The ranges that are searched."""

from typing import get_args

import pytest
from optuna.distributions import IntDistribution

from cofill.config import CFNSettings, Orientation
from cofill.data.datasets.world import make_world
from cofill.data.features import Features
from cofill.errors import SettingsError
from cofill.tuning.search_data import SearchData
from cofill.tuning.study import LIST_RANGES, OFF_FROM, RANGES, Plan, Ranged, Ranges, space_of

EVERY = [pytest.param(name, one, id=name) for ranges in (*RANGES.values(), LIST_RANGES) for name, one in ranges.items()]


@pytest.fixture(scope="module")
def data() -> SearchData:
    return SearchData.of(make_world(users=20, items=10, ratings=100, seed=1).ratings)


@pytest.mark.parametrize(("name", "range_"), EVERY)
def test_a_setting_takes_both_ends_of_its_range(name: str, range_: Ranged) -> None:
    for end in (range_.low, range_.high):
        value = getattr(CFNSettings.of({name: end}), name)
        assert value == ((end,) if name == "hidden" else end)
        assert isinstance(end, int) == isinstance(range_, IntDistribution)


@pytest.mark.parametrize("orientation", get_args(Orientation))
def test_our_ranges_hold_the_defaults(orientation: Orientation) -> None:
    settings = CFNSettings(orientation=orientation)
    for name, range_ in RANGES["cofill"].items():
        value = getattr(settings, name)
        assert range_.low <= (value[0] if name == "hidden" else value) < range_.high, name


def test_the_ranges_of_lists_hold_the_defaults(data: SearchData) -> None:
    plan = Plan("ndcg", CFNSettings(), {**LIST_RANGES}, data.fingerprint())
    first = plan.first()
    assert first is not None
    assert all(range_.low <= first[name] <= range_.high for name, range_ in LIST_RANGES.items())
    assert plan.values(first) == {name: getattr(CFNSettings(), name) for name in LIST_RANGES}
    for name, end in OFF_FROM.items():
        assert [plan.values({name: value})[name] for value in (7.0, end, 9999.0)] == [7.0, 0.0, 0.0]


def test_what_is_heard_of_a_rating_is_searched_too() -> None:
    """From none at all, as in the paper, which a logarithm could not reach."""
    presence = RANGES["cofill"]["presence"]
    assert (presence.low, presence.high, presence.log) == (0.0, 3.0, False)


def test_the_ranges_of_the_paper() -> None:
    assert {name: (round(one.low, 5), one.high) for name, one in RANGES["paper"].items()} == {
        "alpha": (0.8, 1.2),
        "beta": (0, 1),
        "noise_ratio": (0, 1),
        "hidden": (500, 700),
        "learning_rate": (0, 0.5),
        "learning_rate_decay": (0, 0.5),
        "weight_decay": (0, 0.5),
    }
    assert not any(one.log for one in RANGES["paper"].values())


@pytest.mark.parametrize("ranges", get_args(Ranges))
def test_what_is_set_is_not_searched(ranges: Ranges, data: SearchData) -> None:
    settings = CFNSettings(beta=0.5, hidden=(7, 5, 7), epochs=3)
    searched = set(space_of("rmse", ranges, settings, data))
    assert not searched & {"beta", "hidden", "epochs", "cold_ratio"}
    assert {"noise_ratio", "learning_rate", "weight_decay"} <= searched


def test_rows_that_are_hidden_are_searched_with_features_only(data: SearchData) -> None:
    features = Features.read({"id": [1, 2, 3], "year": [1990, 1991, 1995]})
    together = SearchData.of(data.ratings, items=features)
    without, given = (set(space_of("rmse", "cofill", CFNSettings(), one)) for one in (data, together))
    assert given - without == {"cold_ratio"}


def test_nothing_left_to_search(data: SearchData) -> None:
    everything = {name: range_.high for name, range_ in RANGES["paper"].items()} | {"hidden": 500}
    with pytest.raises(SettingsError, match="every setting that could be searched is given"):
        space_of("rmse", "paper", CFNSettings.of(everything), data)
    with pytest.raises(SettingsError, match="there are no ranges 'wide'; use one of cofill, paper"):
        space_of("rmse", "wide", CFNSettings(), data)  # type: ignore[arg-type]

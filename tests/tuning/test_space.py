"""The ranges that are searched."""

from typing import get_args

import pytest
from optuna.distributions import FloatDistribution, IntDistribution

from cofill.config import CFNSettings, Orientation
from cofill.errors import SettingsError
from cofill.tuning.study import LIST_GENES, RANGES, Gene, Ranges, genes_to_search

GENES = [
    pytest.param(gene, id=f"{name}-{gene.setting}")
    for name, genes in (*RANGES.items(), ("lists", LIST_GENES))
    for gene in genes
]


@pytest.mark.parametrize("gene", GENES)
def test_a_gene_is_a_setting_that_takes_both_ends_of_its_range(gene: Gene) -> None:
    range_ = gene.distribution()
    assert isinstance(range_, FloatDistribution | IntDistribution)
    assert (range_.low, range_.high, range_.log) == (gene.low, gene.high, gene.log)
    for end in (range_.low, range_.high):
        value = getattr(CFNSettings.of({gene.setting: end}), gene.setting)
        assert value == ((end,) if gene.setting == "hidden" else end)
        assert isinstance(end, int) == gene.whole


@pytest.mark.parametrize("orientation", get_args(Orientation))
def test_our_ranges_hold_the_defaults(orientation: Orientation) -> None:
    settings = CFNSettings(orientation=orientation)
    for gene in RANGES["cofill"]:
        value = getattr(settings, gene.setting)
        assert gene.low <= (value[0] if gene.setting == "hidden" else value) < gene.high, gene


@pytest.mark.parametrize("gene", LIST_GENES, ids=lambda gene: gene.setting)
def test_the_ranges_of_lists_hold_the_defaults(gene: Gene) -> None:
    default = getattr(CFNSettings(), gene.setting)
    assert gene.low <= gene.drawn(default) <= gene.high
    assert gene.value(gene.drawn(default)) == default
    if gene.off_from is not None:
        assert (gene.value(gene.low), gene.value(gene.off_from), gene.value(gene.high)) == (gene.low, 0.0, 0.0)


def test_what_is_heard_of_a_rating_is_searched_too() -> None:
    """From none at all, which a logarithm could not reach."""
    (presence,) = (gene for gene in RANGES["cofill"] if gene.setting == "presence")
    assert (presence.low, presence.high, presence.log) == (0.0, 3.0, False)
    assert CFNSettings(presence=0.0).presence == presence.low  # as in the paper
    assert "presence" not in {gene.setting for gene in RANGES["paper"]}


def test_the_ranges_reach_what_sparse_data_needs() -> None:
    (decay,) = (gene for gene in RANGES["cofill"] if gene.setting == "weight_decay")
    assert (decay.low, decay.high, decay.log) == (1e-4, 0.15, True)
    learned_or_costly = {"decoder", "neighbours", "mean_damping"}
    assert not learned_or_costly & {gene.setting for genes in RANGES.values() for gene in genes}


def test_the_ranges_of_the_paper() -> None:
    found = {gene.setting: (round(gene.low, 5), gene.high) for gene in RANGES["paper"]}
    assert found == {
        "alpha": (0.8, 1.2),
        "beta": (0, 1),
        "noise_ratio": (0, 1),
        "hidden": (500, 700),
        "learning_rate": (0, 0.5),
        "learning_rate_decay": (0, 0.5),
        "weight_decay": (0, 0.5),
    }
    assert not any(gene.log for gene in RANGES["paper"])


@pytest.mark.parametrize("ranges", get_args(Ranges))
def test_what_is_set_is_not_searched(ranges: Ranges) -> None:
    settings = CFNSettings(beta=0.5, hidden=(7, 5, 7), epochs=3)
    searched = {gene.setting for gene in genes_to_search(ranges, settings, features=False)}
    assert not searched & {"beta", "hidden", "epochs", "cold_ratio"}
    assert {"noise_ratio", "learning_rate", "weight_decay"} <= searched


def test_rows_that_are_hidden_are_searched_with_features_only() -> None:
    without = genes_to_search("cofill", CFNSettings(), features=False)
    together = genes_to_search("cofill", CFNSettings(), features=True)
    assert {gene.setting for gene in set(together) - set(without)} == {"cold_ratio"}


def test_nothing_left_to_search() -> None:
    everything = {gene.setting: gene.high for gene in RANGES["paper"]} | {"hidden": 500}
    with pytest.raises(SettingsError, match="every setting that could be searched is given"):
        genes_to_search("paper", CFNSettings.of(everything), features=False)
    with pytest.raises(SettingsError, match="there are no ranges 'wide'; use one of cofill, paper"):
        genes_to_search("wide", CFNSettings(), features=False)  # type: ignore[arg-type]

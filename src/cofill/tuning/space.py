"""The search space: each gene is a setting with its range (hyperparameter), declared once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from cofill.config import CFNSettings
from cofill.errors import SettingsError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Ranges = Literal["cofill", "paper"]


@dataclass(frozen=True)
class Gene:
    """A setting and its range; `log`: sampled on a log scale."""

    setting: str
    low: float
    high: float
    log: bool = False
    whole: bool = False
    with_features: bool = False
    """Only searched where the rows have side features: without them it has no effect."""
    off_from: float | None = None
    """From here on the setting is 0, which turns it off: a range on a log scale has no 0 of its own."""

    def value(self, drawn: float) -> float:
        """The setting that a point of the range stands for."""
        return 0.0 if self.off_from is not None and drawn >= self.off_from else drawn

    def drawn(self, value: float) -> float:
        """A point of the range that stands for this setting."""
        return self.high if self.off_from is not None and value == 0 else value

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def distribution(self) -> "BaseDistribution":
        """The range as an Optuna distribution."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)


RANGES: dict[Ranges, tuple[Gene, ...]] = {
    # The table of the paper's appendix. A step size of 0 would never learn: it begins at a millionth.
    "paper": (
        Gene("alpha", 0.8, 1.2),
        Gene("beta", 0.0, 1.0),
        Gene("noise_ratio", 0.0, 1.0),
        Gene("hidden", 500, 700, whole=True),
        Gene("learning_rate", 1e-6, 0.5),
        Gene("learning_rate_decay", 0.0, 0.5),
        Gene("weight_decay", 0.0, 0.5),
    ),
    # Around the defaults of either orientation, and as far as sparse data may need: little weight decay, much presence.
    # No alpha: alpha, beta and weight_decay times c with learning_rate / c is the same training. Nothing of the
    # decoder: its amplitudes are learned, and the number of neighbours is a matter of time and memory.
    "cofill": (
        Gene("beta", 0.2, 1.0),
        Gene("noise_ratio", 0.05, 0.5),
        Gene("cold_ratio", 0.0, 0.3, with_features=True),
        Gene("hidden", 100, 600, log=True, whole=True),
        Gene("learning_rate", 0.03, 0.3, log=True),
        Gene("weight_decay", 1e-4, 0.15, log=True),
        Gene("batch", 12, 120, log=True, whole=True),
        Gene("length_power", 0.2, 1.0),
        Gene("presence", 0.0, 3.0),
    ),
}

# Settings of the list scorer, for the goal ndcg. `list_rank` is a matter of time and memory, not of taste.
LIST_GENES = (
    Gene("list_penalty", 0.5, 20.0, log=True),
    Gene("list_popularity", 0.0, 0.5),
    Gene("list_grade_power", 0.5, 3.0),
    Gene("confidence", 0.0, 2.0),
    Gene("half_life", 7.0, 10_000.0, log=True, off_from=3650.0),
)


class FeedbackKind(NamedTuple):
    """What ratings or interactions have to tell beside who chose what."""

    rated: bool
    weights_differ: bool  # of interactions
    timed: bool


def genes_to_search(ranges: Ranges, settings: CFNSettings, *, features: bool) -> tuple[Gene, ...]:
    """The genes of a search space, without settings that the user fixed."""
    if ranges not in RANGES:
        raise SettingsError(f"there are no ranges {ranges!r}; use one of {', '.join(get_args(Ranges))}")
    return _not_fixed([gene for gene in RANGES[ranges] if features or not gene.with_features], settings)


def list_genes_to_search(settings: CFNSettings, feedback: FeedbackKind) -> tuple[Gene, ...]:
    """The genes of the list scorer that have an effect on this data, without settings that the user fixed."""
    needs = {
        "list_grade_power": feedback.rated,
        "confidence": feedback.weights_differ,
        "half_life": feedback.timed,
    }
    return _not_fixed([gene for gene in LIST_GENES if needs.get(gene.setting, True)], settings)


def _not_fixed(candidates: Sequence[Gene], settings: CFNSettings) -> tuple[Gene, ...]:
    genes = tuple(gene for gene in candidates if gene.setting not in settings.model_fields_set)
    if not genes:
        raise SettingsError("every setting that could be searched is given; leave one of them out")
    return genes

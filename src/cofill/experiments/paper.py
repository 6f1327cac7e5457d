"""What the paper reports: Strub, Mary, Gaudel, Hybrid Collaborative Filtering with Autoencoders, 2016.

Its figures of CFN are of the best epoch on the test part, and leave out rows without a training rating: the authors'
code shows it. How those of the others were obtained is not known.
"""

from typing import NamedTuple

from cofill.evaluation import Interval


def _rmse(mean: float, half_width: float) -> Interval:
    return Interval(mean, half_width, ())


# Table "RMSE", 90/10, by data set and algorithm. SVDFeature was given up on Douban; a ++ is missing where
# nothing is known about that side.
RMSE: dict[str, dict[str, Interval]] = {
    "ml-1m": {
        "BPMF": _rmse(0.8705, 4.3e-3),
        "ALS-WR": _rmse(0.8433, 1.8e-3),
        "SVDFeature": _rmse(0.8631, 2.5e-3),
        "LLORMA": _rmse(0.8371, 2.4e-3),
        "I-AutoRec": _rmse(0.8305, 2.8e-3),
        "U-CFN": _rmse(0.8574, 2.4e-3),
        "U-CFN++": _rmse(0.8572, 1.6e-3),
        "V-CFN": _rmse(0.8388, 2.5e-3),
        "V-CFN++": _rmse(0.8377, 1.8e-3),
    },
    "ml-10m": {
        "BPMF": _rmse(0.8213, 6.5e-4),
        "ALS-WR": _rmse(0.7830, 1.9e-4),
        "SVDFeature": _rmse(0.7907, 8.4e-4),
        "LLORMA": _rmse(0.7949, 2.3e-4),
        "I-AutoRec": _rmse(0.7831, 2.4e-4),
        "U-CFN": _rmse(0.7954, 7.4e-4),
        "V-CFN": _rmse(0.7767, 5.4e-4),
        "V-CFN++": _rmse(0.7754, 6.3e-4),
    },
    "ml-20m": {
        "BPMF": _rmse(0.8123, 3.5e-4),
        "ALS-WR": _rmse(0.7746, 2.7e-4),
        "SVDFeature": _rmse(0.7852, 5.4e-4),
        "LLORMA": _rmse(0.7843, 3.2e-4),
        "I-AutoRec": _rmse(0.7742, 4.4e-4),
        "U-CFN": _rmse(0.7856, 1.4e-4),
        "V-CFN": _rmse(0.7663, 2.9e-4),
        "V-CFN++": _rmse(0.7652, 2.3e-4),
    },
    "douban": {
        "BPMF": _rmse(0.7133, 3.0e-4),
        "ALS-WR": _rmse(0.7010, 3.2e-4),
        "LLORMA": _rmse(0.6968, 2.7e-4),
        "I-AutoRec": _rmse(0.6945, 3.1e-4),
        "U-CFN": _rmse(0.7049, 2.2e-4),
        "U-CFN++": _rmse(0.7050, 1.2e-4),
        "V-CFN": _rmse(0.6911, 3.2e-4),
    },
}


class Gain(NamedTuple):
    """V-CFN without and with side information."""

    plain: float
    hybrid: float
    percent: float


# Table "Side": MovieLens-10M, by share trained on; the five clusters of items from the least rated, then all of them.
BY_CLUSTER: dict[float, tuple[Gain, ...]] = {
    0.5: (
        Gain(1.0030, 0.9938, 0.96),
        Gain(0.9188, 0.9084, 1.15),
        Gain(0.8748, 0.8669, 0.91),
        Gain(0.8473, 0.8420, 0.63),
        Gain(0.7976, 0.7964, 0.15),
        Gain(0.8075, 0.8055, 0.25),
    ),
    0.9: (
        Gain(0.9539, 0.9444, 1.01),
        Gain(0.8815, 0.8730, 0.96),
        Gain(0.8487, 0.8408, 0.95),
        Gain(0.8139, 0.8110, 0.35),
        Gain(0.7674, 0.7669, 0.06),
        Gain(0.7767, 0.7756, 0.14),
    ),
}

# Table "DAEimpact": V-CFN, 90/10, by data set and variant.
LOSS: dict[str, dict[str, float]] = {
    "ml-10m": {"supervised": 0.8020, "unsupervised": 0.7795, "mixed": 0.7768},
    "ml-20m": {"supervised": 0.7982, "unsupervised": 0.7690, "mixed": 0.7663},
}

# In the text: V-CFN on MovieLens-10M with its tanh removed, and with it.
LINEAR = _rmse(0.8151, 1.4e-3)
TANH = RMSE["ml-10m"]["V-CFN"]


class Cost(NamedTuple):
    """What a training takes on a GTX 980."""

    parameters: int
    seconds: int
    mebibytes: int


# Table "Time": without side information, 90/10, 20 to 30 epochs.
COST: dict[str, dict[str, Cost]] = {
    "ml-1m": {"V-CFN": Cost(8_000_000, 123, 250), "U-CFN": Cost(5_000_000, 437, 262)},
    "ml-10m": {"V-CFN": Cost(100_000_000, 1114, 1532), "U-CFN": Cost(15_000_000, 2091, 543)},
    "ml-20m": {"V-CFN": Cost(194_000_000, 2085, 2905), "U-CFN": Cost(38_000_000, 3575, 1044)},
}

"""`cofill benchmark`: training speed, memory, lists and fold-in latency at a published shape, and growth with size."""

from collections.abc import Callable
from statistics import median
from typing import Any

from cofill.benchmark import measure
from cofill.extras import require
from cofill.files import temporary_folder

Say = Callable[[str], None]

_TASKS = "cofill.benchmark.speed_tasks"
_EPOCHS = 2
_ROUNDS = 7
_FUSED_MINIBATCHES = 40
_DENSE_MINIBATCHES = 1
_REQUESTS = 300
_FEATURES = 70
_EPOCHS_OF_A_FIT = 10  # that the list scorer is compared with
_ITEMS = 10_000  # of fold-in, and of lists for everybody
_USERS = 2_048


def measure_speed(like: str, settings: dict[str, Any], *, scale: float, seed: int, say: Say) -> dict[str, Any]:
    """Everything about one shape, in one run."""
    require("cofill benchmark speed", "torch", "torch")
    with temporary_folder("cofill-benchmark") as folder:
        path = str(folder / "ratings.parquet")
        say(f"making ratings like {like}")
        shape = measure(_TASKS, "make_ratings", like=like, scale=scale, seed=seed, path=path)
        say(f"training twice {_EPOCHS} epochs on {shape['ratings']:,} ratings")
        plain = {"epochs": _EPOCHS} | settings  # with validation and refit, as a user would
        trained = measure(_TASKS, "train", path=path, settings=plain)
        say("fitting the list scorer")
        lists = measure(_TASKS, "fit_lists", path=path, settings={"seed": settings["seed"]})
        say("fused kernels, densified torch and a triad, turn by turn")
        compared = measure(
            _TASKS,
            "compare",
            path=path,
            settings=settings,
            rounds=_ROUNDS,
            fused_minibatches=_FUSED_MINIBATCHES,
            dense_minibatches=_DENSE_MINIBATCHES,
            features=_FEATURES,
        )
    folded = {}
    for orientation in ("user", "item"):
        say(f"folding in somebody new, rows are {orientation}s")
        folded[orientation] = measure(
            _TASKS,
            "fold_in",
            hidden=settings["hidden"],
            items=_ITEMS,
            ratings_each=20,
            requests=_REQUESTS,
            orientation=orientation,
        )
    say(f"lists for {_USERS:,} users, and the matrix product alone")
    everybody = measure(_TASKS, "list_everybody", items=_ITEMS, users=_USERS, rounds=_ROUNDS)
    turns = compared["turns"]
    epochs = _EPOCHS_OF_A_FIT * median(trained["epoch_seconds"])
    return {
        "like": like,
        **shape,
        "settings": settings,
        "epoch_seconds": trained["epoch_seconds"],
        "peak_bytes": trained["peak_bytes"],
        "ratings_per_second": median(turn["fused_ratings_per_second"] for turn in turns),
        "times_densified_torch": median(
            turn["fused_rows_per_second"] / turn["dense_rows_per_second"] for turn in turns
        ),
        "triad_bandwidth": median(turn["triad"] for turn in turns),
        "share_of_triad": median(turn["fused_bandwidth"] / turn["triad"] for turn in turns),
        "features": _FEATURES,
        "times_seconds_with_features": median(turn["seconds_with_features"] for turn in turns),
        "fold_in": folded,
        "list_scorer": {**lists, "epochs": _EPOCHS_OF_A_FIT, "share_of_epochs": lists["seconds"] / epochs},
        "lists_for_everybody": everybody,
    }


def measure_growth(settings: dict[str, Any], *, rounds: int, seed: int, say: Say) -> dict[str, Any]:
    """Ratings per second at the shapes of MovieLens-1M and 20M, turn by turn, with the same settings."""
    speeds: dict[str, list[float]] = {"ml-1m": [], "ml-20m": []}
    with temporary_folder("cofill-benchmark") as folder:
        shapes = {}
        for like in speeds:
            say(f"making ratings like {like}")
            path = str(folder / f"{like}.parquet")
            shapes[like] = measure(_TASKS, "make_ratings", like=like, scale=1.0, seed=seed, path=path)
        peak = 0
        for turn in range(1, rounds + 1):
            for like, shape in shapes.items():
                say(f"turn {turn} of {rounds}: training at the shape of {like}")
                epochs = 6 if like == "ml-1m" else 2  # the first one compiles and touches pages: not counted
                done = measure(
                    _TASKS,
                    "train",
                    path=str(folder / f"{like}.parquet"),
                    settings={"epochs": epochs, "validation": 0.0} | settings,
                )
                speeds[like].append(shape["ratings"] / median(done["epoch_seconds"][1:]))
                peak = max(peak, done["peak_bytes"])
    ratios = [large / small for small, large in zip(speeds["ml-1m"], speeds["ml-20m"], strict=True)]
    return {
        "settings": settings,
        "ratings_per_second": {like: median(values) for like, values in speeds.items()},
        "share_kept": median(ratios),
        "peak_bytes": peak,
    }

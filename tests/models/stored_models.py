"""Small models that are trained the same way each time, and one that is kept as text beside this file in `stored/`.

The JSON file has the files of a model folder (base64, because some are binary), pairs of user and item, what was
predicted for them, and what was recommended. It was written once in this format: later versions go on reading it.

    python -m tests.models.stored_models write    # writes it again, with the cofill that is imported: a new format
"""

import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from cofill import CFN, Features, Ratings, Recommender, algorithm

STORED = Path(__file__).parent / "stored"
_LATER = [("ann", "new film", 4.0), ("new user", "film 1", 2.0), ("new user", "film 3", 5.0), ("bob", "film 2", 1.0)]
_DAMPING = 7.0
_PRESENCE = {"item": 0.5, "user": 0.2}
_CFN: dict[str, dict[str, Any]] = {
    "cfn-item": {"hidden": 4, "epochs": 6},
    "cfn-user": {"orientation": "user", "hidden": 4, "epochs": 6, "noise": "gaussian"},
    "cfn-item-features": {"hidden": 8, "epochs": 4, "validation": 0},
    "cfn-user-features": {"orientation": "user", "hidden": 8, "epochs": 4, "validation": 0, "cold_ratio": 0.3},
    "cfn-stack": {"hidden": (6, 3, 6), "epochs": 3, "output": "tanh", "validation": 0, "pretrain": True},
    "cfn-paper": {
        "hidden": 4,
        "epochs": 4,
        "validation": 0,
        "length_power": 0,
        "presence": 0,
        "noise": "salt-and-pepper",
        "activation": "sigmoid",
    },
}
_BASELINES: dict[str, dict[str, Any]] = {
    "means": {},
    "als-wr": {"rank": 3, "iterations": 3},
    "svdfeature": {"rank": 3, "epochs": 3},
    "bpmf": {"rank": 3, "samples": 4, "burn_in": 2},
    "llorma": {"rank": 2, "anchors": 3, "iterations": 2},
    "autorec": {"hidden": 3, "epochs": 4},
}
STORED_MODEL = STORED / "cfn.json"


def ratings() -> Ratings:
    """People and films of two kinds who like their own kind; not all of it is known."""
    rng = np.random.default_rng(5)
    people = ["ann", "bob", *(f"user {number}" for number in range(2, 14))]
    return Ratings.read(
        [
            (user, f"film {item}", float(np.clip((4.5 if (number + item) % 2 else 1.5) + rng.normal(0, 0.7), 1, 5)))
            for number, user in enumerate(people)
            for item in range(11)
            if rng.random() < 0.6
        ],
        scale=(1, 5),
    )


def make(name: str) -> Recommender:
    """The model of that name, trained and told of some later ratings."""
    known = ratings()
    if name in _BASELINES:
        threads: dict[str, Any] = {"threads": 1} if "threads" in algorithm(name).settings_class.model_fields else {}
        model: Recommender = algorithm(name)(mean_damping=_DAMPING, **_BASELINES[name], **threads)
        features = _features(known) if name == "svdfeature" else {}
    elif name == "cfn":
        model = CFN(threads=1, hidden=4, epochs=4)
        features = _features(known)
    else:
        changes = _CFN[name]
        of_then = {"mean_damping": _DAMPING, "presence": _PRESENCE[changes.get("orientation", "item")]}
        model = CFN(**{"threads": 1, "decoder": "network", **of_then, **changes})
        features = _features(known) if name.endswith("features") else {}
    model.fit(known, **features)
    model.add_ratings(_LATER)
    model.remove_ratings([("user 3", "film 4"), ("user 4", "film 1")])
    if name.startswith("cfn") and features:
        model.describe_items({"cold film": {"genres": "odd|long", "year": 1999}})
    return model


def _features(known: Ratings) -> dict[str, Any]:
    films = [f"{number},{'odd' if number % 2 else 'even'}|{'long' if number % 3 else 'short'},{1980 + number}"
             for number in range(11)]  # fmt: skip
    people = [f"{user},{20 + number * 3},{'fm'[number % 2]}" for number, user in enumerate(known.users.ids)]
    with tempfile.TemporaryDirectory() as folder:
        movies, users = Path(folder, "movies.csv"), Path(folder, "users.csv")
        movies.write_text("item,genres,year\n" + "".join(f"film {line}\n" for line in films))
        users.write_text("user,age,gender\n" + "".join(f"{line}\n" for line in people))
        return {"item_features": Features.read(movies), "user_features": Features.read(users)}


def pairs(model: Recommender) -> list[tuple[Any, Any]]:
    return [(user, item) for user in [*model.users.ids, "nobody"] for item in [*model.items.ids, "nothing"]]


def unpacked(folder: Path) -> dict[str, Any]:
    """Writes the stored model into a folder; what is beside its files."""
    document: dict[str, Any] = json.loads(STORED_MODEL.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in document.pop("files").items():
        (folder / file).write_bytes(base64.b64decode(text))
    return document


def write() -> None:
    model = make("cfn").add_interactions([("ann", "film 9"), ("user 5", "film 9"), ("user 5", "film 10")])
    with tempfile.TemporaryDirectory() as place:
        model.save(place)
        files = {path.name: base64.b64encode(path.read_bytes()).decode() for path in sorted(Path(place).iterdir())}
    asked = pairs(model)
    lists = {user: [[entry.item, entry.score] for entry in model.recommend(user, 3)] for user in ("ann", "nobody")}
    document = {"files": files, "pairs": asked, "predicted": model.predict(asked).tolist(), "lists": lists}
    STORED_MODEL.write_text(json.dumps(document, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["write"]:
        raise SystemExit(__doc__)
    write()

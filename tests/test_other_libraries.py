"""The classes of docs/how-to/python.md that bring a model into RecTools and LensKit, in those libraries.

Both pin versions that the development packages are above, so they are run in an environment of their own:

    pip install rectools . pytest && pytest tests/test_other_libraries.py
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cofill import Ratings
from cofill.models.bias_models import ListModel

PAGE = Path(__file__).parent.parent / "docs" / "how-to" / "python.md"
RNG = np.random.default_rng(0)
TRIPLES = [
    (user, item, float(RNG.integers(1, 6))) for user in range(30) for item in range(20) if RNG.random() < 0.5
]  # so that no two items have the same score


def names_of(library: str) -> dict[str, Any]:
    """What the page's block about a library defines."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (source,) = (block for block in blocks if f"from {library}" in block)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, str(PAGE), "exec"), names)
    return names


def test_rectools() -> None:
    pytest.importorskip("rectools", reason="RecTools wants numpy below 2 and pandas below 3")
    import pandas as pd
    from rectools.dataset import Dataset
    from rectools.metrics import MAP
    from rectools.model_selection import RandomSplitter, cross_validate

    frame = pd.DataFrame(TRIPLES, columns=["user_id", "item_id", "weight"]).assign(datetime="2026-01-01")
    frame["user_id"] = "u" + frame["user_id"].astype(str)
    data, make = Dataset.construct(frame), names_of("rectools")["CofillModel"]
    model = make(ListModel(), Ratings.read).fit(data)
    found = model.recommend(["u1", "u2", "nobody"], data, k=3, filter_viewed=True)
    assert found.groupby("user_id")["rank"].apply(list).to_dict() == {who: [1, 2, 3] for who in ("u1", "u2", "nobody")}
    known = set(frame.loc[frame["user_id"] == "u1", "item_id"])
    assert not known & set(found.loc[found["user_id"] == "u1", "item_id"])
    some = model.recommend(["u1"], data, k=9, filter_viewed=False, items_to_recommend=[1, 2])
    assert set(some["item_id"]) == {1, 2}
    assert 1 not in set(model.recommend_to_items([1], data, k=3)["item_id"])
    splitter = RandomSplitter(0.2, random_state=1)
    lists = cross_validate(data, splitter, {"MAP": MAP(5)}, {"ours": make(ListModel())}, k=5, filter_viewed=True)
    assert lists["metrics"][0]["MAP"] > 0


def test_lenskit() -> None:
    pytest.importorskip("lenskit", reason="LensKit wants pandas below 3")
    import pandas as pd
    from lenskit import predict, recommend
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.pipeline import topn_pipeline

    data = from_interactions_df(pd.DataFrame(TRIPLES, columns=["user_id", "item_id", "rating"]))
    make = names_of("lenskit")["CofillScorer"]
    lists = topn_pipeline(make(algorithm="lists"))
    lists.train(data)
    ours = ListModel().fit(TRIPLES)
    assert recommend(lists, 1, n=3).ids().tolist() == [entry.item for entry in ours.recommend(1, 3)]
    new = RecQuery(user_items=ItemList(item_ids=[1, 2], rating=[5.0, 1.0]))
    assert recommend(lists, new, n=3).ids().tolist() == [entry.item for entry in ours.recommend({1: 5.0, 2: 1.0}, 3)]
    ratings = topn_pipeline(make(algorithm="means", by="rating"), predicts_ratings=True)
    ratings.train(data)
    scores = predict(ratings, 1, ItemList(item_ids=[3, 4, 999])).scores()
    assert np.isfinite(scores[:2]).all()

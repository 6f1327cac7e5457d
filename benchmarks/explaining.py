"""How well do explanations add up, do they agree with leaving ratings out, and what do they cost?

    COFILL_DATA=folder python benchmarks/explaining.py

Ten recommendations each for some users of MovieLens-100K, once as users of the training and once as somebody new with
the same ratings. Of each explanation the three strongest ratings are left out in turn.
"""

import argparse
import time
from typing import Any

import numpy as np

from cofill import CFN, load_dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ratings = load_dataset("ml-100k", quiet=True)
    for orientation in ("user", "item"):
        model = CFN(orientation=orientation, seed=options.seed).fit(ratings)
        model.recommend({})  # codes are kept from the first answer on
        chosen = np.random.default_rng(options.seed).choice(ratings.users.array(), options.users, replace=False)
        for who in ("trained", "new"):
            print(f"rows of {orientation}s, {who:7s}: {measured(model, chosen.tolist(), who == 'new')}")


def measured(model: CFN, users: list[Any], new: bool) -> str:
    remainders, shares, agree, times, recommending = [], [], [], [], []
    for user in users:
        known: dict[Any, Any] = {
            part.item: part.rating for part in model.explain(user, model.items.id(0), by="rating").contributions
        }
        who: Any = known if new else user
        started = time.perf_counter()
        items = [found.item for found in model.recommend(who)]
        recommended = time.perf_counter()
        explained = model.explain_many(who, items, by="rating")
        times.append(time.perf_counter() - recommended)
        recommending.append(recommended - started)
        for why in explained:
            remainders.append(abs(why.remainder))
            shares.append(abs(why.remainder) / sum(abs(part.amount) for part in why.contributions))
            if new:
                for part in why.contributions[:3]:
                    without = {item: rating for item, rating in known.items() if item != part.item}
                    agree.append((why.value - model.explain(without, why.item, by="rating").value) * part.amount > 0)
    said = (
        f"remainder {np.mean(remainders):.4f} on average, 95 % below {np.quantile(remainders, 0.95):.4f}, "
        f"{np.mean(shares):.2%} of all amounts; explaining ten takes {1e3 * np.median(times):.1f} ms, "
        f"{np.median(times) / np.median(recommending):.1f} times recommending them"
    )
    return said + (f"; {np.mean(agree):.1%} agree with leaving out" if new else "")


if __name__ == "__main__":
    main()

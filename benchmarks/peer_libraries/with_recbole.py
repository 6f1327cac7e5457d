"""RecBole: EASE and Mult-VAE. https://recbole.io"""

import logging
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from peer_libraries.answering import Ints, Problem, best_of_scores

FIELDS = {"USER_ID_FIELD": "user_id", "ITEM_ID_FIELD": "item_id", "load_col": {"inter": ["user_id", "item_id"]}}


class Scored:
    """Ratings from the middle of the scale on are positive, as in its benchmark (3 of 1 to 5)."""

    def __init__(self, problem: Problem, name: str, seed: int, **settings: Any) -> None:
        numpy_of_before()
        logging.disable(logging.CRITICAL)
        self._problem = problem
        positive = problem.rating >= (problem.low + problem.high) / 2
        folder = Path("recbole-data") / "peers"  # of the folder that this process is run in
        folder.mkdir(parents=True, exist_ok=True)
        pairs = np.stack([problem.user[positive], problem.item[positive]], axis=1)
        np.savetxt(folder / "peers.inter", pairs, "%d", "\t", header="user_id:token\titem_id:token", comments="")
        self.chosen = ""
        self._settings = FIELDS | {"data_path": "recbole-data", "seed": seed, "use_gpu": False, "device": "cpu",
                                   "show_progress": False, "train_neg_sample_args": None} | settings  # fmt: skip
        self._model, self._data = self._fitted(name)
        self._model.eval()
        users, items = (self._data.field2token_id[field] for field in ("user_id", "item_id"))
        self._users = np.array([users.get(str(user), 0) for user in range(problem.users)])
        self._items = np.array([items.get(str(item), 0) for item in range(problem.items)])  # 0 is its padding

    def _fitted(self, name: str) -> tuple[Any, Any]:
        if name == "EASE":
            return self._trained(name, epochs=1, share=0.0)[:2]
        *_, epochs = self._trained(name, epochs=self._settings["epochs"], share=0.1)
        self.chosen = f"{epochs} epochs"
        return self._trained(name, epochs=epochs, share=0.0)[:2]

    def _trained(self, name: str, *, epochs: int, share: float) -> tuple[Any, Any, int]:
        """The model, its data, and the best epoch on a share of the ratings that was kept out."""
        quick: Any = import_module("recbole.data")
        tools: Any = import_module("recbole.utils")
        split = {"split": {"RS": [1 - share, share, 0.0]}, "order": "RO", "group_by": "none", "mode": "full"}
        settings = self._settings | {"epochs": epochs, "eval_args": split}
        config = import_module("recbole.config").Config(model=name, dataset="peers", config_dict=settings)
        tools.init_seed(config["seed"], True)
        data = quick.create_dataset(config)
        train, valid, _ = quick.data_preparation(config, data)
        model = tools.get_model(config["model"])(config, train._dataset)
        trainer = tools.get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
        found: dict[int, float] = {}
        trainer.fit(train, valid if share else None, verbose=False, saved=False, show_progress=False,
                    callback_fn=lambda epoch, score: found.__setitem__(epoch, score))  # fmt: skip
        best = max(found, key=lambda epoch: found[epoch]) + 1 if found else epochs
        return model, data, best

    def predict(self, users: Ints, items: Ints, days: Ints) -> Any:
        raise NotImplementedError

    def lists(self, users: Ints, n: int) -> Ints:
        torch: Any = import_module("torch")
        interaction: Any = import_module("recbole.data.interaction").Interaction
        popular = self._problem.popular()
        rank = np.empty(len(popular))
        rank[popular] = -np.arange(len(popular), dtype=np.float64)

        def scores(some: Ints) -> np.ndarray[Any, Any]:
            theirs = self._users[some]
            with torch.no_grad():
                told = self._model.full_sort_predict(interaction({"user_id": torch.as_tensor(theirs)}))
            own = np.asarray(told.cpu().numpy(), np.float64).reshape(len(some), -1)
            own[:, 0] = -1e30  # items without a positive rating come last
            own = own[:, self._items]
            own[theirs == 0] = rank  # who has no positive rating gets what is popular
            return own

        return best_of_scores(self._problem, users, n, scores)


def numpy_of_before() -> None:
    """It uses names that numpy 2 no longer has; each was another name of a type that is still there."""
    for old, new in (("bool8", np.bool_), ("float_", np.float64), ("complex_", np.complex128), ("unicode_", np.str_)):
        if not hasattr(np, old):
            setattr(np, old, new)


def ease(problem: Problem, seed: int) -> Scored:
    return Scored(problem, "EASE", seed, reg_weight=250.0)


def mult_vae(problem: Problem, seed: int) -> Scored:
    """As its benchmark on MovieLens-1M; the best epoch on a tenth of the ratings, then trained anew on all of them."""
    return Scored(problem, "MultiVAE", seed, epochs=500, train_batch_size=4096, stopping_step=10,
                  valid_metric="NDCG@10", eval_batch_size=40_960_000)  # fmt: skip

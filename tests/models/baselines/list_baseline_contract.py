"""The laws of a baseline of lists, beyond those of every model: what its lists say, and how they follow."""

import copy
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from cofill.data.interactions import Interactions
from cofill.errors import DataError
from cofill.models.baselines.popularity import ListBaseline
from tests.models.contract import LATER, STARS, ListContract, cells, pairs_of, parts, rated_by, small_cells


class ListBaselineContract(ListContract):
    personal: ClassVar[bool] = True
    """Whether lists depend on what somebody did."""
    baseline: ClassVar[type[ListBaseline]]
    small_settings: ClassVar[dict[str, Any]] = {}

    def make(self, **changes: Any) -> ListBaseline:
        changes.pop("epochs", None)
        return self.baseline(**self.small_settings | changes)

    def scores_of(self, model: Any) -> Any:
        return model.user_scores(np.arange(len(model.users)))

    def test_lists_are_kept_with_what_came_and_went(self, changing: ListBaseline, tmp_path: Path) -> None:
        changing.add_ratings(cells(LATER, STARS)).add_ratings(parts().of_new_items)
        changing.remove_ratings([(1, item) for item in list(rated_by(1))[:5]])
        changing.save(tmp_path)
        np.testing.assert_array_equal(self.scores_of(self.baseline.load(tmp_path)), self.scores_of(changing))

    def test_lists_depend_on_ratings_alone_not_on_their_order(self, model: ListBaseline) -> None:
        one, other = copy.deepcopy(model), copy.deepcopy(model)
        new = parts().of_new_items
        one.add_ratings(cells(LATER, STARS)).add_ratings(new)
        other.add_ratings(cells(LATER[:2], STARS))
        other.recommend(777)
        other.add_ratings(cells(LATER, STARS))
        for part in range(3):
            other.add_ratings(new.select(np.arange(len(new)) % 3 == part))
            other.recommend(5)
        order = other.items.find(one.items.array())
        np.testing.assert_allclose(self.scores_of(other)[:, order], self.scores_of(one), rtol=0, atol=2e-5)

    def test_what_came_and_went_leaves_no_trace_in_lists(self, model: ListBaseline) -> None:
        changing = copy.deepcopy(model).add_ratings(cells(LATER, STARS))
        self.scores_of(changing)
        changing.remove_ratings(pairs_of(LATER))
        users, items = len(model.users), len(model.items)
        # Some processors add up products of wider matrices in another order.
        found, expected = self.scores_of(changing)[:users, :items], self.scores_of(model)
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)

    def test_explanations_add_up(self, changing: ListBaseline) -> None:
        changing.add_ratings(cells(LATER, STARS)).add_ratings(parts().of_new_items)
        known = next(iter(rated_by(9)))
        new = parts().of_new_items.items.id(3)
        for somebody in (9, 777, {1: 5.0, 2: 1.0, 30: 4.0}):
            scores = changing.score(somebody)
            spread = float(np.abs(scores).max())
            for item in (50, known, new, 999):
                why = changing.explain(somebody, item)
                assert why.value == pytest.approx(float(scores[changing.items.index(item)]))
                assert abs(why.remainder) <= 1e-5 * max(spread, 1.0)
        moved = changing.explain(9, 50).contributions
        assert any(entry.amount != 0 for entry in moved) is self.personal

    def test_strangers_get_what_is_popular(self, model: ListBaseline) -> None:
        feedback = model.scorer.feedback
        sums = np.array([feedback.column(item)[1].sum(dtype=np.float64) for item in range(feedback.items)])
        best = model.recommend("nobody", n=5)
        assert [model.items.index(entry.item) for entry in best] == np.argsort(-sums, kind="stable")[:5].tolist()

    def test_a_new_item_is_shown_to_those_who_choose_its_kind(self) -> None:
        if not self.personal:
            pytest.skip("the same list for everybody")
        triples = [(user, item, 5.0) for user in range(30) for item in range(12) if (user + item) % 2 == 0]
        model = self.small([cell for cell in triples if cell[0] != cell[1] or int(cell[0]) > 11])
        assert isinstance(model, ListBaseline)
        model.add_ratings(cells([(user, 99, 5.0) for user in range(0, 20, 2)]))
        scores = {user: model.score(user)[model.items.index(99)] for user in range(20, 30)}
        assert min(scores[user] for user in range(20, 30, 2)) > max(scores[user] for user in range(21, 30, 2))

    @pytest.mark.parametrize("grading", ["graded", "plain", "liked"])
    def test_every_grading_makes_lists(self, grading: str) -> None:
        model = self.small(grading=grading)
        assert isinstance(model, ListBaseline)
        scores = self.scores_of(model)
        assert np.isfinite(scores).all()
        grades = model.scorer.feedback.main.grades.of(np.array([1, 3, 4, 5], np.float32))
        expected = {"plain": [1, 1, 1, 1], "liked": [0, 0, 1, 1]}
        if grading in expected:
            np.testing.assert_array_equal(grades, expected[grading])
        else:
            assert (np.diff(grades) > 0).all()

    def test_interactions_have_lists_and_no_ratings(self, tmp_path: Path) -> None:
        chosen = [(user, item, 1.0 + (int(user) + int(item)) % 5) for user, item, rating in small_cells() if rating > 3]
        model = self.make(confidence=0.0).fit(Interactions.read(chosen))
        model.add_interactions([(99, 1, 1.0), (99, 3, 2.0), (3, 99, 1.0)])
        assert (model.scorer.feedback.rows(np.arange(15)).values == 1).all()
        recommended = model.recommend(99)
        assert recommended
        assert all(entry.rating is None for entry in recommended)
        with pytest.raises(DataError, match="trained on interactions"):
            model.predict([(1, 1)])
        model.save(tmp_path)
        assert self.baseline.load(tmp_path).recommend(99) == recommended
        often = self.make(confidence=1.0).fit(Interactions.read(chosen))
        assert (often.scorer.feedback.rows(np.arange(14)).values > 1).any()

    def test_settings_are_chosen_on_interactions_and_on_ratings_beside_them(self, tmp_path: Path) -> None:
        triples = small_cells()
        also = Interactions.read([(user, (int(item) + 1) % 11) for user, item, _ in triples[::3]])
        for model in (
            self.baseline().fit(Interactions.read([(user, item) for user, item, rating in triples if rating > 3])),
            self.baseline().fit(cells(triples), interactions=also),
        ):
            scores = self.scores_of(model)
            assert np.isfinite(scores).all()
            model.save(tmp_path)
            np.testing.assert_array_equal(self.scores_of(self.baseline.load(tmp_path)), scores)

    def test_similar_items(self, changing: ListBaseline) -> None:
        if not self.personal:
            with pytest.raises(DataError, match="knows nothing that makes one item like another"):
                changing.similar(1)
            return
        changing.add_ratings(parts().of_new_items)
        train = parts().train.to_polars().select("user", "item", "rating")
        twin = [(user, 888, rating) for user, item, rating in train.iter_rows() if item == 7]
        changing.add_ratings(cells(twin, STARS))
        assert changing.similar(888, 3)[0].item == 7
        assert len(changing.similar(7, 5)) == 5
        assert len(changing.recommend(3, 5, diversity=0.5)) == 5

    def test_numbers_that_were_learned_are_counted(self, model: ListBaseline) -> None:
        assert model.parameters() > model.scorer.arrays().popitem()[1].size

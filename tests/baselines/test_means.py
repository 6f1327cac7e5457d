"""The fitted means keep the contract, and reach what means can reach."""

from typing import Any

import pytest

from cofill.baselines.means import Means
from cofill.errors import DataError
from tests.contract import ModelContract, parts, rmse, rmse_of_means


class TestContract(ModelContract):
    def make(self, **changes: Any) -> Means:
        changes.pop("epochs", None)
        return Means(**changes)

    def test_as_good_as_means_in_turn(self) -> None:
        """The contract's own fit takes one after the other; here they are fitted together."""
        _, train, test, _, _ = parts()
        assert rmse(Means().fit(train).predict(test), test.values) == pytest.approx(rmse_of_means(train, test), abs=2e-3)

    def test_features_are_refused(self) -> None:
        with pytest.raises(DataError, match="Means makes no use of side information; leave the features out"):
            Means().fit(parts().train, item_features={1: {"genre": "Drama"}})

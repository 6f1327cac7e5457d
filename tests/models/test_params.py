"""Settings as scikit-learn asks for them, and what a model shows of them."""

from typing import Any

import pytest
from sklearn.base import clone

from cofill import CFN, algorithm
from cofill.errors import SettingsError
from cofill.models import algorithms
from cofill.models.bias_models import Means


@pytest.mark.parametrize("name", list(algorithms()))
def test_every_algorithm_is_cloned(name: str) -> None:
    quick: dict[str, Any] = {**algorithms()[name].quick, "seed": 3}
    model = algorithm(name)(**quick)
    twin = clone(model)
    assert type(twin) is type(model)
    assert twin is not model
    assert twin.get_params() == model.get_params()
    assert twin.settings.model_fields_set == model.settings.model_fields_set
    assert {*quick} <= set(model.get_params()) <= set(type(model.settings).model_fields)
    assert type(model)(**model.get_params()).get_params() == model.get_params()
    assert twin.set_params(seed=4).get_params()["seed"] == 4
    assert model.get_params()["seed"] == 3


def test_the_clone_of_a_fitted_model_is_not_fitted() -> None:
    model = Means(mean_damping=2.0).fit([(1, 1, 3.0), (1, 2, 4.0), (2, 1, 5.0)])
    twin = clone(model)
    assert repr(twin) == "Means(mean_damping=2.0; not fitted)"
    assert repr(model) == "Means(mean_damping=2.0; 2 users, 2 items)"
    with pytest.raises(SettingsError, match=r"cannot change settings of a fitted model; .*clone\(model\)"):
        model.set_params(mean_damping=1.0)
    assert model.set_params() is model
    with pytest.raises(SettingsError, match="there is no setting 'dampening'"):
        twin.set_params(dampening=1.0)
    assert twin.get_params()["mean_damping"] == 2.0


def test_defaults_follow_the_orientation_of_a_clone() -> None:
    wanted = CFN(orientation="user", epochs=7)
    assert clone(CFN(epochs=7)).set_params(orientation="user").get_params() == wanted.get_params()
    assert repr(wanted) == "CFN(orientation='user', epochs=7; not fitted)"
    assert repr(CFN()) == "CFN(not fitted)"
    assert repr(CFN(orientation="both")) == "CFN(orientation='both'; not fitted)"
    assert repr(CFN(**CFN(orientation="user").get_params())) == "CFN(orientation='user'; not fitted)"

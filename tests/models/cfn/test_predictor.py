"""What a network predicts: one answer to one question, whatever came, changed and went, with users on either side."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as law
from hypothesis import strategies as st

from cofill.data.described import SideFeatures
from cofill.data.sparse import known_arrays, known_from
from cofill.models.cfn import predictor as predicting
from cofill.models.cfn.gp import local_kernel
from cofill.models.cfn.network import encode_rows
from cofill.models.cfn.predictor import CFNPredictor
from cofill.models.cfn.scaling import Matrix
from cofill.models.predictor import STRANGER, Given, Predictor
from tests.models.cfn import described_matrix
from tests.models.cfn.described_matrix import (
    COLUMNS,
    NOTHING,
    ROWS,
    SCALE,
    Floats,
    World,
    fitted,
    indices,
    predictor,
    vector,
    world,
)

Shape = dict[str, Any]

# With fewer neighbours than rows, so that the local kernel is cut; with all of them; with none.
PROCESS: dict[str, Shape] = {
    "item": {"orientation": "item", "neighbours": 6, "validation": 0.2},
    "user": {"orientation": "user", "neighbours": 6, "validation": 0.2},
    "stack": {"orientation": "item", "neighbours": 6, "hidden": (12, 6, 12), "output": "tanh"},
    "uncut": {"orientation": "item", "neighbours": 500},
    "no local kernel": {"orientation": "user", "neighbours": 0},
}
NETWORK: dict[str, Shape] = {
    "output, item": {"decoder": "network", "orientation": "item", "output": "tanh"},
    "output, stack": {"decoder": "network", "orientation": "user", "hidden": (12, 6, 12)},
}
BOTH = PROCESS | NETWORK
SHAPES = pytest.mark.parametrize("shape", BOTH.values(), ids=BOTH)
PROCESSES = pytest.mark.parametrize("shape", PROCESS.values(), ids=PROCESS)
NETWORKS = pytest.mark.parametrize("shape", NETWORK.values(), ids=NETWORK)


def every_way(model: Predictor) -> Floats:
    """(users, items), asked in every way there is; all must say the same."""
    users, items = model.known.rows, model.known.columns
    user, item = (index.ravel().astype(np.int32) for index in np.indices((users, items)))
    whole = model.entries(user, item).reshape(users, items)
    np.testing.assert_allclose(model.users(np.arange(users)), whole, rtol=0, atol=2e-5)
    for one in range(users):
        np.testing.assert_allclose(model.user(one), whole[one], rtol=0, atol=2e-5)
    assert np.isfinite(whole).all()
    return whole


def where(shape: Shape) -> World:
    return world(shape["orientation"])


Event = tuple[str, int, Any]


def events(of: World) -> list[Event]:
    """All that may happen, in terms of users and items."""
    users, items = of.users, of.items
    p, q = of.user_features.shape[1], of.item_features.shape[1]
    return [
        ("user", users, np.linspace(1, -1, p)),
        ("user", users + 1, np.linspace(0, 2, p)),
        ("user", users - 2, np.linspace(0, 1, p)),
        ("user", 4, np.ones(p)),
        ("item", items, np.linspace(1, -1, q)),
        ("item", items - 2, np.full(q, 0.5)),
        ("item", 4, np.linspace(0, 1, q)),
        ("item", 6, np.ones(q)),
        ("rating", users, (items, 5.0)),
        ("rating", users, (2, 1.0)),
        ("rating", users + 1, (items, 2.0)),
        ("rating", users - 2, (items, 4.0)),
        ("rating", users - 1, (items - 2, 4.0)),
        ("rating", 4, (4, 1.0)),
        ("rating", 3, (items + 1, 5.0)),
        ("removal", 0, int(of.by_user.row(0)[0][0])),
        ("removal", 0, int(of.by_user.row(0)[0][1])),
        ("removal", 3, int(of.by_user.row(3)[0][0])),
        ("removal", 5, items + 1),  # which has no rating
        ("ask", 0, ()),
        ("ask", 0, ()),
    ]


def happen(model: Predictor, event: Event) -> None:
    kind, index, what = event
    if kind == "user":
        model.describe_users(indices(index), what.astype(np.float32)[None])
    elif kind == "item":
        model.describe_items(indices(index), what.astype(np.float32)[None])
    elif kind == "rating":
        model.add(indices(index), indices(what[0]), vector(what[1]))
    elif kind == "removal":
        model.remove(indices(index), indices(what))
    else:
        model.users(np.arange(model.known.rows))
        model.entries(indices(0, 1), indices(0, 1))


def changed(shape: Shape) -> CFNPredictor:
    """After all that may happen."""
    model, of = predictor(**shape), where(shape)
    for event in events(of):
        happen(model, event)
    model.add(
        indices(of.users, of.users + 1, of.users + 1, of.users - 1, 0, 1),
        indices(of.items + 1, of.items + 1, of.items - 1, of.items, of.items, of.items),
        vector(1, 5, 4, 2, 5, 1),
    )
    return model


def about(model: Predictor, user: int) -> Floats | None:
    features = model.user_features
    return features.values[user] if features.described[user] else None


# Laws


@SHAPES
def test_one_question_has_one_answer(shape: Shape) -> None:
    """Hot, warm and cold, described and not; new users who rated new items."""
    of = where(shape)
    before, after = every_way(predictor(**shape)), every_way(changed(shape))
    assert after.shape == (of.users + 2, of.items + 2)
    moved = np.abs(after[: of.users, : of.items] - before)
    assert moved[[0, 4, of.users - 1, of.users - 2]].max(axis=1).min() > 1e-3


@SHAPES
def test_who_is_new_is_answered_as_if_known(shape: Shape) -> None:
    model, of = changed(shape), where(shape)
    some = indices(0, of.items, of.items - 1)
    if shape["orientation"] == "user":
        for user in (of.users, of.users + 1, of.users - 2, of.users - 1, 0):
            again = model.new_user(*model.known.row(user), about(model, user))
            np.testing.assert_allclose(again, model.user(user), rtol=0, atol=1e-4)
            part = model.new_user(*model.known.row(user), about(model, user), some)
            np.testing.assert_allclose(part, again[some], rtol=0, atol=1e-5)
        return
    for user in (of.users + 2, of.users - 1):
        # Items that came later are seen without the user's own rating, as they were before it was given.
        rated, ratings = indices(0, 3, 8, of.items, of.items + 1, of.items - 2), vector(5, 1, 2, 1, 5, 4)
        own = model.known.row(user)[0]
        model.remove(np.full(len(own), user, np.int32), own)
        described = np.zeros(of.user_features.shape[1], np.float32)
        expected = model.new_user(rated, ratings, described)
        part = model.new_user(rated, ratings, described, some)
        np.testing.assert_allclose(part, expected[some], rtol=0, atol=1e-5)
        model.add(np.full(len(rated), user, np.int32), rated, ratings)
        others = np.setdiff1d(np.arange(of.items), rated)
        # The local kernel looks at items as they are now, with the rating.
        near = 0.05 if model.decoder.amplitudes.local else 1e-4
        np.testing.assert_allclose(model.user(user)[others], expected[others], rtol=0, atol=near)


@SHAPES
def test_of_whom_nothing_is_known_the_biases_speak(shape: Shape) -> None:
    model, of = predictor(**shape), where(shape)
    means, nobody = model.means, of.users - 1
    assert np.abs(model.user(nobody) - model.user(nobody - 1)).max() > 0.05
    every_item, every_user = np.arange(of.items, dtype=np.int32), np.arange(of.users, dtype=np.int32)
    stranger = model.entries(np.full(of.items, -1, np.int32), every_item)
    for found in (model.user(nobody), model.new_user(*NOTHING)):
        np.testing.assert_allclose(found, stranger, rtol=0, atol=1e-5)
    # The decoder's biases are posterior means beside tastes, the fitted ones without.
    near = 1e-5 if model.own_output else 0.3
    assert np.abs(means.overall + means.rows.of_nobody() + means.columns.now - stranger).max() < near
    strange = model.entries(every_user, np.full(of.users, -1, np.int32))
    np.testing.assert_allclose(model.entries(every_user, np.full(of.users, of.items - 1, np.int32)), strange, atol=1e-5)
    assert np.abs(means.overall + means.columns.of_nobody() + means.rows.now - strange).max() < near
    neither = model.entries(indices(-1), indices(-1))[0]
    assert neither == pytest.approx(means.overall + means.rows.of_nobody() + means.columns.of_nobody(), abs=1e-5)


@pytest.mark.parametrize("shape", [PROCESS["item"], PROCESS["user"], *NETWORK.values()], ids=str)
@law(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_order_does_not_matter(shape: Shape, data: st.DataObject) -> None:
    happening = events(where(shape))
    one, other = predictor(**shape), predictor(**shape)
    for event in happening:
        happen(one, event)
    for event in data.draw(st.permutations(happening)):
        happen(other, event)
    assert (one.known.rows, one.known.columns) == (other.known.rows, other.known.columns)
    np.testing.assert_allclose(every_way(other), every_way(one), rtol=0, atol=1e-4)


@SHAPES
def test_what_came_and_went_leaves_no_trace(shape: Shape) -> None:
    """With features beside it, whether or not anything was asked between."""
    model, twin, of = predictor(**shape), predictor(**shape), where(shape)
    for event in [("ask", 0, ()), *events(of)]:
        happen(model, event)
        happen(twin, event)
    expected = every_way(twin)
    users = indices(1, of.users, of.users + 1, of.users - 2, 2, 8)
    items = indices(of.items + 1, 5, 2, of.items - 2, of.items, 3)
    before = model.known.contains(users, items)
    users, items = users[~before], items[~before]
    assert len(users) >= 5
    for asked in (True, False):
        model.add(users, items, np.full(len(users), 5, np.float32))
        if asked:
            assert np.abs(every_way(model) - expected).max() > 0.05
        model.remove(users[::-1], items[::-1])
        np.testing.assert_allclose(every_way(model), expected, rtol=0, atol=2e-6)


@SHAPES
def test_to_say_again_what_is_known_changes_nothing(shape: Shape) -> None:
    model, of = predictor(**shape), where(shape)
    before = every_way(model)
    sides = (model.user_features, of.user_features), (model.item_features, of.item_features)
    users, items = (np.flatnonzero(side.described).astype(np.int32) for side, _ in sides)
    model.describe_users(users, of.user_features[users])
    model.describe_items(items, of.item_features[items])
    for user in users.tolist():
        model.add(*of.pairs_of(user), of.by_user.row(user)[1])
    np.testing.assert_array_equal(every_way(model), before)


@SHAPES
def test_a_user_and_an_item_without_their_ratings_are_cold(shape: Shape) -> None:
    """What is left of them are their features."""
    model, of = predictor(**shape), where(shape)
    model.remove(*of.pairs_of(3))
    np.testing.assert_allclose(model.user(3), model.new_user(*NOTHING, of.user_features[3]), rtol=0, atol=1e-4)
    raters = model.known.column(4)[0]
    model.remove(raters, np.full(len(raters), 4, np.int32))
    fresh = of.items
    model.describe_items(indices(fresh), of.item_features[4][None])
    whole = every_way(model)
    np.testing.assert_allclose(whole[:, 4], whole[:, fresh], rtol=0, atol=1e-4)
    assert model.user_counts[3] == model.item_counts[4] == 0


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_features_of_the_cold_decide(orientation: str) -> None:
    """Not only how high a user rates, or an item is rated, but who likes what."""
    shape: Shape = {"decoder": "network", "orientation": orientation}
    model, of = predictor(**shape), where(shape)
    blind = predictor(features=False, **shape)
    for truth, told, untold in (
        (of.truth[-2, :-2], every_way(model)[-2, :-2], every_way(blind)[-2, :-2]),
        (of.truth[:-2, -2], every_way(model)[:-2, -2], every_way(blind)[:-2, -2]),
    ):
        assert np.abs(told - untold).max() > 0.1
        assert np.mean((told - truth) ** 2) < np.mean((untold - truth) ** 2)


@PROCESSES
def test_a_column_that_is_solved_again_is_as_it_was(shape: Shape, monkeypatch: pytest.MonkeyPatch) -> None:
    """The closed form of one column in double precision, and that of all at once in single."""
    model = predictor(**shape)
    before = every_way(model)
    model._outdated |= set(range(COLUMNS))
    with monkeypatch.context() as patch:
        patch.setattr(predicting, "described_as_trained", lambda *_: False)
        model._flush()
    np.testing.assert_allclose(every_way(model), before, rtol=0, atol=2e-4)


@SHAPES
def test_a_model_that_comes_back_has_seen_what_came_later(shape: Shape) -> None:
    """As from a file, with later ratings and features laid over at once."""
    lived = changed(shape)
    known = known_from(known_arrays(lived.by_row), lived.by_row.rows, lived.by_row.columns)
    sides = []
    for side in (lived.row_features, lived.column_features):
        again = SideFeatures(side.trained)
        for index, features in zip(*side.later(), strict=True):
            again.describe(int(index), features)
        sides.append(again)
    arrays, numbers = lived.state()
    back = type(lived).restored(
        {name: array.copy() for name, array in arrays.items()},
        numbers,
        Matrix(known, SCALE, sides[0], sides[1]),
        described_matrix.settings(**{"decoder": "process", **shape}),
    )
    assert back.decoder.amplitudes == lived.decoder.amplitudes
    np.testing.assert_allclose(every_way(back), every_way(lived), rtol=0, atol=1e-5)


def test_what_leads_out_of_its_arrays_is_refused() -> None:
    """Compiled loops go by these indices."""
    model = predictor(**PROCESS["uncut"])
    arrays, numbers = model.state()
    settings = described_matrix.settings(**{"decoder": "process", **PROCESS["uncut"]})
    matrix = Matrix(model.by_row, SCALE, model.row_features, model.column_features)
    for name, less, words in (
        ("input.weight", arrays["input.weight"][:-1], "another number of columns"),
        ("decoder.alpha", arrays["decoder.alpha"][:-1], "another number of coefficients"),
        ("decoder.near", arrays["decoder.near"] + ROWS, "nearest rows is damaged"),
    ):
        with pytest.raises(ValueError, match=words):
            type(model).restored(arrays | {name: less}, numbers, matrix, settings)


def test_the_arrays_of_the_caller_stay_as_they_are() -> None:
    features = world().user_features.copy(), world().item_features.copy()
    every_way(changed(PROCESS["item"]))
    np.testing.assert_array_equal(features[0], world().user_features)
    np.testing.assert_array_equal(features[1], world().item_features)


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_it_predicts_what_features_decide(orientation: str) -> None:
    """Truths of which only noisy ratings are known."""
    model = predictor(neighbours=6, validation=0.2, orientation=orientation)
    wrong = (every_way(model) - world(orientation).truth)[:-2, :-2]
    assert np.sqrt(np.mean(wrong**2)) < 0.2


# The network's own output


@NETWORKS
def test_what_was_trained_is_predicted_by_the_network_itself(shape: Shape) -> None:
    trained = fitted(**shape)
    network, scaling, rows = trained.network, trained.part.scaling, world().by_user
    scaled = scaling.down(rows, world().user_features)
    outputs = network.output(encode_rows(network, scaled))
    if network.squash:
        outputs = np.tanh(outputs)
    expected = scaling.unclipped(outputs, scaling.means[:, None])[: ROWS - 2, : COLUMNS - 2]
    found = every_way(predictor(**shape))
    found = found if shape["orientation"] == "user" else found.T
    np.testing.assert_allclose(found[: ROWS - 2, : COLUMNS - 2], expected, rtol=0, atol=1e-4)


@NETWORKS
def test_a_changed_column_moves_by_as_much_as_the_closed_form(shape: Shape) -> None:
    """Of its ratings the first is removed, the second and the last are changed."""
    model, column = predictor(**shape), 5
    rows, ratings = model.by_row.trained_columns.row(column)
    features = world().item_features[column]
    now = ratings[1:].copy()
    now[[0, -1]] = 6 - now[[0, -1]]
    before = model._weights.linear[column].copy()
    closed = [model._solved(*given, features, column).linear for given in ((rows[1:], now), (rows, ratings))]
    if shape["orientation"] == "user":
        model.remove(rows[:1], indices(column))
        model.add(rows[[1, -1]], indices(column, column), now[[0, -1]])
    else:
        model.remove(indices(column), rows[:1])
        model.add(indices(column, column), rows[[1, -1]], now[[0, -1]])
    model._flush()
    np.testing.assert_allclose(model._weights.linear[column], before + closed[0] - closed[1], rtol=0, atol=1e-5)
    assert np.abs(closed[0] - closed[1]).max() > 1e-3


# The local part


@PROCESSES
def test_without_a_cut_the_local_kernel_is_the_whole_one(shape: Shape) -> None:
    """And with one it is that of the nearest of a row, and of all rows that came later."""
    model = changed(shape)
    local, by_row = model._local, model.by_row
    if local is None:
        return
    most = min(shape["neighbours"], ROWS)
    trained, now = model.codes.trained().directions, model.codes.now().directions
    was_trained = np.append(world().by_user.counts() > 0, [False, False])
    columns = [3, 4, COLUMNS, COLUMNS + 1]
    every_way(model)  # weights follow what was rated
    for column in columns:
        rated, alpha = local.alpha_of(column)
        expected, clear = np.zeros(by_row.rows), np.ones(by_row.rows, np.bool_)
        for row in range(by_row.rows):
            cosines = np.sort(trained[was_trained[:ROWS]] @ now[row])
            least = cosines[-most] if most < len(cosines) else -np.inf
            clear[row] = most >= len(cosines) or least - cosines[-most - 1] > 1e-6  # which ones are the nearest
            for other, weight in zip(rated.tolist(), alpha.tolist(), strict=True):
                if not was_trained[other]:
                    expected[row] += weight * local_kernel(now[other] @ now[row])
                elif trained[other] @ now[row] >= least - 1e-7:
                    expected[row] += weight * local_kernel(trained[other] @ now[row])
        assert clear.sum() > ROWS / 2
        np.testing.assert_allclose(local.of_column(rated, alpha)[clear], expected[clear], rtol=0, atol=1e-5)
    for row in (0, 3, 4, ROWS - 2, ROWS - 1, ROWS, ROWS + 1):
        of_row = local.of_row(local.nearest(row), now[row])
        for column in columns:
            of_column = local.of_column(*local.alpha_of(column))[row]
            assert of_row[column] == pytest.approx(of_column, abs=1e-5)
            assert local.at_pairs(indices(row), indices(column))[0] == pytest.approx(of_column, abs=1e-5)


# Shares


@SHAPES
def test_shares_of_a_user_add_up(shape: Shape) -> None:
    model, of = changed(shape), where(shape)
    items = np.arange(model.known.columns, dtype=np.int32)
    base, width = model.new_user(*NOTHING), of.user_features.shape[1]
    for user in (0, 3, 4, 5, of.users, of.users + 1, of.users - 2, of.users - 1):
        rated = model.known.row(user)
        shares = model.user_shares(Given(*rated, about(model, user), (1,) * width, user), items)
        assert shares.ratings.shape == (len(items), len(rated[0]))
        assert shares.features.shape == (len(items), width)
        if shape.get("decoder") == "network" and shape["orientation"] == "item":
            continue  # training knows more of such a user than the closed form
        together = base + shares.ratings.sum(1) + shares.features.sum(1)
        np.testing.assert_allclose(together, model.user(user), rtol=0, atol=1e-3)
    rated, features = (indices(0, 3, of.items), vector(5, 1, 2)), np.linspace(0.5, -1, width).astype(np.float32)
    shares = model.user_shares(Given(*rated, features, (width,)), items[::7])
    together = base[::7] + shares.ratings.sum(1) + shares.features.sum(1)
    np.testing.assert_allclose(together, model.new_user(*rated, features)[::7], rtol=0, atol=1e-3)


# Intervals


@pytest.mark.parametrize("orientation", ["user", "item"])
def test_intervals_of_many_columns_solve_none_by_itself(orientation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One Gaussian process after the other made an evaluation take longer than the training."""
    model, of = predictor(orientation=orientation), world(orientation)
    users, items = (part.ravel().astype(np.int32) for part in np.mgrid[-1 : of.users, -1 : of.items])
    predicted = model.entries(users, items)
    monkeypatch.setattr(predicting, "Posterior", None)
    radii = model.interval_radius(users, items, predicted)
    assert radii is not None
    assert (radii > 0).all()
    for place in (0, 5, of.items + 4, len(users) - 1):
        one = slice(place, place + 1)
        alone = model.interval_radius(users[one], items[one], predicted[one])
        assert alone is not None
        np.testing.assert_allclose(alone, radii[one], rtol=1e-4)


@PROCESSES
def test_intervals_of_who_is_new_are_those_of_who_is_known(shape: Shape) -> None:
    model, of = changed(shape), where(shape)
    users = (of.users, of.users - 2, of.users - 1, 0) if shape["orientation"] == "user" else (of.users - 1,)
    asked = indices(0, of.items, of.items - 2, 2)
    for user in users:
        if shape["orientation"] == "item":
            own = model.known.row(user)[0]
            model.remove(np.full(len(own), user, np.int32), own)
        given = *model.known.row(user), about(model, user)
        predicted = model.new_user(*given, asked)
        again = model.new_user_interval_radius(Given(*given), asked, predicted)
        known = model.interval_radius(np.full(len(asked), user, np.int32), asked, predicted)
        assert again is not None
        assert known is not None
        np.testing.assert_allclose(again, known, rtol=1e-3)


@NETWORKS
def test_the_output_of_a_network_has_no_intervals(shape: Shape) -> None:
    model = predictor(**shape)
    assert model.interval_radius(indices(0), indices(0), vector(3)) is None
    assert model.new_user_interval_radius(STRANGER, indices(0), vector(3)) is None

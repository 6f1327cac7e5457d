"""What a process takes in of a database: whatever is there, in any mixture, without an error."""

from pathlib import Path

import polars as pl

from cofill.data.features import Features
from cofill.data.vocabulary import Id
from cofill.serving.database import Store
from cofill.serving.event_log import Event, EventLog
from cofill.serving.export_folder import Description
from cofill.serving.live_model import LiveModel
from cofill.serving.next_training import _described
from cofill.serving.served_model import ServedModel
from cofill.serving.settings import live_file


def test_withdrawals_of_numbers_and_of_texts_go_together(model: Path, store: Store) -> None:
    store.put_ratings("visitor-1", [("5", 4.0)])
    store.put_ratings("visitor-1", [("5", None)])
    store.put_ratings("3", [("5", None)])
    live = LiveModel(model, store, 10.0)
    with live.asked() as served:
        known = served.model
        assert known.items.index(5) not in served.ratings_by(known.users.index(3))[0]
        assert "visitor-1" not in known.users
    store.put_ratings("visitor-1", [("6", None)])
    store.put_ratings("4", [("6", None)])
    with live.asked() as served:  # both at once, in a process that runs
        assert served.applied == store.counter().change


def test_who_was_forgotten_before_the_training_is_unknown_until_they_come_back(model: Path, store: Store) -> None:
    store.put_users([("visitor-9", None)])
    store.forget_user("visitor-9")
    learned = store.counter().change
    served = ServedModel(model)
    served.apply(store.changes_since(0, learned))
    assert not served.known_user("visitor-9")
    store.put_users([("visitor-9", None)])
    served.apply(store.changes_since(learned, learned))
    assert served.known_user("visitor-9")


def test_nothing_of_somebody_forgotten_stays_in_the_files(store: Store, model: Path) -> None:
    store.put_users([("gone", {"street": "Unforgettable Lane"})])
    EventLog(store).put([Event("gone", "Unforgettable Item", "view", 1.0)])
    store.forget_user("gone")
    for path in live_file(model).parent.glob(f"{live_file(model).name}*"):
        assert b"Unforgettable" not in path.read_bytes(), path


def test_a_picture_of_some_items_is_no_matter_to_the_others() -> None:
    table = pl.DataFrame({"item": [1, 2], "year": [1990, 1995], "image": ["/1.jpg", "/2.jpg"]})
    films = Features.read(table, about="item")
    told: dict[Id, Description] = {
        3: Description(None, {"year": 2000, "image": "/3.jpg"}),
        4: Description(None, {"year": 2001}),
    }
    after = _described(films, told, [])
    assert after is not None
    (pictures,) = [column for key, column in after.readable.items() if key.endswith("image")]
    assert dict(zip(after.ids, pictures.cells.to_list(), strict=True)) == {
        1: "/1.jpg",
        2: "/2.jpg",
        3: "/3.jpg",
        4: None,
    }

"""An export of live data, taken into the data of the next training: what was added, described and taken away."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from cofill.data.described import SideInformation
from cofill.data.features import Features
from cofill.data.ratings import Ratings
from cofill.data.vocabulary import Id
from cofill.errors import CofillError, DataError
from cofill.serving.export_folder import Description, ExportFolder, is_export, read_export
from cofill.serving.live_export import exported_interactions, with_export, without_withdrawn

_Kind = TypeVar("_Kind", bound=Ratings)


class NextTraining(NamedTuple):
    """What `cofill export` or `cofill export-ratings` wrote."""

    path: Path
    whole: ExportFolder | None = None
    """None: ratings alone."""

    @classmethod
    def read(cls, path: Path) -> Self:
        """Of a folder, or of a file of ratings."""
        return cls(path, read_export(path) if path.is_dir() or is_export(path) else None)

    @property
    def learned(self) -> dict[str, Any] | None:
        """What the model is to remember: up to which change of which database it was trained."""
        return None if self.whole is None else self.whole.learned

    def ratings(self, ratings: Ratings) -> Ratings:
        """The ratings or interactions to train on, with those that came and without those that went."""
        if self.whole is None:
            return with_export(ratings, self.path)
        kept = self._without_removed(ratings)
        if not kept.rated:
            kept = without_withdrawn(kept, self.whole.ratings)
            for newer in (
                exported_interactions(self.whole.interactions, "count"),
                exported_interactions(self.whole.ratings, "rating"),  # which count as weights to such a model
            ):
                kept = kept if newer is None else kept.merge(newer)
        else:
            kept = with_export(kept, self.whole.ratings)
        if not len(kept):
            raise DataError(f"{self.path}: with it nothing is left to train on; leave it out")
        return kept

    def interactions(self, beside: Ratings | None) -> Ratings | None:
        """The interactions beside ratings to train on, likewise."""
        if self.whole is None:
            return beside
        newer = exported_interactions(self.whole.interactions, "count")
        if beside is None:
            return newer
        kept = self._without_removed(beside)
        both = kept if newer is None else kept.merge(newer)
        return both if len(both) else None

    def side_information(self, side: SideInformation) -> SideInformation:
        """The features to train on, with what was described since, and without what was removed."""
        if self.whole is None:
            return side
        gone = self.whole.removed_users.among(side.users.ids if side.users is not None else ())
        return SideInformation(
            _described(side.users, self.whole.users, gone),
            _described(side.items, self.whole.items, self.whole.removed_items),
        )

    def titles(self, ratings: Ratings) -> Ratings:
        """The same ratings with the titles that were told since."""
        if self.whole is None:
            return ratings
        told = {ratings.items.own(item): about.title for item, about in self.whole.items.items() if about.title}
        gone = {ratings.items.own(item) for item in self.whole.removed_items}
        gone |= {ratings.items.own(item) for item, about in self.whole.items.items() if about.title == ""}
        titles = {item: title for item, title in ratings.titles.items() if item not in gone}
        return replace(ratings, titles=titles | told)

    def _without_removed(self, ratings: _Kind) -> _Kind:
        """Without all of those who were forgotten and what was deleted; their ids are not known either."""
        assert self.whole is not None
        users = _staying(len(ratings.users), ratings.users.find(self.whole.removed_users.among(ratings.users)))
        items = _staying(len(ratings.items), ratings.items.find(self.whole.removed_items))
        if users.all() and items.all():
            return ratings
        kept = ratings.select(users[ratings.user_index] & items[ratings.item_index])
        new_users, new_items = (np.cumsum(stays, dtype=np.int32) - np.int32(1) for stays in (users, items))
        left = ratings.items.only(np.flatnonzero(items).tolist())
        return replace(
            kept,
            users=ratings.users.only(np.flatnonzero(users).tolist()),
            items=left,
            user_index=new_users[kept.user_index],
            item_index=new_items[kept.item_index],
            titles={item: title for item, title in ratings.titles.items() if item in left},
        )


def _staying(count: int, gone: "np.ndarray[Any, np.dtype[np.int32]]") -> "np.ndarray[Any, np.dtype[np.bool_]]":
    stays = np.ones(count, np.bool_)
    stays[gone[gone >= 0]] = False
    return stays


def _described(features: Features | None, told: Mapping[Id, Description], gone: Collection[Id]) -> Features | None:
    """Features with descriptions that came later; columns and categories stay those that were learned."""
    if features is None:
        return None
    columns = [column.name for source in features.sources for column in source.columns if column.used or column.types()]
    fitting: dict[Id, dict[str, Any]] = {}
    for id, about in told.items():
        said = dict(about.features or {})
        if about.title is not None and "title" in columns:
            said.setdefault("title", about.title)
        known = {name: value for name, value in said.items() if name in columns}
        if about.features is None or (said and not known):
            continue
        try:
            features.encode(dict.fromkeys(columns) | known)
        except CofillError:
            continue  # it did not fit the model that was served either
        fitting[features.ids.own(id)] = dict.fromkeys(columns) | known
    return features.updated(fitting, gone)

"""Links: who or what belongs together."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from cofill.arrays import Floats
from cofill.data.columns import normalised, recognised
from cofill.data.features.columns import misplaced
from cofill.data.features.kinds.tags import (
    COUNT_NAMES,
    Listed,
    Roles,
    ascending,
    in_order,
    parse_weighted,
    roles_by_position,
    weights_in,
)
from cofill.data.features.source import Fitted, Reading, counted_matrix, listed
from cofill.data.table import Table
from cofill.data.vocabulary import Id, Vocabulary
from cofill.errors import DataError

if TYPE_CHECKING:
    from cofill.data.features.kind import Matrix

LEAST_WEIGHT, MOST_WEIGHT = 1e-9, 1e9


def parse_links(value: object) -> dict[Id, float]:
    """Ids with the weights of the links to them: 3|17, a list of ids, or a mapping of ids to weights."""
    weights: dict[Id, float] = {}
    for term, weight in parse_weighted(value, "links: a list of ids, or a mapping of ids to weights"):
        if isinstance(term, bool) or not isinstance(term, (str, int)) or term == "":
            raise misplaced(term, "an id, which is a string or an integer,")
        if not _is_usual_weight(weight):
            raise misplaced(weight, "a weight of ordinary size")
        id = term.strip() if isinstance(term, str) else term
        weights[id] = weights.get(id, 0.0) + weight
    return weights


class Links(Listed):
    """Lines of id, id[, weight]."""

    called: ClassVar[str] = "links"
    holds: ClassVar[str] = "ids"
    weighs: ClassVar[str] = "weights"
    flag_help: ClassVar[str] = "a list of {side}, {side}[, weight]: who or what belongs together"

    def counted(self, value: Any) -> dict[Any, float]:
        return dict(parse_links(value))

    def place(self, term: Id) -> int:
        """Where an id stands in `terms`, written as a string or an integer; -1 if it is unknown."""
        return int(self._known.find([term])[0])

    @cached_property
    def _known(self) -> Vocabulary:
        return Vocabulary(self.terms)

    def weighed(self, counts: "Matrix", weights: Floats) -> "Matrix":
        return counts

    @classmethod
    def fit_raw(cls, raw: Table, reading: Reading) -> Fitted:
        roles, name = _roles(raw, reading), reading.name or cls.called
        begins, ends = raw.ids(roles.id, roles.other)
        weights = weights_in(raw, roles.weight, "a weight of ordinary size", _is_usual_weight)
        if reading.both_ways:
            begins, ends, weights = begins + ends, ends + begins, np.concatenate([weights, weights])
        order, known, rows = ascending(begins)
        _, terms, places = ascending(ends)
        matrix = counted_matrix(rows, places, weights, (len(known), len(terms)))
        return in_order(cls.fit_terms(name, known, terms, matrix, reading.reduce_to, raw.origin.name), order)


def _roles(raw: Table, reading: Reading) -> Roles:
    if not raw.headed and raw.names[0] == "column 1":
        return roles_by_position(raw, reading, {2: (0, 1, None), 3: (0, 1, 2)}, "id, id[, weight]")
    plain = [normalised(name) for name in raw.names]
    times = recognised(raw.names)["time"]
    count = next((at for at in range(len(plain)) if plain[at] in COUNT_NAMES), None)
    left = [at for at in range(len(plain)) if at != count and at not in times]
    if reading.id is not None:
        begin = raw.position(reading.id, "id")
        left = [begin, *(at for at in left if at != begin)]
    if len(left) != 2:
        raise DataError(
            f"links are id, id[, weight]; found {listed(raw.names)}",
            "leave out the other columns",
            where=raw.origin.name,
        )
    return Roles(left[0], left[1], count)


def _is_usual_weight(weight: float) -> bool:
    """Whether sums and products with a weight stay within the range of floats."""
    return weight == 0.0 or LEAST_WEIGHT <= abs(weight) <= MOST_WEIGHT

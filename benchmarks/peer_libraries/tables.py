"""Tables in Markdown of stored results: for every data set one of ratings and one of lists, the best first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cofill.evaluation import Interval, paired_ratio
from cofill.memory import data_size
from peer_libraries.answering import Doubles
from peer_libraries.catalogue import LIBRARIES, OWN, PEERS, REFERENCE, Kind
from peer_libraries.results import DONE, Result, Store

TITLES = {"ml-100k": "MovieLens-100K", "ml-1m": "MovieLens-1M", "movietweetings": "MovieTweetings",
          "world": "a world of cofill's", "tiny": "a tiny world"}  # fmt: skip
ASKED = {"ratings": "predict", "lists": "list"}
FIRST = {"ratings": "rmse", "lists": "ndcg"}


@dataclass(frozen=True)
class Row:
    """One peer on one data set, all its splits together."""

    peer: str
    results: tuple[Result, ...]  # those that are done
    failure: str  # of the first that is not; empty if all are
    splits: int
    values: dict[str, Doubles]  # of users, splits one after the other

    def measure(self, name: str) -> float:
        return float(np.mean([result.measures[name] for result in self.results]))

    def seconds(self, name: str, clock: str) -> float:
        return float(np.mean([result.seconds[name][clock] for result in self.results]))

    @property
    def peak(self) -> int:
        return max(result.peak_bytes for result in self.results)


def tables(store: Store, datasets: Sequence[str], splits: int, peers: Sequence[str], command: str) -> str:
    """All tables, with the command above them."""
    parts = [f"    {command}"]
    for dataset in datasets:
        for kind in ("ratings", "lists"):
            chosen = [peer for peer in peers if kind in PEERS[peer].kinds]
            rows = [row for row in (read_row(store, dataset, splits, peer) for peer in chosen) if row is not None]
            if rows:
                parts += [heading(dataset, kind, rows, splits), table(kind, rows)]
    return "\n\n".join(parts) + "\n"


def read_row(store: Store, dataset: str, splits: int, peer: str) -> Row | None:
    """None where nothing of it was run."""
    found = [store.read(dataset, split, peer) for split in range(splits)]
    known = [result for result in found if result is not None]
    if not known:
        return None
    done = tuple(result for result in known if result.state == DONE)
    failures = [f"{result.state}: {result.reason}" for result in known if result.state != DONE]
    several = [store.of_users(result) for result in done]
    names = several[0].keys() if several else ()
    values = {name: np.concatenate([one[name] for one in several]) for name in names}
    return Row(peer, done, failures[0] if failures else "", len(known), values)


def heading(dataset: str, kind: str, rows: Sequence[Row], splits: int) -> str:
    part = next((row.results[0].part for row in rows if row.results), None)
    what = "Ratings" if kind == "ratings" else "Lists"
    told = f"**{what}, {TITLES[dataset]}**"
    if part is None:
        return told
    told += f": {part['users']:,} users, {part['items']:,} items, {part['train']:,} training ratings"
    times = "" if splits == 1 else f", {splits} splits"
    if kind == "ratings":
        return f"{told}, {part['test']:,} test ratings, {part['cold']:,} of them of users or items without any{times}."
    return f"{told}; lists for {part['lists']:,} people with a liked test rating{times}."


def table(kind: Kind, rows: Sequence[Row]) -> str:
    reference = next((row for row in rows if row.peer == REFERENCE[kind] and row.results), None)
    done = sorted((row for row in rows if row.results), key=order(kind))
    measures = ("RMSE", "MAE") if kind == "ratings" else ("NDCG@10", "recall@10")
    own = PEERS[REFERENCE[kind]].label.replace("**", "")
    columns = ("", *measures, f"{measures[0]} / {own}", "fit, CPU s", "times cofill's", "fit, wall s",
               f"{ASKED[kind]}, CPU s", "peak memory")  # fmt: skip
    lines = [columns, ["---"] * len(columns)]
    best = {name: order_value(kind, done, name) for name in measures}
    for row in done:
        lines.append([PEERS[row.peer].label, *cells(kind, row, best, measures), *ratio_cells(kind, row, reference)])
    for row in rows:
        if not row.results:
            lines.append([PEERS[row.peer].label, row.failure, *[""] * (len(columns) - 2)])
    notes = [
        f"{PEERS[row.peer].label}: {len(row.results)} of {row.splits} splits; {row.failure}"
        for row in done
        if row.failure
    ]
    chosen = [f"{PEERS[row.peer].label} {row.results[0].chosen}" for row in done if row.results[0].chosen]
    notes += [f"Chosen on validation ratings: {'; '.join(chosen)}."] if chosen else []
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines] + (["", *notes] if notes else []))


def order(kind: str) -> Callable[[Row], float]:
    sign = 1 if kind == "ratings" else -1
    return lambda row: sign * row.measure(FIRST[kind])


def order_value(kind: str, rows: Sequence[Row], label: str) -> float | None:
    found = [row.measure(NAMES[label]) for row in rows]
    return (min if kind == "ratings" else max)(found, default=None)


NAMES = {"RMSE": "rmse", "MAE": "mae", "NDCG@10": "ndcg", "recall@10": "recall"}


def cells(kind: str, row: Row, best: dict[str, float | None], measures: Sequence[str]) -> list[str]:
    found = []
    for label in measures:
        value = row.measure(NAMES[label])
        told = f"**{value:.4f}**" if value == best[label] else f"{value:.4f}"
        found.append(f"{told} ± {half_width(row, label):.4f}")
    return found


def half_width(row: Row, label: str) -> float:
    """Of the 95 % interval over users; of a single one nothing is known."""
    values = row.values
    if label in ("RMSE", "MAE"):
        of = paired_ratio(values["squares" if label == "RMSE" else "absolutes"], values["ratings"])
        if of.half_width is None:
            return float("inf")
        return of.half_width / (2 * of.ratio**0.5) if label == "RMSE" else of.half_width  # d sqrt(x) = dx / 2 sqrt(x)
    wide = Interval.of(values[NAMES[label]].tolist()).half_width
    return float("inf") if wide is None else wide


def ratio_cells(kind: str, row: Row, reference: Row | None) -> list[str]:
    asked = ASKED[kind]
    fit, wall = row.seconds("fit", "processor"), row.seconds("fit", "wall")
    same = reference is not None and [r.split for r in row.results] == [r.split for r in reference.results]
    ratio = times = ""
    if same and reference is not None and row.peer != reference.peer:
        name = "squares" if kind == "ratings" else "ndcg"
        if reference.values[name].any():
            of = paired_ratio(row.values[name], reference.values[name])
            wide = of.half_width if of.half_width is not None else float("inf")
            value = of.ratio**0.5 if kind == "ratings" else of.ratio
            ratio = f"{value:.3f} ± {wide / (2 * value) if kind == 'ratings' else wide:.3f}"
        times = f"{fit / max(reference.seconds('fit', 'processor'), 1e-9):.3g}"
    return [ratio, number(fit), times, number(wall), number(row.seconds(asked, "processor")), data_size(row.peak)]


def number(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds < 10 else f"{seconds:,.0f}"


def versions(store: Store, datasets: Sequence[str], splits: int, peers: Sequence[str]) -> str:
    """Which versions were run; several of one library where results are of different days."""
    found: dict[str, set[str]] = {}
    for result in store.all(tuple(datasets), splits, tuple(peers)):
        if result.version:
            library = PEERS[result.peer].library
            name = library if library == OWN else LIBRARIES[library].packages[-1]
            found.setdefault(name, set()).add(result.version)
    return "; ".join(f"{name} {', '.join(sorted(of))}" for name, of in sorted(found.items()))


def settings_table(peers: Sequence[str]) -> str:
    """How everybody was set, and where that comes from."""
    lines = ["| model | settings | from |", "|---|---|---|"]
    lines += [f"| {PEERS[peer].label} | {PEERS[peer].settings} | {PEERS[peer].source} |" for peer in peers]
    return "\n".join(lines) + "\n"

"""A measurement in a process of its own, so that its memory and its threads are its own; and what is printed of it."""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np


def in_own_process(task: Callable[..., Any], **arguments: Any) -> Any:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(task, **arguments).result()


def percentiles(times: list[float]) -> dict[str, float]:
    return {"p50": float(np.percentile(times, 50)), "p99": float(np.percentile(times, 99))}


def make_ratings(like: str, scale: float, seed: int, path: str) -> dict[str, int]:
    """Generate ratings of a published shape into a Parquet file."""
    from cofill.data.datasets.world import make_world_like

    ratings = make_world_like(like, scale, seed).ratings
    ratings.write(Path(path))
    return {"users": len(ratings.users), "items": len(ratings.items), "ratings": len(ratings)}


def print_result(result: dict[str, Any], rows: Iterable[tuple[str, str]], as_json: bool) -> None:
    """The whole result as JSON, or a line for each row."""
    if as_json:
        print(json.dumps(result, indent=2))
        return
    for what, measured in rows:
        print(f"{what}: {measured}")

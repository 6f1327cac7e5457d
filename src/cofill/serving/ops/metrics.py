"""Prometheus metrics. With several processes each keeps its own in a shared folder, and any of them can sum them.

That is the multiprocess mode of prometheus_client: `server_processes.py` sets PROMETHEUS_MULTIPROC_DIR for its workers.
"""

import os
import time
from collections.abc import Iterable, Iterator
from typing import Literal

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, Histogram, generate_latest, multiprocess
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from cofill.serving.live.events import EventLog
from cofill.serving.live.model import LiveModel
from cofill.serving.settings import SHARED_FOLDER, SHOWN

_BUCKETS = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 5.0, 10.0, 30.0)


class Metrics:
    """The metrics of the server."""

    def __init__(self) -> None:
        self._own = CollectorRegistry()
        self._latency = Histogram(
            "cofill_request_seconds",
            "Time from the first byte of a request to the last of its answer.",
            ("method", "route", "status"),
            buckets=_BUCKETS,
            registry=self._own,
        )
        self._series: dict[tuple[str, str, int], Histogram] = {}
        self._series_by_model: dict[str, Histogram] = {}
        self._ratings = self._gauge("cofill_live_ratings", "Live ratings in the database.")
        self._events = self._gauge("cofill_live_events", "Rows of events in the database, with what was shown.")
        self._age = self._gauge("cofill_model_age_seconds", "Seconds since a model was trained.", "model")
        self._by_model = Histogram(
            "cofill_model_seconds",
            "Time that an answer for a person took by model, with waiting for its turn.",
            ("model",),
            buckets=_BUCKETS,
            registry=self._own,
        )
        self._share = self._gauge("cofill_model_share", "The part of the people that a model gets.", "model")
        about = ("model", "version", "kind", "cofill_version")
        self._info = self._gauge("cofill_model_info", "1 for a model that is served.", *about, greatest=True)
        self._lag = self._gauge(
            "cofill_change_lag",
            "Changes in the database that a process had not taken in yet when it last looked.",
            greatest=True,
        )
        self._refused = self._gauge(
            "cofill_live_refused",
            "Live ratings and descriptions that do not fit a model and were left out.",
            "model",
            greatest=True,
        )
        self._disk_full = self._gauge(
            "cofill_disk_full", "1 while the disk with the database of live ratings is full.", greatest=True
        )
        self._disk_free = self._gauge(
            "cofill_disk_free_bytes", "Space left on the disk with a database of SQLite; -1 if the server cannot tell."
        )
        self._told: dict[str, tuple[str, str, str]] = {}  # by the name of a model

    def _gauge(self, name: str, text: str, *labels: str, greatest: bool = False) -> Gauge:
        """Of several processes the greatest value is told, or else the latest."""
        mode: Literal["livemax", "livemostrecent"] = "livemax" if greatest else "livemostrecent"
        return Gauge(name, text, labels, multiprocess_mode=mode, registry=self._own)

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        series = self._series.get((method, route, status))
        if series is None:
            series = self._series[method, route, status] = self._latency.labels(method, route, str(status))
        series.observe(seconds)

    def answered_by(self, model: str, seconds: float) -> None:
        series = self._series_by_model.get(model)
        if series is None:
            series = self._series_by_model[model] = self._by_model.labels(model)
        series.observe(seconds)

    def looked(self, live: LiveModel, lag: int) -> None:
        """Record a poll of the database, about once a second in every process."""
        for variant in live.variants:
            served, name = variant.served, variant.name
            told = (served.card.version, served.model.kind, served.card.cofill_version)
            before = self._told.get(name, told)
            if before != told:
                self._info.labels(name, *before).set(0)
            self._told[name] = told
            self._info.labels(name, *told).set(1)
            self._share.labels(name).set(variant.share)
            self._refused.labels(name).set(served.refused)
            self._age.labels(name).set(time.time() - served.card.trained)
        self._lag.set(lag)
        self._disk_full.set(live.store.disk_full)
        free = live.store.free_bytes()
        self._disk_free.set(-1 if free is None else free)

    def response(self, live: LiveModel, events: EventLog) -> Response:
        self._ratings.set(live.store.rating_count())
        self._events.set(events.count())
        self.looked(live, live.lag())
        registry = self._own
        if SHARED_FOLDER in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        counted = CollectorRegistry()
        counted.register(_ClickThrough(events.click_through()))
        return Response(generate_latest(registry) + generate_latest(counted), media_type=CONTENT_TYPE_LATEST)


class _ClickThrough(Collector):
    """What was shown and what came of it, from the database: it is counted once, whichever process took it."""

    def __init__(self, counts: Iterable[tuple[str, str, int]]) -> None:
        self._counts = sorted(counts)

    def collect(self) -> Iterator[Metric]:
        shown = CounterMetricFamily(
            "cofill_shown", "Items that were shown, by the version of the model.", labels=("model_version",)
        )
        done = CounterMetricFamily(
            "cofill_shown_events",
            "What people did with items that were shown to them, by the version of the model.",
            labels=("model_version", "kind"),
        )
        for version, kind, count in self._counts:
            if kind == SHOWN:
                shown.add_metric((version,), count)
            else:
                done.add_metric((version, kind), count)
        yield from (shown, done)

"""What the server needs: every setting, declared once for Python and the command line, and its extra libraries."""

import ipaddress
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from cofill.errors import SettingsError
from cofill.extras import require

KIND = r"[A-Za-z0-9_.:-]{1,64}"
"""The names that kinds of events may have, as a regular expression."""
SHOWN = "shown"
"""The kind of the events that say what somebody was shown: they count for nothing, and are kept for a while."""
GREATEST_WEIGHT = 1_000_000
KEEP_SHOWN_DAYS, KEEP_EVENTS_DAYS, FORGET_EVENTS_DAYS = 30.0, 90.0, 730.0
"""For how many days rows of events are kept, unless the settings say otherwise."""
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable of the environment that names the folder that the processes of a server share."""
DEFAULT_EVENT_WEIGHTS = {"view": 1.0, "click": 1.0, "play": 3.0, "buy": 5.0, "return": -5.0, "dismiss": -10.0}
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_LIBRARIES = ("fastapi", "uvicorn", "httptools", "sqlalchemy", "prometheus_client")  # httptools: uvicorn[standard]
_MOST_MODELS = 10  # at once
_NAME = re.compile(r"[A-Za-z0-9_-]{1,50}")
_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


def _checked_origin(text: str) -> str:
    """An origin as browsers send it."""
    origin = text.strip().lower()
    if not _ORIGIN.fullmatch(origin):
        raise ValueError("must be an origin such as https://shop.example or http://localhost:3000: no path, no *")
    return origin.removesuffix(":443" if origin.startswith("https:") else ":80")


def _checked_image_host(text: str) -> str:
    """An origin that pictures may come from, or, as a Content-Security-Policy has it, all hosts of a domain."""
    scheme, found, domain = text.partition("://*.")
    if not found:
        return _checked_origin(text)
    scheme, _, domain = _checked_origin(f"{scheme}://{domain}").partition("://")
    return f"{scheme}://*.{domain}"


class LimitSettings(BaseModel):
    """Limits on one request and on one client."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    requests_per_second: float = Field(
        default=100.0,
        ge=0,
        description="rate limit of a key, or of an IP address without keys, in each process; 0: none",
    )
    burst: int = Field(default=200, ge=1, description="requests allowed at once before the rate limit applies")
    request_timeout: float = Field(default=30.0, gt=0, description="time limit of a request")
    concurrency: int = Field(default=256, ge=1, description="most requests at the same time in each process")
    body_bytes: int = Field(default=1 << 20, ge=1024, description="largest request body")


class PageSettings(BaseModel):
    """What the page is told of the shop that it stands in."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    image_host: tuple[Annotated[str, AfterValidator(_checked_image_host)], ...] = Field(
        default=(),
        description="origin that pictures of items may come from, such as https://covers.example.org or "
        "https://*.example.org; repeat for more",
    )


class ServingSettings(PageSettings, LimitSettings):
    """Where a model is served, to whom, and where its live ratings are kept."""

    model: Path = Field(description="the model's folder; of several, that of the first")
    models: dict[str, Path] = Field(
        default={}, max_length=_MOST_MODELS, description="several models at once, each with a name of its own"
    )
    traffic_split: str | None = Field(
        default=None,
        pattern=r"^[0-9]+(\.[0-9]+)?(:[0-9]+(\.[0-9]+)?)+$",
        description="share of users for each of several models, such as 90:10; by default all the same",
    )
    host: str = Field(
        default="127.0.0.1", min_length=1, description="address to listen at; any but loopback needs keys"
    )
    port: int = Field(default=8000, ge=0, le=65535, description="port to listen at; 0: a free one")
    database: str | None = Field(
        default=None, description="where live ratings are kept: a database URL; by default a SQLite file beside MODEL"
    )
    stale_seconds: float = Field(
        default=300.0,
        ge=0,
        le=86_400,
        description="how long lists and predictions go on while the database does not answer; they say so (`stale`)",
    )
    read_only: bool = Field(
        default=False, description="keep no live ratings and make no database: what would write is refused"
    )
    keys: Path | None = Field(default=None, description="file of keys (`cofill keys`); without it no key is needed")
    event_weight: Mapping[str, float] = Field(
        default=DEFAULT_EVENT_WEIGHTS,
        description="how much an event of this kind counts for lists, such as cart=3, beside "
        + ", ".join(f"{kind}={weight:g}" for kind, weight in DEFAULT_EVENT_WEIGHTS.items())
        + "; 5 is as much as the highest rating to a model of ratings alone, below 0 takes away (repeatable)",
    )
    open_catalogue: bool = Field(
        default=False, description="take ratings and events of items without a description: they become items"
    )
    keep_shown_days: float = Field(
        default=KEEP_SHOWN_DAYS, gt=0, le=3650, description="days to keep impressions (what users were shown)"
    )
    keep_events_days: float = Field(
        default=KEEP_EVENTS_DAYS,
        gt=0,
        le=3650,
        description="days to keep the ids of events; after that the events of a user and an item are added up",
    )
    forget_events_days: float = Field(
        default=FORGET_EVENTS_DAYS,
        gt=0,
        le=36_500,
        description="after how long without another event those of a user and an item are deleted",
    )
    allow_origin: tuple[Annotated[str, AfterValidator(_checked_origin)], ...] = Field(
        default=(),
        description="origin whose pages may ask this server (CORS), such as https://shop.example; repeat for more",
    )
    workers: int = Field(
        default=1, ge=1, le=64, description="number of server processes; each holds the model in memory"
    )

    retrain: str | None = Field(
        default=None,
        pattern=r"^daily@([01][0-9]|2[0-3]):[0-5][0-9]$",
        description="train a new model every day at this time, such as daily@03:00, and serve it if it is not worse",
    )
    retrain_with: str | None = Field(
        default=None,
        description="for --retrain: the words of `cofill train` that the model was trained with, but --out",
    )
    retrain_threads: int = Field(default=1, ge=1, le=1024, description="threads of such a training")

    log_format: Literal["text", "json"] = Field(default="text", description="how the log is written: text or json")
    access_log: bool = Field(default=False, description="log every request, without ids of users or addresses")
    log_addresses: bool = Field(default=False, description="log the addresses of clients too, with --access-log")
    drain_seconds: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="how long /ready says 503 on SIGTERM before connections are refused: as long as a load balancer "
        "takes to see it",
    )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings from names and values; a wrong one becomes a `SettingsError` on one line."""
        try:
            return cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            message = str(first["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
            if not first["loc"]:
                raise SettingsError(message) from None
            name = str(first["loc"][0]).replace("_", "-")
            raise SettingsError(f"--{name} {message}. Got {first['input']!r}; `cofill serve --help` tells") from None

    @field_validator("event_weight", mode="before")
    @classmethod
    def _beside_the_usual(cls, given: object) -> object:
        """Weights as a mapping, or as words such as buy=5; kinds that are not given keep their weights."""
        if isinstance(given, Mapping):
            return {**DEFAULT_EVENT_WEIGHTS, **given}
        if not isinstance(given, Sequence) or isinstance(given, str):
            raise ValueError("must be KIND=WEIGHT, such as buy=5")
        weights = dict(DEFAULT_EVENT_WEIGHTS)
        for word in given:
            kind, _, weight = str(word).rpartition("=")
            try:
                weights[kind.strip()] = float(weight)
            except ValueError:
                raise ValueError("must be KIND=WEIGHT, such as buy=5") from None
        return weights

    @field_validator("event_weight")
    @classmethod
    def _weights_of_kinds(cls, weights: Mapping[str, float]) -> Mapping[str, float]:
        for kind, weight in weights.items():
            if not re.fullmatch(KIND, kind) or kind == SHOWN:
                raise ValueError(f"must name kinds of 1 to 64 letters, digits and _ . : -, other than {SHOWN}")
            if not -GREATEST_WEIGHT <= weight <= GREATEST_WEIGHT:
                raise ValueError(f"must give weights from -{GREATEST_WEIGHT:,} to {GREATEST_WEIGHT:,}")
        return weights

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, values: Any) -> Any:
        """One model has the name of its folder; of several, the first one's folder is `model`."""
        if not isinstance(values, Mapping):
            return values
        named = values.get("models") or {}
        if not isinstance(named, Mapping):
            named = _named_folders(named)
        if named:
            return {**values, "models": dict(named), "model": next(iter(named.values()))}
        if values.get("model") is None:
            raise ValueError("which model? `cofill serve MODEL`, or --model NAME=FOLDER for each of several")
        folder = Path(os.path.abspath(values["model"]))  # noqa: PTH100  # a link to a model keeps its own name
        return {**values, "models": {folder.name or "model": values["model"]}}

    @model_validator(mode="after")
    def _a_share_for_each(self) -> Self:
        if self.traffic_split is not None:
            shares = [float(share) for share in self.traffic_split.split(":")]
            if len(shares) != len(self.models) or not sum(shares):
                raise ValueError(
                    f"traffic_split = {self.traffic_split} has {len(shares)} shares for {len(self.models)} models; "
                    "give one for each, and not 0 to all"
                )
        return self

    @model_validator(mode="after")
    def _one_to_train(self) -> Self:
        if (self.retrain is None) != (self.retrain_with is None):
            raise ValueError("retrain and retrain-with go together: when, and with which words of `cofill train`")
        if self.retrain is not None and (self.read_only or len(self.models) > 1):
            raise ValueError("retrain trains one model on what was stored; serve one, and without read-only")
        try:
            shlex.split(self.retrain_with or "")
        except ValueError as error:
            raise ValueError(
                f"retrain-with = {self.retrain_with} must be words as in a shell: {str(error).lower()}; "
                "check its quotation marks and backslashes"
            ) from None
        return self

    @property
    def shares(self) -> dict[str, float]:
        """What part of the people each model gets; they add up to 1."""
        split = self.traffic_split
        given = [float(share) for share in split.split(":")] if split else [1.0] * len(self.models)
        return {name: share / sum(given) for name, share in zip(self.models, given, strict=True)}

    @model_validator(mode="after")
    def _one_or_none(self) -> Self:
        if self.read_only and self.database is not None:
            raise ValueError("read-only means without a database; leave out --database (or $COFILL_DATABASE)")
        return self

    @model_validator(mode="after")
    def _others_need_keys(self) -> Self:
        if not self.on_loopback and self.keys is None:
            raise ValueError(
                f"host = {self.host} can be reached by others, so keys are needed: make one with "
                f"`cofill keys new --file keys.json --write --name me`, then add --keys keys.json"
            )
        return self

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host in LOOPBACK_NAMES:
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def _named_folders(given: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in given:
        name, separator, folder = text.partition("=")
        if not separator or not _NAME.fullmatch(name) or not folder:
            raise ValueError(
                f"model = {text!r} is no NAME=FOLDER; a name has letters, digits, - and _, such as new=models/new"
            )
        if name in found:
            raise ValueError(f"two models are called {name!r}; give each a name of its own")
        found[name] = folder
    return found


def live_file(model: Path) -> Path:
    """The default database: beside the model's folder, because training again replaces what is in the folder."""
    return beside(model, ".live.sqlite")


def beside(model: Path, ending: str) -> Path:
    """A file that belongs to a model and is not in its folder."""
    folder = Path(os.path.abspath(model))  # noqa: PTH100  # a link to a model keeps its own name
    if not folder.name:
        raise SettingsError(f"{model}: a model is a folder with a name; give its path")
    return folder.with_name(folder.name + ending)


def require_server() -> None:
    """Raise unless the server's libraries are installed."""
    require("the server", "serve", *_LIBRARIES)


def require_sqlalchemy() -> None:
    """Raise unless SQLAlchemy, which reads live ratings, is installed."""
    require("live ratings", "serve", "sqlalchemy")


def require_psycopg() -> None:
    """Raise unless psycopg, the driver for PostgreSQL, is installed."""
    require("PostgreSQL", "postgres", "psycopg")

"""Hostile inputs and what each gets. Whatever was sent, the server is ready afterwards, and no answer has a trace."""

import json
import re
import shutil
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import httpx
import polars as pl
import pytest

from cofill.cli import main
from cofill.serving.http_protocol import LONGEST_HEAD
from tests.serving.running_server import ServedHere, problem

# Words that a model has not learned are no news, as in a process that serves.
pytestmark = pytest.mark.filterwarnings("ignore::cofill.data.features.UnknownFeatureWarning")

SCRIPT = "<script>alert(1)</script>"
SQL = "'; DROP TABLE cofill_ratings; --"
TRAVERSAL = "../../../../etc/passwd"
CONTROL = "\x01\x1b[31m\x7f\x85\u202e\ufeff"
TEXTS = {
    "html": SCRIPT,
    "attribute": '" onmouseover="alert(1)',
    "entity": "&lt;img src=x onerror=alert(1)&gt;",
    "sql": SQL,
    "like": "%_\\%",
    "path": TRAVERSAL,
    "windows path": "..\\..\\con",
    "template": "{{7*7}}${7*7}%s%n{0}",
    "control": CONTROL,
    "newline": "a\r\nSet-Cookie: x=1\r\n\r\n<html>",
    "right to left": "\u202egnp.exe",
    "astral": "🦄" * 64,
    "combining": "e" + "\u0301" * 200,
    "spaces": "   ",
    "json": '{"$ne": null}',
}
JSON = {"content-type": "application/json"}
PREFLIGHT = {"origin": "https://shop.example", "access-control-request-method": "PUT"}  # that nobody put on a list


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHere]:
    """A server of a model whose ids are texts, so that any text can become one."""
    folder = tmp_path_factory.mktemp("hostile")
    words = ["--users=30", "--items=25", "--ratings=300", f"--out={folder / 'world'}", "--quiet"]
    assert main(["datasets", "make", *words]) == 0
    named = [pl.format("{} {}", pl.lit(side), pl.col(side)).alias(side) for side in ("user", "item")]
    pl.read_csv(folder / "world" / "ratings.csv").with_columns(named).write_csv(folder / "ratings.csv")
    pl.read_csv(folder / "world" / "movies.csv").with_columns(named[1]).write_csv(folder / "movies.csv")
    words = ["--epochs=1", "--hidden=16", "--threads=1", "--quiet", f"--out={folder / 'model'}"]
    words += [f"--titles={folder / 'movies.csv'}", f"--item-features={folder / 'movies.csv'}", "--feature-size=2"]
    assert main(["train", str(folder / "ratings.csv"), *words]) == 0
    shutil.rmtree(folder / "world")
    running = ServedHere(folder / "model", open_catalogue=True)
    yield running
    running.stop()
    assert running.failures.traces == []


@pytest.fixture(autouse=True)
def lives_on(hostile: ServedHere) -> Iterator[None]:
    yield
    assert hostile.client.get("/ready").json() == {"status": "ready"}


class Sent(NamedTuple):
    """A request, and the status and words of its answer."""

    method: str
    path: str
    body: Any
    status: int
    words: str = ""
    headers: dict[str, str] | None = None


def given(rating: str = "4", item: str = '"item 1"', user: str = '"user 1"') -> str:
    return f'{{"user": {user}, "ratings": [{{"item": {item}, "rating": {rating}}}]}}'


NUMBERS = [
    Sent("PUT", "/v1/ratings", given("NaN"), 400, "NaN is no number in JSON"),
    Sent("PUT", "/v1/ratings", given("1e400"), 422, "finite number"),
    Sent("PUT", "/v1/ratings", given("-0.0"), 422, "must be between 0.5 and 5. Got -0.0"),
    Sent("PUT", "/v1/ratings", given("5.0000001"), 422, "must be between 0.5 and 5"),
    Sent("PUT", "/v1/ratings", given("9" * 5000), 400, "the body is not JSON"),
    Sent("PUT", "/v1/ratings", given('"4"'), 422, "must be a valid number"),
    Sent("PUT", "/v1/ratings", given("true"), 422, "must be a valid number"),
    Sent("PUT", "/v1/ratings", given(item=str(2**63)), 422, "a whole number that fits 64 bits"),
    Sent("POST", "/v1/recommendations", '{"user": "user 1", "n": 1e2}', 422, "n: must be a valid integer"),
    Sent("GET", "/v1/recommendations?user=1&n=" + "9" * 5000, None, 422, "n: "),
    Sent("GET", "/v1/recommendations?user=1&n=%D9%A1", None, 422, "n: must be a valid integer"),  # an Arabic 1
    Sent("GET", "/v1/recommendations?user=1&where=year:NaN..", None, 422, "year"),
    Sent("GET", "/v1/recommendations?user=1&where=year:1e999", None, 422, "year"),
    Sent("POST", "/v1/recommendations", '{"user": "u", "where": {"year": {"min": 1e999}}}', 422, "a number"),
    Sent("GET", "/v1/recommendations?user=1&diversity=nan", None, 422, "diversity: must be a finite number"),
    Sent("POST", "/v1/recommendations", f'{{"where": {{"year": 1{"0" * 400}}}}}', 422, "a number"),
]
SHAPES = [
    Sent("PUT", "/v1/ratings", "", 422, "body: is missing"),
    Sent("PUT", "/v1/ratings", "{", 400, "the body is not JSON"),
    Sent("PUT", "/v1/ratings", "null", 422, "must be"),
    Sent("PUT", "/v1/ratings", given() + given(), 400, "the body is not JSON: Extra data"),
    Sent("PUT", "/v1/ratings", b"\xef\xbb\xbf" + given().encode(), 400, "the body is not JSON"),
    Sent("PUT", "/v1/ratings", b'{"user": "\xc0\xaf"}', 400, "it is not UTF-8"),
    Sent("PUT", "/v1/ratings", given(user='"\\ud800"'), 422, "half of a surrogate pair"),
    Sent("PUT", "/v1/ratings", given(user='"\\u0000"'), 422, "NUL"),
    Sent("PUT", "/v1/ratings", given(user='""'), 422, "a text of 1 to 256 characters"),
    Sent("PUT", "/v1/ratings", given(user=f'"{"x" * 257}"'), 422, "a text of 1 to 256 characters"),
    Sent("PUT", "/v1/ratings", '{"user": "a", "user": "b", "ratings": []}', 400, "the name 'user' stands twice"),
    Sent("PUT", "/v1/ratings", given()[:-1] + ', "__proto__": {}}', 422, "body.__proto__: Extra inputs"),
    Sent("PUT", "/v1/ratings", "[" * 100_000, 400, "it is nested too deep"),
    Sent("PUT", "/v1/ratings", '{"a":' * 50_000 + "1" + "}" * 50_000, 400, "it is nested too deep"),
    Sent("PUT", "/v1/ratings?user=x", given(), 422, "takes a body and no query"),
    Sent("POST", "/v1/recommendations", '{"user": "a", "ratings": []}', 422, "leave out user"),
    Sent("POST", "/v1/recommendations", '{"where": {"year": {}}}', 422, "bounds are min, max, or both"),
    Sent("POST", "/v1/recommendations", json.dumps({"where": {SQL: 1}}), 422, "DROP TABLE"),
    Sent("POST", "/v1/recommendations", '{"features": {"age": 3}}', 422, "without"),
    Sent("GET", f"/v1/recommendations?user=1&where={quote(SQL)}:1", None, 422, "DROP TABLE"),
    Sent("GET", f"/v1/similar?item=item%201&where={quote(SQL)}:1", None, 422, "DROP TABLE"),
    Sent("GET", f"/v1/similar?item=item%201&where=genres:{quote(SQL * 2)}", None, 422, "no item has"),
    Sent("GET", "/v1/similar?item=item%201&boost=genres:Drama=2", None, 422, "query.boost: Extra inputs"),
    Sent("GET", "/v1/similar?item=item%201&" + "&".join(["among=1"] * 1001), None, 422, "at most 1000 items"),
    Sent("GET", "/v1/recommendations?user=1&user=2", None, 422, "query.user: is given twice"),
    Sent("GET", "/v1/recommendations?user=%ED%A0%80", None, 422, "percent-encoded UTF-8"),
    Sent("GET", "/v1/recommendations?user=%00", None, 422, "NUL"),
    Sent("GET", "/v1/recommendations?user=1&" + "&".join(f"p{n}=1" for n in range(3000)), None, 422, "query: "),
    Sent("GET", f"/v1/items?query={'x' * 201}", None, 422, "query.query: "),
    Sent("GET", f"/v1/items?query={'x' * 40_000}", None, 414, "a query has at most 32768 characters"),
    Sent("POST", "/v1/users", '{"features": {"age": 30}}', 422, "without features of users"),
]
BOUNDS = [
    Sent("PUT", "/v1/ratings", {"user": "a", "ratings": []}, 422, "at least 1 item"),
    Sent("PUT", "/v1/ratings", {"user": "a", "ratings": [{"item": n, "rating": 4} for n in range(1001)]}, 422, "1000"),
    Sent("PUT", "/v1/ratings", {"user": "a", "ratings": [{"item": "x", "rating": 4}] * 2}, 422, "rated twice"),
    Sent("POST", "/v1/predictions", {"pairs": []}, 422, "at least 1 item"),
    Sent("POST", "/v1/predictions", {"pairs": [{"user": "a", "item": 1}] * 10_001}, 422, "at most 10000 items"),
    Sent("POST", "/v1/recommendations/batch", {"requests": []}, 422, "at least 1 item"),
    Sent("POST", "/v1/recommendations/batch", {"requests": [{"user": "a"}] * 101}, 422, "at most 100 items"),
    Sent("POST", "/v1/recommendations", {"where": {f"c{n}": 1 for n in range(201)}}, 422, "at most 200 items"),
    Sent("POST", "/v1/recommendations", {"where": {"year": list(range(101))}}, 422, "1 to 100 values"),
    Sent("POST", "/v1/recommendations", {"boost": {"year": {str(n): 1 for n in range(101)}}}, 422, "at most 100 items"),
    Sent("PUT", "/v1/item", {"id": "a", "title": "x" * 501}, 422, "at most 500 characters"),
    Sent("PUT", "/v1/item", {"id": "a", "features": {"year": [[[[[[[1]]]]]]]}}, 422, "nested more than 5 deep"),
    Sent("PUT", "/v1/item", {"id": "a", "features": {"genres": "x" * 10_001}}, 422, "at most 10000 characters"),
    Sent("PUT", "/v1/item", {"id": "a", "features": {"year": SCRIPT}}, 422, "year"),
    Sent("PUT", "/v1/ratings", b" " * (1 << 20) + b"{}", 413, "a body has at most 1048576 bytes"),
]
LINES = {"content-type": "application/x-ndjson"}


def event(**more: Any) -> dict[str, Any]:
    return {"events": [{"user": "user 1", "item": "item 1", "kind": "view"} | more]}


CATALOGUE_AND_EVENTS = [
    Sent("POST", "/v1/events", {"events": []}, 422, "at least 1 item"),
    Sent("POST", "/v1/events", {"events": event()["events"] * 1001}, 422, "at most 1000 items"),
    Sent("POST", "/v1/events", event(kind=""), 422, "events.0.kind"),
    Sent("POST", "/v1/events", event(kind="x" * 65), 422, "events.0.kind"),
    Sent("POST", "/v1/events", event(kind="unheard-of"), 422, "no weight is known of the kind 'unheard-of'"),
    Sent("POST", "/v1/events", event(kind="shown", weight=1), 422, "counts for nothing"),
    Sent("POST", "/v1/events", '{"events": [{"user": 1, "item": 1, "kind": "view", "weight": NaN}]}', 400, "NaN"),
    Sent("POST", "/v1/events", '{"events": [{"user": 1, "item": 1, "kind": "view", "weight": 1e999}]}', 422, "finite"),
    Sent("POST", "/v1/events", event(weight=-1_000_001), 422, "greater than or equal to -1000000"),
    Sent("POST", "/v1/events", event(time=1e300), 422, "a time is seconds since 1970"),
    Sent("POST", "/v1/events", event(time="2026-01-01T00:00:00+99:99"), 422, "a time is seconds since 1970"),
    Sent("POST", "/v1/events", event(model_version=SQL), 422, "model_version"),
    Sent("PUT", "/v1/ratings", '{"user": 1, "ratings": [{"item": 1, "rating": 4, "time": true}]}', 422, "a time is"),
    Sent("GET", "/v1/recommendations?user=1&exclude_shown=maybe", None, 422, "exclude_shown: must be a valid boolean"),
    Sent("POST", "/v1/recommendations", {"exclude_shown": True}, 422, "give a user"),
    Sent("PUT", "/v1/item", {"id": "item 1", "available": "no"}, 422, "available"),
    Sent("GET", "/v1/items/list?cursor=" + "A" * 5000, None, 422, "cursor"),
    Sent("GET", "/v1/items/list?cursor=_w", None, 422, "the cursor is none of ours"),  # no UTF-8
    Sent("GET", "/v1/items/list?n=1001", None, 422, "less than or equal to 1000"),
    Sent("GET", "/v1/users/list?n=0", None, 422, "greater than or equal to 1"),
    Sent(
        "POST", "/v1/items/bulk", '{"id": 1, "title": "x"}', 415, "lines of JSON: send Content-Type: application/x-nd"
    ),
    Sent("POST", "/v1/items/bulk", "", 422, "there are no lines", LINES),
    Sent("POST", "/v1/items/bulk", "\n{", 400, "line 2: is not JSON", LINES),
    Sent("POST", "/v1/items/bulk", "[" * 100_000, 400, "line 1: is not JSON: it is nested too deep", LINES),
    Sent("POST", "/v1/items/bulk", '{"id": "x", "title": "a"}\n' * 2, 422, "line 2: 'x' stands in line 1", LINES),
    Sent("POST", "/v1/items/bulk", '{"id": "x", "title": "a"}\r\u2028', 400, "line 1: is not JSON", LINES),
    Sent("POST", "/v1/items/bulk", b" " * (1 << 20) + b"{}", 413, "a body has at most 1048576 bytes", LINES),
    Sent("POST", "/v1/users/bulk", '{"id": "x", "features": {"age": 1}}', 422, "line 1: the model was trained", LINES),
    Sent("PUT", "/v1/ratings", given(), 415, "a body here is JSON", LINES),
    Sent("DELETE", "/v1/user?id=", None, 422, "at least 1 character"),
    Sent("DELETE", "/v1/user?id=a", None, 403, "another origin", {"origin": "http://attacker.example"}),
    Sent("DELETE", "/v1/item?id=a", None, 403, "another origin", {"sec-fetch-site": "cross-site"}),
]
PATHS = [
    Sent("GET", "/page/..%2f..%2fapp.py", None, 404, "there is nothing at this address"),
    Sent("GET", "/page/%2e%2e/%2e%2e/settings.py", None, 404, "there is nothing at this address"),
    Sent("GET", "/page/..%5c..%5capp.py", None, 404, "there is nothing at this address"),
    Sent("GET", "/page/%252e%252e%252fapp.py", None, 404, "there is nothing at this address"),
    Sent("GET", "/page//etc/passwd", None, 404, "there is nothing at this address"),
    Sent("GET", "/page/index.html%00.js", None, 404, "there is nothing at this address"),
    Sent("GET", f"/page/{quote(SCRIPT)}", None, 404, "there is nothing at this address"),
    Sent("GET", "/page/", None, 404, "there is nothing at this address"),
    Sent("GET", "/%2e%2e/%2e%2e/etc/passwd", None, 404, "there is nothing at this address"),
    Sent("GET", "//v1/model", None, 404, "there is nothing at this address"),
    Sent("GET", "/v1/model/", None, 404, "there is nothing at this address"),
    Sent("GET", "/V1/model", None, 404, "there is nothing at this address"),
    Sent("GET", "/docs/", None, 404, "there is nothing at this address"),
    Sent("GET", "/docs/../settings.py", None, 404, ""),
    Sent("GET", "/docs/%2e%2e/settings.py", None, 404, "there is nothing at this address"),
    Sent("OPTIONS", "/v1/ratings", None, 405, "does not take that method"),
    Sent("TRACE", "/v1/ratings", None, 405, "does not take that method"),
    Sent("PATCH", "/v1/ratings", None, 405, "does not take that method"),
    Sent("CONNECT", "/v1/ratings", None, 405, "does not take that method"),
    Sent("POST", "/v1/model", None, 405, "does not take that method"),
    Sent("GET", "/v1/model/reload", None, 405, "does not take that method"),
    Sent("PUT", "/", None, 405, "does not take that method"),
]
HEADERS = [
    Sent("PUT", "/v1/ratings", given(), 415, "application/json", {"content-type": "text/plain"}),
    Sent("PUT", "/v1/ratings", given(), 415, "", {"content-type": "application/x-www-form-urlencoded"}),
    Sent("PUT", "/v1/ratings", given(), 415, "", {"content-type": "multipart/form-data; boundary=application/json"}),
    Sent("PUT", "/v1/ratings", given(), 415, "", {"content-type": "application/jsonp"}),
    Sent("PUT", "/v1/ratings", given(), 415, "", {"content-type": ""}),
    Sent("POST", "/v1/recommendations", '{"user": 1}', 200, "", {"content-type": "application/json; charset=utf-8"}),
    Sent("GET", "/v1/model", None, 200, "", {"host": "LOCALHOST:99"}),
    Sent("GET", "/v1/model", None, 200, "", {"host": "127.0.0.2:8000"}),
    Sent("GET", "/v1/model", None, 200, "", {"host": "[::1]:8000"}),
    Sent("GET", "/v1/model", None, 421, "a name that is not its own", {"host": "attacker.example"}),
    Sent("GET", "/v1/model", None, 421, "", {"host": "localhost.attacker.example"}),
    Sent("GET", "/v1/model", None, 421, "", {"host": "attacker.example#localhost"}),
    Sent("GET", "/v1/model", None, 421, "", {"host": "localhost@attacker.example"}),
    Sent("GET", "/v1/model", None, 421, "", {"host": "[::1"}),
    Sent("GET", "/v1/model", None, 421, "", {"host": ""}),
    Sent("PUT", "/v1/ratings", given(), 403, "another origin", {"origin": "http://attacker.example"}),
    Sent("PUT", "/v1/ratings", given(), 403, "another origin", {"origin": "null"}),
    Sent("PUT", "/v1/ratings", given(), 403, "another origin", {"sec-fetch-site": "cross-site"}),
    Sent("POST", "/v1/model/reload", None, 403, "another origin", {"origin": "http://attacker.example"}),
    Sent("GET", "/v1/model", None, 421, "a proxy passed this request on", {"x-forwarded-for": "1.2.3.4"}),
    Sent("GET", "/v1/model", None, 421, "", {"forwarded": "for=1.2.3.4", "host": "localhost"}),
    Sent("GET", "/v1/model", None, 200, "", {"x-http-method-override": "DELETE", "x-original-url": "/v1/ratings"}),
    Sent("OPTIONS", "/v1/ratings", None, 405, "", PREFLIGHT),
    Sent("PUT", "/v1/ratings", given(), 403, "another origin", {"origin": "https://shop.example"}),
    Sent("GET", "/v1/model", None, 200, "", {"origin": "https://shop.example"}),
    Sent("GET", "/v1/model", None, 200, "", {"x-request-id": "a b\t<script>"}),
    Sent("GET", "/v1/model", None, 200, "", {"x-request-id": "x" * 10_000}),
    Sent("GET", "/v1/model", None, 200, "", {"x-request-id": ""}),
    Sent("GET", "/health", None, 431, "the head of a request is too long", {"x": "x" * 300_000}),
]


def in_short(sent: Sent) -> str:
    shown = sent.headers or sent.body or ""
    return " ".join(repr(f"{sent.method} {sent.path[:40]} {str(shown)[:60]}").split())


@pytest.mark.parametrize("sent", [*NUMBERS, *SHAPES, *BOUNDS, *CATALOGUE_AND_EVENTS, *PATHS, *HEADERS], ids=in_short)
def test_what_each_gets(hostile: ServedHere, sent: Sent) -> None:
    body = json.dumps(sent.body) if isinstance(sent.body, dict) else sent.body
    headers = ({} if body is None else JSON) | (sent.headers or {})
    answer = hostile.client.request(sent.method, sent.path, content=body, headers=headers)
    if sent.status == 200:
        assert answer.status_code == 200, answer.text
    else:
        detail = problem(answer, sent.status)
        assert sent.words in detail, detail
        assert "\n" not in detail
        assert len(answer.content) < 8000  # what was sent does not come back at length
    assert "Traceback" not in answer.text
    assert "access-control-allow-origin" not in answer.headers
    assert sent.status == 431 or re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])  # none of theirs is sane


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_stays_a_text(hostile: ServedHere, kind: str) -> None:
    """As the id of a user and of an item, and as a title: it comes back as it went in, as JSON and as nothing else."""
    wild = TEXTS[kind]
    described = {"id": wild, "title": wild, "features": {"year": 1999, "genres": wild}}
    answer = hostile.client.put("/v1/item", json=described)
    assert (answer.status_code, answer.json()["id"], answer.json()["title"]) == (200, wild, wild)
    hostile.rate(wild, {wild: 4.5, "item 1": 1})
    ratings = hostile.client.get("/v1/ratings", params={"user": wild})
    assert {(one["item"], one["rating"]) for one in ratings.json()["ratings"]} == {(wild, 4.5), ("item 1", 1.0)}
    for path, query in {
        "/v1/item": {"id": wild},
        "/v1/items": {"query": wild},
        "/v1/similar": {"item": wild},
        "/v1/users": {"query": wild},
        "/v1/recommendations": {"user": wild, "n": "100", "where": f"genres:{wild}"},
        "/v1/why": {"user": wild, "item": wild},
    }.items():
        found = hostile.client.get(path, params=query)
        assert found.status_code in (200, 422), found.text
        assert found.headers["content-type"] in ("application/json", "application/problem+json")
        assert found.headers["x-content-type-options"] == "nosniff"
        found.json()
    assert hostile.client.get("/v1/item", params={"id": wild}).json()["ratings"]["count"] == 1
    assert hostile.client.delete("/v1/ratings", params={"user": wild, "item": wild}).status_code == 204
    assert hostile.ratings(wild) == {"item 1": 1.0}
    sent = {"user": wild, "item": wild, "kind": "buy", "id": f"event of {wild}"}
    for stored in (1, 0):
        answer = hostile.client.post("/v1/events", json={"events": [sent]})
        assert answer.json() == {"stored": stored, "repeated": 1 - stored}
    lines = json.dumps({"id": wild, "title": wild, "available": False})
    assert hostile.client.post("/v1/items/bulk", content=lines, headers=LINES).json() == {"stored": 1}
    for side in ("items", "users"):
        found = hostile.client.get(f"/v1/{side}/list", params={"n": 1000}).json()[side]
        assert wild in [entry["id"] for entry in found]
    assert hostile.client.delete("/v1/user", params={"id": wild}).status_code == 204
    assert hostile.client.delete("/v1/item", params={"id": wild}).status_code == 204
    for path, query in {"/v1/ratings": {"user": wild}, "/v1/item": {"id": wild}}.items():
        problem(hostile.client.get(path, params=query), 404)
    hostile.rate("user 1", {"item 1": 3})
    stored = hostile.client.get("/v1/model").json()["ratings"]["live"]
    assert stored >= 1  # and the table is there


def test_long_bodies_and_many_requests_over_one_connection_are_no_long_head(hostile: ServedHere) -> None:
    body, padding = b'{"user": "user 1"}', {"x-padding": "x" * 20_000}
    for size in (140_000, 520_000, 990_000):
        for _ in range(3):
            answer = hostile.client.post("/v1/recommendations", content=body + b" " * (size - len(body)), headers=JSON)
            assert answer.status_code == 200, answer.text
    for _ in range(2 * LONGEST_HEAD // 20_000):
        assert hostile.client.get("/health", headers=padding).status_code == 200
        assert hostile.client.post("/v1/recommendations", json={"user": 1}, headers=padding).status_code == 200


def test_a_body_without_a_length_is_bounded(hostile: ServedHere) -> None:
    with httpx.Client(base_url=hostile.told["address"], timeout=60) as client:
        few = (chunk for chunk in [b'{"user": 1,', b' "n": 1}'])
        assert client.post("/v1/recommendations", content=few, headers=JSON).status_code == 200
        problem(client.put("/v1/ratings", content=(b" " * 65536 for _ in range(30)), headers=JSON), 413)


# Below HTTP: bytes that no client would send

PUT = b"PUT /v1/ratings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
SMUGGLED = b"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"
RAW = {
    "no HTTP": (b"hello?\r\n\r\n", [400]),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100, [400]),
    "no version": (b"GET /health\r\n\r\n", [421]),
    "version 3": (b"GET /health HTTP/3.0\r\nHost: localhost\r\n\r\n", [400]),
    "no host": (b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", [421]),
    "NUL in a header": (GET + b"X: a\x00b\r\n\r\n", [400]),
    "bare newline in a header": (GET + b"X: a\nY: b\r\n\r\n", [400]),
    "space before the colon": (PUT + b"Content-Length : 5\r\n\r\nhello", [400]),
    "folded header": (GET + b"X: a\r\n b\r\n\r\n", [400]),
    "two hosts": (GET + b"Host: attacker.example\r\n\r\n", [400]),
    "length and chunks": (PUT + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    "chunks and length": (PUT + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    "two lengths": (PUT + b"Content-Length: 2\r\nContent-Length: 50\r\n\r\n{}" + SMUGGLED, [400]),
    "length with a sign": (PUT + b"Content-Length: +2\r\n\r\n{}", [400]),
    "length in hex": (PUT + b"Content-Length: 0x2\r\n\r\n{}", [400]),
    "negative length": (PUT + b"Content-Length: -1\r\n\r\n{}", [400]),
    "huge length": (PUT + b"Content-Length: 99999999999999999999999\r\n\r\n{}", [400]),
    "long length": (PUT + b"Content-Length: 1048577\r\n\r\n{}", [413]),
    "obfuscated chunks": (PUT + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    "chunked twice": (PUT + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED, [400]),
    "bad size of a chunk": (PUT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", [400]),
    "huge size of a chunk": (PUT + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 40 + b"\r\n", [400]),
    "a head without end": (GET + b"X: " + b"x" * 200_000, [431]),
    "a request line without end": (b"GET /" + b"a" * 200_000, [431]),
}


@pytest.mark.parametrize("kind", RAW)
def test_bytes_that_no_client_sends(hostile: ServedHere, kind: str) -> None:
    """The connection is closed after the refusal: nothing behind it is read as a request."""
    data, statuses = RAW[kind]
    heard = speak(hostile, data)
    assert statuses_in(heard) == statuses, heard
    assert b"application/problem+json" in heard
    assert b"Traceback" not in heard


def test_what_follows_the_last_chunk_is_bounded_and_no_header(hostile: ServedHere) -> None:
    head = b"POST /v1/recommendations HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    body, ended = b'\r\n\r\nb\r\n{"user": 1}\r\n0\r\n', b"\r\n\r\n"
    named, other = (
        head + b"Host: " + host + b"\r\nConnection: close" + body for host in (b"localhost", b"other.example")
    )
    assert statuses_in(speak(hostile, named + b"X: y" + ended)) == [200]
    assert statuses_in(speak(hostile, named + b"X: " + b"x" * (2 * LONGEST_HEAD))) == [431]
    assert statuses_in(speak(hostile, other + b"Host: localhost" + ended)) == [421]


def test_requests_in_one_breath_are_answered_one_by_one(hostile: ServedHere) -> None:
    heard = speak(hostile, GET + b"\r\n" + SMUGGLED + GET + b"Connection: close\r\n\r\n")
    assert statuses_in(heard) == [200, 404, 200]


def statuses_in(heard: bytes) -> list[int]:
    """Of one answer after the other, whose ends are not looked for."""
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", heard)]


def connected(server: ServedHere) -> socket.socket:
    address = urlsplit(server.told["address"])
    return socket.create_connection((str(address.hostname), int(address.port or 0)), 60)


def speak(server: ServedHere, data: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    heard = b""
    with connected(server) as connection:
        try:
            connection.sendall(data)
            while part := connection.recv(65536):
                heard += part
        except ConnectionError:
            pass  # closed while more was being sent
    return heard

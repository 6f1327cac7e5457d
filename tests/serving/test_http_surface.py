"""What every route has in common: ids of requests, kinds of problems, HEAD, rate limits, other origins."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cofill.errors import SettingsError
from cofill.serving.api.keys import new_key
from cofill.serving.api.problems import ProblemType
from cofill.serving.ops.logs import REQUEST_ID
from cofill.serving.settings import ServingSettings
from tests.serving.running_server import Asked, Server, problem
from tests.serving.test_guard import guarded

DOCS = Path(__file__).parents[2] / "docs"
SHOP = "https://shop.example"
MADE = re.compile("[0-9a-f]{32}")


async def answering(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that tells the id and the method that it was given."""
    await Response(f"{scope[REQUEST_ID]} {scope['method']}")(scope, receive, send)


def asked(requests: Sequence[tuple[str, str, dict[str, str]]], **limits: Any) -> list[httpx.Response]:
    async def ask() -> list[httpx.Response]:
        async with guarded(answering, **limits) as client:
            return [await client.request(method, path, headers=headers) for method, path, headers in requests]

    return asyncio.run(ask())


# Ids of requests


@pytest.mark.parametrize("given", ["7", "a-b_c.D:9", "018f3c2e-5d7a-7c1e-9f4b-aaaaaaaaaaaa", "x" * 128])
def test_the_callers_id_is_taken(given: str) -> None:
    (answer,) = asked([("GET", "/v1/model", {"x-request-id": given})])
    assert answer.headers["x-request-id"] == given
    assert answer.text == f"{given} GET"  # whoever writes the log finds it in the scope


@pytest.mark.parametrize("given", [None, "", "-a", "a b", "a\tb", '"', "x" * 129, "a,b", "a;b"])
def test_an_id_is_made_where_none_is_sane(given: str | None) -> None:
    headers = {} if given is None else {"x-request-id": given}
    first, second = asked([("GET", "/v1/model", headers)] * 2)
    ids = [answer.headers["x-request-id"] for answer in (first, second)]
    assert all(map(MADE.fullmatch, ids))
    assert ids[0] != ids[1]
    assert first.text == f"{ids[0]} GET"


def test_refusals_have_the_id_too(server: Server) -> None:
    for method, path in (("GET", "/v1/nothing"), ("PATCH", "/v1/item"), ("GET", "/v1/item?id=nobody")):
        answer = server.client.request(method, path, headers={"x-request-id": "mine"})
        assert answer.status_code >= 400
        assert answer.headers["x-request-id"] == "mine"


# Kinds of problems


def test_the_docs_explain_each_type() -> None:
    written = (DOCS / "reference" / "problems.md").read_text(encoding="utf-8")
    told = re.findall(r"^## (.+)\n\n`(.+)`, status (\d+)$", written, re.MULTILINE)
    assert told == [(kind.slug, kind.uri, str(kind.status)) for kind in ProblemType]


@pytest.mark.parametrize(
    ("method", "path", "body", "kind"),
    [
        ("GET", "/v1/nothing", None, ProblemType.NO_SUCH_ADDRESS),
        ("GET", "/v1/item?id=nobody", None, ProblemType.UNKNOWN_ID),
        ("PATCH", "/v1/item", None, ProblemType.METHOD_NOT_ALLOWED),
        ("GET", "/v1/recommendations", None, ProblemType.INVALID_REQUEST),
        ("GET", "/v1/recommendations?user=1&where=colour:red", None, ProblemType.UNFIT_FOR_MODEL),
        ("PUT", "/v1/ratings", {"user": 1, "ratings": [{"item": 1, "rating": 99}]}, ProblemType.UNFIT_FOR_MODEL),
    ],
)
def test_programs_tell_problems_apart(server: Server, method: str, path: str, body: Any, kind: ProblemType) -> None:
    answer = server.client.request(method, path, json=body)
    problem(answer, kind.status)
    assert answer.json()["type"] == kind.uri


def test_what_a_method_is_refused_for_is_told(server: Server) -> None:
    assert server.client.patch("/v1/ratings").headers["allow"] == "DELETE, GET, HEAD, PUT"
    assert server.client.get("/v1/model/reload").headers["allow"] == "POST"


# HEAD


def test_head_wherever_get_is(untouched: Asked) -> None:
    queries = {"/v1/item": "?id=1", "/v1/ratings": "?user=1", "/v1/recommendations": "?user=1"}
    queries |= {"/v1/similar": "?item=1", "/v1/why": "?user=1&item=1"}
    paths = untouched.client.get("/openapi.json").json()["paths"]
    for path in ("/", "/docs", "/openapi.json", *(path for path, of in paths.items() if "get" in of)):
        asked_for = path + queries.get(path, "")
        head = untouched.client.head(asked_for)
        get = untouched.client.get(asked_for)
        assert (head.status_code, head.content) == (200, b""), path
        assert head.headers["content-type"] == get.headers["content-type"]
        if path not in ("/metrics", "/v1/model"):
            assert head.headers["content-length"] == get.headers["content-length"], path


def test_every_answer_has_the_headers_of_a_careful_server(untouched: Asked) -> None:
    for path in ("/health", "/v1/model", "/nothing", "/metrics", "/openapi.json"):
        headers = untouched.client.get(path).headers
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["permissions-policy"]
        assert "server" not in headers
        assert headers["cache-control"] == "no-store"


# Pages of other origins

PREFLIGHT = {"access-control-request-method": "PUT", "access-control-request-headers": "authorization,content-type"}


def test_pages_of_allowed_origins_may_ask_and_write(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    key = {"authorization": f"Bearer {new_key(keys, 'shop', 'write')}"}
    asks = [
        ("OPTIONS", "/v1/ratings", {"origin": SHOP, **PREFLIGHT}),
        ("PUT", "/v1/ratings", {"origin": SHOP, **key}),
        ("PUT", "/v1/ratings", {"origin": SHOP}),
        ("GET", "/v1/model", {"origin": "https://other.example", **key}),
        ("OPTIONS", "/v1/ratings", {"origin": "https://other.example", **PREFLIGHT, **key}),
    ]
    preflight, written, without_key, read, refused = asked(asks, keys=keys, allow_origin=(SHOP,))
    assert preflight.status_code == 200
    assert {"DELETE", "PUT"} <= set(preflight.headers["access-control-allow-methods"].split(", "))
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    for answer in (preflight, written, without_key):
        assert answer.headers["access-control-allow-origin"] == SHOP
        assert "origin" in answer.headers["vary"].lower()
    assert "x-request-id" in written.headers["access-control-expose-headers"]
    assert (written.status_code, without_key.status_code) == (200, 401)
    assert (read.status_code, refused.status_code) == (200, 400)
    for answer in (read, refused):
        assert "access-control-allow-origin" not in answer.headers


def test_without_keys_only_allowed_origins_may_write() -> None:
    origins: list[tuple[dict[str, str], int]] = [
        ({"origin": SHOP, "sec-fetch-site": "cross-site"}, 200),
        ({"origin": SHOP.upper()}, 200),
        ({"origin": f"{SHOP}.attacker.example"}, 403),
        ({"origin": SHOP.replace("https", "http")}, 403),
        ({"origin": f"{SHOP}:444"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({}, 200),
    ]
    answers = asked([("PUT", "/v1/ratings", headers) for headers, _ in origins], allow_origin=(f"{SHOP}:443",))
    assert [answer.status_code for answer in answers] == [status for _, status in origins]
    assert problem(answers[2], 403)


def test_without_a_list_no_origin_is_allowed() -> None:
    for answer in asked([("GET", "/v1/model", {"origin": SHOP}), ("OPTIONS", "/v1/model", {"origin": SHOP})]):
        assert not [name for name in answer.headers if name.startswith("access-control") or name == "vary"]


@pytest.mark.parametrize(
    "wrong", ["*", "null", "shop.example", "https://shop.example/", "https://a b", "ftp://shop.example"]
)
def test_what_is_no_origin_is_refused(wrong: str) -> None:
    with pytest.raises(SettingsError, match="--allow-origin must be an origin such as"):
        ServingSettings.of({"model": Path("model"), "allow_origin": [wrong]})

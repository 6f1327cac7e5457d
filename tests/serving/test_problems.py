"""Whatever is wrong with a request, the answer is a problem document, with the headers that every answer has."""

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from cofill.serving.http_protocol import LONGEST_HEAD
from tests.serving.running_server import Server, problem

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("GET", "/docs/nothing.js", 404),
        ("GET", "/problems/nothing", 404),
        ("HEAD", "/v1/nothing", 404),
        ("HEAD", "/v1/model/reload", 405),
        ("GET", "/page/nothing.js", 404),
        ("GET", "/page/..%2f..%2fapp.py", 404),
        ("GET", "/page/%2e%2e/%2e%2e/settings.py", 404),
        ("GET", "/page//etc/passwd", 404),
        ("PATCH", "/v1/ratings", 405),
        ("OPTIONS", "/v1/ratings", 405),
        ("GET", "/v1/model/reload", 405),
        ("GET", "/v1/recommendations", 422),
        ("GET", "/v1/recommendations?user=1&n=0", 422),
        ("GET", "/v1/recommendations?user=1&n=101", 422),
        ("GET", "/v1/recommendations?user=1&n=ten", 422),
        ("GET", "/v1/recommendations?user=1&colour=red", 422),
        ("GET", "/v1/recommendations?user=", 422),
        ("GET", "/v1/recommendations?user=%00", 422),
        ("GET", f"/v1/recommendations?user={'x' * 257}", 422),
        ("GET", f"/v1/items?query={'x' * 40_000}", 414),
        ("GET", "/health?x=1", 422),
    ],
)
def test_addresses(server: Server, method: str, path: str, status: int) -> None:
    answer = server.client.request(method, path)
    if method == "HEAD":
        assert (answer.status_code, answer.content) == (status, b"")
    else:
        problem(answer, status)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{", 400, "the body is not JSON"),
        (b"", 422, "body: is missing"),
        (b"[]", 422, "must be"),
        (b"null", 422, "must be"),
        (b'{"user": 1, "ratings": [{"item": 1, "rating": NaN}]}', 400, "NaN is no number in JSON"),
        (b'{"user": 1, "ratings": [{"item": 1, "rating": -Infinity}]}', 400, "-Infinity is no number in JSON"),
        (b'{"user": 1, "ratings": [{"item": 1, "rating": 1e999}]}', 422, "finite number"),
        (b'{"user": 1, "user": 2, "ratings": []}', 400, "the name 'user' stands twice"),
        (b'{"user": "\\ud800", "ratings": [{"item": 1, "rating": 4}]}', 422, "half of a surrogate pair"),
        (b"\xff\xfe{}", 400, "it is not UTF-8"),
        (b"[" * 100_000, 400, "it is nested too deep"),
        (b'{"user": ' + b"9" * 5000 + b"}", 400, "the body is not JSON"),
    ],
)
def test_bodies(server: Server, body: bytes, status: int, words: str) -> None:
    answer = server.client.put("/v1/ratings", content=body, headers=JSON)
    assert words in problem(answer, status)


def test_features_are_bounded(server: Server) -> None:
    deep: object = 1
    for _ in range(8):
        deep = [deep]
    for value in (deep, "x" * 10_001, "\0", list(range(10_001)), 2**64, {"\0": 1}):
        problem(server.client.put("/v1/item", json={"id": 6001, "features": {"tags": value}}), 422)


def test_a_body_is_declared_as_json(server: Server) -> None:
    for headers in ({}, {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
        answer = server.client.post("/v1/recommendations", content=b'{"user": 1}', headers=headers)
        assert "application/json" in problem(answer, 415)
    declared = {"content-type": "application/json; charset=utf-8"}
    assert server.client.post("/v1/recommendations", content=b'{"user": 1}', headers=declared).status_code == 200


def test_a_body_is_bounded_whether_its_length_is_told_or_not(server: Server) -> None:
    long = b" " * (1 << 20) + b"{}"
    assert problem(server.client.put("/v1/ratings", content=long, headers=JSON), 413) == (
        "a body has at most 1048576 bytes"
    )
    with httpx.Client(base_url=server.told["address"]) as client:
        chunks = (b" " * 4096 for _ in range(300))
        problem(client.put("/v1/ratings", content=chunks, headers=JSON), 413)
        few = (chunk for chunk in [b'{"user": 1,', b' "n": 1}'])
        assert client.post("/v1/recommendations", content=few, headers=JSON).status_code == 200


def speak(server: Server, data: bytes) -> bytes:
    """What comes back for bytes that no client would send."""
    address = urlsplit(server.told["address"])
    with socket.create_connection((str(address.hostname), int(address.port or 0)), 10) as connection:
        connection.sendall(data)
        heard = b""
        while part := connection.recv(65536):
            heard += part
        return heard


def test_what_is_no_http_is_a_problem_too(server: Server) -> None:
    heard = speak(server, b"hello?\r\n\r\n")
    assert heard.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in heard


def test_a_head_without_end_is_cut_off(server: Server) -> None:
    heard = speak(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (LONGEST_HEAD + 1000))
    assert heard.startswith(b"HTTP/1.1 431 ")


def test_what_follows_the_last_chunk_is_bounded_and_no_header(server: Server) -> None:
    head = b"POST /v1/recommendations HTTP/1.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    body = b'\r\n\r\nb\r\n{"user": 1}\r\n0\r\n'
    ended = b"\r\n\r\n"
    named = head + b"Host: localhost\r\nConnection: close" + body
    assert speak(server, named + b"X: y" + ended).startswith(b"HTTP/1.1 200 ")
    assert speak(server, named + b"X: " + b"x" * (2 * LONGEST_HEAD)).startswith(b"HTTP/1.1 431 ")
    assert speak(
        server, head + b"Host: other.example\r\nConnection: close" + body + b"Host: localhost" + ended
    ).startswith(b"HTTP/1.1 421 ")


def test_many_requests_over_one_connection_are_no_long_head(server: Server) -> None:
    padding = {"x-padding": "x" * 20_000}
    for _ in range(2 * LONGEST_HEAD // 20_000):
        assert server.client.get("/health", headers=padding).status_code == 200
        assert server.client.post("/v1/recommendations", json={"user": 1}, headers=padding).status_code == 200


def test_another_name_for_this_machine_is_refused(server: Server) -> None:
    for host in ("attacker.example", "attacker.example:80", "127.0.0.1.attacker.example", ""):
        problem(server.client.get("/v1/model", headers={"host": host}), 421)
    for host in ("localhost", "LOCALHOST:99", "127.0.0.1", "127.0.0.2:8000", "[::1]:8000"):
        assert server.client.get("/health", headers={"host": host}).status_code == 200


def test_a_page_of_somebody_else_may_not_write(server: Server) -> None:
    body = {"user": 88_000, "ratings": [{"item": 1, "rating": 3}]}
    for headers in (
        {"origin": "http://attacker.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
        {"sec-fetch-site": "cross-site"},
    ):
        problem(server.client.put("/v1/ratings", json=body, headers=headers), 403)
        problem(server.client.post("/v1/users", headers=headers), 403)
        problem(server.client.post("/v1/model/reload", headers=headers), 403)
        problem(server.client.delete("/v1/ratings?user=1&item=1", headers=headers), 403)
    own = {"origin": server.told["address"], "sec-fetch-site": "same-origin"}
    assert server.client.put("/v1/ratings", json=body, headers=own).status_code == 200


def test_every_answer_has_the_headers_of_a_careful_server(server: Server) -> None:
    for path in ("/health", "/v1/model", "/nothing", "/metrics", "/openapi.json"):
        headers = server.client.get(path).headers
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

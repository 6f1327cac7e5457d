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
        ("GET", "/v1/recommendations", 422),
        ("GET", "/v1/recommendations?user=1&n=0", 422),
        ("GET", "/v1/recommendations?user=1&n=ten", 422),
        ("GET", "/v1/recommendations?user=1&colour=red", 422),
        ("GET", "/v1/recommendations?user=", 422),
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


def test_features_are_bounded(server: Server) -> None:
    deep: object = 1
    for _ in range(8):
        deep = [deep]
    for value in (deep, "x" * 10_001, "\0", list(range(10_001)), 2**64, {"\0": 1}):
        problem(server.client.put("/v1/item", json={"id": 6001, "features": {"tags": value}}), 422)


def test_a_body_may_be_declared_with_a_charset(server: Server) -> None:
    declared = {"content-type": "application/json; charset=utf-8"}
    assert server.client.post("/v1/recommendations", content=b'{"user": 1}', headers=declared).status_code == 200


def test_a_body_may_come_without_its_length(server: Server) -> None:
    with httpx.Client(base_url=server.told["address"], timeout=60) as client:
        few = (chunk for chunk in [b'{"user": 1,', b' "n": 1}'])
        assert client.post("/v1/recommendations", content=few, headers=JSON).status_code == 200


def speak(server: Server, data: bytes) -> bytes:
    """What comes back for bytes that no client would send."""
    address = urlsplit(server.told["address"])
    with socket.create_connection((str(address.hostname), int(address.port or 0)), 60) as connection:
        connection.sendall(data)
        heard = b""
        while part := connection.recv(65536):
            heard += part
        return heard


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


def test_this_machine_has_several_names(server: Server) -> None:
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

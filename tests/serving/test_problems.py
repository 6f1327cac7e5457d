"""Whatever is wrong with a request, the answer is a problem document, with the headers that every answer has."""

import socket
from urllib.parse import urlsplit

import httpx

from cofill.serving.http_protocol import LONGEST_HEAD
from tests.serving.running_server import Server

JSON = {"content-type": "application/json"}


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

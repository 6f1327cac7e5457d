"""HTTP as uvicorn reads it, with a bound on the head of a request, and problems where it is no HTTP at all."""

import json
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cofill.serving.problems import MEDIA_TYPE

LONGEST_HEAD = 128 * 1024


class BoundedHttp(HttpToolsProtocol):
    """A head that does not end is not collected for ever."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._in_head = True
        self._heads = 0  # that have ended
        self._head = 0  # bytes of one that has not

    def data_received(self, data: bytes) -> None:
        ended = self._heads
        super().data_received(data)
        if self._heads != ended:
            self._head = 0
        elif self._in_head:
            self._head += len(data)
            if self._head > LONGEST_HEAD:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of a request is too long")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heads += 1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True

    def send_400_response(self, msg: str) -> None:
        self._refuse(HTTPStatus.BAD_REQUEST, "this is no HTTP request")

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        if self.transport.is_closing():
            return
        document = {
            "type": "about:blank",
            "title": status.phrase,
            "status": int(status),
            "detail": detail,
            "instance": "/",
        }
        body = json.dumps(document).encode()
        head = (
            f"HTTP/1.1 {int(status)} {status.phrase}\r\ncontent-type: {MEDIA_TYPE}\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

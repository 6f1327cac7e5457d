"""As little of an HTTP client as a measurement needs: what it takes itself counts as the server's time."""

import asyncio
import json
from typing import Any, Self
from urllib.parse import urlsplit


class HttpConnection:
    """One connection that is kept, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str) -> None:
        self._reader = reader
        self._writer = writer
        self._host = host

    @classmethod
    async def open(cls, address: str) -> Self:
        parts = urlsplit(address)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        return cls(reader, writer, parts.netloc)

    async def ask(self, method: str, path: str, message: Any = None) -> Any:
        """The answer's document; RuntimeError where it is a problem."""
        body = b"" if message is None else json.dumps(message).encode()
        about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\n{about}\r\n".encode() + body)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(head.partition("\r\ncontent-length:")[2].partition("\r\n")[0])
        content = await self._reader.readexactly(length)
        if not head.startswith("http/1.1 200 "):
            raise RuntimeError(f"{method} {path}: {content.decode(errors='replace')[:200]}")
        return json.loads(content)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

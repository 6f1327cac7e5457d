"""The page and its files, from the package and from nowhere else; `page/settings.json` is what it is told."""

import gzip
import hashlib
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import NamedTuple

from fastapi import Request, Response

from cofill.charts.design import TOKENS
from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError
from cofill.serving.routing import Right, Routes
from cofill.serving.settings import PageSettings

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
    "webp": "image/webp",
    "woff2": "font/woff2",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
}


class _File(NamedTuple):
    """A file as it is, as it is sent to who can unpack it, and what tells it from others."""

    plain: bytes
    packed: bytes
    tag: str

    @classmethod
    def of(cls, content: bytes) -> "_File":
        return cls(content, gzip.compress(content, mtime=0), hashlib.sha256(content).hexdigest()[:32])


def add_page(routes: Routes, settings: PageSettings) -> None:
    told = settings.model_dump_json(include=set(PageSettings.model_fields)).encode()
    # The colours are those of pictures and reports, too.
    file = packaged("page", {"tokens.css": TOKENS.encode(), "settings.json": told})

    @routes.add_file("/", Right.OPEN)
    async def index(request: Request) -> Response:
        return file("index.html", request)

    @routes.add_file("/page/{name:path}", Right.OPEN)
    async def part(name: str, request: Request) -> Response:
        return file(name, request)


def packaged(folder: str, more: Mapping[str, bytes] | None = None) -> Callable[[str, Request], Response]:
    """Answers with the files of a folder of the package, and more of them by name."""
    contents = _contents(folder) | {name: _File.of(content) for name, content in (more or {}).items()}

    def file(name: str, request: Request) -> Response:
        if name not in contents:
            raise ProblemError(404, f"the page has no file {name!r}", kind=ProblemType.NO_SUCH_ADDRESS)
        found = contents[name]
        packed = _takes_gzip(request.headers.get("accept-encoding", ""))
        etag = f'"{found.tag}{"-gzip" if packed else ""}"'
        # Asked again each time, sent again only if it changed.
        headers = {"ETag": etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if etag in [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        media_type = _TYPES[name.rpartition(".")[2]]
        if packed:
            return Response(found.packed, media_type=media_type, headers=headers | {"Content-Encoding": "gzip"})
        return Response(found.plain, media_type=media_type, headers=headers)

    return file


def _takes_gzip(accepted: str) -> bool:
    """Whether an Accept-Encoding names gzip, and not only to refuse it."""
    for part in accepted.split(","):
        name, _, quality = part.partition(";")
        if name.strip().lower() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _contents(name: str) -> dict[str, _File]:
    """Every file by name, read once: requests are looked up here and never become a path."""
    found: dict[str, _File] = {}
    folders = [("", files("cofill.serving") / name)]
    while folders:
        prefix, folder = folders.pop()
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_dir():
                folders.append((f"{prefix}{entry.name}/", entry))
            elif entry.name.rpartition(".")[2] in _TYPES:
                found[prefix + entry.name] = _File.of(entry.read_bytes())
    return found

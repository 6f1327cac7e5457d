"""The page and its files, from the package and from nowhere else."""

import hashlib
from collections.abc import Callable
from importlib.resources import files

from fastapi import Request, Response

from cofill.charts.design import TOKENS
from cofill.serving.problem_types import ProblemType
from cofill.serving.problems import ProblemError
from cofill.serving.routing import Right, Routes

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


def add_page(routes: Routes) -> None:
    file = packaged("page")

    @routes.add_file("/", Right.OPEN)
    async def index(request: Request) -> Response:
        return file("index.html", request)

    @routes.add_file("/page/{name:path}", Right.OPEN)
    async def part(name: str, request: Request) -> Response:
        return file(name, request)


def packaged(folder: str) -> Callable[[str, Request], Response]:
    """Answers with the files of a folder of the package."""
    contents = _contents(folder)

    def file(name: str, request: Request) -> Response:
        if name not in contents:
            raise ProblemError(404, f"the page has no file {name!r}", kind=ProblemType.NO_SUCH_ADDRESS)
        content, etag = contents[name]
        headers = {"ETag": etag, "Cache-Control": "no-cache"}  # asked again each time, sent again only if it changed
        if etag in [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=_TYPES[name.rpartition(".")[2]], headers=headers)

    return file


def _contents(name: str) -> dict[str, tuple[bytes, str]]:
    """Every file by name, read once: requests are looked up here and never become a path."""
    found: dict[str, tuple[bytes, str]] = {}
    if name == "page":
        _take(found, "tokens.css", TOKENS.encode())  # of pictures and reports, too
    folders = [("", files("cofill.serving") / name)]
    while folders:
        prefix, folder = folders.pop()
        for entry in folder.iterdir() if folder.is_dir() else ():
            if entry.is_dir():
                folders.append((f"{prefix}{entry.name}/", entry))
            elif entry.name.rpartition(".")[2] in _TYPES:
                _take(found, prefix + entry.name, entry.read_bytes())
    return found


def _take(found: dict[str, tuple[bytes, str]], name: str, content: bytes) -> None:
    found[name] = content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'

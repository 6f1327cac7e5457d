"""The page and the reference of the API, with their files, from the package and from nowhere else."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

import cofill.serving
from cofill.charts.design import TOKENS
from cofill.serving.settings import PageSettings

_PACKAGE = Path(cofill.serving.__file__).parent
_AGAIN = {"Cache-Control": "no-cache"}  # asked again each time, sent again only if it changed


class _Files(StaticFiles):
    def file_response(self, *given: Any, **named: Any) -> Response:
        response = super().file_response(*given, **named)
        response.headers.update(_AGAIN)
        return response


def add_page(api: FastAPI, settings: PageSettings) -> None:
    told = settings.model_dump_json(include=set(PageSettings.model_fields))
    page, reference = _Files(directory=_PACKAGE / "page"), _Files(directory=_PACKAGE / "reference")

    async def index(request: Request) -> Response:
        return await page.get_response("index.html", request.scope)

    async def index_of_reference(request: Request) -> Response:
        return await reference.get_response("reference.html", request.scope)

    async def colours(_: Request) -> Response:
        """Those of pictures and reports, too."""
        return Response(TOKENS, media_type="text/css", headers=_AGAIN)

    async def settings_of_page(_: Request) -> Response:
        return Response(told, media_type="application/json", headers=_AGAIN)

    api.add_route("/", index)
    api.add_route("/page/tokens.css", colours)
    api.add_route("/page/settings.json", settings_of_page)
    api.add_route("/docs", index_of_reference)
    api.mount("/page", GZipMiddleware(page))
    api.mount("/docs", GZipMiddleware(reference))

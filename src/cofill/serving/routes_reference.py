"""The reference of the API, and a page about each kind of problem; from the package, like the page."""

from fastapi import Request, Response

from cofill.serving.problem_types import PREFIX, ProblemType, as_html
from cofill.serving.problems import ProblemError
from cofill.serving.routes_page import packaged
from cofill.serving.routing import Right, Routes


def add_reference(routes: Routes) -> None:
    file = packaged("reference")
    pages = {kind.slug: as_html(kind) for kind in ProblemType}
    overview = as_html(None)

    @routes.add_file("/docs", Right.OPEN)
    async def reference(request: Request) -> Response:
        return file("reference.html", request)

    @routes.add_file("/docs/{name:path}", Right.OPEN)
    async def reference_part(name: str, request: Request) -> Response:
        return file(name, request)

    @routes.add_file(PREFIX.rstrip("/"), Right.OPEN)
    async def problems() -> Response:
        return Response(overview, media_type="text/html; charset=utf-8")

    @routes.add_file(PREFIX + "{name:path}", Right.OPEN)
    async def one_problem(name: str) -> Response:
        if name not in pages:
            raise ProblemError(404, f"there is no kind of problem {name!r}", kind=ProblemType.NO_SUCH_ADDRESS)
        return Response(pages[name], media_type="text/html; charset=utf-8")

"""The kinds of errors: the `type` of a problem document (RFC 9457) is the address of a page about its kind.

That page is made from what stands here, as docs/reference/problems.md is (`python -m cofill.serving.problem_types`).
"""

import sys
import textwrap
from enum import Enum
from html import escape

PREFIX = "/problems/"
_SHEETS = ("page/tokens.css", "page/base.css", "docs/reference.css")
_INTRODUCTION = """# Problems

Every error of the [server](../how-to/serve.md) is a problem document (RFC 9457, `application/problem+json`). Its
`type` is one of the addresses below, where the server has a page with the same words. Programs go by `type`, and show
`detail` to people. `status` is that of the response, `instance` the path that was asked for.
`python -m cofill.serving.problem_types` writes this page."""


class ProblemType(Enum):
    """A kind of error: its name, the status that it comes with, what happened, and what to do about it."""

    NOT_HTTP = (
        "not-http",
        400,
        "The request is no HTTP request that a server could read without doubt: what was sent is something else, "
        "names two hosts, or leaves open where its body ends. The connection is closed.",
        "Use an HTTP library, and https:// only where a proxy with TLS stands in front of the server.",
    )
    NOT_JSON = (
        "not-json",
        400,
        "The body is not JSON as RFC 8259 has it. NaN, Infinity, a name twice in one object and anything but "
        "UTF-8 are not.",
        "Let a JSON library write the body. The detail says what was found, and where.",
    )
    KEY_NEEDED = (
        "key-needed",
        401,
        "The server was started with keys, and the request has none, or one that the server does not know.",
        "Send Authorization: Bearer KEY. `cofill keys new` makes a key; one that was removed from the file stays "
        "refused.",
    )
    KEY_MAY_NOT_WRITE = (
        "key-may-not-write",
        403,
        "The key may read, and this address changes something.",
        "Use a key that was made with `cofill keys new --write`.",
    )
    FOREIGN_ORIGIN = (
        "foreign-origin",
        403,
        "A page of another origin tried to write. Without keys the server takes writes from its own page and from "
        "programs alone (against cross-site request forgery).",
        "Open the server's own page, or start the server with --allow-origin and the origin of the other page.",
    )
    READ_ONLY = (
        "read-only",
        403,
        "The server keeps nothing (--read-only), so nothing can be written.",
        "Write to a server that has a database.",
    )
    NO_SUCH_ADDRESS = (
        "no-such-address",
        404,
        "There is nothing at this address.",
        "/docs and /openapi.json list what there is. Paths are taken as they are written, with no slash at the end.",
    )
    UNKNOWN_ID = (
        "unknown-id",
        404,
        "The request needs a user or an item that the server does not know.",
        "Check the id. Describe a new item with PUT /v1/item; send what somebody unknown has rated along with the "
        "request.",
    )
    METHOD_NOT_ALLOWED = (
        "method-not-allowed",
        405,
        "The address is there, and does not take this method. The header Allow lists those that it takes.",
        "/docs lists the methods of every address.",
    )
    BODY_TOO_LATE = (
        "body-too-late",
        408,
        "The body did not arrive within the time limit of a request (--seconds).",
        "Send it again over a better connection, or in smaller parts.",
    )
    NO_MODEL_BEFORE = (
        "no-model-before",
        409,
        "A rollback was asked for, and there is no model to go back to: a server keeps the one before once it has "
        "reloaded.",
        "Put the model that is wanted into the folder, and reload.",
    )
    BODY_TOO_LONG = (
        "body-too-long",
        413,
        "The body is longer than the server takes (--body-bytes).",
        "Send it in several requests; the detail says how long one may be.",
    )
    QUERY_TOO_LONG = (
        "query-too-long",
        414,
        "The query, what stands behind the question mark, is longer than the server takes.",
        "Most questions can be asked with POST and a body too.",
    )
    NOT_DECLARED_AS_JSON = (
        "not-declared-as-json",
        415,
        "The body does not have the content type that this address takes.",
        "Send Content-Type: application/json, or what the detail names.",
    )
    WRONG_HOST = (
        "wrong-host",
        421,
        "The server is asked by a name that is not its own, or by a proxy. Without keys it answers to this machine "
        "alone (against DNS rebinding).",
        "Use localhost, or start the server with --keys to open it to others.",
    )
    INVALID_REQUEST = (
        "invalid-request",
        422,
        "The query or the body has fields that are unknown, missing, of the wrong type or outside of their "
        "bounds. `errors` names each: where it stands (`in`), its `name`, and a `message`.",
        "Correct the fields that are named. /docs has the fields of every address.",
    )
    UNFIT_FOR_MODEL = (
        "unfit-for-model",
        422,
        "The request can be read, and does not fit the model: a rating outside of its scale, a column that it "
        "does not have, a description that it cannot encode, a question that it cannot answer.",
        "The detail says what would fit. GET /v1/model has the scale and the columns.",
    )
    UNKNOWN_VALUE = (
        "unknown-value",
        422,
        "A rule asks for a value that no item has, so that its list would be empty, or its factor without effect.",
        "The detail names the nearest value that there is. GET /v1/model lists the values of each column.",
    )
    BROKEN_MODEL = (
        "broken-model",
        422,
        "The folder of the model holds none that can be served: it is missing, cut short, altered, or of a newer "
        "version. What was served before is served still.",
        "Train or copy the model again, then reload.",
    )
    BATCH_TOO_LARGE = (
        "batch-too-large",
        422,
        "The batch would not be done within the time limit of a request (--seconds), by how long such requests "
        "took in this process before. Nothing of it was done.",
        "Send as many at once as `at_most` says, or leave out what takes long, such as explanations and intervals.",
    )
    TOO_MANY_REQUESTS = (
        "too-many-requests",
        429,
        "The key, or without keys the address, has used up its requests (--requests-per-second and --burst).",
        "Wait as many seconds as Retry-After says. RateLimit tells in every response how many requests are left.",
    )
    HEAD_TOO_LONG = (
        "head-too-long",
        431,
        "The head of the request, its first line and its headers, is too long. The connection is closed.",
        "Send fewer or shorter headers, and long questions in a body.",
    )
    SERVER_ERROR = (
        "server-error",
        500,
        "Something went wrong that nobody foresaw.",
        "The server's log tells what, beside the id of the request (X-Request-Id).",
    )
    BUSY = (
        "busy",
        503,
        "The server has too much to do at the moment, or does something that can be done only once at a time.",
        "Send the request again after as many seconds as Retry-After says.",
    )
    OUT_OF_TIME = (
        "out-of-time",
        503,
        "The answer was not ready within the time limit of a request (--seconds). A write may have been done or not.",
        "Send it again: writes can be repeated without harm, but for new ids, rollbacks and events without an id. "
        "Of a batch, send fewer at once.",
    )
    DATABASE_UNAVAILABLE = (
        "database-unavailable",
        503,
        "The database of live ratings does not answer, and an answer without it could be stale.",
        "Send the request again. If it stays so, look after the database; /ready tells when it is back.",
    )
    NOT_DRAWN_YET = (
        "not-drawn-yet",
        503,
        "The map of the items is being drawn, or could not be drawn.",
        "Ask again after as many seconds as Retry-After says; if there is no such header, the server's log tells why.",
    )
    STOPPING = (
        "stopping",
        503,
        "The server is about to stop. What is under way is finished; /ready tells load balancers to send no more.",
        "Send the request to another server, or again in a while.",
    )
    DISK_FULL = (
        "disk-full",
        507,
        "The disk with the database is full. Nothing was written; reads are answered.",
        "Ask whoever runs the server to make room, then send it again.",
    )

    def __init__(self, slug: str, status: int, meaning: str, remedy: str) -> None:
        self.slug = slug
        self.status = status
        self.meaning = meaning
        self.remedy = remedy

    @property
    def uri(self) -> str:
        return PREFIX + self.slug

    @property
    def title(self) -> str:
        """The same for every problem of the kind."""
        words = self.slug.replace("-", " ").replace("http", "HTTP").replace("json", "JSON")
        return words[0].upper() + words[1:]


_USUAL = {
    400: ProblemType.NOT_JSON,
    401: ProblemType.KEY_NEEDED,
    403: ProblemType.KEY_MAY_NOT_WRITE,
    404: ProblemType.UNKNOWN_ID,
    405: ProblemType.METHOD_NOT_ALLOWED,
    408: ProblemType.BODY_TOO_LATE,
    409: ProblemType.NO_MODEL_BEFORE,
    413: ProblemType.BODY_TOO_LONG,
    414: ProblemType.QUERY_TOO_LONG,
    415: ProblemType.NOT_DECLARED_AS_JSON,
    421: ProblemType.WRONG_HOST,
    422: ProblemType.INVALID_REQUEST,
    429: ProblemType.TOO_MANY_REQUESTS,
    431: ProblemType.HEAD_TOO_LONG,
    500: ProblemType.SERVER_ERROR,
    503: ProblemType.BUSY,
    507: ProblemType.DISK_FULL,
}


def usual_type(status: int) -> ProblemType:
    """The kind of a problem that is known by its status alone."""
    return _USUAL[status]


def as_markdown() -> str:
    """docs/reference/problems.md."""
    parts = [_INTRODUCTION]
    for kind in ProblemType:
        parts += [
            f"## {kind.slug}",
            f"`{kind.uri}`, status {kind.status}",
            _wrapped(kind.meaning),
            _wrapped(kind.remedy),
        ]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def as_html(kind: ProblemType | None) -> str:
    """The page about one kind, or the list of all."""
    if kind is None:
        title, up = "Problems", ""
        lines = "".join(
            f'<li><a href="problems/{one.slug}">{escape(one.title)}</a>, status {one.status}: {_code(one.meaning)}</li>'
            for one in ProblemType
        )
        body = f'<p>The kinds of errors of this server.</p><ul class="problems">{lines}</ul>'
    else:
        title, up = kind.title, "../"
        body = (
            f"<p><code>{kind.uri}</code>, status {kind.status}</p><p>{_code(kind.meaning)}</p>"
            f'<h2>What to do</h2><p>{_code(kind.remedy)}</p><p><a href="../problems">All problems</a></p>'
        )
    sheets = "".join(f'<link rel="stylesheet" href="{up}{name}">' for name in _SHEETS)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · cofill</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"{sheets}</head>"
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>\n"
    )


def _code(text: str) -> str:
    """Text between backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


if __name__ == "__main__":
    sys.stdout.write(as_markdown())

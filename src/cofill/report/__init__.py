"""A page about a model: one self-contained HTML file, charts included, that loads nothing from the network.

subject.py     what is reported on: the model, its ratings, the test part and what was predicted for it
sections/      one module for each part of the page
page.py        all of them together, with contents and style
page_parts.py  sections, figures and tables, and the look of the page; pictures are made by `cofill.charts`
"""

from cofill.report.page import Part, report_page, write_report
from cofill.report.subject import Subject

__all__ = ["Part", "Subject", "report_page", "write_report"]

"""A page about a model: one self-contained HTML file, charts included, that loads nothing from the network.

subject.py     what is reported on: the model, its ratings, the test part, what it is compared with, the verdict
about.py       sections about the data, the model and its settings      measured.py  predictions and lists
items.py       a map of the items, and examples                         page.py      all of them together
page_parts.py  sections, figures and tables; report.css the look of the page; pictures are made by `cofill.charts`
"""

from cofill.report.page import Part, report_page, write_report
from cofill.report.subject import Subject

__all__ = ["Part", "Subject", "report_page", "write_report"]

"""Side information: tables, tags, links and vectors into one matrix, and what was learned about their columns.

file, frame, tuples -> reading -> columns -> kinds -> source -> features -> described ratings
                                               |
                                  what items are in words -> attributes

A kind of side information is one class: those of columns are in `kinds`, tags, links and vectors in `lists`.
"""

from cofill.data.features.columns import ReadableColumn
from cofill.data.features.features import FeatureReport, Features
from cofill.data.features.kind import Kind
from cofill.data.features.source import UnknownFeatureWarning

__all__ = ["FeatureReport", "Features", "Kind", "ReadableColumn", "UnknownFeatureWarning"]

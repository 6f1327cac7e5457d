"""Side information: tables, tags, links and vectors into one matrix, and what was learned about their columns.

file, frame, tuples -> reading -> kinds -> columns, table, lists, text, vectors -> reduction -> matrix
                                                            |                                     |
                                                        readable -> what items are in words       |
                                                                                                  |
                                                                      known <- matching with ratings
"""

from cofill.data.features.kinds import Kind
from cofill.data.features.matrix import FeatureReport, Features
from cofill.data.features.source import SourceKind, UnknownFeatureWarning

__all__ = ["FeatureReport", "Features", "Kind", "SourceKind", "UnknownFeatureWarning"]

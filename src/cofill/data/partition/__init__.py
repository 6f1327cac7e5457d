"""Ratings in buckets of columns: made from a source of any size, read in part by each of many machines."""

from cofill.data.partition.manifest import is_partition, is_unfinished
from cofill.data.partition.partition import Partition, Shard
from cofill.data.partition.partitioning import write_partition

__all__ = ["Partition", "Shard", "is_partition", "is_unfinished", "write_partition"]

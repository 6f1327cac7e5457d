"""Ratings in buckets of columns: made from a source of any size, read in part by each of many machines."""

from cofill.data.partition.folder import Partition, Shard, is_partition
from cofill.data.partition.write import write_partition

__all__ = ["Partition", "Shard", "is_partition", "write_partition"]

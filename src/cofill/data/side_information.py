"""What a data set tells about its users and items apart from ratings, as features."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cofill.data.dataset_entry import Dataset, SideSource
from cofill.data.members import again, unpacked
from cofill.errors import DataError, DatasetError

if TYPE_CHECKING:
    from cofill.data.features import Features


class SideInformation(NamedTuple):
    """The features of both sides; None where a data set says nothing of one."""

    users: "Features | None"
    items: "Features | None"


def read_side_information(entry: Dataset, path: Path) -> SideInformation:
    """All sources that the entry names, those of one side joined."""
    return SideInformation(_joined(entry, path, entry.about_users), _joined(entry, path, entry.about_items))


def _joined(entry: Dataset, path: Path, sources: Sequence[SideSource]) -> "Features | None":
    from cofill.data.features import Features

    parts = [_read(entry, path, source) for source in sources]
    return Features.join(parts) if len(parts) > 1 else parts[0] if parts else None


def _read(entry: Dataset, path: Path, source: SideSource) -> "Features":
    from cofill.data.features import Features

    if entry.matlab:
        from cofill.data.matlab import read_links

        links = read_links(entry, path, source.member)
        try:
            return Features.read(links, kind=source.kind, name=source.name, both_ways=source.both_ways)
        except DataError as error:
            raise DatasetError(f"{path}, {source.member}: {error}. {again(entry)}") from error
    with unpacked(entry, path, source.member) as loose:
        return Features.read(
            loose, kind=source.kind, id=source.id, columns=source.columns, names=source.names, name=source.name,
            both_ways=source.both_ways, separator=source.separator, header=source.header,
            encoding=source.encoding,
        )  # fmt: skip

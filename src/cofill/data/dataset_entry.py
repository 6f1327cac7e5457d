"""What has to be said of a public data set so that it can be found, checked and read."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SideSource:
    """A member that says something about users or items, and how `Features.read` is to take it."""

    member: str
    kind: str
    brings: tuple[str, ...]
    """What it tells, in words for a list."""
    names: tuple[str, ...] | None = None
    """The columns of a file without a header."""
    id: str | None = None
    """The column of the ids; None where the kind says which it is."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Kinds of columns that are not left to be found out."""
    name: str | None = None
    """What its columns are called after, where it is no table; None: tags, links."""
    separator: str | None = None
    """None: any usual one."""
    header: bool | None = False
    encoding: str = "utf-8"
    both_ways: bool = True
    """Whether a link from one to the other is also one back; False where both are written down."""


@dataclass(frozen=True)
class Dataset:
    """A published set of ratings.

    Its members are inside a zip, or lie beside each other in the open, or are the matrices of one MATLAB file.
    """

    name: str
    title: str
    address: str | None
    """None if it is nowhere, or not to be had as one file."""
    md5: str | None
    """As the publisher gives it; None if it gives none, or one that changes."""
    size: int | None
    """Bytes of the file at the address."""
    users: int
    items: int
    """Those that are rated; the list of titles may be longer."""
    ratings: int
    licence: str
    citation: str
    file_names: tuple[str, ...]
    """By any of these it is recognised in a folder; the first is the publisher's. `a/b` is b in a folder a."""
    ratings_member: str
    titles_member: str | None
    separator: str
    header: bool
    encoding: str
    scale: tuple[float, float]
    changes: bool = False
    """Whether the publisher replaces it now and then, so that its counts are only those of one version."""
    folds: tuple[tuple[str, str], ...] = ()
    """Published splits: the members with the training and with the test ratings."""
    about_users: tuple[SideSource, ...] = ()
    about_items: tuple[SideSource, ...] = ()
    matlab: bool = False
    """Whether it is a MATLAB file: `ratings_member` is the matrix, users by items, and `folds` are masks of it."""
    missing: str = ""
    """Where there is no address: why, and what the user can do."""

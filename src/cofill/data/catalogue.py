"""What is published: of each public data set its address, checksum, size, licence and format."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

GROUPLENS = "https://files.grouplens.org/datasets/movielens"
HARPER_KONSTAN = (
    "F. Maxwell Harper and Joseph A. Konstan (2015). The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5(4), 19. https://doi.org/10.1145/2827872"
)
HAO_MA = (
    "Hao Ma, Dengyong Zhou, Chao Liu, Michael R. Lyu and Irwin King (2011). Recommender Systems with Social "
    "Regularization. WSDM 2011."
)
_RESEARCH = "for research: no commercial use without leave of GroupLens, no implied endorsement, cite it"
_NOT_PASSED_ON = f"{_RESEARCH}; it may not be redistributed without permission"
_PASSED_ON = f"{_RESEARCH}; it may be redistributed under the same conditions only"
_SEE_README = f"{_RESEARCH}; for redistribution see the README inside"


@dataclass(frozen=True)
class Dataset:
    """A published set of ratings. Its members are inside a zip, or lie in the open where it is no zip."""

    name: str
    title: str
    address: str | None
    """None if nobody publishes it any more."""
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
    """By any of these it is recognised in a folder; the first is the publisher's."""
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
    missing: str = ""
    """Where there is no address: why, and what the user can do."""


def _movielens_csv(
    name: str, title: str, licence: str, md5: str | None, size: int, counts: tuple[int, int, int],
    *, changes: bool = False,
) -> Dataset:  # fmt: skip
    """The sets since 20M are laid out alike."""
    users, items, ratings = counts
    return Dataset(
        name=name, title=title, address=f"{GROUPLENS}/{name}.zip", md5=md5, size=size,
        users=users, items=items, ratings=ratings, licence=licence, citation=HARPER_KONSTAN,
        file_names=(f"{name}.zip",), ratings_member=f"{name}/ratings.csv", titles_member=f"{name}/movies.csv",
        separator=",", header=True, encoding="utf-8", scale=(0.5, 5.0), changes=changes,
    )  # fmt: skip


_ALL = (
    Dataset(
        name="ml-100k",
        title="MovieLens 100K (1998)",
        address=f"{GROUPLENS}/ml-100k.zip",
        md5="0e33842e24a9c977be4e0107933c0723",
        size=4_924_029,
        users=943,
        items=1_682,
        ratings=100_000,
        licence=_NOT_PASSED_ON,
        citation=HARPER_KONSTAN,
        file_names=("ml-100k.zip",),
        ratings_member="ml-100k/u.data",
        titles_member="ml-100k/u.item",
        separator="\t",
        header=False,
        encoding="latin-1",
        scale=(1.0, 5.0),
        folds=tuple((f"ml-100k/u{fold}.base", f"ml-100k/u{fold}.test") for fold in range(1, 6)),
    ),
    Dataset(
        name="ml-1m",
        title="MovieLens 1M (2003)",
        address=f"{GROUPLENS}/ml-1m.zip",
        md5="c4d9eecfca2ab87c1945afe126590906",
        size=5_917_549,
        users=6_040,
        items=3_706,
        ratings=1_000_209,
        licence=_NOT_PASSED_ON,
        citation=HARPER_KONSTAN,
        file_names=("ml-1m.zip",),
        ratings_member="ml-1m/ratings.dat",
        titles_member="ml-1m/movies.dat",
        separator="::",
        header=False,
        encoding="latin-1",
        scale=(1.0, 5.0),
    ),
    Dataset(
        name="ml-10m",
        title="MovieLens 10M (2009)",
        address=f"{GROUPLENS}/ml-10m.zip",
        md5="ce571fd55effeba0271552578f2648bd",
        size=65_566_137,
        users=69_878,
        items=10_677,
        ratings=10_000_054,
        licence=_NOT_PASSED_ON,
        citation=HARPER_KONSTAN,
        file_names=("ml-10m.zip",),
        ratings_member="ml-10M100K/ratings.dat",
        titles_member="ml-10M100K/movies.dat",
        separator="::",
        header=False,
        encoding="utf-8",
        scale=(0.5, 5.0),
    ),
    _movielens_csv(
        "ml-20m", "MovieLens 20M (2015)", _SEE_README, "cd245b17a1ae2cc31bb14903e1204af3", 198_702_078,
        (138_493, 26_744, 20_000_263),
    ),
    _movielens_csv(
        "ml-25m", "MovieLens 25M (2019)", _PASSED_ON, "6b51fb2759a8657d3bfcbfc42b592ada", 261_978_986,
        (162_541, 59_047, 25_000_095),
    ),
    _movielens_csv(
        "ml-32m", "MovieLens 32M (2024)", _PASSED_ON, "d472be332d4daa821edc399621853b57", 238_950_008,
        (200_948, 84_432, 32_000_204),
    ),
    _movielens_csv(
        "ml-latest-small", "MovieLens Latest, small (2018)", _PASSED_ON, None, 978_202, (610, 9_724, 100_836),
        changes=True,
    ),
    Dataset(
        name="douban",
        title="Douban (2011)",
        address=None,
        md5=None,
        size=None,
        users=129_490,
        items=58_541,
        ratings=16_830_839,
        licence="ask its authors; nothing is known of a licence",
        citation=HAO_MA,
        file_names=("uir.index", "douban.zip"),
        ratings_member="uir.index",
        titles_member=None,
        separator=" ",
        header=False,
        encoding="utf-8",
        scale=(1.0, 5.0),
        missing=(
            "It was at https://www.cse.cuhk.edu.hk/irwin.king/pub/data/douban, which is gone; no other "
            "public address is known. Get it from its authors and put uir.index, or a douban.zip with it in, "
            "into a folder named in COFILL_DATA: 'user item rating' a line, single spaces, ratings 1 to 5."
        ),
    ),
)  # fmt: skip

CATALOGUE: Mapping[str, Dataset] = MappingProxyType({entry.name: entry for entry in _ALL})

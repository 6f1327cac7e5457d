"""The public data sets: URL, checksum, size, licence, format and side information of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from cofill.data.reading import ReadOptions


@dataclass(frozen=True)
class SideSource:
    """A member file with side information, and the arguments for `Features.read`."""

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

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments for `Features.read`."""
        return {name: value for name, value in vars(self).items() if name not in ("member", "brings")}


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A published set of ratings.

    Its members are inside a zip, or lie beside each other in the open, or are the matrices of one MATLAB file.
    """

    name: str
    title: str
    address: str | None = None
    """None if it is nowhere, or not to be had as one file."""
    md5: str | None = None
    """None if the publisher gives none, or one that changes."""
    size: int | None = None
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
    titles_member: str | None = None
    separator: str
    header: bool = False
    encoding: str = "utf-8"
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
    second_hand: tuple[str, ...] = ()
    """Which of "licence" and "checksum" (with the size) are as others quote them, and were read neither at the
    publisher nor in its own files."""

    @property
    def reading(self) -> ReadOptions:
        """How its ratings are read."""
        return ReadOptions.of(separator=self.separator, header=self.header, scale=self.scale)

    @property
    def terms(self) -> str:
        """The licence in words, with a mark where it is second-hand."""
        return f"{self.licence}{LICENCE_SECOND_HAND if 'licence' in self.second_hand else ''}"


def again(entry: Dataset) -> str:
    """What to do about a file that is not what it should be."""
    return f"Get {entry.file_names[0]} anew from {entry.address}." if entry.address else entry.missing


LICENCE_SECOND_HAND = " (second-hand: as others quote it; what is in the publisher's README counts)"

GROUPLENS = "https://files.grouplens.org/datasets/movielens"
HARPER_KONSTAN = (
    "F. Maxwell Harper and Joseph A. Konstan (2015). The MovieLens Datasets: History and Context. "
    "ACM Transactions on Interactive Intelligent Systems 5(4), 19. https://doi.org/10.1145/2827872"
)
HAO_MA = (
    "Hao Ma, Dengyong Zhou, Chao Liu, Michael R. Lyu and Irwin King (2011). Recommender Systems with Social "
    "Regularization. WSDM 2011."
)
JAMALI_ESTER = (
    "Mohsen Jamali and Martin Ester (2010). A Matrix Factorization Technique with Trust Propagation for Recommendation "
    "in Social Networks. RecSys 2010."
)
DROR = (
    "Gideon Dror, Noam Koenigstein, Yehuda Koren and Markus Weimer (2012). The Yahoo! Music Dataset and KDD-Cup'11. "
    "Proceedings of Machine Learning Research 18."
)
MONTI = (
    "Federico Monti, Michael M. Bronstein and Xavier Bresson (2017). Geometric Matrix Completion with Recurrent "
    "Multi-Graph Neural Networks. NIPS 2017. https://arxiv.org/abs/1704.06803"
)
DOOMS = (
    "Simon Dooms, Toon De Pessemier and Luc Martens (2013). MovieTweetings: a Movie Rating Dataset Collected From "
    "Twitter. Workshop on Crowdsourcing and Human Computation for Recommender Systems, RecSys 2013."
)
_RESEARCH = "for research: no commercial use without leave of GroupLens, no implied endorsement, cite it"
_NOT_PASSED_ON = f"{_RESEARCH}; it may not be redistributed without permission"
_PASSED_ON = f"{_RESEARCH}; it may be redistributed under the same conditions only"
_SEE_README = f"{_RESEARCH}; for redistribution see the README inside"


def _movies_dat(member: str, encoding: str) -> SideSource:
    """`id::title (year)::genre|genre`"""
    return SideSource(
        member, "table", ("genres", "years"), ("movie", "title", "genres"), "movie",
        {"title": "date", "genres": "several"}, separator="::", encoding=encoding,
    )  # fmt: skip


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
        separator=",", header=True, scale=(0.5, 5.0), changes=changes,
        second_hand=("licence", "checksum") if md5 else ("licence",),
        about_items=(
            SideSource(
                f"{name}/movies.csv", "table", ("genres", "years"), id="movieId",
                columns={"title": "date", "genres": "several"}, separator=",", header=True,
            ),
            SideSource(f"{name}/tags.csv", "tags", ("tags",), id="movieId", separator=",", header=True),
        ),
    )  # fmt: skip


def _graph(matrix: str, name: str) -> SideSource:
    """Links as a symmetric matrix."""
    return SideSource(matrix, "links", (name,), name=name, both_ways=False)


def _monti(
    part_of: str, title: str, ratings_of: str, counts: tuple[int, int, int], scale: tuple[float, float],
    *, about_users: tuple[SideSource, ...] = (), about_items: tuple[SideSource, ...] = (),
) -> Dataset:  # fmt: skip
    """The three sets of one paper are laid out alike, in files of the same name in folders of their own."""
    users, items, ratings = counts
    name, folder, file = f"monti-{part_of}", part_of.replace("-", "_"), "training_test_dataset.mat"
    graphs = ", ".join(source.member for source in (*about_users, *about_items))
    return Dataset(
        name=name, title=title, users=users, items=items, ratings=ratings,
        licence="ask its authors; nothing is known of a licence", citation=f"{MONTI}; its ratings are of {ratings_of}",
        file_names=(f"{name}/{file}", f"{folder}/{file}", f"{name}.mat"),
        ratings_member="M", separator="", scale=scale,
        folds=(("Otraining", "Otest"),), about_users=about_users, about_items=about_items, matlab=True,
        missing=(
            "It has no address of its own; it is in public repositories of papers on graph networks, as "
            f"{folder}/{file} (M, Otraining, Otest, {graphs}). Put that into a folder {name} in the folder named in "
            "COFILL_DATA."
        ),
    )  # fmt: skip


_GENRES_100K = (
    "unknown genre", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
    "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western",
)  # fmt: skip
_COLUMNS_100K = {
    "title": "skip",  # it has the year too, but not in every cell
    "release date": "date",
    "video date": "skip",
    "url": "skip",
    **dict.fromkeys(_GENRES_100K, "flag"),
}


_ALL = (
    Dataset(
        name="ml-100k", title="MovieLens 100K (1998)", address=f"{GROUPLENS}/ml-100k.zip",
        md5="0e33842e24a9c977be4e0107933c0723", size=4_924_029, users=943, items=1_682, ratings=100_000,
        licence=_NOT_PASSED_ON,
        second_hand=("checksum",),  # its README was read, in a file that somebody had packed anew
        citation=HARPER_KONSTAN, file_names=("ml-100k.zip",), ratings_member="ml-100k/u.data",
        titles_member="ml-100k/u.item", separator="\t", encoding="latin-1", scale=(1.0, 5.0),
        folds=tuple((f"ml-100k/u{fold}.base", f"ml-100k/u{fold}.test") for fold in range(1, 6)),
        about_users=(
            SideSource(
                "ml-100k/u.user", "table", ("ages", "genders", "occupations"),
                ("user", "age", "gender", "occupation", "zip"), "user",
                {"age": "number", "gender": "category", "occupation": "category", "zip": "skip"}, separator="|",
            ),
        ),
        about_items=(
            SideSource(
                "ml-100k/u.item", "table", ("genres", "years"),
                ("movie", "title", "release date", "video date", "url", *_GENRES_100K), "movie",
                _COLUMNS_100K, separator="|", encoding="latin-1",
            ),
        ),
    ),
    Dataset(
        name="ml-1m", title="MovieLens 1M (2003)", address=f"{GROUPLENS}/ml-1m.zip",
        md5="c4d9eecfca2ab87c1945afe126590906", size=5_917_549, users=6_040, items=3_706, ratings=1_000_209,
        licence=_NOT_PASSED_ON, citation=HARPER_KONSTAN, file_names=("ml-1m.zip",), ratings_member="ml-1m/ratings.dat",
        titles_member="ml-1m/movies.dat", separator="::", encoding="latin-1", scale=(1.0, 5.0),
        about_users=(
            SideSource(
                "ml-1m/users.dat", "table", ("ages", "genders", "occupations"),
                ("user", "gender", "age", "occupation", "zip"), "user",
                # The ages are the first years of seven groups.
                {"gender": "category", "age": "category", "occupation": "category", "zip": "skip"}, separator="::",
            ),
        ),
        about_items=(_movies_dat("ml-1m/movies.dat", "latin-1"),),
    ),
    Dataset(
        name="ml-10m", title="MovieLens 10M (2009)", address=f"{GROUPLENS}/ml-10m.zip",
        md5="ce571fd55effeba0271552578f2648bd", size=65_566_137, users=69_878, items=10_677, ratings=10_000_054,
        licence=_NOT_PASSED_ON, second_hand=("licence", "checksum"), citation=HARPER_KONSTAN,
        file_names=("ml-10m.zip",), ratings_member="ml-10M100K/ratings.dat", titles_member="ml-10M100K/movies.dat",
        separator="::", scale=(0.5, 5.0),
        about_items=(
            _movies_dat("ml-10M100K/movies.dat", "utf-8"),
            SideSource("ml-10M100K/tags.dat", "tags", ("tags",), separator="::"),  # user::movie::tag::time
        ),
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
        name="douban", title="Douban (2011)", users=129_490, items=58_541, ratings=16_830_839,
        licence="ask its authors; nothing is known of a licence", citation=HAO_MA,
        file_names=("uir.index", "douban.zip"), ratings_member="uir.index", separator=" ", scale=(1.0, 5.0),
        # How others describe it; the file itself could not be seen.
        about_users=(SideSource("social.index", "links", ("friends",), name="friends"),),
        missing=(
            "It was at https://www.cse.cuhk.edu.hk/irwin.king/pub/data/douban, which is gone; no other "
            "public address is known. Get it from its authors and put uir.index, or a douban.zip with it in, "
            "into a folder named in COFILL_DATA: 'user item rating' a line, single spaces, ratings 1 to 5. Its friends "
            "are taken from social.index beside it (or in the zip): two users a line, with any usual separator."
        ),
    ),
    _monti(
        "douban", "Douban, 3,000 x 3,000 of it (2017)", HAO_MA, (2_999, 3_000, 136_891), (1.0, 5.0),
        about_users=(_graph("W_users", "friends"),),
    ),
    # In these two everything is linked to ten others or more, as in a graph of nearest neighbours. Linked films of
    # Flixster are rated by the same people five times as often as others: their links may have been drawn from the
    # ratings, those of the test part included. Links of Yahoo Music agree with nothing in its ratings.
    _monti(
        "flixster", "Flixster, 3,000 x 3,000 of it (2017)", JAMALI_ESTER, (2_341, 2_956, 26_173), (0.5, 5.0),
        about_users=(_graph("W_users", "similar users"),), about_items=(_graph("W_movies", "similar movies"),),
    ),
    _monti(
        "yahoo-music", "Yahoo Music, 3,000 x 3,000 of it (2017)", DROR, (1_357, 1_363, 5_335), (1.0, 100.0),
        about_items=(_graph("W_tracks", "similar tracks"),),
    ),
    Dataset(
        name="movietweetings", title="MovieTweetings (2013)", users=21_081, items=12_611, ratings=141_695,
        licence="under the MIT licence", citation=DOOMS,
        file_names=("movietweetings/ratings.dat", "movietweetings/latest/ratings.dat"), ratings_member="ratings.dat",
        titles_member="movies.dat", separator="::", scale=(0.0, 10.0), changes=True,
        about_items=(_movies_dat("movies.dat", "utf-8"),),
        missing=(
            "It is published as several files: take ratings.dat and movies.dat from the folder latest of "
            "https://github.com/sidooms/MovieTweetings and put them into a folder movietweetings in the folder named "
            "in COFILL_DATA."
        ),
    ),
)  # fmt: skip

CATALOGUE: Mapping[str, Dataset] = MappingProxyType({entry.name: entry for entry in _ALL})

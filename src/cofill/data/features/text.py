"""Words of a text, and how much each of them says."""

import re

import numpy as np
import numpy.typing as npt

WORD = re.compile(r"[^\W\d_]{2,}")
STOP_WORDS = frozenset(
    (
        *("about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at"),
        *("be", "because", "been", "before", "being", "but", "by", "can", "could", "did", "do"),
        *("does", "for", "from", "had", "has", "have", "he", "her", "here", "him", "his"),
        *("how", "if", "in", "into", "is", "it", "its", "just", "me", "more", "most"),
        *("my", "no", "not", "of", "off", "on", "one", "only", "or", "other", "our"),
        *("out", "over", "own", "she", "so", "some", "than", "that", "the", "their", "them"),
        *("then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "until"),
        *("up", "very", "was", "we", "were", "what", "when", "where", "which", "while", "who"),
        *("whom", "why", "will", "with", "would", "you", "your"),
    )
)


def words(text: str) -> list[str]:
    """The words of `text` in lower case, in order: two letters or more, without those that every text has."""
    return [word for word in WORD.findall(text.lower()) if word not in STOP_WORDS]


def rarity(found_in: npt.NDArray[np.int64], texts: int) -> npt.NDArray[np.float32]:
    """(words,): the weight of words found in so many of all texts; 1 for a word that all of them have."""
    return np.asarray(np.log((1.0 + texts) / (1.0 + found_in)) + 1.0, np.float32)

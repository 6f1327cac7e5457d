"""What clients ask for in an address: everything there is text, and what is not known is refused."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cofill.serving.messages import LONGEST_ID, MOST_ITEMS, checked_text

LONGEST_QUERY = 200

_Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID), AfterValidator(checked_text)]
_Condition = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(checked_text)]
_Words = Annotated[str, Field(max_length=LONGEST_QUERY), AfterValidator(checked_text)]
_Count = Annotated[int, Field(ge=1, le=MOST_ITEMS)]


class _Query(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NothingQuery(_Query):
    """Of an address that takes no question."""


class RecommendationQuery(_Query):
    user: _Id
    n: _Count = 10
    exclude_known: bool = True
    where: list[_Condition] | None = Field(
        default=None,
        max_length=50,
        description="COLUMN:VALUE or COLUMN:LOW..HIGH; one column several times: any of these",
    )
    among: list[_Id] | None = Field(default=None, max_length=1000)
    why: bool = False


class SimilarQuery(_Query):
    item: _Id
    n: _Count = 10


class ItemsQuery(_Query):
    query: _Words = ""
    n: _Count = 10


class ItemQuery(_Query):
    id: _Id


class StartersQuery(_Query):
    n: _Count = 12


class UsersQuery(_Query):
    query: _Words = ""
    n: _Count = 20


class UserQuery(_Query):
    user: _Id


class PairQuery(_Query):
    user: _Id
    item: _Id

"""Recommendations, predictions and reasons."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from cofill.data.vocabulary import Id
from cofill.errors import CofillError, UnknownIdError
from cofill.serving.answers import answer, explained, item_entry, known_item, rounded
from cofill.serving.asking import works_for_long
from cofill.serving.filters import choosable, where_of
from cofill.serving.live_model import LiveModel
from cofill.serving.messages import BatchRequest, PredictionRequest, RecommendationRequest, Somebody, WhyRequest
from cofill.serving.problems import ProblemError
from cofill.serving.queries import PairQuery, RecommendationQuery
from cofill.serving.replies import Predicted, Recommended, RecommendedBatch, Why
from cofill.serving.served_model import ServedModel

_MOST_REASONS = 10  # beside each item of a list; /v1/why has them all


def add_recommending(router: APIRouter, live: LiveModel) -> None:
    @router.get("/v1/recommendations", response_model=Recommended, summary="What a user would like")
    def for_user(query: Annotated[RecommendationQuery, Query()]) -> Response:
        with live.asked() as served:
            where = where_of(query.where, served.model) if query.where else None
            request = RecommendationRequest.model_construct(
                user=query.user,
                n=query.n,
                exclude_known=query.exclude_known,
                where=where,
                among=query.among,
                why=query.why,
            )
            return answer(_recommended(served, request))

    @router.post("/v1/recommendations", response_model=Recommended, summary="What somebody would like")
    def for_somebody(request: RecommendationRequest) -> Response:
        with live.asked() as served:
            return answer(_recommended(served, request))

    @router.post("/v1/recommendations/batch", response_model=RecommendedBatch, summary="What many would like")
    @works_for_long
    def for_many(batch: BatchRequest) -> Response:
        answers = []
        until = time.monotonic() + live.seconds
        for at, request in enumerate(batch.requests):
            if time.monotonic() > until:  # nobody waits for the rest
                raise ProblemError(503, "the batch takes too long; send fewer requests at once")
            with live.asked() as served:  # each on its own, so that others have their turn between
                try:
                    answers.append(_recommended(served, request))
                except CofillError as error:
                    status = 404 if isinstance(error, UnknownIdError) else 422
                    raise ProblemError(status, f"requests.{at}: {error}") from error
        return answer({"answers": answers})

    @router.post("/v1/predictions", response_model=Predicted, summary="What users would give items")
    def predictions(request: PredictionRequest) -> Response:
        with live.asked() as served:
            model = served.model
            users = model.users.find([pair.user for pair in request.pairs])
            items = model.items.find([pair.item for pair in request.pairs])
            ratings = [rounded(rating) for rating in model.predict_indices(users, items).tolist()]
            return answer({"ratings": ratings, "model_version": served.card.version})

    @router.get("/v1/why", response_model=Why, summary="What pushes an item up or down for a user")
    def why_for_user(query: Annotated[PairQuery, Query()]) -> Response:
        with live.asked() as served:
            if not served.known_user(query.user):
                raise UnknownIdError(f"user {query.user!r} is not known; check the id, or POST the ratings instead")
            return answer(_why(served, query.user, query.item, None))

    @router.post("/v1/why", response_model=Why, summary="What pushes an item up or down for somebody")
    def why_for_somebody(request: WhyRequest) -> Response:
        with live.asked() as served:
            return answer(_why(served, request.who, request.item, _features(served, request)))


def _recommended(served: ServedModel, request: RecommendationRequest) -> dict[str, Any]:
    model = served.model
    among = choosable(model, request.where, request.among, request.exclude)
    who, features = request.who, _features(served, request)
    found = model.recommend(who, request.n, features=features, exclude_known=request.exclude_known, among=among)
    entries = [item_entry(served, one.item, rating=rounded(one.rating)) for one in found]
    if request.why and found:
        reasons = model.explain_many(who, [one.item for one in found], features=features)
        for entry, why in zip(entries, reasons, strict=True):
            entry["why"] = explained(why, _MOST_REASONS)
    known = None if request.user is None else request.user in model.users
    return {"items": entries, "known": known, "model_version": served.card.version}


def _features(served: ServedModel, request: Somebody) -> dict[str, Any] | None:
    """None where nothing was said; what was left out is unknown."""
    return None if request.features is None else served.full_description("user", request.features)


def _why(served: ServedModel, who: Any, item: Id, features: dict[str, Any] | None) -> dict[str, Any]:
    why = served.model.explain(who, known_item(served, item), features=features)
    return explained(why) | {"model_version": served.card.version}

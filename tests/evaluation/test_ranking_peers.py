"""The ranking measures against trec_eval and scikit-learn, where the definitions coincide."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cofill.evaluation import evaluate_ranking
from tests.evaluation.scored import Scored, ratings

# Neither has types.
pytrec_eval: Any = import_module("pytrec_eval")
sklearn_metrics: Any = import_module("sklearn.metrics")

THRESHOLD = 3


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any, Any, int, int]:
    """Truth (users, items) from 1 to 5, 0 where unknown; scores; what is known; n; chunk.

    Each user has a relevant item.
    Scores are of few values: where they tie, the peers are told the order that the lower index gives.
    """
    users, items = draw(st.integers(1, 5)), draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    truth = rng.integers(0, 6, (users, items)) * (rng.random((users, items)) < draw(st.sampled_from([0.2, 0.6, 1.0])))
    known = rng.random((users, items)) < 0.3
    truth[known] = 0
    for user in range(users):
        if not (truth[user] >= THRESHOLD).any():
            truth[user, user % items], known[user, user % items] = 5, False
    scores = rng.integers(0, draw(st.sampled_from([3, 1000])), (users, items)).astype(float)
    return truth, scores, known, draw(st.integers(1, items + 2)), draw(st.integers(1, 6))


def evaluated(case: tuple[Any, Any, Any, int, int]) -> Any:
    truth, scores, known, n, chunk = case
    triples = [(int(u), int(i), float(truth[u, i])) for u, i in np.argwhere(truth > 0)]
    model = Scored(range(len(truth)), range(truth.shape[1]), scores, known=list(map(tuple, np.argwhere(known))))
    return evaluate_ranking(model, ratings(triples), n=n, relevant=THRESHOLD, chunk=chunk)


def untied(scores: Any) -> Any:
    """The same order without ties: the lower index comes first."""
    return scores - np.arange(scores.shape[1]) / (10.0 * scores.shape[1])


def gains(truth: Any) -> Any:
    return np.where(truth >= THRESHOLD, truth - 1, 0)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_against_trec_eval(case: tuple[Any, Any, Any, int, int]) -> None:
    """The lists of the model and those of popularity, at n and at the other cut-offs."""
    truth, scores, known, n, _ = case
    gain = gains(truth)
    judged = {
        f"u{user}": {f"i{item}": int(gain[user, item]) for item in np.flatnonzero(gain[user]).tolist()}
        for user in range(len(truth))
    }
    names = {f"ndcg_cut.{n},20,100", f"P.{n},20,100", f"recall.{n},20,100", "recip_rank"}
    ours = evaluated(case)
    popular = np.tile(known.sum(0).astype(float), (len(truth), 1))
    for lists, score in ((ours, untied(scores)), (ours.popularity, untied(popular))):
        run = {
            f"u{user}": {f"i{item}": float(score[user, item]) for item in np.flatnonzero(~known[user]).tolist()}
            for user in range(len(truth))
        }
        theirs = list(pytrec_eval.RelevanceEvaluator(judged, names).evaluate(run).values())
        assert ours.users == len(theirs)
        means = {name: np.mean([user[name] for user in theirs]) for name in theirs[0]}
        assert lists.mrr == pytest.approx(means["recip_rank"], abs=1e-6)
        for at in (lists.at(n), lists.at(20), lists.at(100)):
            expected = [means[f"{name}_{at.n}"] for name in ("ndcg_cut", "P", "recall")]
            assert [at.ndcg, at.precision, at.recall] == pytest.approx(expected, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_against_scikit_learn(case: tuple[Any, Any, Any, int, int]) -> None:
    """Its NDCG; and precision, recall and F1 of who is in the list, user by user."""
    truth, scores, known, n, _ = case
    gain, score = gains(truth), untied(scores)
    score[known] = -1e6  # last of all, where a gain of 0 changes nothing
    n = min(n, int((~known).sum(1).min()))
    ours = evaluated((truth, scores, known, n, 2))
    theirs = np.mean([sklearn_metrics.ndcg_score(g[None], s[None], k=n) for g, s in zip(gain, score, strict=True)])
    assert ours.ndcg == pytest.approx(theirs)
    listed = np.zeros(truth.shape, np.bool_)
    np.put_along_axis(listed, np.argsort(-score, axis=1)[:, :n], True, axis=1)
    found = [
        sklearn_metrics.precision_recall_fscore_support(g > 0, chosen, average="binary", zero_division=0)[:3]
        for g, chosen in zip(gain, listed, strict=True)
    ]
    assert (ours.precision, ours.recall, ours.f1) == pytest.approx(tuple(np.mean(found, axis=0)))

"""The published OpenAPI document is kept to, whatever is sent: no failure of the server, no answer outside of it."""

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from cofill.models.recommender import Recommender
from tests.serving.conftest import ITEMS
from tests.serving.running_server import Server
from tests.serving.test_routing import RIGHTS

PLAIN = ("/health", "/metrics", "/ready")
FEW = 3
EXAMPLES = [FEW, pytest.param(30, marks=pytest.mark.slow)]
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = sorted(
    ((method, path) for method, path in RIGHTS if path.startswith("/v1/") or path in PLAIN),
    key=lambda one: (one in (("DELETE", "/v1/item"), ("DELETE", "/v1/user")), one),
)  # these two the last, because others ask about what is there
LISTS = ("among", "at_most", "boost", "exclude", "where")  # in queries
TAKE_NOTHING = [
    ("GET", "/health"),
    ("GET", "/v1/click-through"),
    ("POST", "/v1/model/retrain"),
    ("GET", "/v1/model/trainings"),
    ("GET", "/metrics"),
    ("GET", "/ready"),
    ("GET", "/v1/map"),
]


@schemathesis.serializer("application/x-ndjson")
def lines_of_json(_: object, value: Any) -> bytes:
    """A line for each; what is no list is one line."""
    return b"\n".join(json.dumps(line).encode() for line in (value if isinstance(value, list) else [value]))


@pytest.fixture(scope="module")
def fuzzed(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Of these tests alone: it learns a lot of nonsense."""
    running = Server(shutil.copytree(trained, tmp_path_factory.mktemp("fuzzed") / "model"), "--requests-per-second=0")
    yield running
    assert running.client.get("/ready").status_code == 200
    assert running.stop() == 0, running.errors()
    assert "Traceback" not in running.errors()


@pytest.fixture(scope="module")
def published(fuzzed: Server) -> Any:
    return schemathesis.openapi.from_url(
        f"{fuzzed.told['address']}/openapi.json", config=schemathesis.Config()
    )  # its own: nothing is looked for in the folder or the environment


def test_every_operation_is_tried(fuzzed: Server) -> None:
    paths = fuzzed.client.get("/openapi.json").json()["paths"]
    assert sorted((method.upper(), path) for path, of in paths.items() for method in of) == sorted(OPERATIONS)


def test_the_document_says_what_everything_is(fuzzed: Server) -> None:
    document = fuzzed.client.get("/openapi.json").json()
    ids = [operation["operationId"] for of in document["paths"].values() for operation in of.values()]
    assert len(set(ids)) == len(ids)
    assert {"recommendForUser", "findSimilarItems", "putRatings", "getModel"} <= set(ids)
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+)+|predict", id) for id in ids), ids
    tags = {tag["name"] for tag in document["tags"]}
    for path, of in document["paths"].items():
        for method, operation in of.items():
            assert operation["summary"], path
            assert operation["description"], path
            assert set(operation["tags"]) <= tags
            needs_key = path not in ("/health", "/ready")
            assert (operation["security"] == [{}, {"key": []}]) == needs_key, (method, path)
            unsaid = [one["name"] for one in operation.get("parameters", ()) if not one.get("description")]
            assert not unsaid, f"{path}: say what {unsaid} are"
            assert "X-Request-Id" in operation["responses"]["default"]["headers"]
    for name, schema in document["components"]["schemas"].items():
        unsaid = [field for field, about in schema.get("properties", {}).items() if not about.get("description")]
        assert not unsaid, f"{name}: say what {unsaid} are"
    assert document["components"]["securitySchemes"]["key"]["scheme"] == "bearer"


def test_the_examples_of_the_docs_answer(fuzzed: Server, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("there is no curl on this machine")
    docs = Path(__file__).parents[2] / "docs"
    pages = ("how-to/serve.md", "how-to/live.md", "reference/http.md")
    text = "\n".join((docs / page).read_text(encoding="utf-8") for page in pages)
    examples = [block for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE) if "curl " in block]
    assert len(examples) >= 3
    place = fuzzed.told["address"].removeprefix("http://")
    failing = f'set -euo pipefail; curl() {{ {curl} --silent --show-error --fail-with-body "$@"; }}\n'
    for example in examples:
        script = failing + textwrap.dedent(example).replace("localhost:8000", place)
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert done.returncode == 0, f"{example}: {done.stdout} {done.stderr}"


@pytest.mark.slow
def test_a_client_that_is_generated_from_it_gets_a_list(fuzzed: Server, tmp_path: Path) -> None:
    (tmp_path / "openapi.json").write_text(fuzzed.client.get("/openapi.json").text, encoding="utf-8")
    (tmp_path / "settings.yaml").write_text(
        "post_hooks: []\ncontent_type_overrides: {application/x-ndjson: application/json}\n", encoding="utf-8"
    )  # lines of JSON, which it does not know, are lists to it
    words = ["generate", "--path", "openapi.json", "--output-path", "generated", "--config", "settings.yaml"]
    made = subprocess.run(
        [Path(sys.executable).with_name("openapi-python-client"), *words, "--meta", "none", "--fail-on-warning"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    program = f"""
from generated import Client
from generated.api.recommending import recommend_for_described_user, recommend_for_user
from generated.models import Given, Problem, Recommended, RecommendationRequest

client = Client(base_url={fuzzed.told["address"]!r})
found = recommend_for_user.sync(client=client, user="7", n=3, where=["year:1900.."])
assert isinstance(found, Recommended) and len(found.items) == 3 and found.known, found
mine = RecommendationRequest(ratings=[Given(item=1, rating=4.5)], n=2)
assert len(recommend_for_described_user.sync(client=client, body=mine).items) == 2
refused = recommend_for_user.sync(client=client, user="7", n=3, where=["genres:drama"])
assert isinstance(refused, Problem) and refused.type_.value == "/problems/unknown-value", refused
"""
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


BOUNDED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_what_fits_the_document(fuzzed: Server, published: Any, method: str, path: str, examples: int) -> None:
    """With ids that are mostly not known, and with ids that are."""
    answered: set[int] = set()

    @settings(BOUNDED, max_examples=examples)
    @given(case=published[path][method.lower()].as_strategy(), known=st.booleans())
    def ask(case: schemathesis.Case[Any], known: bool) -> None:
        if known:
            case.query = _with_known_ids(case.query)
            case.body = _with_known_ids(case.body)
            if (method, path) == ("DELETE", "/v1/events"):
                event = {"user": 1, "item": 1, "kind": "view", "id": str(case.query["id"])}
                assert fuzzed.client.post("/v1/events", json={"events": [event]}).status_code == 200
        answer = case.call()
        case.validate_response(answer, checks=CHECKS)
        assert "Traceback" not in answer.text
        answered.add(answer.status_code)

    if path == "/v1/model/rollback":
        _reload_another(fuzzed)
    ask()
    refused_here = path == "/v1/model/retrain"  # this server was started without --retrain
    assert examples == FEW or refused_here or answered & {200, 201, 204}, f"only {answered}: nothing was tried"


def _reload_another(server: Server) -> None:
    """So that there is a model to go back to."""
    folder = Path(server.told["model"])
    Recommender.load(folder).add_ratings([(1, 1, 5.0)]).save(folder)
    assert server.client.post("/v1/model/reload").status_code == 200


@pytest.mark.parametrize(("method", "path"), [one for one in OPERATIONS if one not in TAKE_NOTHING])
@pytest.mark.parametrize("examples", EXAMPLES)
def test_what_does_not_fit_the_document(fuzzed: Server, published: Any, method: str, path: str, examples: int) -> None:
    @settings(BOUNDED, max_examples=examples)
    @given(case=published[path][method.lower()].as_strategy(GenerationMode.NEGATIVE))
    def ask(case: schemathesis.Case[Any]) -> None:
        answer = case.call()
        too_long = answer.status_code in (413, 414)  # a refusal too, which the check has not heard of
        fits = any(isinstance((case.query or {}).get(name), str) for name in LISTS)  # one of it is a list of one
        case.validate_response(answer, checks=CHECKS if too_long or fits else [*CHECKS, negative_data_rejection])
        assert "Traceback" not in answer.text

    ask()


def _with_known_ids(value: Any) -> Any:
    """What was made up, with ids of users and items that there are, and ratings on the scale."""
    if isinstance(value, list):
        return [_with_known_ids(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {name: _known(name, part) for name, part in value.items()}


KNOWN_RULES: dict[str, tuple[list[str], dict[str, Any]]] = {  # in a query, in a body
    "where": (["genres:Drama", "year:1950.."], {"genres": ["Drama"], "year": {"min": 1950}}),
    "boost": (["genres:Drama=2"], {"genres": {"Drama": 2}}),
    "at_most": (["genres=3"], {"genres": 3}),
}


def _known(name: str, value: Any) -> Any:
    if name in KNOWN_RULES and value:
        return KNOWN_RULES[name][isinstance(value, dict)]
    if name in ("user", "item", "id") and value is not None:
        return 1 + sum(map(ord, str(value))) % ITEMS
    if name == "kind":
        return "view"
    if name in ("cursor", "features"):
        return type(value)()  # an empty one
    if name == "rating" and isinstance(value, int | float):
        return 0.5 + abs(value) % 4.5
    return _with_known_ids(value)

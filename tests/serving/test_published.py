"""What is published: the OpenAPI document, figures for Prometheus, the page's files."""

import re
import time
from pathlib import Path

from tests.serving.conftest import train
from tests.serving.running_server import Asked, ServedHere, Server


def test_the_document_names_every_problem(untouched: Asked) -> None:
    document = untouched.client.get("/openapi.json").json()
    for of in document["paths"].values():
        for operation in of.values():
            for status, told in operation["responses"].items():
                assert list(told["content"]) == ["application/problem+json"] if status[0] in "45d" else True
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_two_networks_are_served_as_one_model(world: Path, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    train(world, folder, "--orientation", "both", "--epochs", "1")
    served = ServedHere(folder)
    model = served.client.get("/v1/model").json()
    assert model["orientation"] == "both"
    assert {record["rows"] for record in model["history"]} == {"item", "user"}
    why = served.client.get("/v1/why", params={"user": 7, "item": 11, "by": "rating"}).json()
    served.stop()
    assert why["low"] < why["value"] < why["high"]


def test_the_model_tells_about_itself(untouched: Asked) -> None:
    model = untouched.client.get("/v1/model").json()
    assert (model["kind"], model["orientation"], model["name"]) == ("cfn", "item", "model")
    assert model["scale"] == {"low": 0.5, "high": 5.0, "step": 0.5}
    assert model["ratings"] == {"trained": 2500, "live": 0}
    columns = {column["name"]: column for column in model["item_columns"]}
    assert columns["genres"]["kind"] == "several"
    assert {"value", "count"} == columns["genres"]["values"][0].keys()
    assert columns["year"]["low"] < columns["year"]["high"]
    assert [column["column"] for column in model["user_columns"]] == ["age", "occupation"]
    assert [column["column"] for column in model["item_feature_columns"]] == ["title", "year", "genres", "tags"]
    assert model["history"]
    assert model["settings"]["hidden"] == [30]


def test_figures(server: Server) -> None:
    user = server.new_user()
    server.rate(user, {1: 3})
    live = server.client.get("/v1/model").json()["ratings"]["live"]
    server.client.get("/nothing")
    figures = server.client.get("/metrics")
    assert figures.headers["content-type"].startswith("text/plain; version=")
    text = figures.text
    assert f"cofill_live_ratings {float(live)}" in text
    assert f'version="{server.told["version"]}"' in text
    assert re.search(r'cofill_request_seconds_count\{method="PUT",route="/v1/ratings",status="200"\} [1-9]', text)
    assert re.search(r'cofill_request_seconds_count\{method="GET",route="none",status="404"\} [1-9]', text)
    age = re.search(r'cofill_model_age_seconds{model="model"} ([0-9.e+]+)', text)
    assert age is not None
    assert 0 < float(age[1]) < time.time()
    assert "cofill_change_lag " in text


def test_the_page_is_served_from_the_package(untouched: Asked) -> None:
    answer = untouched.client.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    etag = answer.headers["etag"]
    again = untouched.client.get("/", headers={"if-none-match": f'"other", {etag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert untouched.client.head("/").status_code == 200

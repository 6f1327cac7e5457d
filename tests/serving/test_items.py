"""Items over HTTP: found by title, shown, described, to begin with, and on the map."""

from pathlib import Path

from cofill.serving.api.catalogue import map_of
from cofill.serving.live.served import ServedModel
from tests.serving.conftest import ITEMS
from tests.serving.running_server import Asked, Server, problem


def test_the_search_finds_beginnings_of_words_the_most_rated_first(server: Server) -> None:
    found = server.client.get("/v1/items", params={"query": "THE", "n": 100}).json()["items"]
    assert found
    assert all(any(word.startswith("the") for word in item["title"].lower().split()) for item in found)
    counts = [item["ratings"] for item in found]
    assert counts == sorted(counts, reverse=True)
    two = found[0]["title"].split()
    narrowed = server.client.get("/v1/items", params={"query": f"{two[1][:3]} {two[0][:2]}"}).json()["items"]
    assert found[0]["id"] in [item["id"] for item in narrowed]


def test_an_id_finds_its_item_first_and_nothing_finds_all(server: Server) -> None:
    assert server.client.get("/v1/items", params={"query": "17"}).json()["items"][0]["id"] == 17
    assert len(server.client.get("/v1/items", params={"n": 100}).json()["items"]) >= ITEMS
    assert server.client.get("/v1/items", params={"query": "zzzzzz"}).json()["items"] == []
    assert server.client.get("/v1/items", params={"query": "'; DROP TABLE --<b>"}).json()["items"] == []


def test_an_items_page(server: Server) -> None:
    item = server.client.get("/v1/item", params={"id": 30}).json()
    assert (item["id"], len(item["similar"])) == (30, 8)
    assert item["attributes"].keys() >= {"year", "genres"}
    ratings = item["ratings"]
    assert [share["rating"] for share in ratings["distribution"]] == [0.5 * step for step in range(1, 11)]
    assert sum(share["count"] for share in ratings["distribution"]) == ratings["count"] > 0
    mean = sum(share["rating"] * share["count"] for share in ratings["distribution"]) / ratings["count"]
    assert abs(mean - ratings["mean"]) < 1e-5
    similar = server.client.get("/v1/similar", params={"item": 30, "n": 8}).json()["items"]
    assert similar == item["similar"]
    assert similar[0]["similarity"] >= similar[-1]["similarity"]
    problem(server.client.get("/v1/item", params={"id": "nothing"}), 404)
    problem(server.client.get("/v1/similar", params={"item": "nothing"}), 404)


def test_a_new_item_is_found_and_recommended_at_once(server: Server) -> None:
    features = {"year": 1999, "genres": ["Comedy", "Drama"], "tags": ["sea"]}
    answer = server.client.put("/v1/item", json={"id": 5001, "title": "Ärger in Würzburg", "features": features})
    assert answer.status_code == 200, answer.text
    assert answer.json()["attributes"] == {"year": 1999, "genres": ["Comedy", "Drama"], "tags": ["sea"]}
    assert answer.json()["ratings"]["count"] == 0
    for query in ("arger", "WURZ", "würzburg är"):
        assert server.client.get("/v1/items", params={"query": query}).json()["items"][0]["id"] == 5001
    assert 5001 in [item["id"] for item in server.recommended("somebody else", 100)]
    assert [item["id"] for item in server.recommended(7, 1, among=5001)] == [5001]
    retitled = server.client.put("/v1/item", json={"id": 5001, "title": "Frieden in Ulm"})
    assert retitled.json()["title"] == "Frieden in Ulm"
    assert retitled.json()["attributes"]["year"] == 1999
    assert server.client.get("/v1/items", params={"query": "wurzburg"}).json()["items"] == []
    assert server.client.get("/v1/items", params={"query": "ulm"}).json()["items"][0]["id"] == 5001


def test_words_that_nobody_knows_are_not_told_to_the_log(server: Server) -> None:
    described = {"id": 5009, "features": {"year": 1999, "tags": ["nobody has said this"]}}
    assert server.client.put("/v1/item", json=described).status_code == 200
    assert "nobody has said this" not in server.errors()


def test_descriptions_that_are_refused(server: Server) -> None:
    def put(**body: object) -> str:
        return problem(server.client.put("/v1/item", json=body), 422)

    assert "nothing is said about item 5002" in put(id=5002)
    assert "nothing is said about item 5002" in put(id=5002, available=False)
    assert "there is no column 'yaer'; did you mean 'year'?" in put(id=5002, features={"yaer": 1999})
    assert "'year'" in put(id=5002, features={"year": "last summer"})
    problem(server.client.get("/v1/item", params={"id": 5002}), 404)


def test_starters_are_known_and_always_the_same(untouched: Asked) -> None:
    first = untouched.client.get("/v1/starters").json()["items"]
    assert len({item["id"] for item in first}) == 12
    everything = untouched.client.get("/v1/items", params={"n": 100}).json()["items"]
    assert {item["id"] for item in first} <= {item["id"] for item in everything[: ITEMS // 3]}
    assert untouched.client.get("/v1/starters", params={"n": 5}).json()["items"] == first[:5]


def test_the_map_is_drawn_when_the_model_is_trained(untouched: Asked) -> None:
    answer = untouched.client.get("/v1/map")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert len(found["items"]) == ITEMS
    assert found["group_column"] == "genres"
    groups = {item["group"] for item in found["items"]}
    assert groups > {"Drama", "Comedy"}
    assert len(groups - {None}) <= 8
    for axis in ("x", "y"):
        places = [item[axis] for item in found["items"]]
        assert (min(places), max(places)) == (0.0, 1.0)


def test_a_model_without_a_map_has_an_empty_one(model: Path) -> None:
    served = ServedModel(model)
    served.model.item_places = None
    assert map_of(served)["items"] == []


def test_people_are_found_with_what_they_love(untouched: Asked) -> None:
    for user in untouched.client.get("/v1/users", params={"n": 100}).json()["users"]:
        theirs = untouched.ratings(user["id"])
        assert len(user["loves"]) == min(3, len(user["loves"]))
        assert {item["id"] for item in user["loves"]} <= set(theirs)
        assert user["ratings"] == len(theirs)

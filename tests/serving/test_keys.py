"""Keys: made and removed by the command line, stored as hashes, asked for by the server."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cofill.cli import main
from cofill.errors import SettingsError
from cofill.serving.api.keys import KeyRing, new_key, read_keys, remove_key
from tests.serving.running_server import ServedHere, problem


def test_only_the_hash_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "keys.json"
    assert main(["keys", "new", "--file", str(file), "--write", "--name", "shop"]) == 0
    key = capsys.readouterr().out.strip()
    assert len(key) > 40
    assert key not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert main(["keys", "list", "--file", str(file), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["name"], entry["right"], entry.keys()) == ("shop", "write", {"name", "right", "created"})


def test_a_ring_follows_its_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    first = new_key(file, "first", "write")
    ring = KeyRing(file)
    found = ring.find(first)
    assert found is not None
    assert (found.name, found.right) == ("first", "write")
    assert ring.find(first + "x") is None
    assert ring.find("") is None
    assert ring.find("\udcff") is None
    second = new_key(file, "second", "read")
    remove_key(file, "first")
    assert ring.find(first) is None
    assert ring.find(second) == read_keys(file)[0]
    whole = file.read_text()
    file.write_text("broken")
    assert ring.find(second) is None  # it may have been removed: nobody can tell
    file.write_text(whole)
    assert ring.find(second) is not None
    file.unlink()
    assert ring.find(second) is None


def test_keys_that_are_made_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    file = tmp_path / "new" / "keys.json"
    names = {f"key {number}" for number in range(30)}
    with ThreadPoolExecutor(10) as threads:
        list(threads.map(lambda name: new_key(file, name, "read"), names))
        assert {key.name for key in read_keys(file)} == names
        list(threads.map(lambda name: remove_key(file, name), sorted(names)[1:]))
    assert {key.name for key in read_keys(file)} == {"key 0"}


def test_files_and_names_that_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    with pytest.raises(SettingsError, match=r"no such file of keys; make one with `cofill keys new"):
        read_keys(file)
    with pytest.raises(SettingsError, match="no such file of keys"):
        remove_key(tmp_path / "never" / "keys.json", "me")
    assert list(tmp_path.iterdir()) == []
    new_key(file, "me", "write")
    with pytest.raises(SettingsError, match="there is a key of the name 'me' already"):
        new_key(file, "me", "read")
    with pytest.raises(SettingsError, match="1 to 100 characters"):
        new_key(file, "", "read")
    with pytest.raises(SettingsError, match="there is no key of the name 'you'; there are 'me'"):
        remove_key(file, "you")
    file.write_text('{"keys": [{"name": "x"}]}')
    with pytest.raises(SettingsError, match="not a file of keys"):
        read_keys(file)


def test_other_addresses_need_keys(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "shop.example"):
        assert main(["serve", str(model), "--host", host]) == 1
        assert f"host = {host} can be reached by others, so keys are needed" in (said := capsys.readouterr().err)
        assert "`cofill keys new --file keys.json --write --name me`" in said


def test_keys_open(model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "keys.json"
    admin, write, read = (new_key(file, right, right) for right in ("admin", "write", "read"))
    server = ServedHere(model, host="0.0.0.0", keys=file, burst=35, requests_per_second=0.01)
    get, put = server.client.get, server.client.put
    rating = {"user": 1, "ratings": [{"item": 1, "rating": 3}]}

    def bearer(key: str) -> dict[bytes, bytes]:
        return {b"authorization": f"Bearer {key}".encode("latin-1"), b"host": b"shop.example"}

    for path in ("/health", "/ready"):
        assert get(path, headers={"host": "shop.example"}).status_code == 200
    assert get("/").status_code in (200, 404)
    basic, bare = {b"authorization": b"Basic x"}, {b"authorization": write.encode()}
    wrong: list[dict[bytes, bytes]] = [{}, bearer("\u00e9" * 8), bearer("wrong"), basic, bare]
    for headers in wrong:
        for path in ("/v1/model", "/metrics", "/openapi.json", "/v1/nothing"):
            answer = get(path, headers=headers)
            problem(answer, 401)
            assert answer.headers["www-authenticate"] == 'Bearer realm="cofill"'
    assert get("/v1/model", headers=bearer(read)).status_code == 200
    assert server.client.post("/v1/recommendations", json={"user": 1}, headers=bearer(read)).status_code == 200
    refused = put("/v1/ratings", json=rating, headers=bearer(read))
    assert "the key 'read' may read, and this needs one made with --write" in problem(refused, 403)
    problem(server.client.post("/v1/users", headers=bearer(read)), 403)
    for marked in (
        get("/v1/recommendations?user=1&mark_shown=true", headers=bearer(read)),
        server.client.post("/v1/recommendations", json={"user": 1, "mark_shown": True}, headers=bearer(read)),
    ):
        assert "the key 'read' may read, and this needs one made with --write" in problem(marked, 403)
    for method, path, status in (
        ("DELETE", "/v1/user?id=99", 204),
        ("DELETE", "/v1/item?id=99", 204),
        ("POST", "/v1/model/reload", 200),
        ("POST", "/v1/model/rollback", 409),
    ):
        refused = server.client.request(method, path, headers=bearer(write))
        assert "the key 'write' may write, and this needs one made with --admin" in problem(refused, 403)
        assert server.client.request(method, path, headers=bearer(admin)).status_code == status
    problem(server.client.delete("/v1/ratings?user=1&item=1", headers=bearer(read)), 403)
    assert put("/v1/ratings", json=rating, headers=bearer(write)).status_code == 200
    # Each key has its own bucket, and so has whoever comes without one.
    statuses = [get("/v1/users", headers=bearer(read)).status_code for _ in range(40)]
    assert statuses[0] == 200
    limited = get("/v1/users", headers=bearer(read))
    assert "more than 0.01 requests a second" in problem(limited, 429)
    assert int(limited.headers["retry-after"]) >= 1
    assert get("/v1/users", headers=bearer(write)).status_code == 200
    assert 429 in [get("/v1/users", headers=bearer("wrong")).status_code for _ in range(40)]
    remove_key(file, "write")
    assert get("/v1/users", headers=bearer(write)).status_code in (401, 429)
    server.stop()
    assert write not in caplog.text

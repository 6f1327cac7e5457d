"""What is in deploy/: the files are what their programs read, and what they say of cofill is so.

No image can be pulled where these tests run, so nothing is built; what checks a file without that is used where it is.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cofill.cli.serve import add_serve as add_options
from cofill.serving.ops.metrics import Metrics
from cofill.serving.settings import ServingSettings

REPOSITORY = Path(__file__).parents[1]
DEPLOY = REPOSITORY / "deploy"
PASSWORDS = {"POSTGRES_PASSWORD": "a", "GRAFANA_PASSWORD": "b"}


def tool(*names: str) -> str:
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = next((path for name in names if (path := shutil.which(name, path=places))), None)
    if found is None:
        pytest.skip(f"{names[0]} is not installed")
    return found


def ran(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def read_yaml(path: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((DEPLOY / path).read_text())


def dockerfile() -> str:
    """With continued lines as one."""
    return (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")


# What they say of cofill


def commands() -> dict[str, list[str]]:
    """How each of them starts the server."""
    (image,) = re.findall(r"^CMD (\[.*\])$", dockerfile(), re.MULTILINE)
    (unit,) = re.findall(r"^ExecStart=\S+/cofill (.*)$", (DEPLOY / "cofill.service").read_text(), re.MULTILINE)
    return {
        "Dockerfile": json.loads(image),
        "cofill.service": shlex.split(unit),
        "kubernetes.yaml": list(pod()["containers"][0]["args"]),
        "compose.yaml": list(read_yaml("compose.yaml")["services"]["server"]["command"]),
    }


@pytest.mark.parametrize("name", ["Dockerfile", "cofill.service", "compose.yaml", "kubernetes.yaml"])
def test_the_server_is_started_with_flags_that_there_are(name: str) -> None:
    command, *words = commands()[name]
    assert command == "serve"
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_options(parser)
    options = vars(parser.parse_args(words))
    given = {field: value for field, value in options.items() if field in ServingSettings.model_fields}
    settings = ServingSettings.of(given)
    assert settings.host == "0.0.0.0"
    assert settings.keys is not None
    assert settings.drain_seconds == 10
    assert (settings.log_format, settings.access_log, settings.log_addresses) == ("json", True, False)
    # What stops it waits for longer than it may take.
    longest = settings.drain_seconds + settings.request_timeout
    if name == "cofill.service":
        (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", (DEPLOY / name).read_text(), re.MULTILINE)
        assert int(seconds) > longest
    if name == "kubernetes.yaml":
        assert pod()["terminationGracePeriodSeconds"] > longest
    if name == "compose.yaml":
        assert int(read_yaml(name)["services"]["server"]["stop_grace_period"].removesuffix("s")) > longest


def kubernetes() -> dict[str, Any]:
    """By kind."""
    yaml = pytest.importorskip("yaml")
    return {one["kind"]: one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def pod() -> dict[str, Any]:
    found: dict[str, Any] = kubernetes()["Deployment"]["spec"]["template"]["spec"]
    return found


def test_what_kubernetes_is_told_fits_together() -> None:
    parts, spec = kubernetes(), pod()
    assert {kind: one["apiVersion"] for kind, one in parts.items()} == {
        "PersistentVolumeClaim": "v1", "Deployment": "apps/v1", "Service": "v1"
    }  # fmt: skip
    labels = parts["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert parts["Deployment"]["spec"]["selector"]["matchLabels"] == labels == parts["Service"]["spec"]["selector"]
    (server,) = spec["containers"]
    (port,) = server["ports"]
    assert port["containerPort"] == ServingSettings.model_fields["port"].default
    assert [one["targetPort"] for one in parts["Service"]["spec"]["ports"]] == [port["name"]]
    probes = {name: server[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert all(probe["port"] == port["name"] for probe in probes.values())
    assert [probe["path"] for probe in probes.values()] == ["/health", "/health", "/ready"]
    volumes = {one["name"]: one for one in spec["volumes"]}
    mounts = {one["mountPath"]: volumes.pop(one["name"]) for one in server["volumeMounts"]}
    assert volumes == {}
    claim = mounts["/models"]["persistentVolumeClaim"]["claimName"]
    assert claim == parts["PersistentVolumeClaim"]["metadata"]["name"]
    assert set(re.findall(r"VOLUME (\[.*\])", dockerfile())) == {json.dumps(["/models", "/var/cache/cofill"])}
    assert mounts.keys() >= {"/models", "/var/cache/cofill", "/tmp"}
    assert f"{spec['securityContext']['runAsUser']}:{spec['securityContext']['runAsGroup']}" in dockerfile()
    assert server["securityContext"]["readOnlyRootFilesystem"] is True


def test_every_figure_that_is_drawn_or_watched_is_one_of_ours() -> None:
    ours = {metric.name for metric in Metrics()._own.collect()}
    assert "cofill_request_seconds" in ours
    board = json.loads((DEPLOY / "grafana/dashboards/cofill.json").read_text())
    drawn = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    drawn += [note["expr"] for note in board["annotations"]["list"]]
    watched = [rule["expr"] for group in read_yaml("prometheus/alerts.yml")["groups"] for rule in group["rules"]]
    for expressions in (drawn, watched):
        used = {name for text in expressions for name in re.findall(r"\bcofill_\w+", text)} - {"cofill_version"}
        assert {re.sub("_(bucket|count|sum)$", "", name) for name in used} <= ours
    told = {name for text in drawn for name in re.findall(r"\bcofill_\w+", text)}
    assert {re.sub("_(bucket|count|sum)$", "", name) for name in told} >= ours  # all are shown
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]}
    assert len(places) == len(board["panels"])
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {
        read_yaml("grafana/provisioning/datasources/prometheus.yaml")["datasources"][0]["uid"]
    }


def test_the_image_is_small_and_has_no_rights() -> None:
    text = dockerfile()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert not [one for one in project["dependencies"] if one.startswith("torch")]  # and no extra below has it
    (extras,) = re.findall(r'pip install "\.\[(.*?)\]"', text)
    assert set(extras.split(",")) <= project["optional-dependencies"].keys() - {"torch", "cluster"}
    _, final = text.split("\nFROM ")[-2:]
    assert "pip install" not in final  # what builds stays behind
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert "HEALTHCHECK" in final
    assert "\nSTOPSIGNAL SIGTERM\n" in final
    for name in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
        for part in name.split():
            assert (REPOSITORY / part).exists()
            assert f"!{part}" in (DEPLOY / "Dockerfile.dockerignore").read_text().split()


def test_the_services_fit_together() -> None:
    services = read_yaml("compose.yaml")["services"]
    assert services.keys() == {"server", "database", "prometheus", "grafana"}
    for service in services.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        own = [volume.split(":")[0] for volume in service["volumes"] if volume.startswith("./")]
        assert all((DEPLOY / folder).is_dir() for folder in own if folder != "./models")
    (job,) = read_yaml("prometheus/prometheus.yml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["server:8000"]}]
    assert job["authorization"]["credentials_file"] == f"/run/secrets/{services['prometheus']['secrets'][0]}"
    (provider,) = read_yaml("grafana/provisioning/dashboards/cofill.yaml")["providers"]
    assert any(volume.split(":")[1] == provider["options"]["path"] for volume in services["grafana"]["volumes"])


# What other programs say of them


def test_hadolint_finds_nothing() -> None:
    assert ran(tool("hadolint"), DEPLOY / "Dockerfile") == ""


def test_compose_takes_the_file(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    (tmp_path / "deploy/secrets").mkdir()
    (tmp_path / "deploy/secrets/metrics_key").write_text("key")
    words = [tool("docker-compose", "docker")]
    if Path(words[0]).name == "docker":
        if subprocess.run([*words, "compose", "version"], capture_output=True, check=False).returncode:
            pytest.skip("docker compose is not installed")
        words.append("compose")
    file = tmp_path / "deploy/compose.yaml"
    assert "postgresql://cofill:a@database/cofill" in ran(*words, "--file", file, "config", **PASSWORDS)
    refused = subprocess.run([*words, "--file", file, "config"], capture_output=True, text=True, check=False)
    assert refused.returncode
    assert "write it into .env" in refused.stderr


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    unit = tmp_path / "cofill.service"
    unit.write_text((DEPLOY / "cofill.service").read_text().replace("/opt/cofill/bin/cofill", "/bin/true"))
    assert ran(analyze, "verify", unit) == ""
    # 0 is a unit that can do nothing, 10 one that can do everything.
    exposed = re.findall(
        r"exposure level for cofill.service: ([0-9.]+)", ran(analyze, "security", "--offline=yes", unit)
    )
    assert float(exposed[0]) < 2


def test_prometheus_takes_the_rules() -> None:
    assert "SUCCESS" in ran(tool("promtool"), "check", "rules", DEPLOY / "prometheus/alerts.yml")

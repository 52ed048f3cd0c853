"""``paddock deploy``: what it prints is valid, keeps the rules, and names what the command line has."""

import json
import re
import shlex

import pytest
import yaml

from paddock.cli import main
from paddock.cli.fleet import add_gateway_arguments as gateway_arguments
from paddock.cli.program import _Parser
from paddock.cli.serve import add_arguments as serve_arguments
from paddock.errors import DependencyNotInstalled, PlanError
from paddock.fleet.deploy import Deployment, compose, kubernetes, manifests, systemd, to_yaml
from paddock.openenv.containers import KubernetesProvider
from paddock.server.settings import Settings
from tests.peers import ROOT, pytest_with_peer

CHOSEN = Deployment(image="registry/envs:1", targets=("CartPole-v1", "paddock/Echo"), name="envs", replicas=2)


@pytest.mark.peers
def test_by_kubernetes_own_schemas_and_client(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT}")
    assert "passed" in pytest_with_peer("kubernetes", ROOT / "tests/fleet/kubernetes_trials.py")


def parse(words):
    """The options of a paddock command, or a CommandFailed."""
    add = {"serve": serve_arguments, "gateway": gateway_arguments}[words[0]]
    parser = _Parser()
    add(parser)
    return parser.parse_args(words[1:])


def commands():
    yield kubernetes(CHOSEN)[1]["spec"]["template"]["spec"]["containers"][0]["args"]
    yield from (one["command"] for one in compose(CHOSEN)["services"].values())
    for text in systemd(CHOSEN).values():
        (line,) = re.findall(r"^ExecStart=\S+/paddock (.*)$", text, re.MULTILINE)
        yield shlex.split(line.replace("%%", "%").replace("%i", "1"))


@pytest.mark.parametrize("words", list(commands()), ids=lambda words: words[0])
def test_every_command_line_is_one_that_paddock_has(words):
    parse(words)


def test_a_pod_drains_before_it_is_killed_and_its_probes_ask_what_they_should():
    deployment = kubernetes(CHOSEN)[1]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["terminationGracePeriodSeconds"] >= 5 + Settings().drain_s
    assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
    paths = {name: container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_scaler_looks_at_the_queue_and_servers_reach_nobody():
    _, _, service, scaler, network, budget = kubernetes(CHOSEN)
    assert scaler["spec"]["metrics"][0]["pods"]["metric"]["name"] == "paddock_sessions_waiting"
    assert network["spec"]["egress"] == [] and network["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert service["spec"]["sessionAffinity"] == "ClientIP"
    assert budget["spec"]["maxUnavailable"] == 1


def test_in_compose_only_the_gateway_is_reached_and_from_this_machine_alone():
    services = compose(CHOSEN)["services"]
    assert services["gateway"]["ports"] == ["127.0.0.1:8100:8100"]
    assert [name for name, one in services.items() if "ports" in one] == ["gateway"]
    assert all(one["cap_drop"] == ["ALL"] and one["read_only"] for one in services.values())
    assert compose(CHOSEN)["networks"]["servers"] == {"internal": True}


@pytest.mark.parametrize("engine", ["k8s", "compose", "systemd"])
def test_what_is_printed_is_what_is_written(engine, tmp_path, capsys):
    assert main(["deploy", engine, "CartPole-v1", "--name", "envs", "--out", str(tmp_path / "out")]) == 0
    written = "".join(path.read_text() for path in sorted((tmp_path / "out").iterdir()))
    capsys.readouterr()
    assert main(["deploy", engine, "CartPole-v1", "--name", "envs", "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert "".join(text for _, text in sorted(files.items())) == written
    assert main(["deploy", engine, "--name", "envs", "--out", str(tmp_path / "out")]) == 2, "nothing is overwritten"


@pytest.mark.parametrize(
    "wrong",
    [{"name": "Envs"}, {"image": "--privileged"}, {"image": "a b"}, {"targets": ("a$(b)",)}, {"targets": ("-x",)}],
)
def test_what_no_engine_would_take_is_refused(wrong):
    with pytest.raises(PlanError):
        manifests("k8s", Deployment(**wrong))


def test_yaml_is_read_as_it_was_meant():
    value = {"a": ["yes", "1", 1, 1.5, True, None, "x: y", "", {"b": {}, "c": [[], ["d"]]}], "e-f": {"on": "~"}}
    assert yaml.safe_load(to_yaml(value)) == value


def test_without_the_client_the_error_says_what_to_install():
    with pytest.raises(DependencyNotInstalled, match="pip install kubernetes"):
        KubernetesProvider()

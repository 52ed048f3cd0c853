"""Manifests and pods against Kubernetes' schemas and its official client. Run with the peer `kubernetes`."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import kubernetes_validate
import pytest
import yaml
from kubernetes import client

from paddock.fleet.deploy import Deployment, kubernetes, manifests
from paddock.openenv.containers import KubernetesProvider, ProviderError

VERSION = "1.32"
KINDS = ["Namespace", "Deployment", "Service", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget"]


def test_manifests_are_valid_by_the_schemas():
    text = manifests("k8s", Deployment(targets=("CartPole-v1", "paddock/Echo"), name="envs"))["envs.yaml"]
    objects = list(yaml.safe_load_all(text))
    assert [one["kind"] for one in objects] == KINDS
    assert objects == json.loads(
        json.dumps(kubernetes(Deployment(targets=("CartPole-v1", "paddock/Echo"), name="envs")))
    )
    for one in objects:
        kubernetes_validate.validate(one, VERSION, strict=True)


def test_a_manifest_with_an_unknown_field_would_be_caught():
    broken = kubernetes(Deployment())[1]
    broken["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSION, strict=True)


class Recorder(BaseHTTPRequestHandler):
    """An API server of pods and secrets, which keeps every request."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(("POST", self.path, body))
        if self.server.refuses:
            self.answer(403, {"kind": "Status", "reason": "Forbidden"})
            return
        self.server.objects[f"{self.path}/{body['metadata']['name']}"] = body
        self.answer(201, body)

    def do_GET(self):
        body = self.server.objects.get(self.path)
        self.server.requests.append(("GET", self.path, None))
        if body is None:
            self.answer(404, {"kind": "Status"})
            return
        reads = sum(one[0] == "GET" for one in self.server.requests)
        placed = reads > 2  # as in a cluster, it takes a while
        status = {"phase": self.server.phase if placed else "Pending"}
        if placed and self.server.phase == "Running":
            status["podIP"] = "127.0.0.1"
        self.answer(200, {**body, "status": status})

    def do_DELETE(self):
        self.server.requests.append(("DELETE", self.path.partition("?")[0], None))
        found = self.server.objects.pop(self.path.partition("?")[0], None)
        self.answer(200 if found else 404, {"kind": "Status"})

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def api():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    server.requests, server.objects, server.phase, server.refuses = [], {}, "Running", False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.client = client.ApiClient(client.Configuration(host=f"http://127.0.0.1:{server.server_port}"))
    yield server
    server.shutdown()
    server.server_close()


def test_a_pod_per_server_under_the_restricted_rules(api):
    provider = KubernetesProvider("envs", client=api.client, labels={"team": "a"})
    assert provider.start_container("registry/echo:1", env_vars={"KEY": "a-secret"}) == "http://127.0.0.1:8000"
    (_, secrets_path, secret), (_, path, pod) = [one for one in api.requests if one[0] == "POST"]
    assert (secrets_path, path) == ("/api/v1/namespaces/envs/secrets", "/api/v1/namespaces/envs/pods")
    assert secret["stringData"] == {"KEY": "a-secret"} and "a-secret" not in json.dumps(pod)
    assert re.fullmatch(r"paddock-[0-9a-f]{12}", pod["metadata"]["name"]) and pod["metadata"]["labels"]["team"] == "a"
    kubernetes_validate.validate(pod, VERSION, strict=True)
    assert pod["spec"]["restartPolicy"] == "Never"
    assert_restricted(pod["spec"])
    provider.stop_container()
    provider.stop_container()
    assert api.objects == {} and sum(one[0] == "DELETE" for one in api.requests) == 2


def assert_restricted(spec):
    """What Pod Security "restricted" asks for."""
    own = spec["securityContext"]
    assert own["runAsNonRoot"] is True and own["runAsUser"] > 0
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert all({"secret", "emptyDir", "configMap"} & volume.keys() for volume in spec.get("volumes", ()))
    for container in spec["containers"]:
        inner = container["securityContext"]
        assert inner["allowPrivilegeEscalation"] is False and inner["capabilities"] == {"drop": ["ALL"]}
        assert not {"privileged", "procMount"} & inner.keys()
        assert not any("hostPort" in port for port in container["ports"])


def test_the_servers_of_a_deployment_keep_the_restricted_rules():
    assert_restricted(kubernetes(Deployment())[1]["spec"]["template"]["spec"])


def test_a_pod_that_ends_at_once_is_an_error_and_removed(api):
    api.phase = "Failed"
    with pytest.raises(ProviderError, match="ended before it had an address"):
        KubernetesProvider("envs", client=api.client).start_container("registry/echo:1")
    assert api.objects == {}


def test_a_refusal_says_what_was_refused_and_shows_no_secret(api):
    api.refuses = True
    with pytest.raises(ProviderError, match="create namespaced secret failed: 403 Forbidden") as caught:
        KubernetesProvider("envs", client=api.client).start_container("x", env_vars={"KEY": "a-secret"})
    assert "a-secret" not in str(caught.value)


def test_a_provider_that_nobody_stopped_removes_its_pod(api):
    provider = KubernetesProvider("envs", client=api.client)
    provider.start_container("registry/echo:1")
    provider._remove()
    assert api.objects == {}

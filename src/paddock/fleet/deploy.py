"""Manifests for engines that exist: Kubernetes, compose, systemd. Data in, text out; nothing is installed or asked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from paddock.errors import PlanError

_PORT = 8000
_DRAIN_S = 20  # what a server gives its requests when it stops: Settings.drain_s
_ENDPOINTS_S = 5  # for a cluster to learn that a pod takes no more
_USER = 1000
_WORKERS_MB = 6000  # of the 8 GB of a container: beyond them one session ends, beyond those any process may
_NAME = re.compile(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?")
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n"))


@dataclass(frozen=True)
class Deployment:
    """What to deploy: servers of these environments, from an image that ``paddock build`` made."""

    image: str = "paddock-envs:latest"
    targets: tuple[str, ...] = ("CartPole-v1",)
    name: str = "paddock"
    replicas: int = 3
    max_sessions: int = 64
    host: str = "envs.example.org"

    def check(self) -> None:
        """Raise PlanError for what no engine would take."""
        if not _NAME.fullmatch(self.name):
            raise PlanError(f"--name {self.name!r:.60}: expected lower-case letters, digits and '-', at most 42.")
        if not self.image or self.image.startswith("-") or any(one.isspace() for one in self.image):
            raise PlanError(f"--image {self.image!r:.80} is not the name of an image.")
        if wrong := [one for one in self.targets if not one or one.startswith("-") or re.search(r"[\s$%'\"\\]", one)]:
            raise PlanError(f"{wrong[0]!r:.80} is not an environment that can stand in a manifest.")

    @property
    def serve(self) -> list[str]:
        """The arguments of ``paddock serve`` in a container, behind a TLS port."""
        files = ["--tls-cert", "/etc/paddock/tls/tls.crt", "--tls-key", "/etc/paddock/tls/tls.key"]
        files += ["--token-file", "/etc/paddock/tokens/tokens", "--journal", "/var/lib/paddock"]
        listens = ["--host", "0.0.0.0", "--port", str(_PORT)]  # noqa: S104 - with TLS and tokens
        limits = ["--isolation", "auto", "--max-sessions", str(self.max_sessions), "--max-memory", str(_WORKERS_MB)]
        return ["serve", *self.targets, *listens, *limits, *files, "--allow-host", self.host]


def manifests(engine: str, chosen: Deployment) -> dict[str, str]:
    """Return the files for an engine, by name: ``k8s``, ``compose`` or ``systemd``."""
    chosen.check()
    if engine == "k8s":
        return {f"{chosen.name}.yaml": "---\n".join(map(to_yaml, kubernetes(chosen)))}
    if engine == "compose":
        return {"compose.yaml": to_yaml(compose(chosen))}
    return systemd(chosen)


# ── Kubernetes ──


def kubernetes(chosen: Deployment) -> list[dict[str, Any]]:
    """Return the objects, to be applied in this order."""
    return [_namespace(chosen), _servers(chosen), _service(chosen), _scaler(chosen), _network(chosen), _budget(chosen)]


def _object(chosen: Deployment, kind: str, version: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": chosen.name, "namespace": chosen.name, "labels": _labels(chosen)}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more, "spec": spec}


def _labels(chosen: Deployment) -> dict[str, str]:
    return {"app.kubernetes.io/name": chosen.name, "app.kubernetes.io/component": "server"}


def _namespace(chosen: Deployment) -> dict[str, Any]:
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": chosen.name, "labels": labels}}


def _servers(chosen: Deployment) -> dict[str, Any]:
    def probe(path: str, **times: int) -> dict[str, Any]:
        return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, "timeoutSeconds": 5, **times}

    container = {
        "name": "server",
        "image": chosen.image,
        "args": chosen.serve,
        "ports": [{"name": "https", "containerPort": _PORT}],
        "env": [{"name": "PADDOCK_LOG", "value": "json"}, {"name": "HOME", "value": "/tmp"}],  # noqa: S108
        # Starting may import much; a live server that is not ready only gets no new connections.
        "startupProbe": probe("/health/live", periodSeconds=2, failureThreshold=60),
        "livenessProbe": probe("/health/live", periodSeconds=10, failureThreshold=6),
        "readinessProbe": probe("/health/ready", periodSeconds=5, failureThreshold=1),
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", str(_ENDPOINTS_S)]}}},
        "resources": {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "8Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "tls", "mountPath": "/etc/paddock/tls", "readOnly": True},
            {"name": "tokens", "mountPath": "/etc/paddock/tokens", "readOnly": True},
            {"name": "journal", "mountPath": "/var/lib/paddock"},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
        ],
    }
    pod = _pod(chosen, container)
    spec = {
        "replicas": chosen.replicas,
        "selector": {"matchLabels": _labels(chosen)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": _labels(chosen)}, "spec": pod},
    }
    return _object(chosen, "Deployment", "apps/v1", spec)


def _pod(chosen: Deployment, container: dict[str, Any]) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _ENDPOINTS_S + _DRAIN_S + 10,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": _labels(chosen)},
            }
        ],
        "containers": [container],
        "volumes": [
            {"name": "tls", "secret": {"secretName": f"{chosen.name}-tls", "defaultMode": 0o440}},
            {"name": "tokens", "secret": {"secretName": f"{chosen.name}-tokens", "defaultMode": 0o440}},
            {"name": "journal", "emptyDir": {"sizeLimit": "4Gi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}},
        ],
    }


def _service(chosen: Deployment) -> dict[str, Any]:
    spec = {
        "selector": _labels(chosen),
        "ports": [{"name": "https", "port": 443, "targetPort": "https"}],
        # A client that resumes must come to the same pod.
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10_800}},
    }
    return _object(chosen, "Service", "v1", spec)


def _scaler(chosen: Deployment) -> dict[str, Any]:
    waiting = {"metric": {"name": "paddock_sessions_waiting"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    used = {
        "metric": {"name": "paddock_sessions"},
        "target": {"type": "AverageValue", "averageValue": str(max(1, chosen.max_sessions * 3 // 4))},
    }
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": chosen.name},
        "minReplicas": chosen.replicas,
        "maxReplicas": 10 * chosen.replicas,
        "metrics": [{"type": "Pods", "pods": waiting}, {"type": "Pods", "pods": used}],
        # A pod that is taken away ends its sessions: slowly, and one at a time.
        "behavior": {
            "scaleUp": {"stabilizationWindowSeconds": 0},
            "scaleDown": {
                "stabilizationWindowSeconds": 1800,
                "policies": [{"type": "Pods", "value": 1, "periodSeconds": 600}],
            },
        },
    }
    return _object(chosen, "HorizontalPodAutoscaler", "autoscaling/v2", spec)


def _network(chosen: Deployment) -> dict[str, Any]:
    client = {
        "namespaceSelector": {},
        "podSelector": {"matchLabels": {f"{chosen.name}-client": "true"}},
    }
    spec = {
        "podSelector": {"matchLabels": _labels(chosen)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": [client], "ports": [{"protocol": "TCP", "port": _PORT}]}],
        "egress": [],  # servers call nobody
    }
    return _object(chosen, "NetworkPolicy", "networking.k8s.io/v1", spec)


def _budget(chosen: Deployment) -> dict[str, Any]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": _labels(chosen)}}
    return _object(chosen, "PodDisruptionBudget", "policy/v1", spec)


# ── Compose ──


def compose(chosen: Deployment) -> dict[str, Any]:
    """Return a compose file: servers that only the gateway reaches, and the gateway on this machine's port 8100."""
    names = [f"{chosen.name}-{number}" for number in range(1, chosen.replicas + 1)]
    hard = {
        "image": chosen.image,
        "init": True,
        "restart": "unless-stopped",
        "read_only": True,
        "user": f"{_USER}:{_USER}",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "tmpfs": [f"/tmp:size=1g,uid={_USER},mode=0700"],  # noqa: S108
        "pids_limit": 4096,
        "stop_grace_period": f"{_DRAIN_S + 10}s",
    }
    files = ["./tls:/etc/paddock/tls:ro", "./tokens:/etc/paddock/tokens:ro"]
    services: dict[str, Any] = {}
    for name in names:
        command = [*chosen.serve, "--allow-host", name]
        services[name] = {
            **hard,
            "command": command,
            "mem_limit": "8g",
            "volumes": [*files, f"{name}:/var/lib/paddock"],
            "networks": ["servers"],
        }
    words = ["gateway", "--host", "0.0.0.0", "--port", "8100", "--ca", "/etc/paddock/tls/tls.crt"]  # noqa: S104
    words += ["--tls-cert", "/etc/paddock/tls/tls.crt", "--tls-key", "/etc/paddock/tls/tls.key"]
    words += ["--allow-host", chosen.host]
    services["gateway"] = {
        **hard,
        "command": words + [word for name in names for word in ("--server", f"https://{name}:{_PORT}")],
        "mem_limit": "1g",
        "volumes": files[:1],
        "ports": ["127.0.0.1:8100:8100"],
        "networks": ["servers", "front"],
        "depends_on": names,
    }
    networks = {"servers": {"internal": True}, "front": {}}
    return {"services": services, "networks": networks, "volumes": {name: {} for name in names}}


# ── systemd ──


def systemd(chosen: Deployment) -> dict[str, str]:
    """Return two units: servers on unix sockets, ``NAME@1`` and so on, and the gateway before them."""
    name = chosen.name
    run, state = f"/run/{name}-%i", f"/var/lib/{name}-%i"
    serve = f"/opt/paddock/bin/paddock serve {' '.join(chosen.targets)} --uds {run}/paddock.sock --processes 2"
    serve += f" --max-sessions {chosen.max_sessions} --token-file /etc/paddock/tokens --journal {state}"
    # Not PrivateUsers, RestrictNamespaces or SystemCallFilter: the wall around each worker makes namespaces of its own.
    common = [
        ("Type", "notify"),
        ("User", name),
        ("Restart", "on-failure"),
        ("NoNewPrivileges", "yes"),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("TimeoutStopSec", str(_DRAIN_S + 10)),
    ]
    server = [
        ("ExecStart", serve),
        ("RuntimeDirectory", f"{name}-%i"),
        ("StateDirectory", f"{name}-%i"),
        ("Delegate", "yes"),
        ("TasksMax", "4096"),
        ("MemoryMax", "80%"),
    ]
    sockets = [f"http+unix://%%2Frun%%2F{name}-{at}%%2Fpaddock.sock" for at in range(1, chosen.replicas + 1)]
    gateway = "/opt/paddock/bin/paddock gateway --host 0.0.0.0 --port 8443"
    gateway += f" --tls-cert /etc/paddock/tls.crt --tls-key /etc/paddock/tls.key --allow-host {chosen.host} "
    gateway += " ".join(f"--server {one}" for one in sockets)
    needs = " ".join(f"{name}@{at}.service" for at in range(1, chosen.replicas + 1))
    return {
        f"{name}@.service": _unit([("Description", "paddock server %i"), ("After", "network.target")], common + server),
        f"{name}-gateway.service": _unit(
            [("Description", "paddock gateway"), ("Wants", needs), ("After", f"network.target {needs}")],
            [*common, ("ExecStart", gateway), ("CapabilityBoundingSet", "")],
        ),
    }


def _unit(unit: Sequence[tuple[str, str]], service: Sequence[tuple[str, str]]) -> str:
    parts = (("Unit", unit), ("Service", service), ("Install", [("WantedBy", "multi-user.target")]))
    texts = ("\n".join([f"[{title}]", *(f"{name}={value}" for name, value in rows)]) for title, rows in parts)
    return "\n\n".join(texts) + "\n"


# ── YAML: maps, lists, texts, numbers and flags; texts that could be taken for something else as JSON writes them ──


def to_yaml(value: Any, indent: int = 0) -> str:
    """Write plain data as YAML."""
    pad = "  " * indent
    if isinstance(value, dict):
        return "".join(f"{pad}{_scalar(name)}:{_below(item, indent)}" for name, item in value.items())
    return "".join(f"{pad}-{_item(item, indent)}" for item in value)


def _below(value: Any, indent: int) -> str:
    if isinstance(value, (dict, list)) and value:
        return "\n" + to_yaml(value, indent + 1)
    return f" {_scalar(value)}\n"


def _item(value: Any, indent: int) -> str:
    if isinstance(value, dict) and value:
        return " " + to_yaml(value, indent + 1).lstrip(" ")
    return _below(value, indent)


def _scalar(value: Any) -> str:
    plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return value if plain else json.dumps(value)

"""OpenEnv's providers: they start a server with ``docker``, ``podman`` or ``uv``, or as a pod, and stop it.

Unlike OpenEnv's, a container is published on 127.0.0.1 only, values of variables never stand on a command line, and
``uv`` gets few of this process's variables. A container walls code off; ``uv`` runs it here, with all your rights.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.errors import DependencyNotInstalled, PaddockError, PlanError, SandboxUnavailable
from paddock.hosting.openenv.client import endpoint_of
from paddock.sandbox.containers import find_engine
from paddock.sources.openenv_server import get

if TYPE_CHECKING:
    from typing_extensions import Self


__all__ = [
    "ContainerProvider",
    "DockerSwarmProvider",
    "KubernetesProvider",
    "LocalDockerProvider",
    "RuntimeProvider",
    "UVProvider",
]

INSIDE_PORT = 8000  # where the server in an image listens, by OpenEnv's convention
READY_S = 30.0
STOP_S = 10.0  # for a server to end by itself
_POLL_S = 0.2
_COMMAND_S = 60.0  # for a command that neither pulls nor builds
# What uv needs of this process's variables; keys and tokens are not among them.
_UV_VARIABLES = "PATH HOME USER LANG LC_ALL TZ TMPDIR XDG_CACHE_HOME XDG_DATA_HOME XDG_CONFIG_HOME SSL_CERT_FILE"
_UV_VARIABLES += " HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy UV_CACHE_DIR UV_OFFLINE UV_PYTHON"


class ProviderError(PaddockError, RuntimeError, code="PROVIDER_FAILED"):
    """A command that starts servers is not here, or it failed."""


class ContainerProvider(ABC):
    """Starts one container at a time. Leaving ``with`` calls ``close``, which is for what else a subclass holds."""

    @abstractmethod
    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Start a container and return the URL of its server. ``port``: on this machine, else any free one."""

    @abstractmethod
    def stop_container(self) -> None:
        """Stop the container and remove it. Safe to call twice."""

    @abstractmethod
    def wait_for_ready(self, base_url: str, timeout_s: float = READY_S) -> None:
        """Wait until the server answers ``/health``; TimeoutError if it does not."""

    def close(self) -> None:  # noqa: B027 - most have nothing to release
        """Release what the provider holds besides the container."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class RuntimeProvider(ABC):
    """Starts one server that is not a container; ``with`` starts and stops it."""

    @abstractmethod
    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server and return its URL."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the server. Safe to call twice."""

    @abstractmethod
    def wait_for_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until the server answers ``/health``; TimeoutError if it does not."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


class LocalDockerProvider(ContainerProvider):
    """Runs an image with ``docker``, or ``podman`` if only that answers; ``command`` chooses, by name or path.

    ``arguments`` go to ``docker run``, before the image: ``("--memory", "2g", "--network", "none")``. A container that
    nobody stopped is removed when the provider is garbage-collected or the interpreter ends.
    """

    def __init__(self, command: str | None = None, arguments: Sequence[str] = ()) -> None:
        try:
            self._command = find_engine("image").command[0] if command is None else shutil.which(command) or ""
        except SandboxUnavailable as error:
            text = f"An image needs {error}. Or connect to a server that runs: base_url='http://…'."
            raise ProviderError(text) from None
        if not self._command:
            raise ProviderError(f"There is no {command} on PATH.")
        self._arguments = tuple(arguments)
        self._name = ""
        self._remove: weakref.finalize[Any, LocalDockerProvider] | None = None

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Pull the image if need be, and run it. Its port 8000 is published on 127.0.0.1."""
        way = f"Options of {Path(self._command).name} run go to LocalDockerProvider(arguments=(…))."
        _check_start(image, kwargs, way, "" if self._remove is None else self._name)
        base = re.sub("[^a-z0-9]+", "-", image.rpartition("/")[2].partition(":")[0].lower()).strip("-")
        self._name = f"{base or 'env'}-{secrets.token_hex(4)}"
        self._remove = weakref.finalize(self, _remove_container, self._command, self._name)
        publish = f"127.0.0.1:{'' if port is None else int(port)}:{INSIDE_PORT}"
        try:
            with tempfile.NamedTemporaryFile("w", prefix="env-", encoding="utf-8") as variables:  # readable by us only
                variables.write("".join(f"{name}={value}\n" for name, value in _variables(env_vars).items()))
                variables.flush()
                words = ("--name", self._name, "--publish", publish, "--env-file", variables.name, *self._arguments)
                _run(self._command, "run", "--detach", *words, image, timeout_s=None)
            found = _run(self._command, "port", self._name, f"{INSIDE_PORT}/tcp")
        except BaseException:
            with suppress(ProviderError):  # of the two errors the first one tells more
                self.stop_container()
            self._forget()
            raise
        return f"http://127.0.0.1:{found.split()[0].rpartition(':')[2]}"

    def stop_container(self) -> None:
        """Let the server end, for at most ten seconds, and remove the container."""
        if self._remove is not None:
            _remove_container(self._command, self._name)
            self._forget()  # only now: if that failed, the next call tries again

    def _forget(self) -> None:
        if self._remove is not None:
            self._remove.detach()
            self._remove = None

    def wait_for_ready(self, base_url: str, timeout_s: float = READY_S) -> None:
        """Wait until the server answers ``/health``; TimeoutError, or ProviderError if the container has ended."""
        _wait_until_healthy(base_url, timeout_s, self._end)

    def _end(self) -> str | None:
        """Say how the container ended; None while it runs."""
        state = _run(self._command, "inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", self._name)
        runs, _, code = state.partition(" ")
        if runs == "true":
            return None
        logs = _run(self._command, "logs", "--tail", "20", self._name, errors_too=True)
        return f"The container {self._name} ended with exit code {code.strip()}. Its last lines:\n{logs[-2000:]}"


class DockerSwarmProvider(ContainerProvider):
    """Not offered: Swarm publishes a service on every interface of the machine, and can't be told not to."""

    def __new__(cls, *, auto_init_swarm: bool = True, overlay_network: str | None = None) -> Self:
        raise PlanError(
            "DockerSwarmProvider would publish the environment on every interface of this machine: Swarm can't bind a "
            "service to 127.0.0.1. Use one LocalDockerProvider for each container, or run the service yourself and "
            "pass base_url=."
        )


class KubernetesProvider(ContainerProvider):
    """Runs an image as one pod, by the official client (``pip install kubernetes``), with Pod Security "restricted".

    ``namespace`` is the one of the kubeconfig, or of the pod that this runs in, unless given. A pod that ends is not
    replaced: its episode could not be. Its address is the pod's, which only programs in the cluster reach.
    """

    def __init__(
        self,
        namespace: str | None = None,
        *,
        cpu: str = "1",
        memory: str = "2Gi",
        labels: Mapping[str, str] | None = None,
        client: Any = None,
    ) -> None:
        self._api, found = _kubernetes(client)
        self._namespace, self._cpu, self._memory = namespace or found, cpu, memory
        self._labels = {**(labels or {}), "app.kubernetes.io/managed-by": "paddock"}
        self._name = ""
        self._remove: weakref.finalize[Any, KubernetesProvider] | None = None

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Start a pod and wait until it has an address. Variables go into a Secret, which few may read."""
        way = "The pod's are KubernetesProvider(cpu=…)."
        _check_start(image, kwargs, way, "" if self._remove is None else self._name)
        variables = _variables(env_vars)
        self._name = f"paddock-{secrets.token_hex(6)}"
        self._remove = weakref.finalize(self, _remove_pod, self._api, self._namespace, self._name)
        metadata = {"name": self._name, "labels": self._labels}
        port = port or INSIDE_PORT
        try:
            if variables:
                secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": variables}
                self._call("create_namespaced_secret", self._namespace, secret)
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
            pod["spec"] = _pod_spec(image, port, self._cpu, self._memory, self._name if variables else None)
            self._call("create_namespaced_pod", self._namespace, pod)
            address = self._wait_for_address()
        except BaseException:
            with suppress(ProviderError):  # of the two errors the first one tells more
                self.stop_container()
            raise
        return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"

    def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self._api, method)(*arguments)
        except Exception as error:  # the client's ApiException, or what its HTTP library raises
            status, reason = getattr(error, "status", ""), getattr(error, "reason", None) or type(error).__name__
            raise ProviderError(f"{method.replace('_', ' ')} failed: {status} {reason}".strip()) from None

    def _wait_for_address(self) -> str:
        ends_s = time.monotonic() + READY_S
        while time.monotonic() < ends_s:
            status = self._call("read_namespaced_pod", self._name, self._namespace).status
            if status.pod_ip:
                return str(status.pod_ip)
            if status.phase in ("Failed", "Succeeded"):
                raise ProviderError(
                    f"The pod {self._name} ended before it had an address: {status.reason or 'no reason'}."
                )
            time.sleep(_POLL_S)
        raise ProviderError(f"The pod {self._name} was not placed within {READY_S:g} s. Has the cluster room for it?")

    def stop_container(self) -> None:
        """Delete the pod, which has ten seconds to end, and its Secret. Safe to call twice."""
        if self._remove is not None:
            _remove_pod(self._api, self._namespace, self._name)
            self._remove.detach()
            self._remove = None

    def wait_for_ready(self, base_url: str, timeout_s: float = READY_S) -> None:
        """Wait until the server answers ``/health``; TimeoutError, or ProviderError if the pod has ended."""
        _wait_until_healthy(base_url, timeout_s, self._ended)

    def _ended(self) -> str | None:
        phase = self._call("read_namespaced_pod", self._name, self._namespace).status.phase
        return f"The pod {self._name} has ended ({phase})." if phase in ("Failed", "Succeeded") else None


def _kubernetes(client: Any) -> tuple[Any, str]:
    """Return the API and the namespace that is meant, of this pod's service account or of the kubeconfig."""
    try:
        from kubernetes import client as kubernetes
        from kubernetes import config
    except ImportError as error:
        raise DependencyNotInstalled(
            f"KubernetesProvider needs {error.name}. To install: pip install kubernetes"
        ) from error
    if client is not None:
        return kubernetes.CoreV1Api(client), "default"
    inside = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
    if inside.is_file():
        config.load_incluster_config()
        return kubernetes.CoreV1Api(), inside.read_text().strip()
    config.load_kube_config()
    _, active = config.list_kube_config_contexts()
    return kubernetes.CoreV1Api(), active["context"].get("namespace", "default")


def _pod_spec(image: str, port: int, cpu: str, memory: str, secret: str | None) -> dict[str, Any]:
    container = {
        "name": "server",
        "image": image,
        "ports": [{"containerPort": port}],
        "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}},
        "readinessProbe": {"httpGet": {"path": "/health", "port": port}, "periodSeconds": 2},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        **({"envFrom": [{"secretRef": {"name": secret}}]} if secret else {}),
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": int(STOP_S),
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
    }


def _remove_pod(api: Any, namespace: str, name: str) -> None:
    for delete in (api.delete_namespaced_pod, api.delete_namespaced_secret):
        try:
            delete(name, namespace)
        except Exception as error:
            if getattr(error, "status", None) != 404:  # it has ended, or there was no Secret
                raise ProviderError(f"The pod {name} could not be deleted: {type(error).__name__}.") from None


class UVProvider(RuntimeProvider):
    """Runs the ASGI application of a folder with ``uv run``: on this machine, with all your rights, without a wall.

    For folders that you trust; ``paddock.make("./folder")`` runs others behind a wall. ``env_vars``: what the server
    gets besides a few variables such as PATH and HOME. A server that nobody stopped ends with the interpreter.
    """

    def __init__(
        self,
        *,
        project_path: str,
        app: str = "server.app:app",
        host: str = "127.0.0.1",
        reload: bool = False,
        env_vars: dict[str, str] | None = None,
        context_timeout_s: float = 60.0,
    ) -> None:
        if project_path.startswith("git+"):
            raise PlanError(
                f"project_path={project_path!r:.100} would be downloaded and run with all your rights. Download the "
                "folder and use paddock.make('./folder'), which runs it behind a wall, or pass its path if you trust "
                "it."
            )
        self.project_path, self.app, self.host = str(Path(project_path).absolute()), app, host
        self.reload, self.env_vars, self.context_timeout_s = reload, env_vars, context_timeout_s
        self._command = shutil.which("uv") or ""
        if not self._command:
            raise ProviderError("`uv` executable not found. Install it: pip install uv")
        self._process: subprocess.Popen[bytes] | None = None
        self._base_url: str | None = None
        self._end: Callable[[], Any] | None = None

    @property
    def base_url(self) -> str:
        """The server's URL; RuntimeError before ``start``."""
        if self._base_url is None:
            raise ProviderError("UVProvider has not been started.")
        return self._base_url

    def start(
        self,
        port: int | None = None,
        env_vars: dict[str, str] | None = None,
        workers: int = 1,
        **kwargs: Any,
    ) -> str:
        """Start the server and return its URL; it is not ready yet."""
        if kwargs:
            raise PlanError(f"UVProvider.start has no {', '.join(kwargs)}=.")
        if self._process is not None and self._process.poll() is None:
            raise ProviderError("UVProvider is already running.")
        self.stop()
        port = port or _free_port()
        serve = ["uvicorn", self.app, "--host", self.host, "--port", str(port), "--workers", str(workers)]
        words = [self._command, "run", "--isolated", "--project", self.project_path, "--", *serve]
        kept = {name: os.environ[name] for name in _UV_VARIABLES.split() if name in os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - no shell, and the folder is the user's choice
            [*words, "--reload"] if self.reload else words,
            env={**kept, **_variables(self.env_vars), **_variables(env_vars)},
            cwd=self.project_path,  # where uvicorn looks for the app, too
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # uvicorn and its workers are uv's children: all end together
        )
        self._end = weakref.finalize(self, _end_group, self._process)
        reached = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104 - not bound here
        self._base_url = f"http://{reached}:{port}"
        return self._base_url

    def stop(self) -> None:
        """Let the server end, for at most ten seconds, then kill what is left of it."""
        end, self._end, self._process, self._base_url = self._end, None, None, None
        if end is not None:
            end()

    def wait_for_ready(self, timeout_s: float | None = None) -> None:
        """Wait until the server answers ``/health``, by default for ``context_timeout_s``."""
        _wait_until_healthy(self.base_url, self.context_timeout_s if timeout_s is None else timeout_s, self._ended)

    def _ended(self) -> str | None:
        assert self._process is not None, "base_url was there"
        code = self._process.poll()
        return None if code is None else f"uv process exited prematurely with code {code}. What it said is on stderr."


class ImageRuntime(RuntimeProvider):
    """An image that ``provider`` runs, by default LocalDockerProvider, as something to start and stop.

    ``options`` are those of ``start_container``; ``ready_s``: how long to wait for it, unless the provider shall say.
    """

    def __init__(self, image: str, provider: Any = None, *, ready_s: float | None = None, **options: Any) -> None:
        self._image, self._provider, self._ready_s, self._options = image, provider, ready_s, options
        self._base_url = ""

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        if self._provider is None:
            self._provider = LocalDockerProvider()
        more = {name: value for name, value in (("port", port), ("env_vars", env_vars)) if value is not None}
        self._base_url = self._provider.start_container(self._image, **{**self._options, **more, **kwargs})
        return self._base_url

    def stop(self) -> None:
        if self._provider is not None:
            self._provider.stop_container()

    def wait_for_ready(self, timeout_s: float | None = None) -> None:
        ready_s = self._ready_s if timeout_s is None else timeout_s
        self._provider.wait_for_ready(self._base_url, **({} if ready_s is None else {"timeout_s": ready_s}))


def image_of_space(repo_id: str, tag: str = "latest") -> str:
    """The image of a Hugging Face Space."""
    return f"registry.hf.space/{hf_space_subdomain(repo_id)}:{tag}"


def hf_space_subdomain(repo_id: str) -> str:
    """Return the part of a Space's address that stands for it.

    >>> hf_space_subdomain("openenv/echo_env")
    'openenv-echo-env'
    """
    return re.sub(r"[^a-z0-9]", "-", repo_id.lower())


def get_health(base_url: str, timeout_s: float) -> None:
    """Ask for ``/health``, and raise what ``get`` raises for an answer other than 200, or for none."""
    endpoint = endpoint_of(base_url)
    get(replace(endpoint, path=endpoint.path.removesuffix("/ws") + "/health"), timeout_s)


def is_healthy(base_url: str, timeout_s: float = 2.0) -> bool:
    """Whether a server answers ``/health`` with 200."""
    try:
        get_health(base_url, timeout_s)
    except (PaddockError, OSError):
        return False
    return True


def _wait_until_healthy(base_url: str, timeout_s: float, ended: Callable[[], str | None]) -> None:
    ends_s = time.monotonic() + timeout_s
    while (left_s := ends_s - time.monotonic()) > 0:
        if is_healthy(base_url, min(left_s, 2.0)):
            return
        if (why := ended()) is not None:
            raise ProviderError(why)
        time.sleep(min(_POLL_S, max(0.0, ends_s - time.monotonic())))
    raise TimeoutError(f"The server at {base_url} did not become ready within {timeout_s:g} s.")


def _check_start(image: str, unknown: Mapping[str, Any], way: str, running: str) -> None:
    if unknown:
        raise PlanError(f"start_container has no {', '.join(unknown)}=. {way}")
    if running:
        raise PlanError(f"This provider runs {running} already. Stop it first, or make another provider.")
    if not image or image.startswith("-"):
        raise PlanError(f"{image!r:.80} is not the name of an image.")


def _variables(given: Mapping[str, str] | None) -> dict[str, str]:
    found = {str(name): str(value) for name, value in (given or {}).items()}
    for name, value in found.items():
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
            raise PlanError(f"env_vars: {name!r:.60} is not the name of a variable.")
        if re.search("[\r\n\0]", value):
            raise PlanError(f"env_vars[{name!r}] has a line break, which can't be passed. Encode it, as base64 does.")
    return found


def _run(command: str, *words: str, timeout_s: float | None = _COMMAND_S, errors_too: bool = False) -> str:
    """Return what a command printed; ProviderError with its last words if it failed."""
    shown = f"{Path(command).name} {words[0]}"
    try:
        done = subprocess.run(  # noqa: S603 - no shell; an image is checked not to be an option
            [command, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ProviderError(f"{shown} did not end within {timeout_s:g} s. Does its daemon run?") from None
    if done.returncode:
        raise ProviderError(f"{shown} failed with exit code {done.returncode}: {done.stderr.strip()[-1000:]}")
    return done.stdout + done.stderr if errors_too else done.stdout


def _remove_container(command: str, name: str) -> None:
    with suppress(ProviderError):  # it has ended already, or was never made
        _run(command, "stop", "-t", f"{STOP_S:g}", name)
    try:
        _run(command, "rm", "--force", "--volumes", name)
    except ProviderError as error:
        if "no such container" not in str(error).lower():
            raise


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    with suppress(ProcessLookupError):  # also for children that outlive it
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()

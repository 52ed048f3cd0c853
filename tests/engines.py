"""Container engines for the tests: those that this machine has or, as root, ones of our own in a temporary folder."""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from paddock.errors import SandboxUnavailable
from paddock.sandbox.containers import find_engine
from paddock.sandbox.machine import Machine
from paddock.sandbox.promises import PUT_UP, failures

_STARTED_S = 30
_WHERE = {
    "docker": "as root with dockerd (apt install docker.io), which is started for them",
    "podman": "with podman and runc",
    "gvisor": "with podman and gVisor's runsc of 2023 or later (Debian 13 has one)",
}


def need(tier):
    """Skip the test with the reason, if this machine can't start containers of this tier."""
    if tier == "docker":
        _start_docker()
    else:
        _configure_podman()
    why = Machine.here().missing(tier) or [one for one in failures(tier) if one.startswith(PUT_UP)]
    if why:
        if os.environ.get("PADDOCK_WALLS") == "needed" and tier == "podman":
            pytest.fail(f"isolation={tier!r} is not here: {'; '.join(why)}")
        pytest.skip(f"isolation={tier!r} is not here: {'; '.join(why)}. These tests run {_WHERE[tier]}")


@functools.cache
def _folder():
    folder = tempfile.mkdtemp(prefix="paddock-engines-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@functools.cache
def _configure_podman():
    """As root, its storage is a temporary folder, and its settings are those that work without systemd."""
    if shutil.which("podman") is None or os.geteuid() != 0 or "CONTAINERS_CONF" in os.environ:
        return
    folder = _folder()
    runtime = "crun" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "runc"
    # Its defaults are more than some machines let root have.
    limits = '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
    engine = f'{limits}[engine]\nruntime = "{runtime}"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
    (folder / "containers.conf").write_text(engine)
    places = f'graphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(f'[storage]\ndriver = "vfs"\n{places}')
    os.environ["CONTAINERS_CONF"] = str(folder / "containers.conf")
    os.environ["CONTAINERS_STORAGE_CONF"] = str(folder / "storage.conf")


@functools.cache
def _start_docker():
    """Start a daemon that only these tests can reach, if none answers and one is installed."""
    try:
        find_engine("docker")
        return
    except SandboxUnavailable:
        if os.geteuid() != 0 or shutil.which("docker") is None or shutil.which("dockerd") is None:
            return
    folder = _folder() / "docker"
    folder.mkdir()
    places = ["--data-root", folder / "data", "--exec-root", folder / "run", "--pidfile", folder / "pid"]
    alone = ["--bridge=none", "--iptables=false", "--ip6tables=false"]
    url = f"unix://{folder}/sock"
    with open(folder / "log", "wb") as log:
        daemon = subprocess.Popen(["dockerd", "-H", url, *places, *alone], stdout=log, stderr=log)
    atexit.register(_end, daemon)
    os.environ["DOCKER_HOST"] = url
    with open(folder / "log", "rb") as log:
        _wait_for(daemon, log)


def _wait_for(daemon, log):
    """It says when it listens. Its log is a file, so that it is never held up by a full pipe."""
    watched = b""
    while b"API listen on" not in watched and daemon.poll() is None:
        try:
            daemon.wait(0.05)
        except subprocess.TimeoutExpired:
            watched += log.read()


def _end(daemon):
    daemon.terminate()
    daemon.wait(_STARTED_S)

"""Container engines for the tests: those that this machine has or, as root, ones of our own in a temporary folder."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

from paddock.errors import SandboxUnavailable
from paddock.sandbox.containers import find_engine
from paddock.sandbox.machine import Machine
from paddock.sandbox.promises import PUT_UP, failures

_STARTED_S = 30


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
        pytest.skip(f"isolation={tier!r} is not here: {'; '.join(why)}")


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
    engine = f'[engine]\nruntime = "{runtime}"\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\n'
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
    alone = ["--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver", "vfs"]
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


def import_base(engine, name):
    """Make an image of this machine's interpreter, with a shell and the libraries that both need, and nothing else."""
    prefix = Path(sys.base_prefix)
    version = "python{}.{}".format(*sys.version_info)
    python, shell = Path(sys.executable).resolve(), Path("/bin/sh").resolve()
    extensions = (prefix / "lib" / version / "lib-dynload").glob("*.so")
    libraries = {line for one in (python, shell, *extensions) for line in _libraries_of(one)}
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for path in libraries:
                tar.add(path.resolve(), str(path))
            tar.add(shell, "bin/sh")
            tar.add(python, python)
            tar.add(prefix / "lib" / version, prefix / "lib" / version, filter=_needed)
            _add_link(tar, "usr/local/bin/python", str(python))
        file.seek(0)
        change = f"ENV PATH=/usr/local/bin:{python.parent}:/usr/bin:/bin"
        subprocess.run([*engine.command, "import", "--change", change, "-", name], stdin=file, check=True)


def _libraries_of(program):
    words = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout.split()
    return [Path(word) for word in words if word.startswith("/")]


def _needed(entry):
    left_out = {"site-packages", "test", "tests", "__pycache__", "idlelib", "tkinter", "turtledemo"}
    return None if left_out & set(Path(entry.name).parts) or entry.name.endswith(".a") else entry


def _add_link(tar, name, target):
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)

"""A server in an image that `paddock build` made: with a real engine, where one can be started."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from paddock.cli import build
from paddock.sandbox.containers import find_engine
from tests.engines import need

BASE = "localhost/paddock-test/python:1"
TOKEN = "6d1c41c8-the-trainer-of-this-test"
LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idlelib", "__pycache__"}
WORLD = """
import paddock


class Greedy(paddock.Env):
    observation_space = action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.kept = []
        return 0, {}

    def step(self, action):
        while action:
            self.kept.append(bytearray(1 << 20))
        return 1, 1.0, False, False, {}

"""
MANIFEST = """
[package]
name = "greedy"
version = "1"

[[env]]
id = "Greedy-v0"
entry = "greedy:Greedy"
"""
# In the network of the container, which is its own and leads nowhere.
CLIENT = """
import socket, ssl, sys, urllib.request
import paddock

token, ca = sys.argv[1:]
remote = paddock.RemoteOptions(token=token, ca=ca)
url = "https://localhost:8000/Greedy-v0"
with paddock.make(url, remote=remote) as neighbour, paddock.make(url, remote=remote) as bomb:
    for env in (neighbour, bomb):
        env.reset(seed=1)
        assert env.step(0)[:2] == (1, 1.0)
    try:
        bomb.step(1)
    except (paddock.WorkerLost, paddock.EnvFailed) as error:
        print(error)
    assert neighbour.step(0)[:2] == (1, 1.0)
    trust = ssl.create_default_context(cafile=ca)
    assert b"healthy" in urllib.request.urlopen("https://localhost:8000/health", context=trust).read()
assert [name for _, name in socket.if_nameindex()] == ["lo"]
print("played")
"""


@pytest.mark.full
@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root enters a container's network: it runs there")
@pytest.mark.parametrize("tier", ["docker", "podman"])
def test_a_server_in_a_built_image_is_healthy_and_plays_sessions(tier, paddock, tmp_path, monkeypatch):
    need(tier)
    engine = find_engine(tier)
    _import_base(engine, tmp_path / "base.tar")
    monkeypatch.chdir(tmp_path)
    Path("greedy").mkdir()
    Path("greedy/greedy.py").write_text(WORLD)
    Path("greedy/paddock.toml").write_text(MANIFEST)
    monkeypatch.setattr(build, "find_engine", lambda: engine)
    words = ["build", "./greedy", "--base", BASE, "--tag", "localhost/greedy:1", "--json"]
    built = paddock(*words)
    assert built.code == 0, built.err[-3000:]
    assert built.document["image"] == "localhost/greedy:1"
    with _running(engine, Path("greedy-image")) as name:
        _wait_until_healthy(engine, name)
        pid = engine.call("inspect", "--format", "{{.State.Pid}}", name).strip()
        client = ["nsenter", f"--net=/proc/{pid}/ns/net", sys.executable, "-c", CLIENT]
        played = subprocess.run([*client, TOKEN, "greedy-image/secrets/cert.pem"], capture_output=True, text=True)
        assert played.returncode == 0, played.stderr[-3000:] + engine.call("logs", name)
        assert played.stdout.splitlines()[-1] == "played" and "memory" in played.stdout.lower()


def _import_base(engine, tar):
    """Make a base image of this machine's Python, the libraries that it and the packages need, and a shell."""
    prefix, version = Path(sys.base_prefix), "python{}.{}".format(*sys.version_info)
    library = prefix / "lib" / version
    python, shell = os.path.realpath(sys.executable), os.path.realpath("/bin/sh")
    linked = [
        python,
        shell,
        *library.glob("lib-dynload/*.so"),
        *Path(sysconfig.get_path("platlib")).rglob("*.so"),
    ]
    told = subprocess.run(["ldd", *linked], capture_output=True, text=True).stdout
    with tarfile.open(tar, "w") as archive:
        archive.add(python, f"usr/local/bin/{version}")
        archive.add(shell, "bin/sh")
        archive.add(
            library, f"usr/local/lib/{version}", filter=lambda one: None if LEFT_OUT & {*one.name.split("/")} else one
        )
        if Path("/usr/share/python-wheels").is_dir():  # where Debian's Python has its pip
            archive.add("/usr/share/python-wheels")
        for path in sorted(set(re.findall(r"(/\S+) \(0x", told))):
            if path.startswith(("/lib", "/usr/lib")):
                archive.add(os.path.realpath(path), path)
            elif path.startswith(str(prefix)):
                archive.add(path, f"usr/lib/{Path(path).name}")
        link, folder = tarfile.TarInfo("usr/local/bin/python"), tarfile.TarInfo("tmp")
        link.type, link.linkname = tarfile.SYMTYPE, version
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        for entry in (link, folder):
            archive.addfile(entry)
    engine.call("import", str(tar), BASE)


@contextmanager
def _running(engine, folder):
    """A container with what the written compose file grants, and with no network."""
    secrets = folder / "secrets"
    secrets.mkdir()
    names = ["-keyout", secrets / "key.pem", "-out", secrets / "cert.pem", "-addext", "subjectAltName=DNS:localhost"]
    certify = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", *names]
    subprocess.run(certify, check=True, capture_output=True)
    (secrets / "tokens").write_text(f"operator {TOKEN}\n")
    (service,) = yaml.safe_load((folder / "compose.yaml").read_text())["services"].values()
    words = ["run", "--detach", "--network", "none", "--name", f"paddock-test-{os.getpid()}"]
    for option in ("cap_drop", "security_opt", "tmpfs"):
        for value in service[option]:
            words += [f"--{option.replace('_', '-')}", value]
    words += [
        "--memory",
        service["mem_limit"],
        "--pids-limit",
        str(service["pids_limit"]),
        "--cpus",
        str(service["cpus"]),
    ]
    assert service["read_only"]
    words.append("--read-only")
    for name, file in (("tls_cert", "cert.pem"), ("tls_key", "key.pem"), ("tokens", "tokens")):
        assert name in service["secrets"]
        (secrets / file).chmod(0o644)
        words += ["--volume", f"{secrets.absolute() / file}:/run/secrets/{name}:ro"]
    try:
        engine.call(*words, service["image"])
        yield words[5]
    finally:
        engine.call("rm", "--force", words[5])


def _wait_until_healthy(engine, name):
    """The image's own health check. Without systemd Podman runs it only when asked; the log says when it can pass."""
    if engine.name == "podman":
        watching = [*engine.command, "logs", "--follow", name]
        with subprocess.Popen(watching, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as logs:
            told = []
            for line in logs.stdout:
                told.append(line)
                if "https://" in line:
                    break
            else:
                pytest.fail("".join(told))
            logs.kill()
        engine.call("healthcheck", "run", name)
        return
    watching = [*engine.command, "events", "--since", "1", "--filter", f"container={name}", "--format", "{{.Status}}"]
    with subprocess.Popen(watching, stdout=subprocess.PIPE, text=True) as events:
        for line in events.stdout:
            if line.startswith("health_status: healthy"):
                break
            assert line != "die\n", engine.call("logs", name)
        events.kill()

"""The tiers of a container engine: a worker in a container of its own, started by docker or podman, gVisor below it.

No image is needed. The container's root is empty, and what the tier "sandbox" would show is mounted into it, read only.
The worker fetches its descriptors from a socket that is mounted too, so the engine must run on this machine.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from paddock.errors import InvalidPolicy, SandboxUnavailable
from paddock.sandbox.cgroup import Group, identify
from paddock.sandbox.mounts import DEVICES, SCRATCH, Mount
from paddock.sandbox.plan import HOSTNAME, Exec, Plan, first_variables, most_tasks, scratch_inodes

ENGINES = {
    "docker": ("docker",),
    "podman": ("podman",),
    "gvisor": ("podman", "docker"),
    "image": ("docker", "podman"),
}  # by tier, or for images that have nothing to do with one; the first that works
IMAGE = "localhost/paddock/empty:1"
CONTROL_FD = 65  # in the container: where the order comes from
_SOCKET = "/paddock.sock"
_OUTPUT_FD = 64
_COMMAND_S = 60.0
_KERNEL_MB, _KERNEL_TASKS = 192, 192  # that gVisor's kernel may take itself
_LOOK_S = 0.5  # between two looks whether a container that has not connected yet still runs
# Podman gives runsc these; for Docker they stand in the daemon's configuration.
_RUNSC = ("--runtime", "runsc", "--runtime-flag", "network=none", "--runtime-flag", "host-uds=open")
_RUNSC_SINCE = 20230101  # versions before it have no host-uds
_REMOVE = """read -r _
ids=$("$@" ps --all --quiet --filter "name=$PADDOCK_CONTAINERS")
[ -n "$ids" ] || exit
"$@" kill $ids
"$@" rm --force $ids
"""


@dataclass(frozen=True)
class Engine:
    """The command of a container engine that runs here."""

    name: str
    command: tuple[str, ...]
    gvisor: bool = False
    settings: tuple[str | None, ...] = ()  # variables that choose where it keeps images and containers

    def call(self, *words: str, input: bytes = b"", folder: str = "/", timeout_s: float = _COMMAND_S) -> str:
        """Run one of its commands and return what it prints. SandboxUnavailable says what it complained about."""
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and the words are our own
                [*self.command, *words], input=input, capture_output=True, timeout=timeout_s, check=False, cwd=folder
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailable(f"{self.name} {words[0]} failed: {error}. See: paddock doctor.") from None
        if done.returncode:
            why = " ".join(done.stderr.decode(errors="replace").split())[-500:] or f"exit code {done.returncode}"
            raise SandboxUnavailable(f"{self.name} {words[0]} failed: {why}. See: paddock doctor.")
        return done.stdout.decode(errors="replace")


_found: dict[tuple[str | None, ...], Engine] = {}  # those that answered; one that did not is asked again


def find_engine(tier: str) -> Engine:
    """The engine of ``tier``, or for an ``"image"``; SandboxUnavailable says why none of them can be used."""
    names = ("PATH", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF")
    key = tier, *map(os.environ.get, names)
    if key not in _found:
        reasons = []
        for name in ENGINES[tier]:
            try:
                _found[key] = replace(_ask(name, gvisor=tier == "gvisor"), settings=key[1:])
                break
            except SandboxUnavailable as error:
                why = str(error).removesuffix(". See: paddock doctor.")
                reasons.append(f"a {name} that answers ({why})" if why.startswith(f"{name} info ") else why)
        else:
            raise SandboxUnavailable(" or ".join(reasons))
    return _found[key]


def _ask(name: str, *, gvisor: bool) -> Engine:
    path = shutil.which(name)
    if path is None:
        raise SandboxUnavailable(f"{name} (apt install {'podman' if name == 'podman' else 'docker.io'})")
    if name == "docker":
        engine = Engine(name, (path,), gvisor)
        runtimes = engine.call("info", "--format", "{{json .Runtimes}}", timeout_s=10.0)
        if gvisor and '"runsc"' not in runtimes:
            raise SandboxUnavailable("docker's runtime runsc (see docs/containers.md)")
        return engine
    engine = Engine(name, (path, *(_RUNSC if gvisor else ())), gvisor)
    version = engine.call("info", "--format", "{{.Host.OCIRuntime.Version}}", timeout_s=10.0)
    if gvisor and int((re.search(r"\b20\d{6}\b", version) or ["0"])[0]) < _RUNSC_SINCE:
        raise SandboxUnavailable(f"gVisor's runsc of 2023 or later (this is {version.splitlines()[0][:60]!r})")
    return engine


class Contained:
    """A worker in a container. ``fd`` is readable when it has ended. Of gVisor's, ``pid`` is its kernel's.

    For its Child it is the process, and the control group too: the engine made one for it.
    """

    limits = ("memory", "pids", "cpu")

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine, self.name = engine, name
        self.pid, self.fd = 0, -1
        self.returncode: int | None = None
        self._group: Group | None = None
        self._out_of_memory, self.used_cpu_s = False, 0.0  # known when it was reaped

    def watch(self, pid: int) -> None:
        """From now on it is the process with this number."""
        self.fd = os.pidfd_open(pid)
        self.pid, self._group = pid, Group.of(pid)

    @property
    def memory_limit(self) -> int | None:
        """What the kernel enforces; None where that can't be read."""
        return None if self._group is None else self._group.memory_limit()

    def cpu_s(self) -> float | None:
        """CPU seconds of all that was ever in it."""
        return None if self._group is None else self._group.cpu_s()

    def memory_bytes(self) -> int | None:
        """What it takes now."""
        return None if self._group is None else self._group.memory_bytes()

    def out_of_memory(self) -> bool:
        """Whether a process of it was ended for taking too much memory. Known when it was reaped."""
        return self._out_of_memory

    def reap(self, *, killed: bool) -> None:
        """Learn how it ended; ``killed``: by us."""
        self.returncode, self.used_cpu_s = 128 + 9, self.cpu_s() or 0.0
        if not killed:
            # Now: podman does not tell always, and soon the group is gone.
            self._out_of_memory = self._group is not None and self._group.out_of_memory()
            with suppress(SandboxUnavailable, ValueError):
                self.engine.call("wait", self.name)
                state = self.engine.call("inspect", "--format", "{{.State.OOMKilled}} {{.State.ExitCode}}", self.name)
                self._out_of_memory |= state.startswith("true")
                self.returncode = int(state.split()[1])

    def kill(self) -> None:
        """End it. Mostly it has ended before, by a signal: here are those that this user may not signal."""
        from paddock.sandbox.child import is_readable

        if not is_readable(self.fd, _LOOK_S):
            with suppress(SandboxUnavailable):
                self.engine.call("kill", self.name)

    def remove(self) -> None:
        """Remove the container, in the background. What this process can't remove any more, another one does."""
        threading.Thread(target=self._remove, name="paddock-container", daemon=True).start()

    def _remove(self) -> None:
        with suppress(SandboxUnavailable):
            self.engine.call("rm", "--force", self.name)


def start_contained(plan: Plan, boot: str, fds: Sequence[int]) -> Contained:
    """Start the worker of ``plan`` in a container. ``fds``: output, control, then the worker's own from 3 on."""
    engine = find_engine(plan.tier)
    _prepare(engine)
    worker = Contained(engine, f"{_own_prefix()}{secrets.token_hex(8)}")
    with ExitStack() as ends, ExitStack() as if_it_fails:
        # Others on this machine can't connect: they may not look into the folder.
        folder = ends.enter_context(tempfile.TemporaryDirectory(prefix="paddock-door-"))
        listener = ends.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listener.bind(f"{folder}/sock")
        Path(folder, "sock").chmod(0o666)
        listener.listen(1)
        if_it_fails.callback(worker.remove)
        stdio = isinstance(plan.program, Exec) and plan.program.stdio
        prologue = _prologue(len(fds), stdio=stdio) + boot
        argv = [plan.world.executable, "-I", "-S", "-c", prologue, str(CONTROL_FD)]
        door = Mount(f"{folder}/sock", _SOCKET, "ro")
        words = (*run_words(plan, engine, (*plan.mounts, door)), "--name", worker.name, IMAGE, *argv)
        engine.call(*words, folder=folder)  # podman's monitor leaves a file where it was started if memory runs out
        connection = ends.enter_context(_accept(listener, worker, plan.policy.start_s))
        worker.watch(_find_pid(worker, connection))
        if_it_fails.callback(os.close, worker.fd)
        limit = worker.memory_limit
        if limit is not None and limit > (plan.policy.memory_mb + _KERNEL_MB) << 20:
            raise SandboxUnavailable(
                f"{engine.name} did not apply the memory limit (rootless, it needs cgroup v2 and systemd). Use "
                f"isolation='sandbox', or run {engine.name} as root. See: paddock doctor."
            )
        socket.send_fds(connection, [b"!"], list(fds))
        if_it_fails.pop_all()
    return worker


def run_words(plan: Plan, engine: Engine, mounts: Sequence[Mount]) -> list[str]:
    """The words of ``run`` up to the image: everything that is not needed is off."""
    policy = plan.policy
    # Of its own: limits by user and signals must not meet a neighbour. An engine without root has 65,536 of them.
    user = 10_000 + secrets.randbelow(50_000)
    memory_mb, tasks, cpus = policy.memory_mb, most_tasks(policy), min(policy.processes, os.cpu_count() or 1)
    if engine.gvisor:
        memory_mb, tasks = memory_mb + _KERNEL_MB, tasks + _KERNEL_TASKS
    words = ["run", "--detach", "--pull", "never", "--network", "none", "--ipc", "none", "--hostname", HOSTNAME]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--log-driver", "none"]
    words += ["--user", f"{user}:{user}", "--pids-limit", str(tasks), "--cpus", str(cpus)]
    words += ["--memory", f"{memory_mb}m", "--memory-swap", f"{memory_mb}m"]
    words += ["--ulimit", _ulimit("NOFILE", max(policy.descriptors, 128)), "--ulimit", _ulimit("NPROC", 1 << 14)]
    if engine.name == "podman":
        words += ["--read-only-tmpfs=false", "--no-hosts"]
    elif engine.gvisor:
        words += ["--runtime", "runsc"]
    for hidden in ("/etc/hosts", "/etc/resolv.conf"):  # which tell about this machine's network
        if engine.name == "docker":
            words += _bind("/dev/null", hidden, "ro")
    for name, value in first_variables(None).items():
        words += ["--env", f"{name}={value}"]
    places = {one.target: one for one in mounts}
    for one in mounts:
        if one.how == "scratch":
            inodes = f",nr_inodes={scratch_inodes(policy)}" if engine.name == "docker" else ""  # podman takes no such
            words += ["--tmpfs", f"{SCRATCH}:rw,nosuid,nodev,noexec,size={policy.scratch_mb}m,mode=1777{inodes}"]
        elif one.how == "empty":
            copies = ",notmpcopyup" if engine.name == "podman" else ""  # by default podman puts in what it hides
            words += ["--tmpfs", f"{one.target}:nosuid,nodev,noexec,size=64k,mode=755{copies}"]
        elif one.how == "link":  # relative to the root; what it leads to is mounted
            source = places.get(f"/{one.source}", Mount(f"/{one.source}", "", "ro")).source
            words += _bind(source, one.target, "ro")
        elif one.how == "dev":
            words += [] if one.target in DEVICES else ["--device", f"{one.source}:{one.target}"]
        elif one.how in ("ro", "rw"):
            words += _bind(one.source, one.target, one.how)
    return words


def _ulimit(name: str, wanted: int) -> str:
    """At most what this process has: an engine without the right to raise limits would refuse."""
    import resource

    hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    return f"{name.lower()}={most}:{most}"


def _bind(source: str, target: str, how: str) -> list[str]:
    if re.search(r'[,"\r\n]', source + target):
        raise InvalidPolicy(f"{source!r}: a container engine takes no path with a comma, a quote or a line break.")
    return ["--mount", f"type=bind,source={source},target={target}" + (",readonly" if how == "ro" else "")]


def _prologue(count: int, *, stdio: bool) -> str:
    """Python for the worker's first lines: fetch the descriptors, and write to the launcher, not to the engine."""
    lines = ["import os,socket", f"s=socket.socket(socket.AF_UNIX);s.connect({_SOCKET!r})"]
    lines += [f"f=socket.recv_fds(s,1,{count})[1];s.close()"]
    lines += [f"for i,d in enumerate(f):os.dup2(d,{_OUTPUT_FD}+i);os.close(d)"]
    lines += [f"os.dup2({_OUTPUT_FD},1);os.dup2({_OUTPUT_FD},2);os.close({_OUTPUT_FD})"]
    for number in range(count - 2):
        lines += [f"os.dup2({CONTROL_FD + 1 + number},{3 + number});os.close({CONTROL_FD + 1 + number})"]
    lines += ["os.dup2(3,0);os.dup2(3,1)"] if stdio else []
    return "\n".join(lines) + "\n"


def _accept(listener: socket.socket, worker: Contained, timeout_s: float) -> socket.socket:
    ends_s = time.monotonic() + timeout_s
    listener.settimeout(_LOOK_S)
    while time.monotonic() < ends_s:
        with suppress(TimeoutError):
            return listener.accept()[0]
        state = worker.engine.call("inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", worker.name)
        if not state.startswith("true"):
            raise SandboxUnavailable(
                f"The container ended before it connected, with exit code {state.split()[-1]}. Does "
                f"{worker.engine.name} run on this machine, and see its files? See: paddock doctor."
            )
    raise SandboxUnavailable(f"The container did not connect within {timeout_s:g} s. See: paddock doctor.")


def _find_pid(worker: Contained, connection: socket.socket) -> int:
    if worker.engine.gvisor:  # its connections come from a helper; the engine knows the process that holds the kernel
        return int(worker.engine.call("inspect", "--format", "{{.State.Pid}}", worker.name))
    pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    if pid <= 0:
        raise SandboxUnavailable(
            f"{worker.engine.name}'s containers are not among the processes that this one can see, so they can't be "
            f"watched. Run paddock outside of a container. See: paddock doctor."
        )
    return int(pid)


# ── What outlives a worker: the image, and containers whose program was killed ──

_prepared: set[Engine] = set()
_preparing = threading.Lock()
_lifelines: list[int] = []


def _own_prefix() -> str:
    """Of the names of this process's containers. Its number counts only together with the pid namespace."""
    return f"paddock-{Path('/proc/self/ns/pid').stat().st_ino}-{identify(os.getpid())}-"


def _prepare(engine: Engine) -> None:
    """Once per process: make the empty image, remove what killed programs left, and see to it that ours is removed."""
    with _preparing:
        if engine in _prepared:
            return
        if IMAGE not in engine.call("images", "--format", "{{.Repository}}:{{.Tag}}"):
            import io
            import tarfile

            archive = io.BytesIO()
            with tarfile.open(fileobj=archive, mode="w") as tar:
                root = tarfile.TarInfo(".")
                root.type, root.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(root)
            engine.call("import", "-", IMAGE, input=archive.getvalue())
        _sweep(engine)
        # A shell that waits for the end of this process, however that comes.
        reads, writes = os.pipe()
        try:
            subprocess.Popen(  # noqa: S603 - our own line, and the engine's command
                ["/bin/sh", "-c", _REMOVE, "sh", *engine.command],
                stdin=reads,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PADDOCK_CONTAINERS": _own_prefix()},
                cwd="/",
                start_new_session=True,
            )
        finally:
            os.close(reads)
        _lifelines.append(writes)
        _prepared.add(engine)


def _sweep(engine: Engine) -> None:
    names = engine.call("ps", "--all", "--filter", "name=paddock-", "--format", "{{.Names}}").split()
    here = _own_prefix().split("-")[1]
    for name in names:
        match = re.fullmatch(r"paddock-(\d+)-((\d+)-\w+)-[0-9a-f]{16}", name)
        if match and match[1] == here and identify(int(match[3])) != match[2]:
            with suppress(SandboxUnavailable):
                engine.call("rm", "--force", name)


def _forget_after_fork() -> None:
    """The parent's end must be the parent's alone."""
    global _preparing
    _preparing = threading.Lock()
    while _lifelines:
        os.close(_lifelines.pop())
    _prepared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)

"""Canaries: what attacks are after, planted on the host for one attack and checked when it is over."""

from __future__ import annotations

import array
import hashlib
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from paddock.bench.hostile.attacks.imports import beside_source, module_source
from paddock.sandbox.removal import remove_tree

# Below the folder of the canaries.
_PLACES = {
    "secret": "home/secret.txt",
    "key": "home/.ssh/id_ed25519",
    "keyring": "home/.local/share/keyrings/login.keyring",
    "scratch": "neighbour/scratch.txt",
    "marker": "out/marker",
    "plant": "out/hostile.pth",
    **{name: name for name in ("home", "out", "shared", "outside")},
}
# What a copy of the standard library can do without: most of its size.
_NOT_COPIED = ("*-packages", "test", "tests", "idlelib", "ensurepip", "tkinter", "lib2to3", "config-*", "*.opt-?.pyc")


class Canaries:
    """A folder with secrets, listeners, a terminal and a bystander process; ``places`` says where each is."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.token = secrets.token_hex(16)
        self.name = f"hostile-{self.token[:12]}"
        self.reached: list[str] = []
        self.places: dict[str, Any] = {}

    def __enter__(self) -> Canaries:
        try:
            self._plant_files()
            self._open_listeners()
            self._start_bystander()
            ours, theirs = os.openpty()
            self._stack.callback(os.close, ours)
            self._stack.callback(os.close, theirs)
            self._terminal, self.places["terminal"] = theirs, os.ttyname(theirs)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for path in self._possible_plants():
            with suppress(OSError):
                path.unlink()
        self._stack.close()

    def _plant_files(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="canaries-"))
        self._stack.callback(remove_tree, str(folder), within_s=60.0)
        folder.chmod(0o755)  # nothing but the wall protects them
        self.folder = folder
        secret = f"secret {self.token}\n"
        for name in (*(_PLACES[name] for name in ("secret", "key", "keyring", "scratch")), "target/beside.txt"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(secret)
        for name in ("out", "outside", "shared", "tmp"):
            (folder / name).mkdir()
            (folder / name).chmod(0o777)
        self.places |= {name: str(folder / place) for name, place in _PLACES.items()}
        self.places |= {"name": self.name, "beside": "beside.txt", "seconds": 60}
        self.places["command"] = f"touch {self.places['marker']}"
        self._before = self._digests()

    def _open_listeners(self) -> None:
        self.places["host"] = "127.0.0.1"
        self.places["port"] = self._listen(socket.AF_INET, ("127.0.0.1", 0))[1]
        with suppress(OSError):
            self.places["port6"] = self._listen(socket.AF_INET6, ("::1", 0))[1]
        self.places["lan"] = address = own_address()
        if address is not None:
            self.places["lan_port"] = self._listen(socket.AF_INET, (address, 0))[1]
        self.places["datagram_port"] = self._listen(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM)[1]
        self.places["unix"] = self._listen(socket.AF_UNIX, str(self.folder / "out.sock"))
        Path(self.places["unix"]).chmod(0o777)
        self._listen(socket.AF_UNIX, f"\0{self.name}")
        self.places["abstract"] = f"@{self.name}"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.places["free_port"] = free.getsockname()[1]

    def _listen(self, family: int, address: Any, kind: int = socket.SOCK_STREAM) -> Any:
        listener = socket.socket(family, kind)
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    if kind == socket.SOCK_STREAM:
                        listener.accept()[0].close()
                    else:
                        listener.recvfrom(2048)
                    self.reached.append(f"the listener at {address!r} was reached")

        def stop() -> None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

        threading.Thread(target=serve, daemon=True).start()
        self._stack.callback(stop)
        return listener.getsockname()

    def _start_bystander(self) -> None:
        variables = {**os.environ, "PADDOCK_HOSTILE_TOKEN": self.token}
        # Waits until this process ends, however that ends. In a session of its own: Ctrl-C is not for it.
        argv = [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"]
        self.bystander = subprocess.Popen(argv, env=variables, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
        self.places["bystander"] = self.bystander.pid

        def stop() -> None:
            self.bystander.kill()
            self.bystander.communicate()

        self._stack.callback(stop)

    def write_module(self, attempt: str, beside: tuple[str, ...]) -> str:
        """Write a module that runs ``attempt`` when it is imported, in a folder of its own; return its name."""
        name = f"hostile_{self.token[:8]}"
        target = self.folder / "target"
        (target / f"{name}.py").write_text(module_source(attempt, self.places))
        for other in beside:
            (target / other).write_text(beside_source(other, self.places))
        self._before = self._digests()
        return name

    def needles(self) -> list[str]:
        """Texts that must not come back."""
        needles = [self.token]
        with suppress(OSError):
            needles.append(Path("/etc/shadow").read_text().splitlines()[0])
        return needles

    def hits(self) -> dict[str, str]:
        """The canaries that were harmed, and how."""
        after = self._digests()
        changed = [path for path in after if after[path] != self._before.get(path)]
        changed += [path for path in self._before if path not in after]
        changed += [str(path) for path in self._possible_plants() if path.exists()]
        files = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        hits = {"file": files, "listener": "; ".join(self.reached), "terminal": self._count_typed()}
        if self.bystander.poll() is not None:
            hits["bystander"] = f"the bystander ended with {self.bystander.returncode}"
        return {name: what for name, what in hits.items() if what}

    def _digests(self) -> dict[str, str]:
        """What lies in the folder; compiled files, a Python, the trial's own log and temporary files do not count."""
        digests = {}
        tops = [top for top in self.folder.iterdir() if top.name != "tmp"]
        for path in (path for top in tops for path in (top, *top.rglob("*"))):
            inner = path.relative_to(self.folder).parts
            python = inner[:2] == ("home", ".local") and inner[2:3] in (("bin",), ("lib",))
            log = inner in (("paddock", "log.jsonl"), ("paddock", "log.lock"))
            if path.is_dir() or python or log or "__pycache__" in inner or path.suffix == ".sock":
                continue
            status = path.lstat()
            # A file of a terabyte is not read: what was planted is small.
            small = path.is_file() and status.st_size < (1 << 20)
            content = hashlib.sha256(path.read_bytes()).hexdigest() if small else ""
            digests[str(path)] = f"{status.st_mode} {status.st_nlink} {status.st_size} {content}"
        return digests

    def _possible_plants(self) -> list[Path]:
        """Files of this attack's name where Python and paddock lie."""
        import site

        import paddock.errors as ours

        package = Path(ours.__file__).parent
        folders = [package, package / "__pycache__", *map(Path, site.getsitepackages())]
        folders += [Path(path) for path in sys.path if path.endswith("-packages")]
        return [folder / self.name for folder in folders]

    def _count_typed(self) -> str:
        import fcntl
        import termios

        waiting = array.array("i", [0])
        fcntl.ioctl(self._terminal, termios.FIONREAD, waiting)
        return f"{waiting[0]} characters typed" if waiting[0] else ""


def plant_interpreter(prefix: Path) -> str:
    """Copy this Python to ``prefix``, as ``./configure --prefix=$HOME/.local`` would install it; return its path."""
    ours = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    library = Path(os.__file__).parent
    (prefix / "bin").mkdir(parents=True, exist_ok=True)
    shutil.copy2(ours, prefix / "bin")
    shutil.copytree(library, prefix / "lib" / library.name, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    return str(prefix / "bin" / ours.name)


def own_address() -> str | None:
    """The machine's address on its network, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(("192.0.2.1", 9))  # no packet is sent
            address: str = asking.getsockname()[0]
        except OSError:
            return None
    return None if address.startswith("127.") else address

"""Attacks on files: secrets read, files left or changed, disks filled. Only planted files are ever touched."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path

from paddock.bench.hostile.attack import GREEDY, LIVES, SMALL, attack
from paddock.bench.hostile.attacks.attempt import Hostile, HostileWrapper, call, first_that_works


def text_of(path: str) -> str:
    """The file's first bytes, as text that can cross."""
    with Path(path).open("rb") as file:
        return file.read(4096).decode("latin-1")


@attack("F01", "reads the shadow file", "secret", {"path": "/etc/shadow"}, control_root=True)
@attack("F02", "reads a file in the user's home", "secret", {"path": "$secret"})
@attack("F03", "reads the user's ssh key", "secret", {"path": "$key"})
@attack("F04", "reads a neighbour's scratch file", "secret", {"path": "$scratch"})
@attack("F22", "reads the keyring beside the user's own Python", "secret", {"path": "$keyring"}, home_python=True)
class ReadFile(Hostile):
    """Reads ``path``: the shadow file, a key, a neighbour's scratch."""

    def attempt(self) -> str:
        return text_of(self.arguments["path"])


@attack("F05", "searches the disk for a key", "secret", {"name": "id_ed25519", "places": ["$home"]})
class ReadEverywhere(Hostile):
    """Looks for ``name`` below the places where secrets lie."""

    def attempt(self) -> str:
        for place in (*self.arguments["places"], tempfile.gettempdir(), "/home", "/root", "/var/tmp"):  # noqa: S108
            for folder, _, files in os.walk(place):
                if self.arguments["name"] in files:
                    return text_of(str(Path(folder, self.arguments["name"])))
        raise FileNotFoundError(errno.ENOENT, "nothing found")


@attack("F06", "climbs out by .. and by links", "secret", {"path": "$secret"})
class Traverse(Hostile):
    """Climbs out by ``..`` from wherever it stands, by links of /proc and by a link of its own."""

    def attempt(self) -> str:
        path = self.arguments["path"]
        up = "../" * 24 + path.lstrip("/")

        def by_link() -> str:
            link = Path(tempfile.mkdtemp(), "link")
            link.symlink_to(path)
            try:
                return text_of(str(link))
            finally:
                shutil.rmtree(link.parent)

        ways = [up, str(Path(__file__).parent / up), f"/proc/self/cwd/{up}", f"/proc/self/root{path}"]
        return first_that_works(*(partial(text_of, way) for way in ways), by_link)


@attack("F07", "reads through the root of other processes", "secret", {"path": "$secret", "bystander": "$bystander"})
class OthersRoot(Hostile):
    """Reads ``path`` through the root of other processes, as root of a badly built container can."""

    def attempt(self) -> str:
        pids = (1, os.getppid(), self.arguments["bystander"])
        return first_that_works(*(partial(text_of, f"/proc/{pid}/root{self.arguments['path']}") for pid in pids))


@attack("F08", "reads others' variables", "secret", {"bystander": "$bystander"}, needs="secrets-hidden")
class OthersEnvironment(Hostile):
    """Reads the environment variables of another process, where tokens are kept."""

    def attempt(self) -> str:
        return first_that_works(
            *(partial(text_of, f"/proc/{pid}/environ") for pid in (self.arguments["bystander"], os.getppid()))
        )


@attack("F09", "reads another process's memory", "secret", {"bystander": "$bystander"}, needs="secrets-hidden")
class OthersMemory(Hostile):
    """Reads the stack of another process, where its environment variables lie."""

    def attempt(self) -> str:
        begin, end = stack_of(self.arguments["bystander"])
        memory = os.open(f"/proc/{self.arguments['bystander']}/mem", os.O_RDONLY)
        try:
            return os.pread(memory, min(end - begin, 16384), end - min(end - begin, 16384)).decode("latin-1")
        finally:
            os.close(memory)


def stack_of(pid: int) -> tuple[int, int]:
    """Where its stack begins and ends."""
    with Path(f"/proc/{pid}/maps").open() as maps:
        for line in maps:
            if line.rstrip().endswith("[stack]"):
                begin, end = line.split()[0].split("-")
                return int(begin, 16), int(end, 16)
    raise PermissionError(errno.EPERM, "its map is not shown")


@attack("F10", "reads descriptors left open", "secret", control="none", needs="secrets-hidden")
class InheritedDescriptors(Hostile):
    """Reads from the start of every descriptor that was left open."""

    def attempt(self) -> str:
        contents = []
        for fd in range(3, 1024):
            with suppress(OSError):
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    contents.append(os.pread(fd, 256, 0).decode("latin-1"))
        if not contents:
            raise OSError(errno.EBADF, "no descriptor of a file")
        return "\n".join(contents)


@attack("F26", "looks for descriptors of its template", "claim", control="none", needs="secrets-hidden")
class TemplateDescriptors(Hostile):
    """Looks for any descriptor besides its standard streams and its socket."""

    def attempt(self) -> str:
        found = []
        for fd in range(4, 4096):
            with suppress(OSError):
                found.append(f"{fd}: {stat.filemode(os.fstat(fd).st_mode)}")
        if not found:
            raise OSError(errno.EBADF, "no further descriptor")
        return f"reached: {', '.join(found)}"


@attack("F11", "leaves a file", "file", {"folders": ["$out"], "name": "$name"}, needs="files-kept")
class WriteFile(Hostile):
    """Makes ``name`` in the first of ``folders`` that takes it."""

    def attempt(self) -> str:
        def write(folder: str) -> str:
            path = Path(folder, self.arguments["name"])
            path.write_text("# planted by a hostile environment\n")
            return str(path)

        return first_that_works(*(partial(write, folder) for folder in self.arguments["folders"]))


@attack("F12", "changes the user's file", "file", {"path": "$secret"}, needs="files-kept")
class ChangeFile(Hostile):
    """Appends to ``path``."""

    def attempt(self) -> str:
        with Path(self.arguments["path"]).open("a") as file:
            file.write("changed by a hostile environment\n")
        return "appended"


@attack(
    "F21",
    "opens the kernel's settings for writing",
    "claim",
    {"paths": ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper"]},
    control_root=True,
    needs="files-kept",
)
class OpenForWriting(Hostile):
    """Opens ``paths`` for writing, and writes nothing."""

    def attempt(self) -> str:
        def open_it(path: str) -> str:
            os.close(os.open(path, os.O_WRONLY))
            return f"reached: {path}"

        return first_that_works(*(partial(open_it, path) for path in self.arguments["paths"]))


@attack(
    "F13",
    "swaps a folder for a link out of it",
    "file",
    {"shared": "$shared", "outside": "$outside", "name": "$name"},
    policy={"write": ["$shared"]},
    needs="files-kept",
)
class SwapLink(Hostile):
    """In the folder that it may write to, swaps a folder for a link out of it, between the look and the opening."""

    def attempt(self) -> str:
        shared, outside = Path(self.arguments["shared"]), self.arguments["outside"]
        inner = shared / "inner"
        for _ in range(50):
            with suppress(FileExistsError):
                inner.mkdir()
            inner.rmdir()
            inner.symlink_to(outside)
            try:
                (inner / self.arguments["name"]).write_text("through the link")
                return "written through the link"
            except OSError as error:
                denial = error
            finally:
                inner.unlink()
        raise denial


@attack("F14", "gives a secret a second name", "file", {"path": "$secret", "name": "$name"}, needs="files-kept")
class HardLink(Hostile):
    """Gives the secret a second name where it may read."""

    def attempt(self) -> str:
        folders = (str(Path(self.arguments["path"]).parent), tempfile.gettempdir())

        def link(folder: str) -> str:
            name = Path(folder, self.arguments["name"])
            os.link(self.arguments["path"], name)
            return text_of(str(name))

        return first_that_works(*(partial(link, folder) for folder in folders))


@attack(
    "F15", "makes a device file", "claim", {"folder": "$out", "name": "$name"}, control_root=True, needs="files-kept"
)
class MakeDevice(Hostile):
    """Makes a device file of its own, here that of /dev/null; another number would be the disk."""

    def attempt(self) -> str:
        def make(folder: str) -> str:
            path = Path(folder, self.arguments["name"])
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            return f"reached: {path}"

        return first_that_works(
            *(partial(make, folder) for folder in (self.arguments["folder"], tempfile.gettempdir()))
        )


@attack("F16", "opens a file by its number", "secret", {"path": "$secret"}, control_root=True)
class OpenByHandle(Hostile):
    """Opens a file by its number on the disk, which asks no folder on the way: the 'shocker' escape from containers."""

    def attempt(self) -> str:
        handle = (ctypes.c_byte * 136)()
        ctypes.c_uint.from_buffer(handle).value = 128
        mount = ctypes.c_int()
        here, path = -100, self.arguments["path"].encode()
        call("name_to_handle_at", here, ctypes.c_char_p(path), handle, ctypes.byref(mount), 0)
        root = os.open("/", os.O_RDONLY)
        try:
            fd = call("open_by_handle_at", root, handle, os.O_RDONLY)
        finally:
            os.close(root)
        with os.fdopen(fd, "rb") as file:
            return file.read(4096).decode("latin-1")


@attack(
    "F17",
    "fills the disk",
    "claim",
    {"folders": ["$out"], "name": "$name", "megabytes": 48},
    policy=SMALL,
    expected=GREEDY,
    needs="scratch-limited",
)
@attack(
    "R05",
    "fills the memory disk",
    "claim",
    {"folders": ["/dev/shm"], "name": "$name", "megabytes": 48},  # noqa: S108
    expected=GREEDY,
    policy=SMALL,
    needs="scratch-limited",
)
class FillDisk(Hostile):
    """Writes ``megabytes`` to the first folder that takes any of it."""

    def attempt(self) -> str:
        def fill(folder: str) -> str:
            with Path(folder, self.arguments["name"]).open("wb", buffering=0) as file:
                for _ in range(self.arguments["megabytes"]):
                    left = memoryview(bytes(1 << 20))
                    while left:  # a full disk takes a part first
                        left = left[file.write(left) :]
            return f"took {self.arguments['megabytes']} MB in {folder}"

        return first_that_works(
            *(partial(fill, folder) for folder in (*self.arguments["folders"], tempfile.gettempdir()))
        )


@attack(
    "F18",
    "makes thousands of files",
    "file",
    {"folder": "$out", "name": "$name", "count": 3000},
    expected=LIVES,
    needs="files-kept",
)
class ManyFiles(Hostile):
    """Makes ``count`` empty files, so that no number is left for anyone's."""

    def attempt(self) -> str:
        def fill(folder: str) -> str:
            for number in range(self.arguments["count"]):
                Path(folder, f"{self.arguments['name']}-{number}").touch()
            return f"made {self.arguments['count']} files in {folder}"

        return first_that_works(
            *(partial(fill, folder) for folder in (self.arguments["folder"], tempfile.gettempdir()))
        )


@attack(
    "F23",
    "fills the kernel with files that have no size",
    "share",
    {"count": 60_000},
    share="files",
    policy=SMALL,
    calls=("reset", "step", "close"),
    expected=GREEDY,
    needs="scratch-limited",
)
class ManyLinks(Hostile):
    """Makes ``count`` links where files are in memory: they have no size, and the kernel can't let go of them."""

    made = ""

    def attempt(self) -> str:
        def fill(place: str) -> str:
            if os.major(Path(place).stat().st_dev) != 0:
                raise OSError(errno.ENOTSUP, "a disk")
            self.made = tempfile.mkdtemp(dir=place)
            for number in range(self.arguments["count"]):
                Path(self.made, str(number)).symlink_to("/")
            return f"made {self.arguments['count']} links"

        return first_that_works(*(partial(fill, place) for place in (tempfile.gettempdir(), "/dev/shm")))  # noqa: S108

    def close(self) -> None:
        shutil.rmtree(self.made, ignore_errors=True)


@attack(
    "F25",
    "digs without end in its scratch folder",
    "left",
    {"levels": 2000},
    expected=LIVES,
    calls=("reset", "step", "close"),
    clean_s=30.0,
    needs="deadlines-kept",
)
class Dig(Hostile):
    """Digs ``levels`` folders into its scratch folder, which somebody must remove."""

    def attempt(self) -> str:
        if self.steps > 1:
            return "has dug"
        place = os.open(tempfile.mkdtemp(), os.O_RDONLY)
        for _ in range(self.arguments["levels"]):
            os.mkdir("d", dir_fd=place)
            inner = os.open("d", os.O_RDONLY, dir_fd=place)
            os.close(place)
            place = inner
        os.close(place)
        return "has dug"


@attack(
    "F24",
    "locks a file that it may only read",
    "share",
    {"path": "$scratch"},
    share="lock",
    policy={"read": ["$scratch"]},
    needs="files-kept",
)
class LockFile(Hostile):
    """Locks ``path``, which it may only read, against the host: all of it, and its bytes."""

    def attempt(self) -> str:
        import fcntl

        self.held = os.open(self.arguments["path"], os.O_RDONLY)
        fcntl.lockf(self.held, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the host sees whether it holds
        fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "holds the lock"


@attack(
    "F19",
    "makes a file of a terabyte that is not there",
    "claim",
    {"folder": "$out", "name": "$name", "gigabytes": 1024},
    expected=frozenset({"denied", "signal"}),
    needs="scratch-limited",
)
class SparseFile(Hostile):
    """Makes a file of ``gigabytes`` that are not there: a copy of it would fill a disk."""

    def attempt(self) -> str:
        def make(folder: str) -> str:
            path = Path(folder, self.arguments["name"])
            path.touch()
            os.truncate(path, self.arguments["gigabytes"] << 30)
            return f"took {self.arguments['gigabytes'] << 10} MB in {folder}"

        return first_that_works(
            *(partial(make, folder) for folder in (self.arguments["folder"], tempfile.gettempdir()))
        )


@attack("F20", "a wrapper reads a secret", "secret", {"path": "$secret"})
class ReadFileWrapper(HostileWrapper):
    """Reads ``path`` from a wrapper."""

    def attempt(self) -> str:
        return text_of(self.arguments["path"])

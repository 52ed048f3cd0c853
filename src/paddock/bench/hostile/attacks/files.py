"""Attacks on files. They read only what was planted for them, and write only where the plan says."""

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

from paddock.bench.hostile.attacks.attempt import Hostile, first_that_works
from paddock.bench.hostile.attacks.system_call import call


def text_of(path: str) -> str:
    """The file's first bytes, as text that can cross."""
    with Path(path).open("rb") as file:
        return file.read(4096).decode("latin-1")


class ReadFile(Hostile):
    """Reads ``path``: the shadow file, a key, a neighbour's scratch."""

    def attempt(self) -> str:
        return text_of(self.told["path"])


class ReadEverywhere(Hostile):
    """Looks for ``name`` below the places where secrets lie."""

    def attempt(self) -> str:
        for place in (*self.told["places"], tempfile.gettempdir(), "/home", "/root", "/var/tmp"):  # noqa: S108
            for folder, _, files in os.walk(place):
                if self.told["name"] in files:
                    return text_of(str(Path(folder, self.told["name"])))
        raise FileNotFoundError(errno.ENOENT, "nothing found")


class Traverse(Hostile):
    """Climbs out by ``..`` from wherever it stands, by links of /proc and by a link of its own."""

    def attempt(self) -> str:
        path = self.told["path"]
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


class OthersRoot(Hostile):
    """Reads ``path`` through the root of other processes, as root of a badly built container can."""

    def attempt(self) -> str:
        pids = (1, os.getppid(), self.told["bystander"])
        return first_that_works(*(partial(text_of, f"/proc/{pid}/root{self.told['path']}") for pid in pids))


class OthersEnvironment(Hostile):
    """Reads the environment variables of another process, where tokens are kept."""

    def attempt(self) -> str:
        return first_that_works(
            *(partial(text_of, f"/proc/{pid}/environ") for pid in (self.told["bystander"], os.getppid()))
        )


class OthersMemory(Hostile):
    """Reads the stack of another process, where its environment variables lie."""

    def attempt(self) -> str:
        begin, end = stack_of(self.told["bystander"])
        memory = os.open(f"/proc/{self.told['bystander']}/mem", os.O_RDONLY)
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


class InheritedDescriptors(Hostile):
    """Reads from the start of every descriptor that was left open."""

    def attempt(self) -> str:
        found = []
        for fd in range(3, 1024):
            with suppress(OSError):
                if stat.S_ISREG(os.fstat(fd).st_mode):
                    found.append(os.pread(fd, 256, 0).decode("latin-1"))
        if not found:
            raise OSError(errno.EBADF, "no descriptor of a file")
        return "\n".join(found)


class WriteFile(Hostile):
    """Makes ``name`` in the first of ``folders`` that takes it."""

    def attempt(self) -> str:
        def write(folder: str) -> str:
            path = Path(folder, self.told["name"])
            path.write_text("# planted by a hostile environment\n")
            return str(path)

        return first_that_works(*(partial(write, folder) for folder in self.told["folders"]))


class ChangeFile(Hostile):
    """Appends to ``path``."""

    def attempt(self) -> str:
        with Path(self.told["path"]).open("a") as file:
            file.write("changed by a hostile environment\n")
        return "appended"


class OpenForWriting(Hostile):
    """Opens ``paths`` for writing, and writes nothing."""

    def attempt(self) -> str:
        def open_it(path: str) -> str:
            os.close(os.open(path, os.O_WRONLY))
            return f"reached: {path}"

        return first_that_works(*(partial(open_it, path) for path in self.told["paths"]))


class SwapLink(Hostile):
    """In the folder that it may write to, swaps a folder for a link out of it, between the look and the opening."""

    def attempt(self) -> str:
        shared, outside = Path(self.told["shared"]), self.told["outside"]
        inner = shared / "inner"
        for _ in range(50):
            with suppress(FileExistsError):
                inner.mkdir()
            inner.rmdir()
            inner.symlink_to(outside)
            try:
                (inner / self.told["name"]).write_text("through the link")
                return "written through the link"
            except OSError as error:
                denial = error
            finally:
                inner.unlink()
        raise denial


class HardLink(Hostile):
    """Gives the secret a second name where it may read."""

    def attempt(self) -> str:
        folders = (str(Path(self.told["path"]).parent), tempfile.gettempdir())

        def link(folder: str) -> str:
            name = Path(folder, self.told["name"])
            os.link(self.told["path"], name)
            return text_of(str(name))

        return first_that_works(*(partial(link, folder) for folder in folders))


class MakeDevice(Hostile):
    """Makes a device file of its own, here that of /dev/null; another number would be the disk."""

    def attempt(self) -> str:
        def make(folder: str) -> str:
            path = Path(folder, self.told["name"])
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            return f"reached: {path}"

        return first_that_works(*(partial(make, folder) for folder in (self.told["folder"], tempfile.gettempdir())))


class OpenByHandle(Hostile):
    """Opens a file by its number on the disk, which asks no folder on the way: the 'shocker' escape from containers."""

    def attempt(self) -> str:
        handle = (ctypes.c_byte * 136)()
        ctypes.c_uint.from_buffer(handle).value = 128
        mount = ctypes.c_int()
        here, path = -100, self.told["path"].encode()
        call("name_to_handle_at", here, ctypes.c_char_p(path), handle, ctypes.byref(mount), 0)
        root = os.open("/", os.O_RDONLY)
        try:
            fd = call("open_by_handle_at", root, handle, os.O_RDONLY)
        finally:
            os.close(root)
        with os.fdopen(fd, "rb") as file:
            return file.read(4096).decode("latin-1")


class FillDisk(Hostile):
    """Writes ``megabytes`` to the first folder that takes any of it."""

    def attempt(self) -> str:
        def fill(folder: str) -> str:
            with Path(folder, self.told["name"]).open("wb", buffering=0) as file:
                for _ in range(self.told["megabytes"]):
                    left = memoryview(bytes(1 << 20))
                    while left:  # a full disk takes a part first
                        left = left[file.write(left) :]
            return f"took {self.told['megabytes']} MB in {folder}"

        return first_that_works(*(partial(fill, folder) for folder in (*self.told["folders"], tempfile.gettempdir())))


class ManyFiles(Hostile):
    """Makes ``count`` empty files, so that no number is left for anyone's."""

    def attempt(self) -> str:
        def fill(folder: str) -> str:
            for number in range(self.told["count"]):
                Path(folder, f"{self.told['name']}-{number}").touch()
            return f"made {self.told['count']} files in {folder}"

        return first_that_works(*(partial(fill, folder) for folder in (self.told["folder"], tempfile.gettempdir())))


class ManyLinks(Hostile):
    """Makes ``count`` links where files are in memory: they have no size, and the kernel can't let go of them."""

    made = ""

    def attempt(self) -> str:
        def fill(place: str) -> str:
            if os.major(Path(place).stat().st_dev) != 0:
                raise OSError(errno.ENOTSUP, "a disk")
            self.made = tempfile.mkdtemp(dir=place)
            for number in range(self.told["count"]):
                Path(self.made, str(number)).symlink_to("/")
            return f"made {self.told['count']} links"

        return first_that_works(*(partial(fill, place) for place in (tempfile.gettempdir(), "/dev/shm")))  # noqa: S108

    def close(self) -> None:
        shutil.rmtree(self.made, ignore_errors=True)


class Dig(Hostile):
    """Digs ``levels`` folders into its scratch folder, for whoever must remove them."""

    def attempt(self) -> str:
        if self.steps > 1:
            return "has dug"
        place = os.open(tempfile.mkdtemp(), os.O_RDONLY)
        for _ in range(self.told["levels"]):
            os.mkdir("d", dir_fd=place)
            inner = os.open("d", os.O_RDONLY, dir_fd=place)
            os.close(place)
            place = inner
        os.close(place)
        return "has dug"


class LockFile(Hostile):
    """Locks ``path``, which it may only read, against the host: all of it, and its bytes."""

    def attempt(self) -> str:
        import fcntl

        self.held = os.open(self.told["path"], os.O_RDONLY)
        fcntl.lockf(self.held, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the host sees whether it holds
        fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "holds the lock"


class SparseFile(Hostile):
    """Makes a file of ``gigabytes`` that are not there, for whoever copies it."""

    def attempt(self) -> str:
        def make(folder: str) -> str:
            path = Path(folder, self.told["name"])
            path.touch()
            os.truncate(path, self.told["gigabytes"] << 30)
            return f"took {self.told['gigabytes'] << 10} MB in {folder}"

        return first_that_works(*(partial(make, folder) for folder in (self.told["folder"], tempfile.gettempdir())))

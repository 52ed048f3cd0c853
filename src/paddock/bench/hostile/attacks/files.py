"""Attacks on files: secrets read, files left or changed, disks filled. Only planted files are ever touched."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from paddock.bench.hostile.attack import GREEDY, LIVES, ONCE, SMALL
from paddock.bench.hostile.attacks.attempt import Hostile, HostileWrapper, attack, call, first_that_works, open_first


def text_of(path: str) -> str:
    """The file's first bytes, as text that can cross."""
    with Path(path).open("rb") as file:
        return file.read(4096).decode("latin-1")


@attack("F01", "reads the shadow file", "secret", {"path": "/etc/shadow"}, control_root=True)
@attack("F02", "reads a file in the user's home", "secret", {"path": "$secret"})
@attack("F03", "reads the user's ssh key", "secret", {"path": "$key"})
@attack("F04", "reads a neighbour's scratch file", "secret", {"path": "$scratch"})
@attack("F22", "reads the keyring beside the user's own Python", "secret", {"path": "$keyring"}, home_python=True)
def read_file(path: str) -> str:
    return text_of(path)


@attack("F20", "a wrapper reads a secret", "secret", {"path": "$secret"}, base=HostileWrapper)
def read_file_in_wrapper(path: str) -> str:
    return text_of(path)


@attack("F05", "searches the disk for a key", "secret", {"name": "id_ed25519", "places": ["$home"]})
def read_everywhere(name: str, places: list[str]) -> str:
    """Looks for ``name`` below the places where secrets lie."""
    for place in (*places, tempfile.gettempdir(), "/home", "/root", "/var/tmp"):  # noqa: S108
        for folder, _, files in os.walk(place):
            if name in files:
                return text_of(str(Path(folder, name)))
    raise FileNotFoundError(errno.ENOENT, "nothing found")


@attack("F06", "climbs out by .. and by links", "secret", {"path": "$secret"})
def traverse(path: str) -> str:
    """Climbs out by ``..`` from wherever it stands, by links of /proc and by a link of its own."""
    up = "../" * 24 + path.lstrip("/")
    with suppress(OSError):
        ways = up, str(Path(__file__).parent / up), f"/proc/self/cwd/{up}", f"/proc/self/root{path}"
        return first_that_works(text_of, ways)
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder, "link")
        link.symlink_to(path)
        return text_of(str(link))


@attack("F07", "reads through the root of other processes", "secret", {"path": "$secret"})
def read_by_others_root(path: str, bystander: int) -> str:
    """Reads ``path`` through the root of other processes, as root of a badly built container can."""
    return first_that_works(text_of, (f"/proc/{pid}/root{path}" for pid in (1, os.getppid(), bystander)))


@attack("F08", "reads others' variables", "secret", needs="secrets-hidden")
def read_others_variables(bystander: int) -> str:
    return first_that_works(text_of, (f"/proc/{pid}/environ" for pid in (bystander, os.getppid())))


@attack("F09", "reads another process's memory", "secret", needs="secrets-hidden")
def read_others_memory(bystander: int) -> str:
    """Reads the stack of another process, where its environment variables lie."""
    begin, end = stack_of(bystander)
    memory = os.open(f"/proc/{bystander}/mem", os.O_RDONLY)
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
def read_descriptors() -> str:
    """Reads from the start of every descriptor that was left open."""
    contents = []
    for fd in range(3, 1024):
        with suppress(OSError):
            if stat.S_ISREG(os.fstat(fd).st_mode):
                contents.append(os.pread(fd, 256, 0).decode("latin-1"))
    if not contents:
        raise OSError(errno.EBADF, "no descriptor of a file")
    return "\n".join(contents)


@attack("F26", "looks for descriptors of its template", "claim", control="none", needs="secrets-hidden")
def find_descriptors() -> str:
    """Looks for any descriptor besides its standard streams and its socket."""
    found = []
    for fd in range(4, 4096):
        with suppress(OSError):
            found.append(f"{fd}: {stat.filemode(os.fstat(fd).st_mode)}")
    if not found:
        raise OSError(errno.EBADF, "no further descriptor")
    return f"reached: {', '.join(found)}"


@attack("F11", "leaves a file", "file", {"folders": ["$out"]}, needs="files-kept")
def write_file(folders: list[str], name: str) -> str:

    def write(folder: str) -> str:
        path = Path(folder, name)
        path.write_text("# planted by a hostile environment\n")
        return str(path)

    return first_that_works(write, folders)


@attack("F12", "changes the user's file", "file", {"path": "$secret"}, needs="files-kept")
def change_file(path: str) -> str:
    with Path(path).open("a") as file:
        file.write("changed by a hostile environment\n")
    return "appended"


_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper")


@attack("F21", "opens the kernel's settings for writing", "claim", control_root=True, needs="files-kept")
def open_for_writing(paths: Sequence[str] = _SETTINGS) -> str:
    return open_first(paths, os.O_WRONLY)


@attack("F13", "swaps a folder for a link out of it", "file", policy={"write": ["$shared"]}, needs="files-kept")
def swap_link(shared: str, outside: str, name: str) -> str:
    """In the folder that it may write to, swaps a folder for a link out of it, between the look and the opening."""
    inner = Path(shared, "inner")
    for _ in range(50):
        with suppress(FileExistsError):
            inner.mkdir()
        inner.rmdir()
        inner.symlink_to(outside)
        try:
            (inner / name).write_text("through the link")
            return "written through the link"
        except OSError as error:
            denial = error
        finally:
            inner.unlink()
    raise denial


@attack("F14", "gives a secret a second name", "file", {"path": "$secret"}, needs="files-kept")
def make_hard_link(path: str, name: str) -> str:

    def link(folder: str) -> str:
        os.link(path, Path(folder, name))
        return text_of(str(Path(folder, name)))

    return first_that_works(link, (str(Path(path).parent), tempfile.gettempdir()))


@attack("F15", "makes a device file", "claim", {"folder": "$out"}, control_root=True, needs="files-kept")
def make_device(folder: str, name: str) -> str:
    """Makes a device file of its own, here that of /dev/null; another number would be the disk."""

    def make(place: str) -> str:
        path = Path(place, name)
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        return f"reached: {path}"

    return first_that_works(make, (folder, tempfile.gettempdir()))


@attack("F16", "opens a file by its number", "secret", {"path": "$secret"}, control_root=True)
def open_by_handle(path: str) -> str:
    """Opens a file by its number on the disk, which asks no folder on the way: the 'shocker' escape from containers."""
    handle = (ctypes.c_byte * 136)()
    ctypes.c_uint.from_buffer(handle).value = 128
    here, mount = -100, ctypes.c_int()
    call("name_to_handle_at", here, ctypes.c_char_p(path.encode()), handle, ctypes.byref(mount), 0)
    root = os.open("/", os.O_RDONLY)
    try:
        fd = call("open_by_handle_at", root, handle, os.O_RDONLY)
    finally:
        os.close(root)
    with os.fdopen(fd, "rb") as file:
        return file.read(4096).decode("latin-1")


_FILLS: dict[str, Any] = {"policy": SMALL, "expected": GREEDY, "needs": "scratch-limited"}


@attack("F17", "fills the disk", "claim", {"folders": ["$out"]}, **_FILLS)
@attack("R05", "fills the memory disk", "claim", {"folders": ["/dev/shm"]}, **_FILLS)  # noqa: S108
def fill_disk(folders: list[str], name: str, megabytes: int = 48) -> str:
    """Writes ``megabytes`` to the first folder that takes any of it."""

    def fill(folder: str) -> str:
        with Path(folder, name).open("wb", buffering=0) as file:
            for _ in range(megabytes):
                left = memoryview(bytes(1 << 20))
                while left:  # a full disk takes a part first
                    left = left[file.write(left) :]
        return f"took {megabytes} MB in {folder}"

    return first_that_works(fill, (*folders, tempfile.gettempdir()))


@attack("F18", "makes thousands of files", "file", {"folder": "$out"}, expected=LIVES, needs="files-kept")
def make_files(folder: str, name: str, count: int = 3000) -> str:
    """Makes ``count`` empty files, so that no number is left for anyone's."""

    def fill(place: str) -> str:
        for number in range(count):
            Path(place, f"{name}-{number}").touch()
        return f"made {count} files in {place}"

    return first_that_works(fill, (folder, tempfile.gettempdir()))


@attack(
    "F23",
    "fills the kernel with files that have no size",
    "share",
    {"count": 60_000},
    share="files",
    calls=ONCE,
    **_FILLS,
)
class ManyLinks(Hostile):
    """Makes ``count`` links where files are in memory: they have no size, and the kernel can't let go of them."""

    made = ""

    def attempt(self) -> str:
        return first_that_works(self._fill, (tempfile.gettempdir(), "/dev/shm"))  # noqa: S108

    def _fill(self, place: str) -> str:
        if os.major(Path(place).stat().st_dev) != 0:
            raise OSError(errno.ENOTSUP, "a disk")
        self.made = tempfile.mkdtemp(dir=place)
        for number in range(self.arguments["count"]):
            Path(self.made, str(number)).symlink_to("/")
        return f"made {self.arguments['count']} links"

    def close(self) -> None:
        shutil.rmtree(self.made, ignore_errors=True)


@attack(
    "F25",
    "digs without end in its scratch folder",
    "left",
    expected=LIVES,
    calls=ONCE,
    clean_s=30.0,
    needs="deadlines-kept",
)
def dig(levels: int = 2000) -> str:
    """Digs ``levels`` folders into its scratch folder, which somebody must remove."""
    place = os.open(tempfile.mkdtemp(), os.O_RDONLY)
    for _ in range(levels):
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
def lock_file(path: str) -> str:
    """Locks ``path``, which it may only read, against the host: all of it, and its bytes. Never lets go."""
    import fcntl

    held = os.open(path, os.O_RDONLY)
    fcntl.lockf(held, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the host sees whether it holds
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return "holds the lock"


@attack(
    "F19",
    "makes a file of a terabyte that is not there",
    "claim",
    {"folder": "$out"},
    expected={"denied", "signal"},
    needs="scratch-limited",
)
def make_sparse_file(folder: str, name: str, gigabytes: int = 1024) -> str:
    """Makes a file of ``gigabytes`` that are not there: a copy of it would fill a disk."""

    def make(place: str) -> str:
        path = Path(place, name)
        path.touch()
        os.truncate(path, gigabytes << 30)
        return f"took {gigabytes << 10} MB in {place}"

    return first_that_works(make, (folder, tempfile.gettempdir()))

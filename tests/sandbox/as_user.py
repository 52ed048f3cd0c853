"""Run a command as an ordinary user, with the same paths. Where private folders are in the way (Python below /root), a
mount namespace of its own shows what the tests need at the same place; nothing on the disk changes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

USER = 4000
REPOSITORY = Path(__file__).resolve().parents[2]


def as_user(argv, *, timeout_s=300, **variables):
    """The finished command. When this process is an ordinary user's already, it just runs."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **variables}
    with tempfile.TemporaryDirectory(prefix="paddock-home-") as home:  # settings and log of that user
        if os.geteuid() == 0:
            os.chown(home, USER, USER)
            inner = json.dumps({"needed": _needed(), "argv": argv})
            argv = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__, inner]
        env["PADDOCK_HOME"] = home
        return subprocess.run(argv, env=env, cwd=REPOSITORY, timeout=timeout_s, capture_output=True, text=True)


def _needed():
    entries = [one for one in sys.path if one and os.path.isdir(one)]
    every = {sys.base_prefix, sys.prefix, str(REPOSITORY), os.path.realpath(sys.executable), *entries}
    return sorted(path for path in every if _hidden(path))


def _hidden(path):
    """The outermost folder above ``path`` that others may not enter; None if they may go all the way."""
    for folder in reversed(Path(path).parents):
        if not folder.stat().st_mode & 0o001:
            return str(folder)
    return None


def _open_up(needed):
    run = lambda *argv: subprocess.run(argv, check=True)  # noqa: E731
    stage = tempfile.mkdtemp()
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", stage)
    held, veils = [], dict.fromkeys(_hidden(path) for path in needed)
    for number, path in enumerate(needed):
        place = Path(stage, str(number))
        place.mkdir() if os.path.isdir(path) else place.touch()
        run("mount", "--rbind", path, str(place))
        held.append((place, Path(path)))
    for veil in veils:
        run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", veil)
    for place, path in held:
        if not path.exists():  # a mount above it may show it already
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if place.is_dir() else path.touch()
            run("mount", "--rbind", str(place), str(path))
    run("umount", "-l", stage)
    os.rmdir(stage)


def _become_user_and_run(argv):
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, USER, USER)
        pid = os.fork()
        if pid == 0:
            os.setgroups([])
            os.setresgid(USER, USER, USER)
            os.setresuid(USER, USER, USER)
            os.execvpe(argv[0], argv, {**os.environ, "HOME": home, "TMPDIR": home})
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    _open_up(order["needed"])
    _become_user_and_run(order["argv"])

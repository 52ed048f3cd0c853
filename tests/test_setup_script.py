"""scripts/setup on machines that this one is not: its functions run with stand-ins for apt, dpkg, id and python."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SETUP = Path(__file__).parents[1] / "scripts" / "setup"
TOOLS = ["bash", "dirname", "sed"]


class Machine:
    """A PATH with a few real tools and the stand-ins that a test installs."""

    def __init__(self, folder):
        self.bin, self.log, self.packages = folder / "bin", folder / "log", folder / "packages.txt"
        self.bin.mkdir()
        self.log.touch()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def has(self, command, script="exit 0"):
        path = self.bin / command
        path.write_text(f'#!/bin/sh\necho {command} "$@" >> "{self.log}"\n{script}\n')
        path.chmod(0o755)

    def runs(self, function, **environment):
        return subprocess.run(
            [self.bin / "bash", "-c", f'source "{SETUP}"; {function}'],
            env={"PATH": str(self.bin), "SYSTEM_PACKAGES": str(self.packages), **environment},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=30,
        )

    def calls(self, command):
        return [line for line in self.log.read_text().splitlines() if line.split()[0] == command]


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    machine.has("dpkg-query", 'case "$*" in *bubblewrap*) printf installed;; *) exit 1;; esac')
    machine.has("apt-get")
    machine.has("id", "echo 0")
    return machine


def test_root_installs_only_the_missing_packages(machine):
    machine.packages.write_text("# why\nbubblewrap\n\nffmpeg  # videos\nxvfb\n")
    done = machine.runs("install_system_packages")
    assert done.returncode == 0, done.stderr
    (install,) = (call for call in machine.calls("apt-get") if " install " in call)
    assert install.endswith(" ffmpeg xvfb")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "bubblewrap\n"])
def test_apt_is_left_alone_when_nothing_is_missing(machine, text):
    machine.packages.write_text(text)
    done = machine.runs("install_system_packages")
    assert (done.returncode, done.stderr, machine.calls("apt-get")) == (0, "", [])


def test_without_root_the_command_is_shown_and_the_set_up_goes_on(machine):
    machine.has("id", "echo 1000")
    machine.packages.write_text("ffmpeg\n")
    done = machine.runs("install_system_packages")
    assert done.returncode == 0
    assert "sudo apt-get install ffmpeg" in done.stderr
    assert machine.calls("apt-get") == []


def test_without_apt_the_packages_are_named_and_the_set_up_goes_on(machine):
    (machine.bin / "apt-get").unlink()
    machine.packages.write_text("ffmpeg\n")
    done = machine.runs("install_system_packages")
    assert done.returncode == 0
    assert "has no apt" in done.stderr
    assert "ffmpeg" in done.stderr


def test_unreachable_mirror_is_said_and_the_set_up_goes_on(machine):
    machine.has("apt-get", "exit 100")
    machine.packages.write_text("ffmpeg\n")
    done = machine.runs("install_system_packages")
    assert done.returncode == 0
    assert "continuing without: ffmpeg" in done.stderr


def test_newer_python_is_taken_when_python3_is_too_old(machine):
    machine.has("python3", "exit 1")
    machine.has("python3.12")
    assert machine.runs("choose_python").stdout == "python3.12\n"


def test_python_named_by_the_user_is_taken(machine):
    machine.has("python3")
    machine.has("mine")
    assert machine.runs("choose_python", PYTHON="mine").stdout == "mine\n"


def test_python_named_by_the_user_is_refused_when_too_old(machine):
    machine.has("python3")
    machine.has("mine", "exit 1")
    done = machine.runs("choose_python", PYTHON="mine")
    assert done.returncode == 1
    assert "PYTHON=mine is not a Python 3.10 or newer" in done.stderr


def test_machine_without_a_new_enough_python_is_told_so(machine):
    machine.has("python3", '[ "$1" = --version ] && echo Python 3.8.10 || exit 1')
    done = machine.runs("choose_python")
    assert done.returncode == 1
    assert "no Python 3.10 or newer" in done.stderr
    assert "Python 3.8.10" in done.stderr


@pytest.mark.parametrize(("uid", "installed"), [("0", True), ("1000", False)])
def test_missing_venv_module_is_installed_by_root_and_named_to_others(machine, uid, installed):
    # This stand-in lacks ensurepip until it is installed; making the venv is only logged.
    machine.has("id", f"echo {uid}")
    machine.has(
        "python3",
        'case "$*" in *ensurepip*) exit 1;; *venv\\"*) echo python3.11-venv;; *--version*) echo Python 3.11.2;; esac',
    )
    done = machine.runs(f'cd "{machine.bin}"; make_venv')
    assert any(call.endswith(" python3.11-venv") for call in machine.calls("apt-get")) == installed
    assert ("python3 -m venv --clear .venv" in machine.calls("python3")) == installed
    assert done.returncode == (0 if installed else 1)
    if not installed:
        assert "sudo apt-get install python3.11-venv" in done.stderr


def test_wrong_argument_shows_the_usage():
    done = subprocess.run([SETUP, "everything"], capture_output=True, text=True, timeout=30, env=os.environ)
    assert done.returncode == 1
    assert "usage: scripts/setup base|dev" in done.stderr

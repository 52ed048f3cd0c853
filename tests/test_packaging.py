"""The wheel that users install: the same bytes from the same sources, and nothing in it that they did not ask for."""

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED_IN_PYPROJECT = ["pyproject.toml", "README.md", "LICENSE"]


def build_wheel(folder, *, modified):
    """Build in a copy of the sources whose files were all last modified at the given time."""
    folder.mkdir()
    for name in NAMED_IN_PYPROJECT:
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*"):
        os.utime(path, (modified, modified))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"],
        cwd=folder,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    (wheel,) = (folder / "out").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel") / "one", modified=1_600_000_000)


@pytest.fixture(scope="module")
def names(wheel):
    return zipfile.ZipFile(wheel).namelist()


@pytest.fixture(scope="module")
def metadata(wheel, names):
    (path,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(zipfile.ZipFile(wheel).read(path).decode())


def test_two_builds_of_the_same_sources_are_the_same_bytes(wheel, tmp_path):
    again = build_wheel(tmp_path / "elsewhere", modified=1_650_000_000)
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_wheel_is_pure_python(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")


def test_wheel_carries_its_types_and_its_licence(names):
    assert "paddock/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_wheel_holds_the_package_and_nothing_else(names):
    assert {re.sub(r"-.*", "", name.split("/")[0]) for name in names} == {"paddock"}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert sources == {name for name in names if name.endswith(".py")}


def test_wheel_has_what_init_writes_from(names):
    templates = (ROOT / "src" / "paddock" / "cli" / "templates").rglob("*.in")
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in templates}
    assert len(wanted) >= 10 and wanted <= set(names)


def test_base_dependencies_are_four_and_one_on_old_pythons(metadata):
    base = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    always = [line for line in base if ";" not in line]
    assert sorted(re.match(r"[\w-]+", line).group() for line in always) == ["cloudpickle", "msgspec", "numpy", "rich"]
    # Python 3.11 brings a TOML parser.
    assert [line.replace('"', "'") for line in base if ";" in line] == ["tomli>=2; python_version < '3.11'"]


def test_python_before_3_10_is_refused(metadata):
    assert metadata["Requires-Python"] == ">=3.10"


def test_command_is_installed(wheel, names):
    (path,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "paddock = paddock.cli:main" in zipfile.ZipFile(wheel).read(path).decode().splitlines()


@pytest.fixture(scope="module")
def base_python(wheel, metadata, tmp_path_factory):
    """The Python of a venv that has the wheel and its base dependencies, and no extra."""
    home = tmp_path_factory.mktemp("base")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=120)
    (packages,) = home.glob("lib/python*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    wanted, found = metadata.get_all("Requires-Dist"), set()
    while wanted:
        line = wanted.pop()
        name = re.match(r"[\w.-]+", line).group()
        if ";" in line or name in found:  # an extra, or for other Pythons
            continue
        found.add(name)
        here = importlib.metadata.distribution(name)
        for top in {path.parts[0] for path in here.files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(here.locate_file(top))
        wanted += here.requires or ()
    return home / "bin" / "python"


def test_lambdas_reach_worker_lanes_with_the_base_install_alone(base_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import importlib.util\n"
        "import paddock.gym as gym\n"
        "assert importlib.util.find_spec('numba') is None and '/base' in gym.__file__\n"
        "envs = gym.vector.AsyncVectorEnv([lambda: gym.make('CartPole-v1') for _ in range(2)])\n"
        "print(envs.reset(seed=1)[0].shape)\n"
        "envs.close()\n"
    )
    done = subprocess.run([base_python, "-I", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "(2, 4)\n", done.stderr

"""The wheel that users install: the same bytes from the same sources, and nothing in it that they did not ask for."""

import fnmatch
import hashlib
import importlib.metadata
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import paddock.gym
import paddock.openenv
import paddock.spaces

ROOT = Path(__file__).parents[1]
NAMED_IN_PYPROJECT = ["pyproject.toml", "hatch_build.py", "README.md", "LICENSE"]


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


@pytest.mark.process
def test_two_builds_of_the_same_sources_are_the_same_bytes(wheel, tmp_path):
    again = build_wheel(tmp_path / "elsewhere", modified=1_650_000_000)
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.mark.process
def test_wheel_is_pure_python(wheel):
    assert wheel.name.endswith("-py3-none-any.whl")


@pytest.mark.process
def test_wheel_carries_its_types_and_its_licence(names):
    assert "paddock/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)


@pytest.mark.process
def test_wheel_holds_the_package_and_nothing_else(names):
    assert {re.sub(r"-.*", "", name.split("/")[0]) for name in names} == {"paddock", "paddock_rl"}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert sources == {name for name in names if name.endswith(".py")}


@pytest.mark.process
def test_type_checkers_find_every_module_that_has_no_file(wheel, names):
    stubs = {name.removesuffix(".pyi").removesuffix("/__init__") for name in names if name.endswith(".pyi")}
    modules = [
        module.name
        for package in (paddock.gym, paddock.openenv, paddock.spaces, paddock.wrappers)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if type(module.module_finder).__module__ == "paddock.aliases"
    ]
    assert modules and stubs == {name.replace(".", "/") for name in modules}
    stub = zipfile.ZipFile(wheel).read("paddock/openenv/core/env_server/serialization.pyi").decode()
    assert stub.startswith("from paddock.openenv.types import deserialize_action as deserialize_action")


@pytest.mark.process
def test_wheel_has_what_init_writes_from(names):
    templates = (ROOT / "src" / "paddock" / "cli" / "templates").rglob("*.in")
    wanted = {path.relative_to(ROOT / "src").as_posix() for path in templates}
    assert len(wanted) >= 10 and wanted <= set(names)


@pytest.mark.process
def test_the_dockerfile_of_init_installs_the_wheel_by_its_name(wheel):
    template = ROOT / "src/paddock/cli/templates/Dockerfile.in"
    patterns = re.findall(r"pip install (?:-\S+ )*/\w+/(\S+\.whl)", template.read_text())
    assert patterns and all(fnmatch.fnmatch(wheel.name, pattern) for pattern in patterns)


@pytest.mark.process
def test_base_dependencies_are_four_and_one_on_old_pythons(metadata):
    base = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    always = [line for line in base if ";" not in line]
    assert sorted(re.match(r"[\w-]+", line).group() for line in always) == ["cloudpickle", "msgspec", "numpy", "rich"]
    # Python 3.11 brings a TOML parser.
    assert [line.replace('"', "'") for line in base if ";" in line] == ["tomli>=2; python_version < '3.11'"]


# `pip install paddock`, quoted or not, with or without extras, a version, options, other packages, a broken line; the
# same for pipx, uv, poetry, pdm and conda; and as an entry of `dependencies = [...]`.
STRANGERS = re.compile(
    r"""(?:(?:pip3?|pipx|conda|uv\ tool)\ install|(?:uv|poetry|pdm)\ add)
        (?:(?:\ |\\\n\s*)+(?:[^\s`|"']+|["'][^"'\n]*["']))*?(?:\ |\\\n\s*)+\\?["']?paddock(?![\w/-]|\.\w)
      | \bdependencies\s*=\s*\[[^\]]*["']paddock(?![\w/-]|\.\w)""",
    re.VERBOSE,
)


@pytest.mark.process
def test_no_text_installs_the_strangers_package_of_that_name():
    """The public index has another project called `paddock`; ours is `paddock-rl`."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, timeout=60).stdout
    texts = {name: (ROOT / name).read_bytes() for name in listed.decode().split("\0") if (ROOT / name).is_file()}
    found = {name: STRANGERS.findall(text.decode(errors="replace")) for name, text in texts.items()}
    searched = {"README.md", "docs/serving.md", "examples/ppo_cartpole.py", "src/paddock/cli/templates/Dockerfile.in"}
    assert searched <= set(texts)
    assert {name: lines for name, lines in found.items() if lines and name != "tests/test_packaging.py"} == {}


@pytest.mark.parametrize(
    "text",
    [
        "pip install paddock",
        'pip install "paddock[server]"',
        "pip install -U 'paddock[fast,server]'",
        'RUN pip install --no-cache-dir "paddock[server]"',
        "pip install numba paddock trl",
        "To install: pip install paddock.",
        "pip install paddock==0.1.0",
        "RUN pip install --no-cache-dir \\\n    numba paddock",
        "uv add paddock",
        "uv pip install paddock",
        "pipx install paddock",
        'dependencies = ["numpy", "paddock>=0.1"]',
    ],
)
def test_planted_install_of_the_stranger_is_caught(text):
    assert STRANGERS.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install paddock-rl",
        "pip install /path/to/paddock/checkout",
        "pip install numba\npaddock",
        "pip install numba and paddock.make",
        'dependencies = ["numpy", "paddock-rl"]',
    ],
)
def test_installs_of_our_own_pass(text):
    assert not STRANGERS.search(text)


@pytest.mark.process
def test_python_before_3_10_is_refused(metadata):
    assert metadata["Requires-Python"] == ">=3.10"


@pytest.mark.process
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


@pytest.mark.process
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

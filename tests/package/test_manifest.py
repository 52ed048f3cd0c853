"""read_manifest: what a paddock.toml declares, and what each mistake in one is told as."""

import json
import re
import sys
from pathlib import Path

import pytest

from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import InvalidManifest
from paddock.package import read_manifest
from paddock.sandbox.policy import DEFAULT, Policy
from tests.package.conftest import GOOD

FULL = """
[package]
name = "acme/maze"
version = "1.2.0"
description = "A maze."

[[env]]
id = "acme/Maze-v3"
entry = "maze.envs.grid:Maze"
kwargs = { size = 5, walls = [[0, 1], [2, 3]], style = { colour = "red", deep = true } }
max_episode_steps = 100
reward_threshold = 0.5
nondeterministic = true
order_enforce = false
resettable = false
reward_range = [-1, 1.0]
wrappers = [{ entry = "maze_wrap:Dark", kwargs = { level = 2 } }, { entry = "paddock.wrappers:TimeLimit" }]

[[env]]
id = "Other"
entry = "maze_wrap:Other"
deterministic = false

[permissions]
memory_mb = 512
read = ["./data", "/usr/share/dict"]
write = ["out"]
hosts = ["API.example.com:443"]
workspaces = 1

[permissions.workspace]
programs = ["bin/solve"]
cassette = "tape.json"
"""


def test_smallest_manifest(package):
    folder = package()
    manifest = read_manifest(folder)
    assert (manifest.name, manifest.version, manifest.description) == ("maze", "1.2.0", "")
    assert manifest.folder == folder.resolve()
    assert manifest.permissions == DEFAULT
    (env,) = manifest.envs
    assert (env.deterministic, env.resettable, env.reward_range) == (True, True, None)
    assert manifest.spec() == manifest.spec("Maze-v0") == EnvSpec("Maze-v0", "maze_env:Maze")
    assert manifest.permissions_of("Maze-v0") == DEFAULT
    assert manifest.modules() == {"maze_env": folder / "maze_env.py"}


def test_everything_that_a_manifest_can_say(package):
    folder = package(FULL, modules=("maze/__init__.py", "maze/envs/__init__.py", "maze/envs/grid.py", "maze_wrap.py"))
    manifest = read_manifest(folder)
    assert manifest.spec("acme/Maze-v3") == EnvSpec(
        "acme/Maze-v3",
        "maze.envs.grid:Maze",
        reward_threshold=0.5,
        nondeterministic=True,
        max_episode_steps=100,
        order_enforce=False,
        kwargs={"size": 5, "walls": [[0, 1], [2, 3]], "style": {"colour": "red", "deep": True}},
        additional_wrappers=(
            WrapperSpec("Dark", "maze_wrap:Dark", {"level": 2}),
            WrapperSpec("TimeLimit", "paddock.wrappers:TimeLimit", {}),
        ),
    )
    first, second = manifest.envs
    assert (first.deterministic, first.resettable, first.reward_range) == (False, False, (-1.0, 1.0))
    assert (second.deterministic, second.spec.nondeterministic) == (False, True)
    assert manifest.permissions == Policy(
        memory_mb=512,
        read=(f"{folder}/data", "/usr/share/dict"),
        write=(f"{folder}/out",),
        hosts=("api.example.com:443",),
        workspaces=1,
        workspace=Policy(programs=(f"{folder}/bin/solve",), cassette=f"{folder}/tape.json"),
    )
    assert manifest.permissions_of("acme/Maze-v3").reward_range == (-1.0, 1.0)
    assert manifest.permissions_of("Other") == manifest.permissions == manifest.permissions_of_all()
    assert manifest.modules("acme/Maze-v3") == {"maze": folder / "maze", "maze_wrap": folder / "maze_wrap.py"}


def test_which_environment_must_be_said_when_there_are_several(package):
    manifest = read_manifest(package(GOOD + GOOD.partition("[[env]]")[1] + '\nid = "B-v1"\nentry = "maze_env:B"\n'))
    with pytest.raises(InvalidManifest, match=r"several environments; name one\. There are: Maze-v0, B-v1\."):
        manifest.spec()
    with pytest.raises(InvalidManifest, match=r"no environment 'C-v1'\. There are: Maze-v0, B-v1\."):
        manifest.spec("C-v1")
    assert manifest.spec("B-v1").entry_point == "maze_env:B"


def test_permissions_of_two_places_compare(package, tmp_path):
    toml = GOOD + '[permissions]\nread = ["./data", "/data"]\ncassette = "tape"\n'
    one = read_manifest(package(toml))
    other = tmp_path / "elsewhere"
    one.folder.rename(other)
    moved = read_manifest(other)
    assert moved.permissions != one.permissions
    assert moved.portable(moved.permissions) == one.portable(one.permissions)
    assert one.portable(one.permissions).read == ("/@folder/data", "/data")


def test_nothing_of_the_folder_is_imported(package):
    before = set(sys.modules)
    read_manifest(
        package(FULL, modules=("maze/__init__.py", "maze/envs/__init__.py", "maze/envs/grid.py", "maze_wrap.py"))
    )
    assert not {name for name in set(sys.modules) - before if name.startswith("maze")}


ENV = '[[env]]\nid = "A-v0"\nentry = "maze_env:A"\n'
HEAD = '[package]\nname = "maze"\nversion = "1"\n'
MISTAKES = {
    "not TOML": ("[package\n", "paddock.toml is not TOML: "),
    "no package": (ENV, "package: is missing; expected a table."),
    "package is no table": ("package = 1\n", "package: 1 is a whole number; expected a table."),
    "no name": ("[package]\nversion='1'\n" + ENV, "[package]: name: is missing; expected a string."),
    "bad name": ("[package]\nname='a b'\nversion='1'\n" + ENV, "[package]: name: 'a b' is not letters, digits"),
    "path as name": ("[package]\nname='../x'\nversion='1'\n" + ENV, "[package]: name: '../x' is not"),
    "number as version": ("[package]\nname='a'\nversion=1.2\n" + ENV, "version: 1.2 is a number; expected a string."),
    "bad version": ("[package]\nname='a'\nversion='new'\n" + ENV, "version: 'new' is not a version"),
    "unknown key of the package": (HEAD + "descripton='x'\n" + ENV, "no key 'descripton'. Did you mean 'description'?"),
    "unknown table": (HEAD + ENV + "[permission]\n", "no key 'permission'. Did you mean 'permissions'?"),
    "no environment": (HEAD, "[[env]]: there are 0; expected 1 to 1,000."),
    "env is a table": (HEAD + "[env]\nid='A'\n", "env: … is a table; expected a list."),
    "env of numbers": ("env = [1]\n" + HEAD, "env: 1 is a whole number; expected a list of tables."),
    "no id": (HEAD + "[[env]]\nentry='maze_env:A'\n", "env number 1: id: is missing"),
    "bad id": (HEAD + ENV.replace("A-v0", "A-v01"), "env number 1: id: Malformed environment ID: 'A-v01'"),
    "id twice": (HEAD + ENV + ENV, "env number 2: id: 'A-v0' is taken by another [[env]]"),
    "no entry": (HEAD + "[[env]]\nid='A'\n", "env number 1: entry: is missing"),
    "entry without a name": (HEAD + ENV.replace(":A", ""), "entry: 'maze_env' is not 'module:Name'"),
    "entry with a path": (HEAD + ENV.replace("maze_env:", "../maze_env:"), "is not 'module:Name'"),
    "entry with a private name": (HEAD + ENV.replace(":A", ":__class__"), "is not 'module:Name'"),
    "entry elsewhere": (HEAD + ENV.replace("maze_env", "numpy"), "there is no numpy.py or numpy/__init__.py."),
    "entry in no package": (
        HEAD + ENV.replace("maze_env", "a.b"),
        "the package a with an __init__.py is not in the folder",
    ),
    "entry of the library": (
        HEAD + ENV.replace("maze_env", "os"),
        "the module 'os' has the name of a module that comes with Python or paddock",
    ),
    "entry of paddock": (HEAD + ENV.replace("maze_env", "paddock.wrappers"), "the module 'paddock' has the name"),
    "kwargs of a date": (HEAD + ENV + "kwargs = {a = [1979-05-27]}\n", "kwargs.a[0]: … is a date; expected strings"),
    "kwargs with a tag": (HEAD + ENV + "kwargs = {'$array' = 1}\n", "kwargs: has the key '$array'"),
    "kwargs too deep": (HEAD + ENV + "kwargs = {a = " + "[" * 40 + "]" * 40 + "}\n", "is nested deeper than 32"),
    "all too deep": (HEAD + "a = " + "[" * 90 + "]" * 90 + "\n" + ENV, "is nested deeper than 64"),
    "far too deep": (HEAD + "a = " + "[" * 9000 + "\n" + ENV, "nested too deeply"),
    "no steps": (HEAD + ENV + "max_episode_steps = 0\n", "max_episode_steps: 0 is not 1 or more."),
    "true steps": (HEAD + ENV + "max_episode_steps = true\n", "True is true or false; expected a whole number."),
    "threshold": (
        HEAD + ENV + "reward_threshold = nan\n",
        "reward_threshold: nan is a number; expected a finite number.",
    ),
    "range of one": (HEAD + ENV + "reward_range = [1]\n", "reward_range: [1]; expected two numbers"),
    "range upside down": (HEAD + ENV + "reward_range = [1, 0]\n", "reward_range: [1, 0]; expected two numbers"),
    "range of nan": (HEAD + ENV + "reward_range = [nan, 1]\n", "expected two numbers"),
    "range of booleans": (HEAD + ENV + "reward_range = [false, true]\n", "expected two numbers"),
    "both ways": (HEAD + ENV + "deterministic=true\nnondeterministic=true\n", "says the opposite of 'deterministic'"),
    "wrapper without an entry": (
        HEAD + ENV + "wrappers = [{}]\n",
        "env number 1, wrappers number 1: entry: is missing",
    ),
    "wrapper elsewhere": (
        HEAD + ENV + "wrappers = [{entry='a:B'}]\n",
        "wrappers number 1: entry: 'a:B': the module 'a'",
    ),
    "unknown key of a wrapper": (HEAD + ENV + "wrappers = [{entry='maze_env:B', x=1}]\n", "there is no key 'x'"),
    "unknown permission": (
        HEAD + ENV + "[permissions]\nroot = true\n",
        "[permissions]: There is no permission 'root'.",
    ),
    "permission of a wrong kind": (HEAD + ENV + "[permissions]\nmemory_mb = 'all'\n", "Policy(memory_mb='all')"),
    "no list of paths": (HEAD + ENV + "[permissions]\nread = '/a'\n", "expected a list of texts"),
    "path out of the folder": (
        HEAD + ENV + "[permissions]\nread = ['../x']\n",
        "read: '../x' leads out of the package's folder",
    ),
    "sly path": (HEAD + ENV + "[permissions]\nwrite = ['a/../../x']\n", "write: 'a/../../x' leads out"),
    "home": (HEAD + ENV + "[permissions]\nread = ['~/.ssh']\n", "'~/.ssh' is a different folder for each user"),
    "nul": (HEAD + ENV + '[permissions]\nread = ["a\\u0000b"]\n', "'a\\x00b' is not a path"),
    "workspace's path": (
        HEAD + ENV + "[permissions]\nworkspaces=1\n[permissions.workspace]\nread = ['../x']\n",
        "leads out of the package's folder",
    ),
    "workspaces within workspaces": (
        HEAD + ENV + "[permissions" + ".workspace" * 9 + "]\nmemory_mb = 1\n",
        "workspace: is nested deeper than 4.",
    ),
    "huge number": (
        HEAD + ENV + "[permissions]\nmemory_mb = 0x" + "f" * 5000,
        "permissions.memory_mb: an integer of more",
    ),
    "digits of another script": (HEAD + ENV + '[permissions]\nhosts = ["a.example:8\\u0661"]\n', "is not 'name:port'"),
    "huge decimal": (HEAD + ENV + "[permissions]\nmemory_mb = " + "9" * 5000, "is not TOML: "),
    "long key": (HEAD + ".".join("a" * 300_000) + " = 1\n", "a key has more than 64 parts."),
    "long quoted key": (HEAD + '"a,".' * 70_000 + "a = 1\n", "a key has more than 64 parts."),
    "long text": (HEAD + f"description = '{'x' * 5000}'\n" + ENV, "description: has 5,000 characters; at most 4,096"),
}


@pytest.mark.parametrize(("toml", "told"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_names_file_key_and_what_was_expected(package, toml, told):
    folder = package(toml)
    with pytest.raises(InvalidManifest) as caught:
        read_manifest(folder)
    assert str(folder / "paddock.toml") in str(caught.value)
    assert told in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_folder_that_does_not_exist(tmp_path):
    with pytest.raises(InvalidManifest, match="There is no folder '/"):
        read_manifest(tmp_path / "nowhere")


def test_folder_without_a_manifest(package):
    with pytest.raises(InvalidManifest, match=r"There is no paddock\.toml or openenv\.yaml in "):
        read_manifest(package(None))


def test_file_that_is_too_large(package):
    with pytest.raises(InvalidManifest, match="larger than 1,048,576 bytes"):
        read_manifest(package("#" * (1 << 20) + "\n"))


def test_largest_file(package):
    comment = "# " + "." * ((1 << 20) - len(GOOD) - 3) + "\n"
    assert read_manifest(package(comment + GOOD)).name == "maze"


def test_file_that_is_no_text(package):
    folder = package()
    (folder / "paddock.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(InvalidManifest, match="is not UTF-8: byte 5"):
        read_manifest(folder)


def test_windows_line_ends(package):
    folder = package()
    (folder / "paddock.toml").write_bytes(GOOD.replace("\n", "\r\n").encode())
    assert read_manifest(folder).name == "maze"


@pytest.mark.parametrize(
    "value", ["'''it's a \"text\" of a.b.c'''", '"""ends in a quote"""""', "'\\'", '"\\""', '"#"', "'.'", "0.5"]
)
def test_strings_hide_no_long_key(package, value):
    long = '"a,".' * 70 + "a"
    with pytest.raises(InvalidManifest, match="a key has more than 64 parts"):
        read_manifest(package(f"{GOOD}kwargs = {{ x = {value}, {long} = 1 }}\n"))


def test_dots_in_texts_and_numbers_are_no_parts_of_a_key(package):
    numbers = ", ".join(["0.5"] * 500)
    toml = f"{GOOD}kwargs = {{ a = [{numbers}], b = '{'.' * 500}', c = \"{'a.' * 500}\" }} # {'a.' * 500}\n"
    assert read_manifest(package(toml)).spec().kwargs["a"] == [0.5] * 500


def test_pipe_in_place_of_the_file_does_not_block(package):
    import os

    folder = package(None)
    os.mkfifo(folder / "paddock.toml")
    with pytest.raises(InvalidManifest, match="is not a regular file but a folder, a pipe or a device"):
        read_manifest(folder)


@pytest.mark.parametrize("name", ["paddock.toml", "maze_env.py"])
def test_link_that_leads_out_is_refused(package, tmp_path, name):
    folder = package()
    (folder / name).rename(tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(InvalidManifest, match=f"{name} is a link that leads out of the folder"):
        read_manifest(folder)


def test_package_that_is_a_link_out_is_refused(package, tmp_path):
    folder = package(GOOD.replace("maze_env:", "inner.maze:"), modules=("inner/__init__.py", "inner/maze.py"))
    (folder / "inner").rename(tmp_path / "inner")
    (folder / "inner").symlink_to(tmp_path / "inner")
    with pytest.raises(InvalidManifest, match="leads out of the folder"):
        read_manifest(folder)


def test_permission_for_a_link_out_is_refused(package):
    folder = package(GOOD + "[permissions]\nread = ['data']\n")
    (folder / "data").symlink_to("/etc")
    with pytest.raises(InvalidManifest, match="'data' leads out of the package's folder"):
        read_manifest(folder)


def test_link_within_the_folder_is_fine(package):
    folder = package()
    (folder / "maze_env.py").rename(folder / "real.py")
    (folder / "maze_env.py").symlink_to("real.py")
    assert read_manifest(folder).spec().entry_point == "maze_env:Maze"


def test_folder_reached_by_a_link_is_its_real_self(package, tmp_path):
    (tmp_path / "link").symlink_to(package())
    assert read_manifest(tmp_path / "link").folder == (tmp_path / "maze").resolve()


def test_folder_given_as_text_with_a_tilde(package, monkeypatch):
    folder = package()
    monkeypatch.setenv("HOME", str(folder.parent))
    assert read_manifest("~/maze").folder == Path(folder).resolve()


def test_extension_module_is_a_module(package):
    from importlib.machinery import EXTENSION_SUFFIXES

    folder = package(modules=(f"maze_env{EXTENSION_SUFFIXES[0]}",))
    assert read_manifest(folder).modules()["maze_env"].suffix


@pytest.mark.parametrize(
    "read", [[f"/data/{number:040}" for number in range(400)], [f"{'/proc/self/root' * 30}/home"], ["/" + "é" * 60]]
)
def test_permissions_that_nobody_could_review_are_refused(package, read):
    with pytest.raises(InvalidManifest, match=r"\[permissions\] has .* so that a person can review them"):
        read_manifest(package(f"{GOOD}\n[permissions]\nread = {json.dumps(read, ensure_ascii=False)}\n"))


def test_dependencies_are_requirements_in_the_order_of_their_names(package):
    toml = f'{GOOD}\n[dependencies]\nscipy = ">=1.11, <2"\n"Pygame.CE" = "*"\nnumpy = "==2.1.0"\n'
    assert read_manifest(package(toml)).dependencies == ("numpy==2.1.0", "Pygame.CE", "scipy>=1.11,<2")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('numpy = "2.1"', "'2.1'; expected a distribution and its versions"),
        ('numpy = "@ https://example.com/x.whl"', "expected a distribution"),
        ('"--index-url" = "*"', "expected a distribution"),
        ('numpy = ["2"]', "is a list; expected a string"),
        ('numpy = "*"\nNumPy = "*"', "is there twice"),
    ],
)
def test_a_dependency_is_a_name_and_its_versions(package, line, words):
    with pytest.raises(InvalidManifest, match=r"\[dependencies\]: .*" + re.escape(words)):
        read_manifest(package(f"{GOOD}\n[dependencies]\n{line}\n"))

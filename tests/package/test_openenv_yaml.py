"""read_manifest on folders with an openenv.yaml: both dialects, and each mistake refused without running anything."""

import pytest

from paddock.errors import InvalidManifest
from paddock.package import read_manifest

APP = (
    "raise SystemExit('imported')\napp = server.create_app(Env, Act, Obs, env_name='my game', max_concurrent_envs=4)\n"
)
GOOD = "spec_version: 1\nname: maze_env\ntype: space\nruntime: fastapi\napp: server.app:app\nport: 8017\n"


@pytest.fixture
def folder(tmp_path):
    """``folder(yaml)``: one with this manifest and an app that must never be imported."""

    def write(yaml=GOOD, app=APP):
        place = tmp_path / "maze_env"
        (place / "server").mkdir(parents=True)
        (place / "openenv.yaml").write_text(yaml)
        if app is not None:
            (place / "server" / "app.py").write_text(app)
        return place

    return write


def test_usual_dialect(folder):
    manifest = read_manifest(folder())
    assert (manifest.name, manifest.envs[0].spec.id, manifest.openenv.port) == ("maze_env", "maze_env", 8017)
    assert manifest.openenv.app == "server.app:app"
    assert manifest.openenv.call == {
        "env": "Env",
        "action_cls": "Act",
        "observation_cls": "Obs",
        "env_name": "'my game'",
        "max_concurrent_envs": "4",
    }


def test_dialect_with_classes(folder):
    yaml = (
        "name: coding_env\nversion: \"0.1.0\"\ndescription: 'it''s'\naction: CodeAction\nobservation: CodeObservation\n"
    )
    openenv = read_manifest(folder(yaml)).openenv
    assert (openenv.app, openenv.version, openenv.description) == ("server.app:app", "0.1.0", "it's")
    assert (openenv.action, openenv.observation, openenv.port) == ("CodeAction", "CodeObservation", None)


def test_dialect_with_classes_and_no_app(folder):
    assert read_manifest(folder("name: a\naction: A\nobservation: B\n", app=None)).openenv.app is None


@pytest.mark.parametrize(
    ("yaml", "name"),
    [
        ("name: 'my maze'", "my-maze"),
        ('name: "a\\u00e9b"  # comment', "a-b"),
        ("type: space", "my-game"),
        ("name: # nothing\n", "my-game"),
        ("---\nname: m\ntasks:\n- id: name\n  name: x\nvalidation: {a: &a [1],\n  b: 2}\n", "m"),
        ("name: >-\n  folded\n  name\n", "folded-name"),
    ],
)
def test_name_becomes_the_id(folder, yaml, name):
    assert read_manifest(folder(yaml)).envs[0].spec.id == name


def test_variables_are_texts(folder):
    yaml = f"{GOOD}variables:\n  # of the Space\n  A: 1\n  B_2: 'x: y'\n  C: \"#1\"  # why\n  D:\nvalidation:\n  A: 2\n"
    assert read_manifest(folder(yaml)).openenv.variables == {"A": "1", "B_2": "x: y", "C": "#1"}


def test_names_by_which_its_code_may_import_it(folder):
    place = folder("name: other\n")
    project = (
        '[project]\nname = "openenv-third"\n[tool.setuptools]\npackage-dir = { fourth = ".", "fourth.server" = "s" }\n'
    )
    (place / "pyproject.toml").write_text(project)
    assert read_manifest(place).openenv.packages == (
        "maze_env",
        "other",
        "fourth",
        "third",
        "openenv_third",
        "openenv_folder",
    )


BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True))


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        pytest.param(f"{BOMB}name: *i\n", "has aliases, which are not read", id="a bomb"),
        pytest.param("name: !!python/object/apply:os.system [ls]\n", "expected plain text", id="a tag"),
        pytest.param("name: [a]\n", "expected plain text", id="a list for a name"),
        pytest.param("name: a\n---\nname: b\n", "is not valid YAML", id="two documents"),
        pytest.param("name: a\n b\n: [", "is not valid YAML", id="not YAML"),
        pytest.param("[1, 2]\n", "is not a table", id="not a map"),
        pytest.param(f"name: a\nport: {10**6}\n", "from 1 to 65535", id="a port"),
        pytest.param("name: a\napp: 'server.app:app; import os'\n", "is not 'module:name'", id="code for an app"),
        pytest.param("name: a\napp: server.other:app\n", "there is no server/other.py", id="an app that is not there"),
        pytest.param("name: a\nvariables:\n  A-B: 1\n", "is not the name of a variable", id="a variable's name"),
        pytest.param("name: a\nvariables:\n  A:\n    B: 1\n", "expected plain text", id="a nested variable"),
        pytest.param("name: a\n" + "#" * (1 << 20), "larger than", id="a huge file"),
        pytest.param("a:" * 30_000, "is not valid YAML", id="deep"),
    ],
)
def test_mistake_is_refused(folder, yaml, said):
    with pytest.raises(InvalidManifest, match=said):
        read_manifest(folder(yaml))


@pytest.mark.parametrize("name", ["openenv.yaml", "server/app.py", "pyproject.toml"])
def test_link_that_leads_out_is_refused(folder, tmp_path, name):
    place, outside = folder(), tmp_path / "outside"
    outside.write_text(GOOD if name.endswith("yaml") else "")
    (place / name).unlink(missing_ok=True)
    (place / name).symlink_to(outside)
    with pytest.raises(InvalidManifest, match="leads out of the folder"):
        read_manifest(place)


@pytest.mark.parametrize("app", ["def broken(:\n", "(" * 5000, "x = \0", "a" + ".b" * 200_000])
def test_app_that_is_not_python_is_refused(folder, app):
    with pytest.raises(InvalidManifest, match="is not Python"):
        read_manifest(folder(app=app))


def test_long_lines_take_no_time(folder):
    spaces = " " * 500_000
    with pytest.raises(InvalidManifest):
        read_manifest(folder(f"name{spaces}\ndescription: a{spaces}b\nvariables:{spaces}x\n"))

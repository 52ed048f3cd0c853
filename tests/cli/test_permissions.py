"""``paddock permissions``: a folder's wishes in words, and the difference between two versions."""

import sys

import pytest

TOML = """
[package]
name = "maze"
version = "{version}"

[[env]]
id = "Maze-v0"
entry = "maze_env:Maze"
{env}
[permissions]
{permissions}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """``folder("v1", "memory_mb = 5")``: ./v1 with a manifest and a module that must not be imported."""
    monkeypatch.chdir(tmp_path)

    def write(name, permissions="", *, env="", version="1.0"):
        place = tmp_path / name
        place.mkdir()
        (place / "maze_env.py").write_text("raise SystemExit('imported')\n")
        (place / "paddock.toml").write_text(TOML.format(permissions=permissions, env=env, version=version))
        return f"./{name}"

    yield write
    assert "maze_env" not in sys.modules


def test_folder_in_words_with_what_needs_a_grant(paddock, folder):
    shown = paddock("permissions", folder("v1", 'hosts = ["api.example.com:443"]\nread = ["./data"]\nmemory_mb = 99'))
    assert shown.code == 0
    assert shown.out.startswith("./v1 is maze 1.0 with Maze-v0. It asks for:\n")
    assert "may reach api.example.com:443, nothing else" in shown.out
    assert "at most 99 MB" in shown.out
    assert "Beyond the default, so it runs only if you grant it, " in shown.out
    assert "you grant it, with `paddock run ./v1 --grant` or make('./v1', " in shown.out
    assert "isolation=paddock.permissions('./v1')):\n  files to read: /" in shown.out
    assert "  hosts to reach: api.example.com:443 (allowed: none)\n" in shown.out
    assert "memory: " not in shown.out


def test_folder_within_the_default_needs_no_grant(paddock, folder):
    assert (
        "All of it is within the default: nothing to grant."
        in paddock("permissions", folder("v1", "memory_mb = 5")).out
    )


def test_folder_as_json(paddock, folder):
    document = paddock("permissions", folder("v1", 'hosts = ["a.example:1"]'), "--json").document
    assert document["package"] == {"name": "maze", "version": "1.0"}
    assert document["envs"] == ["Maze-v0"]
    assert document["policy"] == {"hosts": ["a.example:1"]}
    assert document["beyond_default"] == ["hosts to reach: a.example:1 (allowed: none)"]
    network = {"topic": "network", "text": "may reach a.example:1, nothing else", "weight": "grant"}
    assert network in document["permissions"]


@pytest.mark.parametrize("target", ["CartPole-v1", "some_module:Maze-v0"])
def test_target_without_a_manifest_gets_the_default(paddock, target):
    shown = paddock("permissions", target)
    assert shown.code == 0
    assert shown.out.startswith(f"{target} has no manifest. Behind the wall it gets the default:\n")
    assert "none of yours; 64 MB of scratch" in shown.out
    assert paddock("permissions", target, "--json").document["beyond_default"] == []


def test_wider_version_is_told_and_fails(paddock, folder):
    old = folder("v1", 'hosts = ["a.example:1"]\nread = ["./data"]')
    new = folder("v2", 'hosts = ["b.example:1"]\nread = ["./data"]', version="2.0")
    shown = paddock("permissions", old, new)
    assert shown.code == 1
    rows = [line.split() for line in shown.out.splitlines()]
    assert rows[1:] == [
        ["wider", "hosts", "to", "reach", "none", "b.example:1"],
        ["narrower", "hosts", "to", "reach", "a.example:1", "none"],
    ]
    document = paddock("permissions", old, new, "--json").document
    assert (document["wider"], document["new"]["package"]["version"]) == (True, "2.0")
    assert document["changes"][0] == {
        "topic": "hosts to reach",
        "old": "none",
        "new": "b.example:1",
        "direction": "wider",
    }


def test_narrower_version_is_told_and_passes(paddock, folder):
    shown = paddock("permissions", folder("v1", "memory_mb = 9"), folder("v2", "memory_mb = 8"))
    assert shown.code == 0
    assert "narrower" in shown.out
    assert "wider" not in shown.out


def test_same_permissions_in_two_places_are_the_same(paddock, folder):
    shown = paddock("permissions", folder("v1", 'read = ["./data"]'), folder("v2", 'read = ["./data"]'))
    assert (shown.code, shown.out) == (0, "./v2 asks for the same as ./v1.\n")


def test_reward_range_of_an_environment_counts(paddock, folder):
    old, new = folder("v1", env="reward_range = [0, 1]"), folder("v2", env="reward_range = [0, 2]")
    assert paddock("permissions", old, new).code == 1
    assert "rewards from 0 to 2" in paddock("permissions", f"{new}:Maze-v0").out


def test_names_of_a_stranger_can_not_steer_the_terminal_or_the_words(paddock, folder):
    shown = paddock("permissions", folder("v1", 'read = ["/a; may reach nothing", "/\\u001b[31m"]'))
    assert "may read '/a; may reach nothing', '/\\\\x1b[31m'" in shown.out.replace("\\x1b", "\\\\x1b")


def test_what_paddock_declares_for_its_own_environment_is_told(paddock):
    shown = paddock("permissions", "paddock/PythonCode")
    assert shown.code == 0
    assert "paddock's own" in shown.out
    assert "workspaces: 2 (allowed: 0)" in shown.out
    assert paddock("permissions", "CartPole-v1", "paddock/PythonCode").code == 1


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("./nowhere", "There is no folder"),
        ("https://host/Maze-v0", "the server decides"),
        ("acme/maze@1.2", "There is no installed package 'acme/maze'"),
        ("CartPol-v1", "Did you mean"),
    ],
)
def test_mistakes(paddock, target, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = paddock("permissions", target)
    assert found.code == 2
    assert told in found.err


def test_invalid_manifest_is_a_mistake_with_a_code(paddock, folder):
    found = paddock("permissions", folder("v1", "root = true"), "--json")
    assert found.code == 2
    assert found.document["error"]["code"] == "INVALID_MANIFEST"
    assert "There is no permission 'root'" in found.document["error"]["message"]

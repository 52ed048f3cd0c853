"""The commands for packages and keys: what they do, what they refuse, and that nobody is asked without a terminal."""

import io
import json
import os
import socket
import stat
import time

import pytest

import paddock as library
from paddock.errors import Revoked
from paddock.package.pad import Pad

TOML = """
[package]
name = "acme/maze"
version = "{version}"
description = "{description}"

[[env]]
id = "Maze-v0"
entry = "maze_env:Maze"

[permissions]
{permissions}
"""
CODE = """
import paddock


class Maze(paddock.Env):
    observation_space = paddock.spaces.Discrete(5)
    action_space = paddock.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        self.at = min(4, self.at + int(action))
        return self.at, 0.0, self.at == 4, False, {}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch, home):
    """``folder(version=…)``: the folder of acme/maze, in the working folder."""
    monkeypatch.chdir(tmp_path)

    def write(version="1.0.0", *, permissions="", description="A maze."):
        (tmp_path / "maze").mkdir(exist_ok=True)
        text = TOML.format(version=version, permissions=permissions, description=description)
        (tmp_path / "maze" / "paddock.toml").write_text(text)
        (tmp_path / "maze" / "maze_env.py").write_text(CODE)
        return tmp_path / "maze"

    return write


@pytest.fixture
def release(paddock, folder):
    """``release("1.2.0", permissions=…)``: the file of a signed package."""

    def make(version="1.0.0", *, key=None, **more):
        folder(version, **more)
        file = f"acme-maze-{version}.pad"
        assert paddock("pack", "./maze", "--no-spaces", "-o", file).code == 0
        if not os.path.exists(key or "author.key"):
            assert paddock("keygen", "--out", key or "author.key").code == 0
        assert paddock("sign", file, "--key", key or "author.key").code == 0
        return file

    return make


@pytest.mark.process
def test_from_init_to_a_step_behind_the_wall_in_under_a_minute(paddock, walled, home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    began_s = time.monotonic()
    for words in (
        ["init", "maze", "--gym", "--owner", "acme"],
        ["pack", "./maze"],
        ["keygen"],
        ["sign", "acme-maze-0.1.0.pad"],
    ):
        assert paddock(*words).code == 0
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "fresh"))
    reviewed = paddock("install", "acme-maze-0.1.0.pad", "--yes")
    assert reviewed.code == 0
    assert "network     none" in reviewed.out
    with library.make("acme/maze@0.1") as env:
        env.reset(seed=1)
        env.step(1)
    assert time.monotonic() - began_s < 60
    assert paddock("run", "acme/maze@0.1:Maze-v0", "--json").document["steps"] > 0
    assert "acme/maze 0.1.0, digest" in paddock("explain", "acme/maze@0").out


@pytest.mark.process
def test_pack_writes_the_spaces_and_the_same_bytes_twice(paddock, walled, folder):
    folder()
    assert paddock("pack", "./maze", "-o", "one.pad").code == 0
    os.utime("maze/maze_env.py", (1, 1))
    assert paddock("pack", "./maze", "--out", "two.pad").code == 0
    with open("one.pad", "rb") as one, open("two.pad", "rb") as two:
        assert one.read() == two.read()
    with Pad("one.pad") as pad:
        (env,) = pad.manifest["envs"]
    assert json.loads(env["spaces"]["observation"])["n"] == 5


@pytest.mark.process
def test_environment_that_is_not_made_can_be_packed_without_its_spaces(paddock, walled, folder):
    (folder() / "maze_env.py").write_text("raise OSError('no display')")
    failed = paddock("pack", "./maze")
    assert failed.code == 1
    assert "no display" in failed.err and "--no-spaces" in failed.err
    assert paddock("pack", "./maze", "--no-spaces").code == 0


def test_keygen_writes_a_private_file_and_never_overwrites(paddock, home):
    made = paddock("keygen", "--json").document
    assert stat.S_IMODE(os.stat(made["key"]).st_mode) == 0o600
    assert str(home) in made["key"]
    with open(made["key"]) as stream:
        secret = stream.read()
    again = paddock("keygen")
    assert again.code == 2
    assert "never overwritten" in again.err
    with open(made["key"]) as stream:
        assert stream.read() == secret
    assert not any(line in paddock("trust", "list").out for line in secret.splitlines())


def test_encrypted_key_signs_with_its_password_only(paddock, folder, monkeypatch):
    folder()
    paddock("pack", "./maze", "--no-spaces", "-o", "p.pad")
    asked = paddock("keygen", "--encrypt")
    assert asked.code == 2
    assert "PADDOCK_KEY_PASSWORD" in asked.err
    monkeypatch.setenv("PADDOCK_KEY_PASSWORD", "hunter2")
    assert paddock("keygen", "--encrypt").code == 0
    assert paddock("sign", "p.pad").code == 0
    monkeypatch.setenv("PADDOCK_KEY_PASSWORD", "hunter3")
    wrong = paddock("sign", "p.pad", "--json")
    assert wrong.code == 2
    assert wrong.document["error"]["code"] == "INVALID_KEY"
    assert "hunter" not in wrong.err


def test_verify_says_whether_it_is_intact_and_trusted(paddock, release):
    file = release()
    unknown = paddock("verify", file, "--json")
    assert unknown.code == 1
    assert unknown.document["intact"] is True
    assert unknown.document["trusted"] is False
    paddock("trust", "add", "author.pub", "--namespace", "acme")
    known = paddock("verify", file, "--json")
    assert known.code == 0
    assert known.document["how"] == "pinned"
    with open(file, "r+b") as stream:
        stream.seek(-900, os.SEEK_END)
        byte = stream.read(1)[0]
        stream.seek(-900, os.SEEK_END)
        stream.write(bytes([byte ^ 4]))
    changed = paddock("verify", file, "--json")
    assert changed.code == 1
    assert changed.document["error"]["code"] in ("INVALID_PACKAGE", "INVALID_SIGNATURE")


def test_nobody_is_asked_without_a_terminal(paddock, release, home):
    file = release()
    refused = paddock("install", file)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert not (home / "store").exists()
    assert paddock("trust", "list").out == "no key is trusted yet\n"


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("yes\n", 0), ("n\n", 1), ("\n", 1), ("", 1)])
def test_a_person_decides_at_a_terminal(paddock, release, monkeypatch, answer, code):
    file = release()
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    decided = paddock("install", file)
    assert decided.code == code
    assert "Install it? [y/N]" in decided.err
    assert "NOT KNOWN HERE" in decided.out


def test_another_key_is_a_hard_stop_that_shows_both(paddock, release):
    paddock("install", release(), "--yes")
    stolen = release("1.1.0", key="other.key")
    refused = paddock("install", stolen, "--yes", "--json")
    assert refused.code == 1
    assert refused.document["error"]["code"] == "UNTRUSTED"
    message = refused.document["error"]["message"]
    for name in ("author.pub", "other.pub"):
        with open(name) as stream:
            from paddock.trust.keys import PublicKey

            assert PublicKey.parse(stream.read()).fingerprint in message
    assert paddock("trust", "add", "other.pub", "--namespace", "acme").code == 0
    assert paddock("install", stolen, "--yes").code == 0


def test_version_that_asks_for_more_stops_and_shows_the_difference(paddock, release, monkeypatch):
    paddock("install", release("1.0.0"), "--yes")
    assert paddock("install", release("1.0.1")).code == 0  # no more than before: nobody need agree
    wider = release("1.1.0", permissions='hosts = ["api.example.com:443"]')
    stopped = paddock("install", wider)
    assert stopped.code == 2
    assert "api.example.com:443" in stopped.out
    assert "wider" in stopped.out
    with pytest.raises(library.errors.VersionNotFound):
        library.make("acme/maze@1.1")
    assert paddock("install", wider, "--yes").code == 0


@pytest.mark.process
def test_grants_are_listed_and_one_withdrawn_stops_the_package(paddock, release, walled):
    assert paddock("permissions", "--granted").out == "nothing is granted to any package\n"
    file = release(permissions="descriptors = 4000")
    paddock("install", file, "--yes")
    assert paddock("run", "acme/maze@1.0").code == 0
    (granted,) = paddock("permissions", "--granted", "--json").document
    assert (granted["name"], granted["version"], len(granted["beyond_default"])) == ("acme/maze", "1.0.0", 1)
    shown = paddock("permissions", "acme/maze@1.0", "--granted").out
    assert granted["beyond_default"][0] in shown and "acme/maze" in shown
    assert paddock("permissions", "--withdraw", "acme/maze", "--json").document == {
        "withdrawn": "acme/maze",
        "version": "1.0.0",
    }
    stopped = paddock("run", "acme/maze@1.0", "--json")
    assert (stopped.code, stopped.document["error"]["code"]) == (2, "NOT_PERMITTED")
    with pytest.raises(library.errors.NotPermitted, match="asks for more than it was granted.*install it again"):
        library.make("acme/maze@1.0")
    assert paddock("install", file).code == 2  # a review again, and nobody to ask
    assert paddock("install", file, "--yes").code == 0
    assert paddock("run", "acme/maze@1.0").code == 0


def test_what_was_not_granted_is_neither_listed_nor_withdrawn(paddock, home):
    for words in (["none/such", "--granted"], ["--withdraw", "none/such"]):
        found = paddock("permissions", *words)
        assert (found.code, found.err.count("\n")) == (2, 1)
        assert "paddock permissions --granted" in found.err


def test_downgrade_needs_a_word(paddock, release):
    old, new = release("1.0.0"), release("1.1.0")
    paddock("install", new, "--yes")
    refused = paddock("install", old, "--yes", "--json")
    assert refused.code == 1
    assert refused.document["error"]["code"] == "DOWNGRADE"
    paddock("uninstall", "acme/maze")
    assert paddock("install", old, "--yes").code == 1
    assert paddock("install", old, "--yes", "--allow-downgrade").code == 0


def test_lost_key_is_rotated_and_a_stolen_one_revoked(paddock, release):
    old = release("1.0.0")
    paddock("trust", "add", "author.pub", "--namespace", "acme")
    paddock("install", old, "--yes")
    paddock("keygen", "--out", "second.key")
    added = paddock("trust", "add", "second.pub", "--namespace", "acme", "--json").document
    (first,) = added["others"]
    # Lost: it signs nothing new, and what it signed stays.
    assert paddock("trust", "remove", first).code == 0
    assert paddock("install", release("1.1.0"), "--yes").code == 1
    assert paddock("explain", "acme/maze@1.0").code == 0
    assert paddock("install", release("1.2.0", key="second.key"), "--yes").code == 0
    # Stolen: all that it signed is refused, without a network.
    paddock("revoke", "author.pub", "--key", "second.key", "--out", "revoked.json", "--reason", "stolen \x1b[31m")
    assert paddock("explain", "acme/maze@1.0").code == 0
    assert paddock("trust", "add", "revoked.json").code == 0
    refused = paddock("explain", "acme/maze@1.0", "--json")
    assert refused.code == 2
    assert refused.document["error"]["code"] == "REVOKED"
    assert "stolen" in refused.document["error"]["message"]
    assert paddock("install", old, "--yes").code == 1
    assert paddock("explain", "acme/maze@1.2").code == 0
    # A good package of before gets the new key's signature.
    assert paddock("sign", old, "--key", "second.key").code == 0
    assert paddock("install", old, "--yes", "--allow-downgrade").code == 0


def test_installed_packages_are_listed(paddock, release, home):
    paddock("install", release("1.0.0"), "--yes")
    paddock("install", release("1.1.0"), "--yes")
    rows = [row for row in paddock("list", "--json").document if row["origin"] == "package"]
    assert [row["id"] for row in rows] == ["acme/maze@1.0.0:Maze-v0", "acme/maze@1.1.0:Maze-v0"]
    for file in (home / "store" / "sha256").glob("*/env/paddock.toml"):
        file.parent.chmod(0o755)
        file.unlink()
    broken = paddock("list")
    assert broken.code == 0
    assert broken.err.count("is broken, install it again") == 2


def test_revoked_package_is_refused_for_good(paddock, release):
    file = release()
    paddock("trust", "add", "author.pub", "--namespace", "acme")
    paddock("install", file, "--yes")
    paddock("revoke", file, "--key", "author.key", "--out", "one.json")
    with open("one.json", "rb") as stream:
        first = stream.read()
    paddock("revoke", "ab" * 32, "--key", "author.key", "--out", "one.json")
    assert paddock("trust", "add", "one.json").code == 0
    with open("old.json", "wb") as stream:
        stream.write(first)
    older = paddock("trust", "add", "old.json", "--json")
    assert older.document["error"]["code"] == "DOWNGRADE"
    assert paddock("explain", "acme/maze@1").code == 2
    assert paddock("install", file, "--yes").code == 1


def test_key_has_a_time(paddock, release):
    file = release()
    for option, date in (("--not-after", "2020-01-01"), ("--not-before", "2199-01-01")):
        paddock("trust", "add", "author.pub", "--namespace", "acme", option, date)
        refused = paddock("install", file, "--yes", "--json")
        assert (refused.code, refused.document["error"]["code"]) == (1, "EXPIRED")
    assert paddock("trust", "add", "author.pub", "--namespace", "acme", "--not-after", "soon").code == 2
    assert paddock("trust", "add", "author.pub", "--namespace", "acme").code == 0
    assert paddock("install", file, "--yes").code == 0


def test_text_of_a_package_is_shown_inert_and_nothing_it_names_is_fetched(paddock, release, monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments, **_options: pytest.fail("something was looked up"))
    hostile = release(description="\\u001b[2J <img src=http://127.0.0.1:1/x> \\u202e gpj")
    shown = paddock("install", hostile, "--yes")  # the fixture refuses raw escapes
    assert shown.code == 0
    assert "\\x1b[2J" in shown.out
    assert paddock("explain", "acme/maze@1").code == 0


def test_no_text_that_others_wrote_steers_the_terminal(paddock, folder, release):
    bad = "\\u001b[2J\\u202e"
    permissions = f'hosts = ["a.example:443"]\nread = ["/data/{bad}"]\nvariables = {{ X = "{bad}" }}'
    file = release(permissions=permissions, description=bad)
    commands = [
        ["verify", file],
        ["install", file, "--yes"],
        ["permissions", "--granted"],
        ["permissions", "acme/maze@1"],
        ["info", "acme/maze@1"],
        ["list"],
        ["explain", "acme/maze@1"],
        ["log"],
        ["revoke", file, "--key", "author.key", "--out", "list.json", "--reason", "\x1b[2J\u202e"],
        ["trust", "add", "list.json"],
        ["trust", "list"],
        ["run", "acme/maze@1"],
        ["install", file, "--yes"],
    ]
    for words in commands:  # the fixture refuses raw escapes
        said = paddock(*words)
        assert "Traceback" not in said.err, words
    assert "\\x1b[2J" in said.err
    with pytest.raises(Revoked) as raised:
        library.make("acme/maze@1")
    assert str(raised.value).isprintable()


def test_trust_lists_shows_and_removes(paddock, release):
    release()
    added = paddock("trust", "add", "author.pub", "--namespace", "acme", "--json").document
    paddock("trust", "add", "author.pub", "--namespace", "acme-labs")
    name = added["fingerprint"]
    assert paddock("trust", "show", name[:8], "--json").document["namespaces"] == ["acme", "acme-labs"]
    for text in ("author.pub", "author.key"):
        assert paddock("trust", "show", text, "--json").document["fingerprint"] == name
    assert name in paddock("trust", "list").out
    assert paddock("trust", "remove", name, "--json").document == {"removed": name}
    assert paddock("trust", "show", name).code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["pack", "./none"],
        ["verify", "none.pad"],
        ["verify", "."],
        ["sign", "."],
        ["install", "./"],
        ["install", "none.pad"],
        ["install", "acme/maze"],
        ["install", "x" * 5000],
        ["uninstall", "acme/maze"],
        ["uninstall", "../x"],
        ["sign", "none.pad"],
        ["trust", "add"],
        ["trust", "add", "none.pub", "--namespace", "acme"],
        ["trust", "add", "ed25519:AAAA", "--namespace", "acme"],
        ["trust", "remove", "ffffffff"],
        ["trust", "forget"],
        ["revoke", "none.pub", "--out", "x.json"],
        ["publish", "none.pad", "--to", "registry"],
        ["init", "maze", "--owner", "A/b"],
        ["keygen", "--out", "."],
        ["publish", "none.pad", "--to", "registry", "--days", "99999999999"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_one_line(paddock, home, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    failed = paddock(*words)
    assert failed.code == 2
    assert failed.err.count("\n") == 1
    assert not (home / "store").exists()


def test_full_disk_is_a_failure_and_no_wrong_use(paddock, release, home, monkeypatch):
    file = release()

    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    failed = paddock("install", file, "--yes", "--json")
    assert (failed.code, failed.document["error"]["code"]) == (1, "STORAGE_FULL")
    assert not (home / "packages.json").exists()


def test_place_that_is_not_there_is_named_as_it_was_given(paddock, folder):
    folder()
    for words in (["pack", "./maze", "--no-spaces", "-o", "none/x.pad"], ["keygen", "--out", "none/x.key"]):
        failed = paddock(*words)
        assert failed.code == 1
        assert f"No such file or directory: '{words[-1]}'" in failed.err


def test_folder_without_an_owner_is_not_packed(paddock, folder):
    place = folder()
    text = (place / "paddock.toml").read_text()
    for name in ("maze", "Acme/maze", "acme/Maze", "acme/m aze"):
        (place / "paddock.toml").write_text(text.replace("acme/maze", name))
        failed = paddock("pack", "./maze", "--no-spaces")
        assert failed.code == 2
        assert "owner/name" in failed.err or "not" in failed.err


def test_signing_key_in_the_folder_is_not_packed(paddock, folder):
    place = folder()
    paddock("keygen", "--out", str(place / "own.key"))
    failed = paddock("pack", "./maze", "--no-spaces")
    assert failed.code == 1
    assert "private key" in failed.err


def test_a_server_takes_only_keys_that_were_added(paddock, release):
    from paddock.errors import PlanError
    from paddock.server.served_env import prepare_envs

    paddock("install", release(), "--yes")
    with pytest.raises(PlanError, match="trust add ed25519:"):
        prepare_envs(["acme/maze@1"])
    paddock("trust", "remove", "author.pub")
    with pytest.raises(PlanError, match="trust add ed25519:"):
        prepare_envs(["acme/maze@1"])
    paddock("trust", "add", "author.pub", "--namespace", "acme")
    assert [one.name for one in prepare_envs(["acme/maze@1"])] == ["Maze-v0"]

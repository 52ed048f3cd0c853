"""The store: whole or not at all, whatever happens during an install, and read again on every use."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

import paddock
from paddock.errors import (
    DependencyNotInstalled,
    Downgrade,
    Expired,
    InvalidPackage,
    InvalidSignature,
    NameNotFound,
    NotPermitted,
    PaddockError,
    PlanError,
    Revoked,
    StorageFull,
    UnregisteredEnv,
    Untrusted,
    VersionNotFound,
)
from paddock.making import locate
from paddock.package import store
from paddock.package.pad import Pad, pack, sign
from paddock.sandbox.policy import Policy
from paddock.sandbox.promises import holds
from paddock.trust import files
from paddock.trust.keyring import change_keyring, load_keyring, revoke
from paddock.trust.log import read_log
from tests.package.signed import (
    CODE_TEXT,
    FORGED_TOML,
    OWNER,
    STRANGER,
    forge,
    release,
    trust,
    write_folder,
    write_wheel,
)


def agree(_review):
    return True


@pytest.fixture
def trusting(home):
    trust()
    return home


def contents(home):
    """Every file below a home with its bytes, but for locks."""
    files = (path for path in home.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.suffix != ".lock"}


def test_installed_package_is_private_and_read_only(trusting, tmp_path):
    installed = store.install(release(tmp_path / "maze"), agree)
    assert oct(installed.place.parent.stat().st_mode)[-3:] == "700"
    for path in [installed.place, *installed.place.rglob("*")]:
        assert not path.stat().st_mode & 0o222, path
    assert installed.place.name == installed.digest
    installed.check()


def test_use_finds_the_newest_of_a_series(trusting, tmp_path):
    for version in ("1.2.0", "1.2.9", "1.10.0", "2.0.0"):
        store.install(release(tmp_path / version, version=version), agree)
    for text, found in (("1.2", "1.2.9"), ("1", "1.10.0"), ("1.2.0", "1.2.0"), ("2", "2.0.0")):
        assert locate(f"acme/maze@{text}").package.version == found
    with pytest.raises(UnregisteredEnv, match="is installed: acme/maze@2.0.0"):
        locate("acme/maze")
    with pytest.raises(VersionNotFound, match=r"1\.2\.0, 1\.2\.9"):
        locate("acme/maze@1.3")
    with pytest.raises(NameNotFound, match="paddock install"):
        locate("acme/labyrinth@1")
    with pytest.raises(PlanError, match="owner"):
        locate("maze@1")
    with pytest.raises(PlanError, match="has the environments Maze-v0; name one, as acme/maze@1:Maze-v0"):
        locate("acme/maze@1:Labyrinth-v0")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda env: (env / "maze_env.py").write_text(CODE_TEXT + "#"), "maze_env.py was changed"),
        (lambda env: (env / "maze_env.py").unlink(), "maze_env.py was removed"),
        (lambda env: (env / "x.pth").write_text(""), "x.pth was added"),
        (lambda env: ((env / "maze_env").mkdir(), (env / "maze_env" / "__init__.py").write_text("")), "was added"),
        (lambda env: ((env / "maze_env.py").unlink(), (env / "maze_env.py").symlink_to("/etc/passwd")), "was changed"),
        (lambda env: (env / "link").symlink_to("/etc"), "link was added"),
        (lambda env: (env.parent / "manifest.json").write_text("{}"), "manifest was changed"),
        (lambda env: shutil.rmtree(env.parent), "No such file"),
    ],
    ids=range(8),
)
def test_package_that_was_changed_in_the_store_is_not_used(trusting, tmp_path, change, words):
    file = release(tmp_path / "maze")
    installed = store.install(file, agree)
    for path in [installed.place, *installed.place.rglob("*")]:
        path.chmod(0o700)
    change(installed.folder)
    with pytest.raises(InvalidPackage, match=words):
        locate("acme/maze@1")
    store.install(file, agree)  # and installing it again repairs it
    assert locate("acme/maze@1").package.digest == installed.digest


@pytest.mark.process
def test_no_code_of_a_package_runs_before_it_is_behind_the_wall(trusting, tmp_path, monkeypatch):
    canary = tmp_path / "canary"
    touch = f"import pathlib; pathlib.Path({str(canary)!r}).write_text('ran')\n"
    autorun = {"setup.py": touch, "conftest.py": touch, "__init__.py": touch, "tests/test_x.py": touch}
    file = release(tmp_path / "maze", code=f"try:\n    {touch}except OSError: pass\n{CODE_TEXT}", files=autorun)
    monkeypatch.chdir(tmp_path)
    store.install(file, agree)
    located = locate("acme/maze@1")
    assert not canary.exists()
    if holds("sandbox"):
        with paddock.make("acme/maze@1") as env:
            env.reset(seed=1)
        assert not canary.exists()
    assert located.package.how == "pinned"
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    with paddock.make("acme/maze@1", isolation="process") as env:  # the caller said so
        env.reset(seed=1)
    assert canary.read_text() == "ran"
    locate("acme/maze@1")  # and left nothing in the store


def test_manifest_and_folder_must_agree(trusting, tmp_path):
    env = {"paddock.toml": FORGED_TOML.encode(), "maze_env.py": b"x = 1\n"}
    for number, lie in enumerate(
        (
            {"permissions": {"hosts": ["evil.example:443"]}},
            {"description": "Harmless."},
            {"version": "2.0.0"},
            {"serial": 5},
            {"envs": []},
            {"dependencies": ["requests==1.0"]},
            {"expires": "2199-01-01"},
        )
    ):
        file = tmp_path / f"{number}.pad"
        file.write_bytes(forge(env, **lie))
        before = contents(trusting)
        with pytest.raises(InvalidPackage, match="do not agree|can't be used"):
            store.install(file, agree)
        assert contents(trusting) == before
    (tmp_path / "good.pad").write_bytes(forge(env))
    store.install(tmp_path / "good.pad", agree)


def test_folder_without_a_good_manifest_is_refused(trusting, tmp_path):
    huge = f"{FORGED_TOML}[permissions]\nmemory_mb = {2**63 - 1}\n"
    for number, toml in enumerate(("", "\xff", FORGED_TOML.replace("maze_env:Maze", "os:system"), huge)):
        file = tmp_path / f"{number}.pad"
        file.write_bytes(forge({"paddock.toml": toml.encode("latin-1"), "maze_env.py": b"x = 1\n"}))
        with pytest.raises(InvalidPackage, match="can't be used"):
            store.install(file, agree)


# ── Trust ──


def test_strangers_key_and_unsigned_file_are_refused(trusting, tmp_path):
    with pytest.raises(Untrusted) as caught:
        store.install(release(tmp_path / "maze", key=STRANGER), agree)
    for key in (OWNER, STRANGER):
        assert key.public.fingerprint in str(caught.value)
    with pytest.raises(Untrusted, match="not signed"):
        store.install(pack(write_folder(tmp_path / "other"), tmp_path / "other.pad"), agree)


def test_key_of_one_namespace_signs_no_other(trusting, tmp_path):
    trust(STRANGER, "other")
    with pytest.raises(Untrusted, match="trusted for acme only"):
        store.install(release(tmp_path / "maze", name="other/maze"), agree)


def test_refusal_by_the_person_changes_nothing(home, tmp_path):
    file = release(tmp_path / "maze")
    with pytest.raises(NotPermitted):
        store.install(file, lambda _review: False)
    assert contents(home) == {}


def test_release_never_changes_under_its_number(trusting, tmp_path):
    store.install(release(tmp_path / "one"), agree)
    store.uninstall("acme/maze")
    other = release(tmp_path / "two", code=CODE_TEXT + "# other\n")
    with pytest.raises(Untrusted, match="never changes"):
        store.install(other, agree, allow_downgrade=True)


def test_version_does_not_change_under_another_serial_either(trusting, tmp_path):
    store.install(release(tmp_path / "one"), agree)
    with pytest.raises(Untrusted, match="version 1.0.0 had the digest"):
        store.install(release(tmp_path / "two", more="serial = 1000001"), agree)


def test_older_version_is_refused_even_after_the_newer_is_gone(trusting, tmp_path):
    old, new = release(tmp_path / "old", version="1.0.0"), release(tmp_path / "new", version="1.0.1")
    store.install(new, agree)
    store.uninstall("acme/maze")
    with pytest.raises(Downgrade):
        store.install(old, agree)
    store.install(old, agree, allow_downgrade=True)
    with pytest.raises(Downgrade):  # the mark did not move
        store.install(release(tmp_path / "older", version="0.9.0"), agree)


def test_package_whose_time_is_over_is_not_installed_and_one_that_is_stays(trusting, tmp_path, monkeypatch):
    store.install(release(tmp_path / "one", more='expires = "2199-01-01"'), agree)
    monkeypatch.setattr("time.time", lambda: 7_300_000_000.0)  # 2201
    assert locate("acme/maze@1").package.version == "1.0.0"
    with pytest.raises(Expired):
        store.install(release(tmp_path / "two", version="1.1.0", more='expires = "2199-01-01"'), agree)


def test_failed_install_leaves_no_mark(trusting, tmp_path):
    """State is written after the checks, so that a package that is refused does not block the owner's."""
    high = tmp_path / "high.pad"
    high.write_bytes(forge({"paddock.toml": FORGED_TOML.encode(), "maze_env.py": b""}, serial=10**9))
    with pytest.raises(InvalidPackage):
        store.install(high, agree)
    with pytest.raises(Untrusted):
        store.install(release(tmp_path / "stranger", key=STRANGER, version="9.0.0"), agree)
    store.install(release(tmp_path / "maze"), agree)


def test_key_that_was_revoked_stops_what_is_installed(trusting, tmp_path):
    store.install(release(tmp_path / "maze"), agree)
    trust(STRANGER)
    with change_keyring() as keyring:
        keyring.learn(revoke(STRANGER, None, keys={OWNER.public.fingerprint: "stolen"}))
    with pytest.raises(Revoked, match="stolen"):
        locate("acme/maze@1")


# ── Grants ──


def test_grant_is_recorded_and_can_be_withdrawn(trusting, tmp_path):
    hosts = '\n[permissions]\nhosts = ["api.example.com:443"]\n'
    folder = write_folder(tmp_path / "maze")
    (folder / "paddock.toml").write_text((folder / "paddock.toml").read_text() + hosts)
    file = pack(folder, tmp_path / "x.pad")
    sign(file, OWNER)
    store.install(file, agree)
    assert store.grants()["acme/maze"].permissions == Policy(hosts=("api.example.com:443",))
    assert locate("acme/maze@1").asked.hosts == ("api.example.com:443",)
    store.withdraw("acme/maze")
    with pytest.raises(NotPermitted, match="api.example.com"):
        locate("acme/maze@1")
    with pytest.raises(NameNotFound):
        store.withdraw("acme/maze")


def test_a_grant_withdrawn_during_an_install_stays_withdrawn(trusting, tmp_path, monkeypatch):
    store.install(release(tmp_path / "a"), agree)
    check_files = Pad.check_files

    def withdraw_meanwhile(pad):
        store.withdraw("acme/maze")
        check_files(pad)

    file = release(tmp_path / "b", version="1.1.0")
    monkeypatch.setattr(Pad, "check_files", withdraw_meanwhile)
    store.install(file, agree)
    assert "acme/maze" not in store.grants()


def test_first_install_asks_and_the_next_only_if_it_asks_for_more(trusting, tmp_path):
    reviews = []

    def remember(review):
        reviews.append(review)
        return True

    store.install(release(tmp_path / "1", version="1.0.0"), remember)
    store.install(release(tmp_path / "2", version="1.0.1"), remember)
    assert len(reviews) == 1
    assert reviews[0].first
    store.uninstall("acme/maze")
    store.install(release(tmp_path / "3", version="1.0.2"), remember)
    assert len(reviews) == 2


# ── Faults ──


@pytest.mark.parametrize("nth", range(12))
def test_full_disk_leaves_the_store_as_it_was(trusting, tmp_path, monkeypatch, nth):
    """The n-th time that bytes should reach the disk they don't."""
    store.install(release(tmp_path / "old", version="1.0.0"), agree)
    before, calls = contents(trusting), iter(range(1000))
    whole = os.fsync

    def full(descriptor):
        if next(calls) == nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(descriptor)

    new = release(tmp_path / "new", version="2.0.0")
    monkeypatch.setattr(os, "fsync", full)
    try:
        store.install(new, agree)
    except StorageFull:
        monkeypatch.undo()
        monkeypatch.setenv("PADDOCK_HOME", str(trusting))
        left = {path: data for path, data in contents(trusting).items() if "store" not in path.parts}
        assert left == {path: data for path, data in before.items() if "store" not in path.parts}
        assert locate("acme/maze@1").package.version == "1.0.0"
        assert list((trusting / "store" / "sha256").glob(".new-*")) == []
        store.install(new, agree)
    assert locate("acme/maze@2").package.version == "2.0.0"


KILLED = """
import os, sys
from paddock.package import store
calls = iter(range(1000))
def dying(real):
    def call(*arguments, **options):
        if next(calls) == int(sys.argv[1]):
            os.kill(os.getpid(), 9)
        return real(*arguments, **options)
    return call
for name in ("fsync", "replace", "rename", "link", "unlink", "mkdir", "chmod", "rmdir"):
    setattr(os, name, dying(getattr(os, name)))
match sys.argv[2:]:
    case ["install", file]: store.install(file, lambda review: True)
    case ["uninstall", name]: store.uninstall(name)
    case ["withdraw", name]: store.withdraw(name)
"""


def in_log():
    """The versions of acme/maze that are installed, and whether something is granted, as the log tells it."""
    versions, granted = set(), False
    for entry in read_log():
        match entry.event:
            case "install":
                versions.add(entry.facts["package"].partition("@")[2])
            case "uninstall":
                versions -= {*entry.facts["versions"]}
                granted = granted and bool(versions)
            case "grant" | "withdraw":
                granted = entry.event == "grant"
    return versions, granted


def in_store():
    return {one.version for one in store.installed_packages()}, "acme/maze" in store.grants()


@pytest.mark.process
@pytest.mark.parametrize("what", ["install", "uninstall", "withdraw"])
@pytest.mark.parametrize("step", [pytest.param(3, id="some"), pytest.param(1, id="all", marks=pytest.mark.full)])
def test_a_process_killed_at_any_step_leaves_a_log_and_a_store_that_agree(trusting, tmp_path, what, step):
    old, new = (release(tmp_path / version, version=version) for version in ("1.0.0", "2.0.0"))
    nth, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        for place in (trusting / "store").rglob("*"):
            place.chmod(0o700)
        shutil.rmtree(trusting / "store", ignore_errors=True)
        for one in ("packages.json", "log.jsonl"):
            (trusting / one).unlink(missing_ok=True)
        store.install(old, agree)
        argument = str(new) if what == "install" else "acme/maze"
        code = subprocess.run([sys.executable, "-c", KILLED, str(nth), what, argument]).returncode
        assert in_log() == in_store(), nth
        if "1.0.0" in in_store()[0]:
            locate("acme/maze@1")
        store.install(new, agree)
        assert locate("acme/maze@2").package.version == "2.0.0"
        left = {one.name for one in (trusting / "store" / "sha256").iterdir()}
        assert left == {one.digest for one in store.installed_packages()}, nth
        assert not [*trusting.glob(".new-*"), *trusting.glob("*.unfinished")]
        nth += step
    assert code == 0 and nth > 6, nth


def test_two_installs_at_once_both_succeed(trusting, tmp_path):
    packages = [release(tmp_path / f"{n}", version=f"1.{n}.0", name=f"acme/maze-{n % 3}") for n in range(6)]
    failures = []

    def install(file):
        try:
            store.install(file, agree, allow_downgrade=True)
        except PaddockError as error:
            failures.append(error)

    threads = [threading.Thread(target=install, args=(file,)) for file in [*packages, *packages]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(store.installed_packages()) == 6
    for one in store.installed_packages():
        one.check()


def test_two_first_uses_at_once_pin_one_key(home, tmp_path):
    one = release(tmp_path / "one", version="1.0.0")
    two = release(tmp_path / "two", version="0.9.0", key=STRANGER)

    def other_is_faster(_review):
        store.install(two, agree)
        return True

    with pytest.raises(Untrusted):
        store.install(one, other_is_faster)
    assert [key.key for key in load_keyring().bound_to("acme")] == [STRANGER.public]
    assert [found.version for found in store.installed_packages()] == ["0.9.0"]


@pytest.mark.parametrize("name", ["packages.json", "trust.json"])
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_damaged_state_is_an_error_and_not_an_empty_one(trusting, tmp_path, name, text):
    store.install(release(tmp_path / "maze"), agree)
    (trusting / name).write_text(text)
    with pytest.raises((InvalidPackage, InvalidSignature), match="damaged"):
        locate("acme/maze@1")


def race(tmp_path, rounds):
    """Somebody swaps the file, or its bytes, while it is checked and installed."""
    good = release(tmp_path / "good").read_bytes()
    evil = good.replace(b"int(action)", b"int(actiom)")
    assert len(evil) == len(good) and evil != good
    target, stop = tmp_path / "target.pad", threading.Event()
    target.write_bytes(good)
    good_copy, evil_copy = tmp_path / "good.copy", tmp_path / "evil.copy"

    def swap():
        place = good.index(b"int(action)")
        while not stop.is_set():
            for data, copy in ((evil, evil_copy), (good, good_copy)):
                copy.write_bytes(data)
                os.replace(copy, target)
                with target.open("r+b", buffering=0) as stream:  # and within the file
                    os.pwrite(stream.fileno(), evil[place : place + 11], place)
                    os.pwrite(stream.fileno(), good[place : place + 11], place)

    attacker = threading.Thread(target=swap)
    attacker.start()
    outcomes = {"installed": 0, "refused": 0}
    try:
        for number in range(rounds):
            folder = tmp_path / "extracted" / str(number)
            (folder).mkdir(parents=True)
            try:
                with Pad(target) as pad:
                    pad.check_files()
                    pad.extract(folder)
            except (InvalidPackage, InvalidSignature):
                outcomes["refused"] += 1
            else:
                outcomes["installed"] += 1
                assert b"actiom" not in (folder / "env" / "maze_env.py").read_bytes()
            shutil.rmtree(folder)
    finally:
        stop.set()
        attacker.join()
    return outcomes


@pytest.fixture
def quick_disk(monkeypatch):
    """The race is for what is read and written; what reaches the disk when is tested above."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


def test_swapping_the_file_while_it_is_installed_wins_nothing(home, tmp_path, quick_disk):
    assert sum(race(tmp_path, 200).values()) == 200


@pytest.mark.full
def test_swapping_the_file_wins_nothing_in_ten_thousand_races(home, tmp_path, quick_disk):
    outcomes = race(tmp_path, 10_000)
    assert sum(outcomes.values()) == 10_000
    assert min(outcomes.values()) > 100, outcomes


# ── Dependencies ──


@pytest.mark.process
def test_dependency_with_another_hash_is_not_installed(trusting, tmp_path, monkeypatch):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    digest = write_wheel(wheels, "acmelib")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    lock = "acmelib==1.0 --hash=sha256:{}\n"
    declared = '\n[dependencies]\nacmelib = "*"\n'
    results = []
    for version, hash in (("1.0.0", "ab" * 32), ("1.1.0", digest)):
        files = {"lock/requirements.txt": lock.format(hash)}
        code = CODE_TEXT.replace("import paddock", "import acmelib\nimport paddock")
        folder = write_folder(tmp_path / version, version=version, code=code, files=files)
        (folder / "paddock.toml").write_text((folder / "paddock.toml").read_text() + declared)
        file = pack(folder, tmp_path / f"{version}.pad")
        sign(file, OWNER)
        before = contents(trusting)
        try:
            results.append(store.install(file, agree))
        except DependencyNotInstalled as error:
            assert contents(trusting) == before
            results.append(error)
    assert isinstance(results[0], DependencyNotInstalled)
    assert os.path.exists(os.path.join(results[1].libraries, "acmelib.py"))
    assert str(trusting) in results[1].libraries
    if holds("sandbox"):
        with paddock.make("acme/maze@1.1") as env:
            env.reset(seed=1)
    with pytest.raises(ModuleNotFoundError):
        import acmelib  # noqa: F401 - only the package sees it


def test_state_is_json_that_a_person_can_read(trusting, tmp_path):
    store.install(release(tmp_path / "maze"), agree)
    plain = json.loads((trusting / "packages.json").read_text())
    assert plain["packages"]["acme/maze"]["versions"]["1.0.0"]["how"] == "pinned"
    assert files.data_folder() == trusting

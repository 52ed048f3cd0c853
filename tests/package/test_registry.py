"""Registries: a folder or any web server. What it serves is believed as far as it is signed, new enough and in time."""

import errno
import io
import json
import shutil
import socket
import threading
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from paddock.errors import (
    Downgrade,
    Expired,
    InvalidPackage,
    InvalidSignature,
    NameNotFound,
    NotPermitted,
    Revoked,
    StorageFull,
    Unreachable,
    Untrusted,
    VersionNotFound,
)
from paddock.package import store
from paddock.package.pad import Pad
from paddock.package.registry import INDEX, install_by_name, publish, read_index
from paddock.trust.envelope import seal, statement
from paddock.trust.keyring import change_keyring, load_keyring, revoke
from tests.package.signed import CODE_TEXT, OWNER, STRANGER, release, trust


def agree(_review):
    return True


@pytest.fixture
def registry(tmp_path, home):
    """``registry("1.0.0", …)``: a folder with these versions of acme/maze."""
    folder = tmp_path / "registry"

    def fill(*versions, key=OWNER):
        for version in versions:
            publish(release(tmp_path / f"maze-{version}", version=version, key=key), folder, key)
        return folder

    return fill


@pytest.fixture
def serve():
    """``serve(handler)``: a web server on this machine; returns its URL."""
    servers = []

    def start(handler):
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def files_of(folder):
    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *_arguments):
            pass

    return Handler


def test_newest_or_named_version_is_installed(registry):
    source = str(registry("1.0.0", "1.0.1", "1.1.0"))
    trust()
    assert install_by_name("acme/maze", "1.0", source, agree).version == "1.0.1"
    assert install_by_name("acme/maze", None, source, agree).version == "1.1.0"
    with pytest.raises(VersionNotFound):
        install_by_name("acme/maze", "3", source, agree)
    with pytest.raises(NameNotFound, match="acme/maze"):
        install_by_name("acme/labyrinth", None, source, agree)


def test_over_http(registry, serve):
    url = serve(files_of(registry("1.0.0")))
    trust()
    installed = install_by_name("acme/maze", None, url, agree)
    assert installed.source == url


def test_everything_works_without_a_network(registry, tmp_path, monkeypatch):
    """Publish, carry, install, revoke and refuse with a socket that nobody can open."""

    def refuse(*_arguments, **_options):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    shutil.copytree(registry("1.0.0"), tmp_path / "stick")
    trust()
    install_by_name("acme/maze", None, str(tmp_path / "stick"), agree)
    (tmp_path / "revoked.json").write_bytes(revoke(OWNER, None, digests={store.installed_packages()[0].digest: "bad"}))
    publish(tmp_path / "revoked.json", tmp_path / "stick", OWNER, namespace="acme")
    with pytest.raises(Revoked):
        install_by_name("acme/maze", None, str(tmp_path / "stick"), agree)
    with pytest.raises(Revoked):
        store.use_installed("acme/maze", "1")


def test_first_use_of_a_registry_pins_its_key(registry):
    source = str(registry("1.0.0"))
    installed = install_by_name("acme/maze", None, source, agree)
    assert installed.how == "first use"
    assert load_keyring().indexes == {"acme": 1}


def test_strangers_index_does_not_block_the_owners(registry, tmp_path):
    """Nothing of an index is remembered until its key is the namespace's: its serial could be any."""
    folder = registry("1.0.0")
    said = {"namespace": "acme", "serial": 10**9, "expires": "2199-01-01", "packages": [], "revocations": {}}
    stranger = tmp_path / "stranger" / "acme"
    stranger.mkdir(parents=True)
    (stranger / "index.json").write_bytes(seal(statement({}, INDEX, said), [STRANGER]))
    with pytest.raises(NameNotFound):
        install_by_name("acme/maze", None, str(tmp_path / "stranger"), agree)
    assert load_keyring().indexes == {}
    install_by_name("acme/maze", None, str(folder), agree)
    with pytest.raises(Untrusted):
        read_index(str(tmp_path / "stranger"), "acme")


def test_package_of_another_key_under_a_strangers_index_is_refused(registry, tmp_path):
    folder = registry("1.0.0")
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "acme" / "index.json").unlink()
    publish(folder / "acme" / "acme-maze-1.0.0.pad", tmp_path / "copy", STRANGER)
    with pytest.raises(NotPermitted):
        install_by_name("acme/maze", None, str(tmp_path / "copy"), agree)


def test_endorsed_package_of_an_unknown_owner_is_installed(registry, home):
    source = str(registry("1.0.0"))
    home.mkdir(exist_ok=True)
    (home / "trust.toml").write_text(f'mode = "endorsed"\n[endorsed]\nkeys = ["{OWNER.public}"]\nthreshold = 1\n')
    assert install_by_name("acme/maze", None, source, agree).how == "endorsed"


def test_old_index_is_refused_once_a_newer_was_read(registry, tmp_path):
    trust()
    folder = registry("1.0.0")
    shutil.copytree(folder, tmp_path / "old")
    registry("1.1.0")
    assert read_index(str(folder), "acme").serial == 2
    with pytest.raises(Downgrade, match="old copy"):
        read_index(str(tmp_path / "old"), "acme")
    assert read_index(str(tmp_path / "old"), "acme", allow_downgrade=True).serial == 1


def test_index_that_is_over_is_refused(registry, monkeypatch):
    trust()
    folder = registry("1.0.0")
    monkeypatch.setattr("time.time", lambda: 4_000_000_000.0)
    with pytest.raises(Expired, match="paddock publish"):
        read_index(str(folder), "acme")
    monkeypatch.undo()


@pytest.mark.parametrize("step", [1, 13])
def test_changed_index_is_refused(registry, step):
    trust()
    file = registry("1.0.0") / "acme" / "index.json"
    good = file.read_bytes()
    for at in range(0, len(good), 41):
        changed = bytearray(good)
        changed[at] ^= step
        file.write_bytes(changed)
        try:
            read_index(str(file.parents[1]), "acme")
        except (InvalidSignature, Untrusted):
            continue
        pytest.fail(f"byte {at}")


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "other"},
        {"serial": "1"},
        {"expires": "never"},
        {"packages": [{"name": "acme/maze"}]},
        {"packages": [{"name": "acme/maze", "version": "1", "serial": 1, "digest": "", "file": "../../x.pad"}]},
        {"packages": [{"name": "acme/maze", "version": "1", "serial": 1, "digest": "", "file": "/etc/passwd"}]},
        {"packages": [{"name": "a/\x1b[2J", "version": "1", "serial": 1, "digest": "", "file": "x.pad"}]},
        {"packages": [{"name": "other/maze", "version": "1", "serial": 1, "digest": "", "file": "x.pad"}]},
        {"packages": [{"name": "acme/maze", "version": "\x1b", "serial": 1, "digest": "", "file": "x.pad"}]},
        {"revocations": {"../x.json": ""}},
        {"revocations": {f"revocations-{number:016x}.json": "" for number in range(33)}},
        {"more": 1},
    ],
    ids=range(12),
)
def test_signed_index_that_is_malformed_is_refused(tmp_path, home, change):
    trust()
    (tmp_path / "r" / "acme").mkdir(parents=True)
    said = {"namespace": "acme", "serial": 1, "expires": "2199-01-01", "packages": [], "revocations": {}, **change}
    (tmp_path / "r" / "acme" / "index.json").write_bytes(seal(statement({}, INDEX, said), [OWNER]))
    with pytest.raises(InvalidSignature):
        read_index(str(tmp_path / "r"), "acme")


def test_file_that_is_not_the_promised_one_is_refused(registry):
    trust()
    folder = registry("1.0.0", "1.1.0")
    place = folder / "acme"
    shutil.copy(place / "acme-maze-1.0.0.pad", place / "acme-maze-1.1.0.pad")
    with pytest.raises(InvalidPackage, match="promises"):
        install_by_name("acme/maze", "1.1", str(folder), agree)


@pytest.mark.parametrize(("what", "said"), [("name", "acme/other"), ("version", "9.0.0"), ("serial", 9)])
def test_index_that_promises_another_package_under_this_digest_is_refused(tmp_path, home, what, said):
    trust()
    file, folder = release(tmp_path / "maze"), tmp_path / "r" / "acme"
    folder.mkdir(parents=True)
    shutil.copy(file, folder / "x.pad")
    with Pad(file) as pad:
        listed = {"name": "acme/maze", "version": "1.0.0", "serial": 1_000_000, "digest": pad.digest, "file": "x.pad"}
    listed[what] = said
    index = {"namespace": "acme", "serial": 1, "expires": "2199-01-01", "packages": [listed], "revocations": {}}
    (folder / "index.json").write_bytes(seal(statement({}, INDEX, index), [OWNER]))
    with pytest.raises(InvalidPackage, match=f"the index promises the {what} {said}, the file has"):
        install_by_name(listed["name"], None, str(tmp_path / "r"), agree)
    assert store.installed_packages() == []


@pytest.mark.parametrize("over_http", [False, True])
def test_disk_that_is_full_during_a_download_is_not_the_registrys_fault(registry, serve, monkeypatch, over_http):
    trust()
    folder = registry("1.0.0")
    source = serve(files_of(folder)) if over_http else str(folder)
    real, downloads = type(folder).open, []

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def open_full(path, *arguments, **options):
        if path.name != "download.pad" or arguments != ("xb",):
            return real(path, *arguments, **options)
        downloads.append(path)
        return Full()

    monkeypatch.setattr(type(folder), "open", open_full)
    with pytest.raises(StorageFull, match="No space left"):
        install_by_name("acme/maze", None, source, agree)
    assert downloads and store.installed_packages() == []


def test_list_of_a_stolen_key_in_a_registry_stops_nobody(registry, tmp_path):
    trust()
    trust(STRANGER)
    folder = registry("1.0.0")
    with change_keyring() as keyring:
        keyring.learn(revoke(OWNER, None, keys={STRANGER.public.fingerprint: "stolen"}))
    (tmp_path / "list.json").write_bytes(revoke(STRANGER, None, keys={OWNER.public.fingerprint: "by the thief"}))
    publish(tmp_path / "list.json", folder, OWNER, namespace="acme")
    assert install_by_name("acme/maze", None, str(folder), agree).version == "1.0.0"


def test_package_that_its_owner_revoked_is_refused_on_first_use_too(registry, tmp_path):
    folder = registry("1.0.0")
    with Pad(folder / "acme" / "acme-maze-1.0.0.pad") as pad:
        (tmp_path / "list.json").write_bytes(revoke(OWNER, None, digests={pad.digest: "bad"}))
    publish(tmp_path / "list.json", folder, OWNER, namespace="acme")
    with pytest.raises(Revoked, match="bad"):
        install_by_name("acme/maze", None, str(folder), agree)
    with pytest.raises(Revoked, match="bad"):
        store.use_installed("acme/maze", "1")


def test_older_list_in_a_registry_stops_nobody_and_takes_nothing_back(registry, tmp_path):
    trust()
    folder = registry("1.0.0")
    first = revoke(OWNER, None, digests={"ab" * 32: ""})
    (tmp_path / "list.json").write_bytes(first)
    publish(tmp_path / "list.json", folder, OWNER, namespace="acme")
    with change_keyring() as keyring:
        keyring.learn(revoke(OWNER, first, digests={"cd" * 32: ""}))
    install_by_name("acme/maze", None, str(folder), agree)
    assert load_keyring().revoked[OWNER.public.fingerprint]["serial"] == 2


def test_serial_that_a_thief_ran_up_does_not_outlast_the_stolen_key(registry, tmp_path):
    trust()
    trust(STRANGER)
    folder = registry("1.0.0")
    stolen = {"namespace": "acme", "serial": 10**17, "expires": "2199-01-01", "packages": [], "revocations": {}}
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "index.json").write_bytes(seal(statement({}, INDEX, stolen), [STRANGER]))
    assert read_index(str(tmp_path), "acme").serial == 10**17
    with pytest.raises(Downgrade):
        read_index(str(folder), "acme")
    with change_keyring() as keyring:
        keyring.learn(revoke(OWNER, None, keys={STRANGER.public.fingerprint: "stolen"}))
    assert read_index(str(folder), "acme").serial == 1
    assert load_keyring().indexes == {"acme": 1}


@pytest.mark.parametrize("keyid", ["", "x", None])
def test_what_is_not_a_revocation_list_is_not_published(registry, tmp_path, keyid):
    folder = registry("1.0.0")
    envelope = json.loads((folder / "acme" / "index.json").read_bytes())
    if keyid is not None:
        envelope["signatures"][0]["keyid"] = keyid
    (tmp_path / "list.json").write_text(json.dumps(envelope))
    with pytest.raises((InvalidSignature, Untrusted)):
        publish(tmp_path / "list.json", folder, OWNER, namespace="acme")
    assert len(list((folder / "acme").iterdir())) == 2


def test_release_is_not_published_twice_with_other_contents(registry, tmp_path):
    folder = registry("1.0.0")
    other = release(tmp_path / "other", version="1.0.0", code=CODE_TEXT + "#")
    with pytest.raises(InvalidPackage, match="never changes"):
        publish(other, folder, OWNER)


def test_index_that_is_none_is_not_followed_by_another(registry, tmp_path):
    folder = registry("1.0.0")
    (folder / "acme" / "index.json").write_bytes(seal(statement({}, INDEX, {"namespace": "acme"}), [OWNER]))
    with pytest.raises(InvalidSignature, match="is not an index of 'acme'"):
        publish(release(tmp_path / "next", version="1.1.0"), folder, OWNER)


def test_unsigned_package_is_not_published(tmp_path, home):
    from paddock.package.pad import pack
    from tests.package.signed import write_folder

    with pytest.raises(InvalidSignature, match="paddock sign"):
        publish(pack(write_folder(tmp_path / "maze"), tmp_path / "x.pad"), tmp_path / "r", OWNER)


def test_revocation_list_that_is_not_the_promised_one_is_refused(registry, tmp_path):
    trust()
    folder = registry("1.0.0")
    (tmp_path / "list.json").write_bytes(revoke(OWNER, None, digests={"ab" * 32: ""}))
    target = publish(tmp_path / "list.json", folder, OWNER, namespace="acme")
    target.write_bytes(revoke(OWNER, None, digests={"cd" * 32: ""}))
    with pytest.raises(InvalidSignature, match="promises"):
        read_index(str(folder), "acme")


@pytest.mark.parametrize(
    "source",
    ["ftp://127.0.0.1/x", "file:///etc", "http://user:secret@127.0.0.1/x", "http:///x", "/nowhere", "gopher://x", ""],
)
def test_source_that_is_no_registry_is_refused_without_its_secret(home, source):
    with pytest.raises(Unreachable) as caught:
        read_index(source, "acme")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 307, 404, 500])
def test_redirects_and_errors_are_not_followed(home, serve, status):
    hits = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_GET(self):
            hits.append(self.path)
            self.send_response(status)
            self.send_header("Location", "/secret")
            self.end_headers()

        def log_message(self, *_arguments):
            pass

    with pytest.raises(Unreachable, match=str(status)):
        read_index(serve(Elsewhere), "acme")
    assert hits == ["/acme/index.json"]


def test_endless_answer_is_cut_off(home, serve):
    class Endless(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(bytes(1 << 20))
            except OSError:
                pass

        def log_message(self, *_arguments):
            pass

    with pytest.raises(InvalidPackage, match="larger than"):
        read_index(serve(Endless), "acme")


def test_index_says_what_is_there(registry):
    from paddock.trust.envelope import open_envelope

    folder = registry("1.0.0")
    opened = open_envelope((folder / "acme" / "index.json").read_bytes(), [OWNER.public], predicate_type=INDEX)
    (listed,) = opened.predicate["packages"]
    assert listed["file"] == "acme-maze-1.0.0.pad"
    assert opened.digest_of(listed["file"]) == listed["digest"]
    assert json.dumps(opened.predicate)

"""Package files: every bit counts, and what is hostile is refused before a byte is written."""

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from paddock.errors import InvalidManifest, InvalidPackage, InvalidSignature, Untrusted
from paddock.package import archive as format
from paddock.package import store
from paddock.package.pad import Pad, pack, sign
from paddock.trust.envelope import canonical_json
from paddock.trust.keyring import load_keyring
from tests.clocks import awake_s
from tests.conftest import SEED
from tests.package.signed import OWNER, STRANGER, archive, forge, list_file, release, trust, write_folder

FILES = {"paddock.toml": b"[package]\n", "maze_env.py": b"x = 1\n"}


def refuses(file):
    """Whether the whole check of a package refuses the file; any other error is a bug."""
    try:
        with Pad(file) as pad:
            pad.check_files()
            store.judge(pad, load_keyring())
    except (InvalidPackage, InvalidSignature, Untrusted):
        return True
    return False


@pytest.fixture
def twenty(tmp_path, home):
    """A signed package of twenty files whose signer is trusted."""
    files = {f"data/{number}.bin": bytes([number]) * number for number in range(18)}
    trust()
    return release(tmp_path / "maze", files=files)


def test_package_is_a_zip_that_others_read(twenty):
    with zipfile.ZipFile(twenty) as opened:
        assert opened.testzip() is None
        names = opened.namelist()
        assert json.loads(opened.read("manifest.json"))["serial"] == 1_000_000
    assert names[0] == "manifest.json"
    assert sum(name.startswith("env/") for name in names) == 20


def flip_bits(file, tmp_path, bits):
    good = file.read_bytes()
    target = tmp_path / "changed.pad"
    assert not refuses(file)
    for bit in bits:
        data = bytearray(good)
        data[bit // 8] ^= 1 << bit % 8
        target.write_bytes(data)
        assert refuses(target), f"bit {bit % 8} of byte {bit // 8}"


def test_every_bit_counts(twenty, tmp_path):
    total = 8 * twenty.stat().st_size
    random = np.random.default_rng(SEED)
    flip_bits(twenty, tmp_path, sorted(map(int, random.choice(total, 1500, replace=False))))


@pytest.mark.full
def test_every_bit_counts_all_of_them(twenty, tmp_path):
    flip_bits(twenty, tmp_path, range(8 * twenty.stat().st_size))


def test_truncated_and_extended_files_are_refused(twenty, tmp_path):
    good, target = twenty.read_bytes(), tmp_path / "changed.pad"
    for length in [*range(0, len(good), 97), len(good) - 1]:
        target.write_bytes(good[:length])
        assert refuses(target), length
    for more in (b"\0", b"PK", good, b" " * 22, good[-22:]):
        target.write_bytes(good + more)
        assert refuses(target)
        target.write_bytes(more + good)
        assert refuses(target)


def rezip(file, change):
    """The package as Python's zipfile writes it after ``change(entries)``: how a stranger would edit it."""
    with zipfile.ZipFile(file) as opened:
        entries = {name: opened.read(name) for name in opened.namelist()}
    change(entries)
    return archive(entries)


def rename(entries, old, new):
    items = [(new if name == old else name, data) for name, data in entries.items()]
    entries.clear()
    entries.update(items)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda entries: entries.pop("env/data/3.bin"), id="removed"),
        pytest.param(lambda entries: entries.update({"env/zz.py": b""}), id="added"),
        pytest.param(lambda entries: entries.update({"zz": b""}), id="added outside"),
        pytest.param(lambda entries: rename(entries, "env/data/3.bin", "env/data/3.bio"), id="renamed"),
        pytest.param(lambda entries: entries.update({"env/data/3.bin": b"\4" * 3}), id="other bytes"),
        pytest.param(lambda entries: entries.update({"env/data/3.bin": b"\3" * 4}), id="longer"),
        pytest.param(lambda entries: entries.pop("manifest.json"), id="no manifest"),
        pytest.param(lambda entries: rename(entries, "manifest.json", "Manifest.json"), id="manifest renamed"),
        pytest.param(
            lambda entries: [entries.pop(name) for name in list(entries) if name.startswith("signatures/")],
            id="unsigned",
        ),
        pytest.param(lambda entries: entries.update(manifest=entries.pop("manifest.json")), id="order"),
        pytest.param(lambda entries: entries.update({"signatures/x.dsse.json": b"{}"}), id="odd signature"),
    ],
)
def test_changed_package_is_refused(twenty, tmp_path, change):
    (tmp_path / "changed.pad").write_bytes(rezip(twenty, change))
    assert refuses(tmp_path / "changed.pad")


def test_changed_mode_is_refused(twenty, tmp_path):
    with zipfile.ZipFile(twenty) as opened:
        entries = {name: opened.read(name) for name in opened.namelist()}
    (tmp_path / "changed.pad").write_bytes(archive(entries, modes={"env/maze_env.py": 0o755}))
    assert refuses(tmp_path / "changed.pad")


def test_parts_of_two_releases_do_not_fit_together(tmp_path, home):
    trust()
    one = release(tmp_path / "one", version="1.0.0")
    two = release(tmp_path / "two", version="2.0.0", code="x = 2\n")
    with zipfile.ZipFile(one) as first, zipfile.ZipFile(two) as second:
        a, b = ({name: opened.read(name) for name in opened.namelist()} for opened in (first, second))
    signature = next(name for name in a if name.startswith("signatures/"))
    for part in ("manifest.json", signature, "env/maze_env.py", "env/paddock.toml"):
        (tmp_path / "mixed.pad").write_bytes(archive({**a, part: b[part]}))
        assert refuses(tmp_path / "mixed.pad"), part


# ── Hostile archives ──


def zipped(entries, *, comment=b"", compression=zipfile.ZIP_STORED, prefix=b""):
    """What Python's zipfile makes of (ZipInfo or name, bytes)."""
    out = io.BytesIO()
    out.write(prefix)
    with zipfile.ZipFile(out, "w", compression) as opened:
        for name, data in entries:
            opened.writestr(info(name) if isinstance(name, str) else name, data, compression)
        opened.comment = comment
    return out.getvalue()


def info(name, *, kind=0o100, mode=0o644, **fields):
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (kind << 9 | mode) << 16
    for field, value in fields.items():
        setattr(entry, field, value)
    return entry


class Utf8(str):
    """A name that is written as UTF-8 into an archive which is as it should be otherwise."""

    def encode(self, *_encoding):
        return super().encode("utf-8")


def in_unicode(*names):
    return archive({"manifest.json": b"{}", **{Utf8(f"env/{name}"): b"" for name in names}})


def patched(at, data, base=None):
    """A good archive with these bytes at a place, counted from the end if it is negative."""
    good = bytearray(forge(FILES) if base is None else base)
    start = at % len(good)
    good[start : start + len(data)] = data
    return bytes(good)


def local_and_central(field, data):
    """A good archive whose first entry has another field, in both of its headers."""
    good = bytearray(forge(FILES))
    central = good.index(b"PK\1\2")
    good[field : field + len(data)] = data
    good[central + field + 2 : central + field + 2 + len(data)] = data
    return bytes(good)


def overlapping():
    """Two entries in the list at the end that are the same bytes of the file."""
    data = b"abc"
    entry = format.Entry("manifest.json", 0o644, 3, zlib.crc32(data))
    twin = format.Entry("env/a", 0o644, 3, zlib.crc32(data))
    central = entry.central(0) + twin.central(0)
    body = entry.local + data
    return body + central + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, len(central), len(body), 0)


def doubled():
    """An archive that has an entry twice, and is as it should be otherwise."""
    out, entry = io.BytesIO(), format.Entry("manifest.json", 0o644, 2, zlib.crc32(b"{}"))
    format.write_archive(out, [(entry, [b"{}"])] * 2)
    return out.getvalue()


def many(count):
    return struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, 46 * count, 0, 0)


BAD_PATHS = {
    "parent": "../x.py",
    "parent within": "a/../../x.py",
    "parent at the end": "a/..",
    "here": "./x.py",
    "absolute": "/etc/x",
    "double slash": "a//b",
    "trailing slash": "a/",
    "drive": "C:x.py",
    "drive and path": "C:/x.py",
    "backslash": "a\\..\\x.py",
    "network share": "//host/share/x",
    "NUL": "x\0.py",
    "line break": "x\n.py",
    "escape": "x\x1b[2J.py",
    "stream": "x.py:stream",
    "hidden": ".hidden",
    "hidden folder": ".git/config",
    "dot at the end": "x.",
    "space at the end": "x ",
    "device": "con",
    "device with suffix": "aux.py",
    "device in capitals": "a/LPT1.txt",
    "question mark": "a?.py",
    "wildcard": "*.py",
    "quote": 'a".py',
    "pipe": "a|b",
    "too long": "a" * 300,
    "too long in all": "/".join(["a" * 100] * 5),
    "too deep": "/".join("abcdefghijklmnopqrst"),
    "empty": "",
    "tilde": "~/x.py",
    "path file": "x.pth",
    "path file in capitals": "x.PTH",
    "sitecustomize": "sitecustomize.py",
    "sitecustomize folder": "sitecustomize/__init__.py",
    "usercustomize": "usercustomize.py",
    "compiled": "x.pyc",
    "cache": "__pycache__/maze_env.cpython-311.pyc",
    "egg link": "x.egg-link",
}

MANY = {
    "schema": "paddock.package/1",
    "name": "acme/maze",
    "version": "1.0.0",
    "serial": 1,
    "description": "",
    "envs": [],
    "permissions": {},
    "dependencies": [],
    "expires": None,
    "files": [list_file(f"{number:04}", b"") for number in range(9_000)],
}
HOSTILE = {
    **{f"path: {name}": (lambda path=path: forge({**FILES, path: b"x"})) for name, path in BAD_PATHS.items()},
    "case collision": lambda: forge({**FILES, "Maze_env.py": b"x"}),
    "folder case collision": lambda: forge({**FILES, "Data": b"x", "data/x": b"y"}),
    "file and folder": lambda: forge({**FILES, "a": b"x", "a/b": b"y"}),
    "composed and decomposed name in Unicode": lambda: in_unicode("\u00e9.py", "e\u0301.py"),
    "wide and narrow name in Unicode": lambda: in_unicode("\uff41", "a"),
    "name in Unicode": lambda: in_unicode("\u00e9.py"),
    "decomposed name in Unicode": lambda: in_unicode("e\u0301.py"),
    "right to left": lambda: in_unicode("\u202eyp.x"),
    "duplicate": doubled,
    "link": lambda: forge(FILES, modes={"env/maze_env.py": 0o020644}),  # with the bits of a file those of a link
    "device file": lambda: zipped([(info("manifest.json", kind=0o020), b"")]),
    "pipe": lambda: zipped([(info("manifest.json", kind=0o010), b"")]),
    "folder": lambda: zipped([(info("env/", kind=0o040, mode=0o755), b"")]),
    "setuid": lambda: forge(FILES, modes={"env/maze_env.py": 0o4755}),
    "sticky": lambda: forge(FILES, modes={"env/maze_env.py": 0o1644}),
    "writable by all": lambda: forge(FILES, modes={"env/maze_env.py": 0o666}),
    "made on Windows": lambda: zipped([(info("manifest.json", create_system=0), b"")]),
    "deflated": lambda: zipped([("manifest.json", b"x" * 1000)], compression=zipfile.ZIP_DEFLATED),
    "bzip2": lambda: zipped([("manifest.json", b"x" * 1000)], compression=zipfile.ZIP_BZIP2),
    "lzma": lambda: zipped([("manifest.json", b"x" * 1000)], compression=zipfile.ZIP_LZMA),
    "bomb": lambda: zipped([("manifest.json", bytes(20_000_000))], compression=zipfile.ZIP_DEFLATED),
    "nested bomb": lambda: zipped(
        [("manifest.json", zipped([("x", bytes(9_000_000))], compression=zipfile.ZIP_DEFLATED))]
    ),
    "comment": lambda: zipped([("manifest.json", b"{}")], comment=b"hello"),
    "comment of an entry": lambda: zipped([(info("manifest.json", comment=b"x"), b"{}")]),
    "extra field": lambda: zipped([(info("manifest.json", extra=b"\x01\x00\x04\x00abcd"), b"{}")]),
    "another date": lambda: zipped([(info("manifest.json", date_time=(2026, 1, 1, 0, 0, 0)), b"{}")]),
    "prefix": lambda: zipped([("manifest.json", b"{}")], prefix=b"#!/bin/sh\n"),
    "trailing data": lambda: forge(FILES) + b"x",
    "second archive behind": lambda: forge(FILES) + forge(FILES),
    "encrypted": lambda: local_and_central(6, b"\1\0"),
    "data descriptor": lambda: local_and_central(6, b"\x08\0"),
    "flag for Unicode": lambda: local_and_central(6, b"\0\x08"),
    "another method": lambda: local_and_central(8, b"\x08\0"),
    "another version": lambda: local_and_central(4, b"\x2d\0"),
    "size that lies": lambda: local_and_central(22, b"\xff\xff\xff\x7f"),
    "size of zip64": lambda: local_and_central(18, b"\xff" * 8),
    "checksum that lies": lambda: local_and_central(14, b"\0\0\0\0"),
    "name of another length": lambda: local_and_central(26, b"\x0e\0"),
    "local name differs": lambda: patched(30, b"Manifest.json"),
    "list begins elsewhere": lambda: patched(-6, b"\0\0\0\0"),
    "list is longer": lambda: patched(-10, b"\xff\xff\0\0"),
    "fewer entries": lambda: patched(-14, b"\1\0\1\0"),
    "other disk": lambda: patched(-18, b"\1\0"),
    "counts differ": lambda: patched(-14, b"\1\0"),
    "overlap": overlapping,
    "too many entries": lambda: many(10_001),
    "65,535 entries": lambda: many(65_535),
    "65,536 entries, as zip64 has them": lambda: zipped([(f"env/{number}", b"") for number in range(65_536)]),
    "only an end": lambda: many(0),
    "empty": lambda: b"",
    "no zip": lambda: b"\x7fELF" + bytes(1000),
    "a tar": lambda: b"manifest.json".ljust(257, b"\0") + b"ustar" + bytes(1000),
    "manifest is no JSON": lambda: forge(FILES, manifest=b"\x93NUMPY"),
    "manifest is not canonical": lambda: forge(FILES, manifest=b'{ "schema":1}'),
    "manifest has a key twice": lambda: forge(FILES, manifest=b'{"name":"a/b","name":"c/d"}'),
    "manifest is deep": lambda: forge(FILES, manifest=b"[" * 100_000),
    "manifest is a list": lambda: forge(FILES, manifest=b"[]"),
    "manifest is huge": lambda: forge(FILES, manifest=b'"' + b"x" * (5 << 20) + b'"'),
    "another schema": lambda: forge(FILES, schema="paddock.package/2"),
    "unknown key": lambda: forge(FILES, run="setup.py"),
    "name of a path": lambda: forge(FILES, name="../maze"),
    "name in capitals": lambda: forge(FILES, name="Acme/maze"),
    "version of a path": lambda: forge(FILES, version="../1"),
    "negative serial": lambda: forge(FILES, serial=-1),
    "serial is true": lambda: forge(FILES, serial=True),
    "unknown permission": lambda: forge(FILES, permissions={"root": True}),
    "permission that is no number": lambda: forge(FILES, permissions={"cpu_s": {"$float": "x"}}),
    "expires at no time": lambda: forge(FILES, expires="never"),
    "file listed twice": lambda: forge(FILES, listed=[list_file("a", b""), list_file("a", b"")]),
    "file not listed": lambda: forge(FILES, listed=[list_file("paddock.toml", FILES["paddock.toml"])]),
    "listed with another digest": lambda: forge(
        FILES, listed=[list_file("maze_env.py", b"y = 1\n"), list_file("paddock.toml", FILES["paddock.toml"])]
    ),
    "listed as a link": lambda: forge(
        FILES, listed=[list_file("maze_env.py", b"x = 1\n", "0777"), list_file("paddock.toml", FILES["paddock.toml"])]
    ),
    "listed size is true": lambda: forge({"a": b"x"}, listed=[{**list_file("a", b"x"), "size": True}]),
    "thousands of files, and one has another name": lambda: archive(
        {"manifest.json": canonical_json(MANY), **{f"env/{number:04}": b"" for number in range(1, 9_001)}}
    ),
    "more files listed than there may be": lambda: forge(
        FILES, listed=[list_file(f"{number:06}", b"") for number in range(25_000)]
    ),
    "dependency is an object": lambda: forge(FILES, dependencies=[{"url": "file:///x"}]),
}


# The kinds of hostile archives that must be among them, each with some of its names above.
KINDS = {
    "zip-slip": ["path: parent", "path: parent within", "path: parent at the end"],
    "absolute": ["path: absolute", "path: network share"],
    "drive letters": ["path: drive", "path: drive and path"],
    "backslash": ["path: backslash"],
    "symlink entries": ["link", "listed as a link"],
    "duplicate names": ["duplicate", "file listed twice"],
    "case-fold collisions": ["case collision", "folder case collision"],
    "unicode-normalization collisions": ["composed and decomposed name in Unicode", "wide and narrow name in Unicode"],
    "zip bomb: ratio, nested, overlapping": ["bomb", "nested bomb", "overlap"],
    "wrong central directory": ["list begins elsewhere", "list is longer", "fewer entries", "local name differs"],
    "trailing data": ["trailing data", "second archive behind"],
    "more than 65,535 entries": ["65,536 entries, as zip64 has them"],
    "encrypted": ["encrypted"],
    "device names": ["path: device", "path: device with suffix", "path: device in capitals", "device file"],
    "setuid bits": ["setuid"],
    ".pth": ["path: path file", "path: path file in capitals"],
    "sitecustomize.py": ["path: sitecustomize", "path: sitecustomize folder", "path: usercustomize"],
}


def test_catalogue_of_hostile_archives_is_large_and_has_every_kind():
    assert len(HOSTILE) >= 60
    assert {name for names in KINDS.values() for name in names} <= HOSTILE.keys()


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archive_is_refused_before_a_byte_is_written(name, tmp_path, home):
    trust()
    file = tmp_path / "hostile.pad"
    file.write_bytes(HOSTILE[name]())
    before = sorted(home.rglob("*"))
    began_s = awake_s()
    with pytest.raises((InvalidPackage, InvalidSignature)):
        store.install(file, lambda _review: True)
    assert awake_s() - began_s < 1
    assert sorted(home.rglob("*")) == before


@pytest.mark.process
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_archives_take_little_memory(tmp_path, home):
    for number, name in enumerate(HOSTILE):
        (tmp_path / f"{number}.pad").write_bytes(HOSTILE[name]())
    code = (
        "import resource, sys; from pathlib import Path; from paddock.package.pad import Pad;"
        "from paddock.errors import PaddockError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for file in Path(sys.argv[1]).glob('*.pad'):\n"
        "    try: Pad(file).check_files()\n"
        "    except PaddockError: pass\n"
        "    else: sys.exit(f'{file} passed')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 64 * 1024


@given(some.binary(max_size=300), some.integers(0, 4000))
def test_any_bytes_are_a_package_or_one_error(noise, place):
    import tempfile

    good = forge(FILES)
    with tempfile.NamedTemporaryFile(suffix=".pad") as file:
        for data in (noise, good[:place] + noise + good[place + len(noise) :]):
            file.seek(0)
            file.truncate()
            file.write(data)
            file.flush()
            try:
                with Pad(file.name) as pad:
                    pad.check_files()
                assert data == good
            except (InvalidPackage, InvalidSignature):
                pass


def test_pipe_folder_and_device_are_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.pad")
    for path in (tmp_path / "pipe.pad", "/dev/zero", tmp_path):
        with pytest.raises(InvalidPackage, match="regular file"):
            Pad(path)


# ── Packing and signing ──


def test_packing_overwrites_only_an_unsigned_package(tmp_path):
    file = release(tmp_path / "maze")
    signed, folder = file.read_bytes(), tmp_path / "maze"
    with pytest.raises(InvalidPackage, match="is signed, and is not overwritten. Name another file with -o"):
        pack(folder, file)
    assert file.read_bytes() == signed
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidPackage, match="not a whole package"):
        pack(folder, tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"
    pack(folder, tmp_path / "other.pad")
    pack(folder, tmp_path / "other.pad")


def test_packing_leaves_out_what_is_hidden_or_made(tmp_path):
    files = {
        ".git/config": "x",
        ".env": "SECRET=1",
        "__pycache__/x.pyc": "x",
        "a/x.pyc": "x",
        "old.pad": "x",
        "a/b.txt": "x",
    }
    file = pack(write_folder(tmp_path / "maze", files=files), tmp_path / "x.pad")
    with Pad(file) as pad:
        assert [one.path for one in pad.files] == ["a/b.txt", "maze_env.py", "paddock.toml"]


@pytest.mark.parametrize("kind", ["link", "link to a folder", "pipe"])
def test_packing_refuses_links_and_pipes(tmp_path, kind):
    folder = write_folder(tmp_path / "maze")
    if kind == "pipe":
        os.mkfifo(folder / "x")
    else:
        (folder / "x").symlink_to("/etc" if kind == "link to a folder" else "/etc/passwd")
    with pytest.raises(InvalidPackage, match="is a link, or not a regular file"):
        pack(folder, tmp_path / "x.pad")
    assert not (tmp_path / "x.pad").exists()


def test_dependencies_must_be_locked(tmp_path):
    folder = write_folder(tmp_path / "maze")
    with (folder / "paddock.toml").open("a") as stream:
        stream.write('\n[dependencies]\nscipy = ">=1"\n')
    with pytest.raises(InvalidManifest, match="without hashes"):
        pack(folder, tmp_path / "x.pad")
    (folder / "lock").mkdir()
    (folder / "lock" / "requirements.txt").write_text(f"scipy==1.14.0 --hash=sha256:{'ab' * 32}\n")
    with Pad(pack(folder, tmp_path / "x.pad")) as pad:
        assert pad.manifest["dependencies"] == [f"scipy==1.14.0 --hash=sha256:{'ab' * 32}"]


@pytest.mark.parametrize(
    ("version", "more", "serial"),
    [
        ("1.2.3", "", 1_002_003),
        ("0.1", "", 1_000),
        ("2", "", 2_000_000),
        ("1.0rc1", "serial = 7", 7),
        ("1.2.3", "serial = 9", 9),
    ],
)
def test_serial_follows_from_the_version(tmp_path, version, more, serial):
    with Pad(pack(write_folder(tmp_path / "maze", version=version, more=more), tmp_path / "x.pad")) as pad:
        assert pad.manifest["serial"] == serial


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "1.0rc1"}, "serial = N"),
        ({"version": "1.0+local"}, "version"),
        ({"name": "maze"}, "owner/name"),
        ({"more": 'expires = "soon"'}, "expires"),
        ({"more": "serial = 0"}, "serial"),
        ({"more": "serial = 9223372036854775807"}, "more than 18 digits"),
    ],
)
def test_manifest_that_cannot_be_packed_names_the_key(tmp_path, change, words):
    with pytest.raises(InvalidManifest, match=words):
        pack(write_folder(tmp_path / "maze", **change), tmp_path / "x.pad")


def test_id_of_another_namespace_is_not_packed(tmp_path):
    folder = write_folder(tmp_path / "maze")
    text = (folder / "paddock.toml").read_text()
    (folder / "paddock.toml").write_text(text.replace('"Maze-v0"', '"other/Maze-v0"'))
    with pytest.raises(InvalidManifest, match="another namespace"):
        pack(folder, tmp_path / "x.pad")


def test_package_that_would_write_into_itself_is_not_packed(tmp_path):
    folder = write_folder(tmp_path / "maze")
    with (folder / "paddock.toml").open("a") as stream:
        stream.write('\n[permissions]\nwrite = ["./scratch"]\n')
    with pytest.raises(InvalidManifest, match="stays as it was signed"):
        pack(folder, tmp_path / "x.pad")


def test_signatures_add_up_and_each_counts_once(tmp_path, home):
    file = release(tmp_path / "maze")
    once = file.read_bytes()
    sign(file, OWNER)
    assert file.read_bytes() == once
    sign(file, STRANGER)
    with Pad(file) as pad:
        assert set(pad.signers) == {OWNER.public, STRANGER.public}


def test_signature_of_another_purpose_does_not_count(tmp_path):
    from hashlib import sha256

    from paddock.trust.envelope import seal, statement

    file = release(tmp_path / "maze")
    with Pad(file) as pad:
        digest, entries = pad.digest, {name: pad.archive.read(name) for name in pad.archive.entries}
    own = f"signatures/{OWNER.public.fingerprint}.dsse.json"
    said = {"name": "acme/maze", "version": "1.0.0", "serial": 1_000_000}
    for envelope in (
        seal(statement({"manifest.json": digest}, "urn:paddock:index:v1", said), [OWNER]),
        seal(statement({"run": digest}, "urn:paddock:package:v1", said), [OWNER]),
        seal(statement({"manifest.json": sha256(b"").hexdigest()}, "urn:paddock:package:v1", said), [OWNER]),
        seal(statement({"manifest.json": digest}, "urn:paddock:package:v1", {**said, "serial": 9}), [OWNER]),
        seal(statement({"manifest.json": digest}, "urn:paddock:package:v1", said), [OWNER, STRANGER]),
        seal(statement({"manifest.json": digest}, "urn:paddock:package:v1", said), [STRANGER]),
        seal(statement({"manifest.json": digest}, "urn:paddock:package:v1", said), [OWNER], "text/plain"),
        b" " + entries[own],
    ):
        (tmp_path / "changed.pad").write_bytes(archive({**entries, own: envelope}))
        with pytest.raises(InvalidSignature):
            Pad(tmp_path / "changed.pad")

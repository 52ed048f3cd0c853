"""Mutated manifests, indexes, lists, bundles and state: every parser is total, and nothing that was signed changes."""

import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from paddock.bench.bundle import LOG, PLAN, START, STATEMENT, read_bundle
from paddock.errors import InvalidBundle, InvalidManifest, InvalidPackage, InvalidSignature, Untrusted
from paddock.package import read_manifest, store
from paddock.package.pad import listed_files, read_package_manifest
from paddock.package.registry import INDEX, read_index
from paddock.trust.envelope import canonical_json, seal, statement
from paddock.trust.keyring import Keyring, TrustedKey, change_keyring, load_keyring, revoke
from tests.conftest import SEED
from tests.package.signed import OWNER, TOML, read_manifest_of, release, trust, write_folder

GOLDEN = Path(__file__).parents[1] / "bench" / "golden" / "toy"
MARKS = b'{}[]",:\\0aA=+/ \n\x00\xff.-#'


def mutations(good, rounds):
    """Bytes with one to three pieces changed, repeated, moved or left out."""
    random = np.random.default_rng(SEED)
    for _ in range(rounds):
        data = bytearray(good)
        for _ in range(int(random.integers(1, 4))):
            at, length, start = (int(random.integers(0, limit)) for limit in (len(data), 4, len(data)))
            moved = random.random() < 0.3
            data[at : at + length] = data[start : start + 12] if moved else MARKS[start % len(MARKS) :][:1]
        yield bytes(data)


def toml(tmp_path, _home):
    folder = write_folder(tmp_path / "maze")
    text = TOML.format(name="acme/maze", version="1.0.0", more="serial = 3\n") + (
        'kwargs = { a = [1, 2.5, "x"] }\nreward_range = [0.0, 1.0]\n'
        '[permissions]\nhosts = ["a.example:443"]\nmemory_mb = 512\n[dependencies]\nnumpy = ">=2,<3"\n'
    )

    def read(data):
        (folder / "paddock.toml").write_bytes(data)
        with suppress(InvalidManifest):
            read_manifest(folder)

    return text.encode(), read


def manifest(tmp_path, _home):
    def read(data):
        with suppress(InvalidPackage):
            listed_files(read_package_manifest(data))

    return canonical_json(read_manifest_of(release(tmp_path / "maze"))), read


def index(tmp_path, _home):
    trust()
    (tmp_path / "acme").mkdir()
    file = "acme-maze-1.0.0.pad"
    listed = [{"name": "acme/maze", "version": "1.0.0", "serial": 1, "digest": "ab" * 32, "file": file}]
    said = {"namespace": "acme", "serial": 1, "expires": "2199-01-01", "packages": listed, "revocations": {}}

    def read(data):
        (tmp_path / "acme" / "index.json").write_bytes(data)
        with suppress(InvalidSignature, Untrusted):
            assert list(read_index(str(tmp_path), "acme").packages) == listed

    return seal(statement({file: "ab" * 32}, INDEX, said), [OWNER]), read


def revocations(_tmp_path, _home):
    good = revoke(OWNER, None, digests={"ab" * 32: "bad"})

    def read(data):
        ring = Keyring()
        ring.add(TrustedKey(OWNER.public, ("acme",)))
        with suppress(InvalidSignature, Untrusted):
            ring.learn(data)
            assert ring.revoked[OWNER.public.fingerprint]["digests"].keys() == {"ab" * 32}

    return good, read


def keyring(_tmp_path, home):
    trust()
    with change_keyring() as ring:
        ring.learn(revoke(OWNER, None, digests={"ab" * 32: "bad"}))

    def read(data):
        (home / "trust.json").write_bytes(data)
        with suppress(InvalidSignature):
            load_keyring()

    return (home / "trust.json").read_bytes(), read


def packages(tmp_path, home):
    trust()
    store.install(release(tmp_path / "maze"), lambda _review: True)

    def read(data):
        (home / "packages.json").write_bytes(data)
        with suppress(InvalidPackage):
            store.installed_packages()
            store.grants()

    return (home / "packages.json").read_bytes(), read


def bundle(part):
    def prepare(tmp_path, _home):
        shutil.copytree(GOLDEN, tmp_path / "bundle")
        expected = read_bundle(GOLDEN).digest

        def read(data):
            (tmp_path / "bundle" / part).write_bytes(data)
            with suppress(InvalidBundle):
                assert read_bundle(tmp_path / "bundle").digest == expected

        return (GOLDEN / part).read_bytes(), read

    prepare.__name__ = part
    return prepare


PARSERS = [toml, manifest, index, revocations, keyring, packages, *map(bundle, (PLAN, START, LOG, STATEMENT))]


@pytest.mark.parametrize("rounds", [400, pytest.param(20_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("what", PARSERS, ids=lambda one: one.__name__)
def test_mutated_bytes_are_read_as_what_was_meant_or_refused(what, rounds, tmp_path, home):
    good, read = what(tmp_path, home)
    for data in (good, *mutations(good, rounds)):
        read(data)

"""Keys: files, fingerprints, and the edge cases of Ed25519 as Wycheproof has them, made from the curve itself."""

import os
import pickle
import stat
import subprocess
import sys

import pytest

from paddock.errors import DependencyNotInstalled, InvalidKey, StorageFull
from paddock.trust import files
from paddock.trust.keys import PublicKey, SigningKey
from tests.trust import curve

SEED = bytes(range(32))
MESSAGE = b"the exact bytes"
RFC_8032 = [
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe2"
        "4655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302ae"
        "eb00d291612bb0c00",
    ),
]


@pytest.fixture
def key():
    return SigningKey.generate()


@pytest.mark.parametrize(("public", "message", "signature"), RFC_8032)
def test_known_answers_verify(public, message, signature):
    assert PublicKey(bytes.fromhex(public)).verify(bytes.fromhex(signature), bytes.fromhex(message))


def forgeries():
    """(name, signature) that are not valid for MESSAGE and the key of SEED, though most satisfy some equation."""
    scalar = curve.secret_scalar(SEED)
    public = curve.encode(curve.multiply(scalar, curve.BASE))

    def sign(r_point, r_bytes=None, extra=0):
        r = r_bytes or curve.encode(r_point)
        return r, (7 + curve.challenge(r, public, MESSAGE) * scalar) % curve.L + extra

    point = curve.multiply(7, curve.BASE)
    r, s = sign(point)
    good = r + s.to_bytes(32, "little")
    yield "no signature", b""
    for length in (1, 31, 32, 33, 63):
        yield f"the first {length} bytes", good[:length]
    yield "one byte more", good + b"\0"
    yield "twice", good * 2
    yield "halves swapped", good[32:] + good[:32]
    yield "zeros", bytes(64)
    yield "ones", b"\xff" * 64
    yield "s is zero", r + bytes(32)
    yield "r is zero", bytes(32) + good[32:]
    for times in (1, 2, 8):
        if s + times * curve.L < 2**256:
            yield f"s plus {times} times the order", r + (s + times * curve.L).to_bytes(32, "little")
    yield "s is the order", r + curve.L.to_bytes(32, "little")
    yield "s is the order less one", r + (curve.L - 1).to_bytes(32, "little")
    yield "s negated", r + (curve.L - s).to_bytes(32, "little")
    yield "s has its highest bit set", r + (s | 1 << 255).to_bytes(32, "little")
    yield "r has the other sign", bytes([*r[:31], r[31] ^ 0x80]) + good[32:]
    yield "r is not on the curve", (2).to_bytes(32, "little") + good[32:]
    yield "r is not reduced", (curve.P + 1).to_bytes(32, "little") + good[32:]
    yield "the identity as r, s of it", curve.encode(curve.IDENTITY) + good[32:]
    identity = (curve.P + 1).to_bytes(32, "little")  # the identity's y, not reduced
    yield (
        "the equation holds for an r that is not reduced",
        identity + (curve.challenge(identity, public, MESSAGE) * scalar % curve.L).to_bytes(32, "little"),
    )
    for number, torsion in enumerate(curve.torsion_points()[1:], start=1):
        mixed = curve.encode(curve.add(point, torsion))
        _, other = sign(None, mixed)
        yield f"r with torsion {number}", mixed + other.to_bytes(32, "little")


def test_signature_made_from_the_curve_is_the_librarys():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    theirs = SigningKey(Ed25519PrivateKey.from_private_bytes(SEED))
    assert theirs.public.raw == curve.encode(curve.multiply(curve.secret_scalar(SEED), curve.BASE))


@pytest.mark.parametrize(("name", "signature"), [pytest.param(*one, id=one[0]) for one in forgeries()])
def test_edge_case_of_ed25519_is_refused(name, signature):
    public = PublicKey(curve.encode(curve.multiply(curve.secret_scalar(SEED), curve.BASE)))
    assert not public.verify(signature, MESSAGE)


def test_every_bit_of_signature_and_message_counts(key):
    signature = key.sign(MESSAGE)
    assert key.public.verify(signature, MESSAGE)
    for data, other in ((signature, False), (MESSAGE, True)):
        for bit in range(len(data) * 8):
            changed = bytearray(data)
            changed[bit // 8] ^= 1 << bit % 8
            pair = (signature, bytes(changed)) if other else (bytes(changed), MESSAGE)
            assert not key.public.verify(*pair), bit


def small_order_encodings():
    for point in curve.torsion_points():
        yield curve.encode(point)
        yield bytes([*curve.encode(point)[:31], curve.encode(point)[31] ^ 0x80])
        x, y = point
        if y + curve.P < 2**255:
            yield curve.encode((x, y + curve.P))


@pytest.mark.parametrize("raw", sorted({*small_order_encodings()}), ids=bytes.hex)
def test_key_of_small_order_is_refused(raw):
    with pytest.raises(InvalidKey):
        PublicKey(raw)


@pytest.mark.parametrize("raw", [b"", bytes(31), bytes(33), b"\xff" * 32, (curve.P + 3).to_bytes(32, "little")])
def test_what_is_not_a_key_is_refused(raw):
    with pytest.raises(InvalidKey):
        PublicKey(raw)


@pytest.mark.parametrize("password", [None, "pässwort"])
def test_key_survives_its_file(key, tmp_path, password):
    key.save(tmp_path / "key", password)
    loaded = SigningKey.load(tmp_path / "key", password)
    assert loaded.public == key.public
    assert loaded.sign(MESSAGE) == key.sign(MESSAGE)
    assert stat.S_IMODE(os.stat(tmp_path / "key").st_mode) == 0o600


def test_key_file_is_never_overwritten(key, tmp_path):
    key.save(tmp_path / "key")
    before = (tmp_path / "key").read_bytes()
    with pytest.raises(FileExistsError):
        SigningKey.generate().save(tmp_path / "key")
    assert (tmp_path / "key").read_bytes() == before
    assert os.listdir(tmp_path) == ["key"]


@pytest.mark.parametrize("password", [None, "", "wrong"])
def test_wrong_password_is_one_clear_error(key, tmp_path, password):
    key.save(tmp_path / "key", "right")
    with pytest.raises(InvalidKey, match=r"[Pp]assword"):
        SigningKey.load(tmp_path / "key", password)


@pytest.mark.parametrize("length", [0, 1, 60, -2])
@pytest.mark.parametrize("password", [None, "right"])
def test_truncated_key_file_is_refused(key, tmp_path, length, password):
    key.save(tmp_path / "key", password)
    (tmp_path / "short").write_bytes((tmp_path / "key").read_bytes().rstrip()[:length])
    with pytest.raises(InvalidKey):
        SigningKey.load(tmp_path / "short", password)


def test_another_kind_of_key_is_refused(tmp_path):
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import ec

    other = ec.generate_private_key(ec.SECP256R1())
    form = forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    (tmp_path / "key").write_bytes(other.private_bytes(*form))
    with pytest.raises(InvalidKey, match="another kind"):
        SigningKey.load(tmp_path / "key")


def test_missing_file_folder_and_pipe_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
        for kind in (SigningKey, PublicKey):
            with pytest.raises(InvalidKey):
                kind.load(path)


def test_public_key_survives_its_file(key, tmp_path):
    key.public.save(tmp_path / "key.pub")
    assert PublicKey.load(tmp_path / "key.pub") == key.public
    assert (tmp_path / "key.pub").read_text() == f"{key.public}\n"


def test_signing_key_in_the_place_of_a_public_one_is_named(key, tmp_path):
    key.save(tmp_path / "key")
    with pytest.raises(InvalidKey, match="stays secret"):
        PublicKey.load(tmp_path / "key")


@pytest.mark.parametrize("change", ["{}=", "{} x", "x{}", "ed25519:", "ED{}", "{}AAAA"])
def test_public_key_has_one_text(key, change):
    with pytest.raises(InvalidKey):
        PublicKey.parse(change.format(key.public))


def test_signing_key_shows_only_its_fingerprint_and_is_not_pickled(key):
    assert repr(key) == f"SigningKey(of {key.public.fingerprint})"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


def test_full_disk_leaves_nothing(key, tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(StorageFull, match="Nothing was changed"):
        key.save(tmp_path / "key")
    assert os.listdir(tmp_path) == []


@pytest.mark.process
def test_library_is_imported_only_when_needed_and_named_if_missing(monkeypatch):
    code = "import sys, paddock.trust.keys, paddock.trust.envelope; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(DependencyNotInstalled, match="pip install cryptography"):
        SigningKey.generate()

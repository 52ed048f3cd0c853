"""Ed25519 keys: who signed. A signing key is never printed, and a file of one is never overwritten."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.errors import DependencyNotInstalled, InvalidKey
from paddock.trust.files import read_bounded, write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_PREFIX = "ed25519:"
_MAX_FILE_BYTES = 1 << 14
_FIELD = 2**255 - 19
# The y of every point of small order. Whoever holds such a "key" has a signature that fits many messages.
_SMALL_ORDER = {
    0,
    1,
    _FIELD - 1,
    int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"),
    int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"),
}


def import_ed25519() -> Any:
    """Import the module that computes signatures, or DependencyNotInstalled with the command that installs it."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise DependencyNotInstalled("Signatures need cryptography. Run: pip install cryptography") from error
    return ed25519


@dataclass(frozen=True)
class PublicKey:
    """The half that everyone may know. Its text is ``ed25519:`` and 32 bytes as base64, also the line of a key file."""

    raw: bytes

    def __post_init__(self) -> None:
        y = int.from_bytes(self.raw, "little") & (2**255 - 1)
        if len(self.raw) != 32 or y >= _FIELD or y in _SMALL_ORDER:
            raise InvalidKey("This is not an Ed25519 public key, or one that anyone could sign for.")

    def __str__(self) -> str:
        return _PREFIX + base64.b64encode(self.raw).decode()

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Return the key with this text; InvalidKey for anything else."""
        try:
            raw = base64.b64decode(text.strip().removeprefix(_PREFIX), validate=True)
            key = cls(raw)
        except (binascii.Error, ValueError):
            raw = b""
        if not raw or str(key) != text.strip():
            raise InvalidKey(f"{text[:60]!r} is not a public key, as {_PREFIX}… that `paddock keygen` prints.")
        return key

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PublicKey:
        """Read the file that ``save`` wrote."""
        data = _read(path)
        if b"PRIVATE" in data:
            raise InvalidKey(f"{os.fspath(path)} is a signing key, which stays secret. Name the .pub file beside it.")
        return cls.parse(data.decode("ascii", "replace"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a new file."""
        write_new(path, f"{self}\n".encode(), 0o644)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the 32 bytes, in hexadecimal: what people compare."""
        return sha256(self.raw).hexdigest()

    def verify(self, signature: bytes, data: bytes) -> bool:
        """Whether this key signed these bytes."""
        import_ed25519()
        from cryptography.exceptions import InvalidSignature as WrongSignature

        try:
            self._key.verify(signature, data)
        except (WrongSignature, ValueError):
            return False
        return True

    @cached_property
    def _key(self) -> Ed25519PublicKey:
        key: Ed25519PublicKey = import_ed25519().Ed25519PublicKey.from_public_bytes(self.raw)
        return key


class SigningKey:
    """The secret half."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key().public_bytes_raw())

    def __repr__(self) -> str:
        return f"SigningKey(of {self.public.fingerprint})"

    def __reduce__(self) -> Any:
        raise TypeError("A signing key is not pickled: what holds it could be logged or sent. Load it from its file.")

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a new key."""
        return cls(import_ed25519().Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: str | os.PathLike[str], password: str | None = None) -> SigningKey:
        """Read a PEM file (PKCS 8). InvalidKey for a wrong password, another kind of key or a damaged file."""
        ed25519 = import_ed25519()
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        data = _read(path)
        encrypted = b"ENCRYPTED" in data
        if encrypted and password is None:
            raise InvalidKey(f"{os.fspath(path)} is encrypted. Give its password.")
        try:
            key = load_pem_private_key(data, None if password is None or not encrypted else password.encode())
        except (ValueError, TypeError, UnsupportedAlgorithm):
            why = "The password is wrong, or the file is damaged" if encrypted else "It is damaged, or no signing key"
            raise InvalidKey(f"{os.fspath(path)} can't be read. {why}; expected what `paddock keygen` wrote.") from None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise InvalidKey(f"{os.fspath(path)} is another kind of key; expected Ed25519, as `paddock keygen` writes.")
        return cls(key)

    def save(self, path: str | os.PathLike[str], password: str | None = None) -> None:
        """Write the key to a new file that only its owner may read."""
        from cryptography.hazmat.primitives import serialization as forms

        how = forms.NoEncryption() if password is None else forms.BestAvailableEncryption(password.encode())
        write_new(path, self._key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, how), 0o600)

    def sign(self, data: bytes) -> bytes:
        """Return the 64 bytes of the signature."""
        signature: bytes = self._key.sign(data)
        return signature


def _read(path: str | os.PathLike[str]) -> bytes:
    if Path(path).is_dir():
        raise InvalidKey(f"{os.fspath(path)} is a folder; name the key's file.")
    try:
        return read_bounded(path, _MAX_FILE_BYTES)
    except FileNotFoundError:
        raise InvalidKey(f"There is no key file {os.fspath(path)}. Make one with: paddock keygen") from None
    except ValueError as error:
        raise InvalidKey(str(error)) from None

"""Signed statements: in-toto Statement v1 in a DSSE envelope, both as canonical JSON.

An envelope is believed in one order only: the signature over the exact bytes first, then those same bytes are parsed.
A keyid in it is a hint and proves nothing; what counts is how many different keys signed. Ours hold the public key.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from paddock.errors import InvalidKey, InvalidSignature, Untrusted
from paddock.spaces.json_data import JsonLimits, NotJson, read_json
from paddock.trust.keys import PublicKey, SigningKey

IN_TOTO = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
MAX_SIGNATURES = 32
MAX_BYTES = 1 << 26  # of an envelope
_LIMITS = JsonLimits(text=MAX_BYTES, nesting=32, pieces=4_000_000, digits=19)  # 18, and a sign
_LARGEST = 10**18 - 1


def canonical_json(value: Any) -> bytes:
    """Write data in its one form: keys sorted, no spaces. ValueError for a float, a key that is not ASCII, a tuple.

    These are the bytes of RFC 8785 for such data. Integers have at most 18 digits.
    """
    _check(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def read_canonical(data: bytes, limits: JsonLimits = _LIMITS) -> Any:
    """Read what ``canonical_json`` wrote; NotJson for any other bytes, so that one value has one digest."""
    value = read_json(data, limits)
    try:
        same = canonical_json(value) == data
    except ValueError as error:
        raise NotJson(str(error)) from None
    if not same:
        raise NotJson("it is not in canonical form: keys sorted, no spaces")
    return value


def _check(value: Any) -> None:
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                raise ValueError(f"the key {ascii(key)[:60]} is not an ASCII text")
            _check(item)
    elif kind is list:
        for item in value:
            _check(item)
    elif kind is int:
        if not -_LARGEST <= value <= _LARGEST:
            raise ValueError("an integer of more than 18 digits; write it as a string")
    elif kind is not str and kind is not bool and value is not None:
        raise ValueError(f"a {kind.__name__} has no canonical JSON; expected text, integers, lists and objects")


def statement(subjects: Mapping[str, str], predicate_type: str, predicate: Mapping[str, Any]) -> dict[str, Any]:
    """Return an in-toto statement about ``subjects``: names, and SHA-256 digests in hexadecimal."""
    named = [{"name": name, "digest": {"sha256": digest}} for name, digest in subjects.items()]
    return {
        "_type": STATEMENT_TYPE,
        "subject": named,
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def seal(statement: Mapping[str, Any], keys: Sequence[SigningKey], payload_type: str = IN_TOTO) -> bytes:
    """Sign a statement with each of the keys, and return the envelope's bytes."""
    payload = canonical_json(dict(statement))
    signed = _encode(payload, payload_type)
    signatures = [{"keyid": str(key.public), "sig": base64.b64encode(key.sign(signed)).decode()} for key in keys]
    text = base64.b64encode(payload).decode()
    return canonical_json({"payload": text, "payloadType": payload_type, "signatures": signatures})


@dataclass(frozen=True)
class Opened:
    """A verified statement, and those of the keys that signed it."""

    statement: dict[str, Any]
    signers: tuple[PublicKey, ...]

    @property
    def predicate(self) -> dict[str, Any]:
        """The statement's predicate."""
        predicate: dict[str, Any] = self.statement["predicate"]
        return predicate

    def digest_of(self, name: str) -> str | None:
        """Return the SHA-256 of the subject with this name."""
        return next((one["digest"]["sha256"] for one in self.statement["subject"] if one["name"] == name), None)


def open_envelope(
    data: bytes, keys: Iterable[PublicKey], *, threshold: int = 1, payload_type: str = IN_TOTO, predicate_type: str = ""
) -> Opened:
    """Verify an envelope, then parse its statement. Signatures of keys that are not among ``keys`` count for nothing.

    InvalidSignature for what is not such an envelope, Untrusted if fewer than ``threshold`` of ``keys`` signed it.
    """
    if threshold < 1:
        raise ValueError(f"threshold={threshold}: expected 1 or more")
    payload, found_type, signatures = _read_envelope(data)
    if found_type != payload_type:
        raise InvalidSignature(f"The envelope holds {found_type[:80]!r}; expected {payload_type!r}.")
    signers = _find_signers(_encode(payload, found_type), signatures, tuple(dict.fromkeys(keys)))
    if len(signers) < threshold:
        names = tuple(key.fingerprint for key in _parse_hints(signatures))
        raise Untrusted(
            f"{len(signers)} of the trusted keys signed this, and {threshold} must. "
            f"It says that it was signed by: {', '.join(names) or 'no key that it names'}.",
            fingerprints=names,
        )
    return Opened(_read_statement(payload, predicate_type), signers)


def read_claimed_keys(data: bytes) -> tuple[PublicKey, ...]:
    """Return the keys that an envelope names as its signers'. Nothing is verified: anyone can write them."""
    return _parse_hints(_read_envelope(data)[2])


def _parse_hints(signatures: list[tuple[str, bytes]]) -> tuple[PublicKey, ...]:
    keys = []
    for hint, _ in signatures:
        with suppress(InvalidKey):
            keys.append(PublicKey.parse(hint))
    return tuple(dict.fromkeys(keys))


def _encode(payload: bytes, payload_type: str) -> bytes:
    """Return the bytes that are signed, DSSE's pre-authentication encoding: lengths leave nothing to interpret."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _find_signers(
    signed: bytes, signatures: list[tuple[str, bytes]], keys: tuple[PublicKey, ...]
) -> tuple[PublicKey, ...]:
    signers: list[PublicKey] = []
    for hint, signature in signatures:
        for key in sorted(keys, key=lambda key: str(key) != hint):  # the hint only saves time
            if key.verify(signature, signed):
                if key in signers:
                    raise InvalidSignature(f"The key {key.fingerprint} signed the envelope twice.")
                signers.append(key)
                break
    return tuple(signers)


def _read_envelope(data: bytes) -> tuple[bytes, str, list[tuple[str, bytes]]]:
    try:
        envelope = read_json(data, _LIMITS)
    except NotJson as error:
        raise InvalidSignature(f"This is not a signature's envelope: {error}") from None
    match envelope:
        case {"payload": str() as payload, "payloadType": str() as kind, "signatures": list() as listed} if (
            len(envelope) == 3 and 1 <= len(listed) <= MAX_SIGNATURES
        ):
            pass
        case _:
            raise InvalidSignature(
                f"An envelope has payload, payloadType and 1 to {MAX_SIGNATURES} signatures, and nothing else."
            )
    signatures = []
    for one in listed:
        match one:
            case {"keyid": str() as hint, "sig": str() as text} if len(one) == 2 and len(hint) <= 200:
                signatures.append((hint, _decode(text)))
            case _:
                raise InvalidSignature("A signature of the envelope is not a keyid and a sig.")
    if len({signature for _, signature in signatures}) != len(signatures):
        raise InvalidSignature("The envelope has the same signature twice.")
    return _decode(payload), kind, signatures


def _decode(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if not raw or base64.b64encode(raw).decode() != text:  # spare bits that differ are another text of the same bytes
        raise InvalidSignature("The envelope has a text that is not base64 in its one form.")
    return raw


def _read_statement(payload: bytes, predicate_type: str) -> dict[str, Any]:
    try:
        found = read_canonical(payload)
    except NotJson as error:
        raise InvalidSignature(f"What was signed is not a statement: {error}") from None
    match found:
        case {
            "_type": kind,
            "subject": list() as subjects,
            "predicateType": str() as predicate,
            "predicate": dict(),
        } if kind == STATEMENT_TYPE and len(found) == 4 and all(map(_is_subject, subjects)):
            pass
        case _:
            raise InvalidSignature("What was signed is not an in-toto statement, version 1.")
    if len({one["name"] for one in subjects}) != len(subjects):
        raise InvalidSignature("The statement has two subjects of the same name.")
    if predicate_type and predicate != predicate_type:
        raise InvalidSignature(f"The statement says {predicate[:80]!r}; expected {predicate_type!r}.")
    return found  # type: ignore[no-any-return]


def _is_subject(one: Any) -> bool:
    match one:
        case {"name": str(), "digest": {"sha256": str() as digest}}:
            return len(one) == 2 and len(digest) == 64 and set(digest) <= set("0123456789abcdef")
    return False

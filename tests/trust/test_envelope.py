"""Envelopes: the bytes are verified before they are parsed, and no second reading of them passes."""

import base64
import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from paddock.errors import InvalidSignature, Untrusted
from paddock.spaces.json_data import NotJson
from paddock.trust.envelope import (
    IN_TOTO,
    MAX_SIGNATURES,
    canonical_json,
    open_envelope,
    read_canonical,
    read_claimed_keys,
    seal,
    statement,
)
from paddock.trust.keys import SigningKey
from tests.conftest import SEED

A, B, C = (SigningKey.generate() for _ in range(3))
KEYS = [A.public, B.public, C.public]
SAID = statement({"run": "ab" * 32}, "urn:test", {"text": "sieben ✓", "list": [1, True, None, {"x": "y"}]})

plain = some.recursive(
    some.none() | some.booleans() | some.integers(-(10**18) + 1, 10**18 - 1) | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(some.characters(max_codepoint=127)), inner),
    max_leaves=12,
)


def encoded(data):
    return base64.b64encode(data).decode()


def change(envelope, **fields):
    return json.dumps({**json.loads(envelope), **fields}).encode()


def sign_raw(payload, payload_type=IN_TOTO, key=A):
    """An envelope around any bytes, with a signature that is right."""
    signed = b"DSSEv1 %d %b %d %b" % (len(payload_type), payload_type.encode(), len(payload), payload)
    entry = {"keyid": str(key.public), "sig": encoded(key.sign(signed))}
    return json.dumps({"payload": encoded(payload), "payloadType": payload_type, "signatures": [entry]}).encode()


def test_sealed_statement_opens():
    opened = open_envelope(seal(SAID, [A, B]), KEYS, threshold=2, predicate_type="urn:test")
    assert opened.statement == SAID
    assert opened.predicate["text"] == "sieben ✓"
    assert set(opened.signers) == {A.public, B.public}
    assert opened.digest_of("run") == "ab" * 32
    assert opened.digest_of("other") is None


def test_sealing_is_reproducible():
    assert seal(SAID, [A]) == seal(dict(reversed(SAID.items())), [A])


def test_signed_bytes_are_those_of_the_dsse_specification():
    envelope = json.loads(seal(SAID, [A]))
    payload = base64.b64decode(envelope["payload"])
    signed = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload)
    assert A.public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed)


@given(plain)
def test_canonical_json_reads_back(value):
    assert read_canonical(canonical_json(value)) == value


@pytest.mark.parametrize("value", [1.0, float("nan"), {1: 2}, {"é": 1}, (1,), 10**18, b"x", {"a": [0.5]}, {1, 2}])
def test_what_has_no_canonical_form_is_refused(value):
    with pytest.raises(ValueError):
        canonical_json(value)


@pytest.mark.parametrize(
    "text",
    [b'{"b":1,"a":2}', b'{"a": 1}', b"[1.0]", b"[1e2]", b'["\\u0041"]', b"[1] ", b'{"a":1,"a":1}', b"[-0]", b'"\\/"'],
)
def test_second_form_of_the_same_data_is_refused(text):
    with pytest.raises(NotJson):
        read_canonical(text)


def test_every_bit_of_an_envelope_counts():
    envelope = seal(SAID, [A])
    for bit in range(len(envelope) * 8):
        changed = bytearray(envelope)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            opened = open_envelope(bytes(changed), [A.public], predicate_type="urn:test")
        except (InvalidSignature, Untrusted):
            continue
        # Only the hint may differ, which proves nothing.
        assert opened.statement == SAID
        assert read_claimed_keys(bytes(changed)) != read_claimed_keys(envelope)


def mutate(rounds):
    """Envelopes with some bytes changed, moved or left out."""
    random = np.random.default_rng(SEED)
    envelope, marks = seal(SAID, [A]), b'{}[]",:\\0aA=+/ \n\x00\xff'
    for _ in range(rounds):
        data = bytearray(envelope)
        for _ in range(int(random.integers(1, 4))):
            at, length = int(random.integers(0, len(data))), int(random.integers(0, 3))
            start = int(random.integers(0, len(data)))
            piece = (
                data[start : start + 8] if random.random() < 0.3 else bytes([marks[int(random.integers(len(marks)))]])
            )
            data[at : at + length] = piece
        with suppress(InvalidSignature, Untrusted):
            assert open_envelope(bytes(data), [A.public], predicate_type="urn:test").statement == SAID


def test_mutated_envelope_never_says_anything_else():
    mutate(1_000)


@pytest.mark.full
def test_mutated_envelope_never_says_anything_else_at_length():
    mutate(100_000)


def test_truncated_envelope_is_refused():
    envelope = seal(SAID, [A])
    for length in range(0, len(envelope), 7):
        with pytest.raises(InvalidSignature):
            open_envelope(envelope[:length], KEYS)


def test_key_that_is_not_trusted_counts_for_nothing():
    with pytest.raises(Untrusted) as caught:
        open_envelope(seal(SAID, [A]), [B.public])
    assert caught.value.fingerprints == (A.public.fingerprint,)
    assert A.public.fingerprint in str(caught.value)
    opened = open_envelope(seal(SAID, [A, B]), [B.public])
    assert opened.signers == (B.public,)


def test_threshold_counts_different_keys():
    with pytest.raises(Untrusted, match="1 of the trusted keys signed this, and 2 must"):
        open_envelope(seal(SAID, [A, C]), [A.public, B.public], threshold=2)
    with pytest.raises(Untrusted):
        open_envelope(seal(SAID, [A]), [A.public, A.public], threshold=2)


@pytest.mark.parametrize("hint", ["same", "other", ""])
def test_signature_that_occurs_twice_is_refused(hint):
    envelope = seal(SAID, [A])
    (entry,) = json.loads(envelope)["signatures"]
    second = {**entry, "keyid": {"same": entry["keyid"], "other": str(B.public), "": ""}[hint]}
    with pytest.raises(InvalidSignature):
        open_envelope(change(envelope, signatures=[entry, second]), KEYS, threshold=2)


def test_keyid_is_only_a_hint():
    envelope = seal(SAID, [A])
    (entry,) = json.loads(envelope)["signatures"]
    lying = change(envelope, signatures=[{**entry, "keyid": str(B.public)}])
    assert open_envelope(lying, KEYS).signers == (A.public,)
    with pytest.raises(Untrusted):
        open_envelope(lying, [B.public])


def test_other_payload_type_is_refused():
    said = canonical_json(SAID)
    with pytest.raises(InvalidSignature, match="text/plain"):
        open_envelope(sign_raw(said, "text/plain"), KEYS)
    with pytest.raises(Untrusted):  # the type is part of what is signed
        open_envelope(change(sign_raw(said, "text/plain"), payloadType=IN_TOTO), KEYS)
    with pytest.raises(InvalidSignature):
        open_envelope(seal(SAID, [A]), KEYS, payload_type="text/plain")


def test_other_predicate_type_is_refused():
    with pytest.raises(InvalidSignature, match="urn:test"):
        open_envelope(seal(SAID, [A]), KEYS, predicate_type="urn:other")


@pytest.mark.parametrize(
    "alter",
    [
        pytest.param(lambda text: text + "=", id="padding"),
        pytest.param(lambda text: text.rstrip("="), id="no padding"),
        pytest.param(lambda text: text[:8] + "\n" + text[8:], id="line break"),
        pytest.param(lambda text: " " + text, id="space"),
        pytest.param(lambda text: text.replace("+", "-").replace("/", "_") + "-", id="the other alphabet"),
        pytest.param(lambda text: "", id="empty"),
        pytest.param(lambda text: text[:-3] + chr(ord(text[-3]) + 1) + "==", id="spare bits"),
    ],
)
def test_second_base64_of_the_same_bytes_is_refused(alter):
    envelope = json.loads(seal(SAID, [A]))
    (entry,) = envelope["signatures"]
    assert entry["sig"].endswith("==")
    with pytest.raises(InvalidSignature):
        open_envelope(json.dumps({**envelope, "signatures": [{**entry, "sig": alter(entry["sig"])}]}).encode(), KEYS)


def test_second_reading_of_the_json_is_refused():
    envelope = seal(SAID, [A])
    other = encoded(canonical_json({**SAID, "predicate": {}}))
    doubled = envelope.replace(b'{"payload":', b'{"payload":"%b","payload":' % other.encode(), 1)
    with pytest.raises(InvalidSignature, match="twice"):
        open_envelope(doubled, KEYS)
    said = canonical_json(SAID)
    for payload in (
        said.replace(b'"_type"', b'"_type":"x","_type"', 1),
        said + b" ",
        json.dumps(SAID).encode(),
        said.replace(b"[1,", b"[1.0,"),
    ):
        with pytest.raises(InvalidSignature):
            open_envelope(sign_raw(payload), KEYS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        b'{"payload":1,"payloadType":"x","signatures":[]}',
        b'{"payload":"eA==","payloadType":"x","signatures":[]}',
        b'{"payload":"eA==","payloadType":"x","signatures":[{"keyid":"","sig":"eA==","cert":""}]}',
        b'{"payload":"eA==","payloadType":"x","signatures":[null]}',
        b'{"payload":"eA==","payloadType":"x","signatures":{}}',
        b"\xff\xfe",
        b"1" * 10_000,
    ],
    ids=range(12),
)
def test_what_is_not_an_envelope_is_refused(data):
    with pytest.raises(InvalidSignature):
        open_envelope(data, KEYS)


def test_trailing_data_unknown_fields_and_too_many_signatures_are_refused():
    envelope = seal(SAID, [A])
    (entry,) = json.loads(envelope)["signatures"]
    many = [{**entry, "sig": encoded(bytes([number]) * 64)} for number in range(MAX_SIGNATURES)]
    for changed in (envelope + b"{}", change(envelope, more=1), change(envelope, signatures=[entry, *many])):
        with pytest.raises(InvalidSignature):
            open_envelope(changed, KEYS)


def test_unknown_signatures_beside_a_good_one_are_ignored():
    envelope = seal(SAID, [C, A])
    assert open_envelope(envelope, [A.public]).signers == (A.public,)


@pytest.mark.parametrize(
    "said",
    [
        {},
        [],
        {**SAID, "_type": "https://in-toto.io/Statement/v0.1"},
        {**SAID, "more": 1},
        {**SAID, "subject": [{"name": "run"}]},
        {**SAID, "subject": [{"name": "run", "digest": {"md5": "00"}}]},
        {**SAID, "subject": [{"name": "run", "digest": {"sha256": "AB" * 32}}]},
        {**SAID, "subject": SAID["subject"] * 2},
        {**SAID, "predicate": []},
    ],
    ids=range(9),
)
def test_signed_data_that_is_not_a_statement_is_refused(said):
    with pytest.raises(InvalidSignature):
        open_envelope(sign_raw(canonical_json(said)), KEYS)


@given(some.binary(max_size=200), some.integers(0, 400))
def test_any_bytes_are_an_envelope_or_one_error(noise, place):
    envelope = seal(SAID, [A])
    for data in (noise, envelope[:place] + noise + envelope[place + len(noise) :]):
        with suppress(InvalidSignature, Untrusted):
            assert open_envelope(data, [A.public]).statement == SAID

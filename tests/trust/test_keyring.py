"""The keyring: keys bound to namespaces, endorsements, revocations, time, and names that look alike."""

import json
import threading

import pytest

from paddock.errors import Downgrade, Expired, InvalidManifest, InvalidSignature, Revoked, Untrusted
from paddock.trust.envelope import seal, statement
from paddock.trust.keyring import REVOCATIONS, Keyring, TrustedKey, change_keyring, load_keyring, revoke
from paddock.trust.keys import SigningKey
from paddock.trust.names import find_lookalike
from paddock.trust.settings import Settings, read_settings

A, B, C, D = (SigningKey.generate() for _ in range(4))
DIGEST = "ab" * 32
FIRST_USE, PINNED = Settings(), Settings(mode="pinned")


def keyring(*trusted, **times):
    found = Keyring()
    for key, namespace in trusted:
        found.add(TrustedKey(key.public, (namespace,), **times))
    return found


def judge(ring, *signers, name="acme/maze", settings=FIRST_USE, **more):
    return ring.judge(name, DIGEST, [one.public for one in signers], settings, **more)


def test_key_of_the_namespace_is_enough_and_another_is_not():
    ring = keyring((A, "acme"), (B, "other"))
    assert judge(ring, A).how == "pinned"
    assert judge(ring, C, A).key == A.public
    for signer in (B, C):
        with pytest.raises(Untrusted) as caught:
            judge(ring, signer)
        assert A.public.fingerprint in str(caught.value)
        assert caught.value.fingerprints == (signer.public.fingerprint,)
    with pytest.raises(Untrusted, match="trusted for other only"):
        judge(ring, B)


def test_first_use_is_for_a_namespace_without_a_key():
    assert judge(Keyring(), A).how == "new"
    with pytest.raises(Untrusted, match="several signers"):
        judge(Keyring(), A, B)
    with pytest.raises(Untrusted, match="paddock trust add"):
        judge(Keyring(), A, settings=PINNED)


@pytest.mark.parametrize(
    "namespace",
    ["acrne", "acm3", "acne", "ac-me", "a_cme", "acmes", "acm", "amce", "paddock", "padd0ck", "gymnaslum", "openemv"],
)
def test_namespace_that_can_be_taken_for_another_is_not_met_on_first_use(namespace):
    with pytest.raises(Untrusted, match="can be taken for"):
        judge(keyring((A, "acme")), B, name=f"{namespace}/maze")
    ring = keyring((A, "acme"), (B, namespace))
    assert judge(ring, B, name=f"{namespace}/maze").how == "pinned"  # the user knows better


@pytest.mark.parametrize("namespace", ["globex", "initech", "acme-robotics", "acmeworld", "gym"])
def test_another_name_is_met_on_first_use(namespace):
    assert judge(keyring((A, "acme")), B, name=f"{namespace}/maze").how == "new"


def test_names_that_look_alike():
    assert find_lookalike("CartPo1e", ["CartPole"]) == "CartPole"
    assert find_lookalike("CartPоle", ["CartPole"]) == "CartPole"  # a Cyrillic o, one letter away
    assert find_lookalike("cart-pole", ["CartPole"]) == "CartPole"
    assert find_lookalike("CartPloe", ["CartPole"]) == "CartPole"
    assert find_lookalike("CartPole", ["CartPole"]) is None
    assert find_lookalike("Acrobot", ["CartPole"]) is None
    assert find_lookalike("go", ["ga"]) is None


@pytest.mark.parametrize(
    ("signers", "enough"), [([A, B], True), ([A, B, C], True), ([A, D], False), ([A], False), ([D], False)]
)
def test_endorsements_count_different_keys(signers, enough):
    settings = Settings("endorsed", endorsers=(A.public, B.public, C.public), threshold=2)
    if enough:
        assert judge(Keyring(), *signers, settings=settings).how == "endorsed"
    else:
        with pytest.raises(Untrusted, match="2 of the 3"):
            judge(Keyring(), *signers, settings=settings)


def test_endorsed_package_still_needs_its_owner_where_one_is_known():
    settings = Settings("endorsed", endorsers=(A.public, B.public), threshold=2)
    ring = keyring((D, "acme"))
    with pytest.raises(Untrusted):
        judge(ring, A, B, settings=settings)
    assert judge(ring, A, B, D, settings=settings).key == D.public


# ── Time ──


def test_key_counts_from_one_day_to_another(monkeypatch):
    ring = keyring((A, "acme"), not_before="2026-06-01", not_after="2026-06-30")
    for day, good in (("2026-05-31", False), ("2026-06-01", True), ("2026-06-30", True), ("2026-07-01", False)):
        monkeypatch.setattr(Keyring, "today", lambda _self, day=day: day)
        if good:
            assert judge(ring, A).how == "pinned"
        else:
            with pytest.raises(Expired, match=day):
                judge(ring, A)
    assert judge(ring, A, installed=True).how == "pinned"


def test_key_that_was_met_on_first_use_is_not_one_that_was_added():
    ring = Keyring()
    ring.add(TrustedKey(A.public, ("acme",), "first use"))
    assert judge(ring, A).how == "first use"
    with pytest.raises(Untrusted, match="no key was added for 'acme'"):
        judge(ring, A, settings=PINNED)
    judge(ring, A, settings=PINNED, installed=True)
    ring.add(TrustedKey(A.public, ("acme",)))
    assert judge(ring, A, settings=PINNED).how == "pinned"


def test_time_of_a_key_holds_in_a_namespace_that_it_is_new_to():
    ring = keyring((A, "acme"), not_after="2020-01-01")
    with pytest.raises(Expired):
        judge(ring, A, name="globex/maze")
    ring.add(TrustedKey(A.public, ("globex",), "first use"))
    assert ring.keys[A.public.fingerprint] == TrustedKey(A.public, ("acme", "globex"), not_after="2020-01-01")


def test_clock_that_is_set_back_makes_nothing_valid_again(home, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    with change_keyring() as ring:
        ring.add(TrustedKey(A.public, ("acme",), not_after="2026-12-31"))
    assert load_keyring().today() == "2027-01-15"
    monkeypatch.setattr("time.time", lambda: 1_700_000_000.0)
    assert load_keyring().today() == "2027-01-15"
    with pytest.raises(Expired):
        judge(load_keyring(), A)


@pytest.mark.parametrize("date", ["soon", "2026-13-01", "2026-1-1", "20260101", ""])
def test_what_is_not_a_date_is_refused(date):
    with pytest.raises(ValueError, match="not a date"):
        keyring((A, "acme"), not_after=date)


# ── Revocations ──


def test_revoked_key_and_package_are_refused():
    ring = keyring((A, "acme"), (B, "acme"))
    ring.learn(revoke(B, None, keys={A.public.fingerprint: "stolen"}))
    with pytest.raises(Revoked, match="stolen"):
        judge(ring, A)
    with pytest.raises(Revoked):
        judge(ring, A, installed=True)
    assert judge(ring, A, B).key == B.public
    ring.learn(revoke(B, None, digests={DIGEST: "bad"}))
    with pytest.raises(Revoked, match="bad"):
        judge(ring, B)


def test_other_signatures_beside_that_of_a_revoked_key_make_nothing_good():
    ring = keyring((A, "acme"), (B, "acme"))
    ring.learn(revoke(B, None, keys={A.public.fingerprint: "stolen"}))
    for signers in ((A, C), (C, A)):
        with pytest.raises(Revoked, match="stolen"):
            judge(ring, *signers, installed=True)
    assert judge(ring, A, C, B, installed=True).how == "pinned"


def test_owner_of_one_namespace_revokes_nothing_of_another():
    ring = keyring((A, "acme"), (B, "other"))
    ring.learn(revoke(B, None, keys={A.public.fingerprint: "jealous"}, digests={DIGEST: ""}))
    assert judge(ring, A).how == "pinned"


def test_list_of_a_stranger_is_refused():
    ring = keyring((A, "acme"))
    with pytest.raises(Untrusted):
        ring.learn(revoke(B, None, keys={A.public.fingerprint: ""}))
    assert ring.revoked == {}


def test_entry_is_never_forgotten():
    ring = keyring((A, "acme"), (B, "acme"))
    first = revoke(B, None, keys={A.public.fingerprint: "stolen"})
    second = revoke(B, first, digests={DIGEST: ""})
    assert ring.learn(second) == 2
    with pytest.raises(Downgrade):
        ring.learn(first)
    shorter = seal(statement({}, REVOCATIONS, {"serial": 3, "keys": {}, "digests": {}}), [B])
    assert ring.learn(shorter) == 3
    ring.keys.pop(B.public.fingerprint)
    with pytest.raises(Revoked):
        judge(ring, A)


def test_a_key_that_was_revoked_revokes_nothing_more():
    ring = keyring((A, "acme"), (B, "acme"), (C, "other"))
    first_day = revoke(A, None, keys={A.public.fingerprint: "lost"})
    ring.learn(first_day)
    with pytest.raises(Revoked, match="nothing more"):
        ring.learn(revoke(A, first_day, keys={B.public.fingerprint: "by the thief"}))
    assert judge(ring, B).how == "pinned"
    assert ring.learn(first_day) == 1  # what was read once may be read again
    ring.learn(revoke(C, None, keys={B.public.fingerprint: "jealous"}))
    ring.learn(revoke(B, None, digests={DIGEST: ""}))  # the owner of another namespace stops nobody
    with pytest.raises(Revoked):
        judge(ring, B)


def test_list_grows_only_under_its_own_key():
    with pytest.raises(Untrusted):
        revoke(B, revoke(A, None, digests={DIGEST: ""}), digests={"cd" * 32: ""})


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"serial": 0, "keys": {}, "digests": {}},
        {"serial": 1, "keys": [], "digests": {}},
        {"serial": 1, "keys": {"short": {"reason": "", "date": ""}}, "digests": {}},
        {"serial": 1, "keys": {}, "digests": {DIGEST: {"reason": 1, "date": ""}}},
        {"serial": 1, "keys": {}, "digests": {}, "more": 1},
    ],
    ids=range(6),
)
def test_signed_list_that_is_malformed_is_refused(said):
    ring = keyring((A, "acme"))
    with pytest.raises(InvalidSignature):
        ring.learn(seal(statement({}, REVOCATIONS, said), [A]))
    assert ring.revoked == {}


def test_package_signature_is_not_a_revocation_list():
    with pytest.raises(InvalidSignature):
        keyring((A, "acme")).learn(seal(statement({}, "urn:paddock:package:v1", {}), [A]))


# ── The file ──


def test_keyring_survives_its_file(home):
    with change_keyring() as ring:
        ring.add(TrustedKey(A.public, ("acme",), "first use", not_after="2199-01-01"))
        ring.learn(revoke(A, None, digests={DIGEST: "x"}))
        ring.indexes["acme"] = 4
    found = load_keyring()
    assert found.keys[A.public.fingerprint] == TrustedKey(A.public, ("acme",), "first use", None, "2199-01-01")
    assert found.revoked[A.public.fingerprint]["digests"][DIGEST]["reason"] == "x"
    assert found.indexes == {"acme": 4}


def test_change_that_raises_is_not_written(home):
    with pytest.raises(ZeroDivisionError), change_keyring() as ring:
        ring.add(TrustedKey(A.public, ("acme",)))
        raise ZeroDivisionError
    assert load_keyring().keys == {}


def test_changes_at_once_are_all_kept(home):
    keys = [SigningKey.generate() for _ in range(8)]

    def add(key):
        with change_keyring() as ring:
            ring.add(TrustedKey(key.public, ("acme",)))

    threads = [threading.Thread(target=add, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(load_keyring().keys) == {key.public.fingerprint for key in keys}


def test_signing_key_is_not_in_the_file(home):
    with change_keyring() as ring:
        ring.add(TrustedKey(A.public, ("acme",)))
    text = (home / "trust.json").read_text()
    assert set(json.loads(text)) == {"keys", "revoked", "indexes", "latest_s"}
    assert "PRIVATE" not in text


# ── Settings ──


def write_settings(home, text):
    home.mkdir(exist_ok=True)
    (home / "trust.toml").write_text(text)


def test_settings_have_defaults_and_are_read(home):
    assert read_settings() == Settings("first-use", "none")
    keys = f'keys = ["{A.public}", "{B.public}"]'
    write_settings(
        home, f'mode = "endorsed"\nthird_party = "sandbox"\nregistry = "x"\n[endorsed]\n{keys}\nthreshold = 2\n'
    )
    assert read_settings() == Settings("endorsed", "sandbox", (A.public, B.public), 2, "x")


def test_user_without_a_home_has_no_settings_and_trusts_nobody(monkeypatch):
    for name in ("HOME", "PADDOCK_HOME", "PADDOCK_TRUST", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)

    def refuse(_user):
        raise KeyError("no such user")

    monkeypatch.setattr("pwd.getpwuid", refuse)
    assert read_settings() == Settings()
    assert load_keyring() == Keyring()


def test_strict_is_stricter(home, monkeypatch):
    monkeypatch.setenv("PADDOCK_TRUST", "strict")
    assert read_settings() == Settings("pinned", "sandbox")
    monkeypatch.setenv("PADDOCK_TRUST", "strikt")
    with pytest.raises(InvalidManifest, match="strict"):
        read_settings()


@pytest.mark.parametrize(
    "text",
    [
        'mode = "anyone"',
        "mode = 1",
        'third_party = "host"',
        'moed = "pinned"',
        "mode",
        "registry = 1",
        'mode = "endorsed"',
        "[endorsed]\nkeys = []\nthreshold = 1",
        "[endorsed]\nkeys = 1\nthreshold = 1",
        '[endorsed]\nkeys = ["ed25519:AAAA"]\nthreshold = 1',
        f'[endorsed]\nkeys = ["{A.public}", "{A.public}"]\nthreshold = 2',
    ],
)
def test_settings_that_make_no_sense_are_refused(home, text):
    write_settings(home, text)
    with pytest.raises(InvalidManifest, match=r"trust\.toml"):
        read_settings()

"""Who may sign what: keys bound to namespaces, and what was revoked. One file, ``trust.json``, changed in one piece.

A key that is removed signs nothing new; what it signed before stays. A revoked key or package is refused for ever, here
and without a network: no later list takes an entry back.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from paddock.errors import Downgrade, Expired, InvalidSignature, Revoked, Untrusted
from paddock.spaces.json_data import JsonLimits, NotJson, read_json
from paddock.trust.envelope import open_envelope, read_claimed_keys, seal, statement
from paddock.trust.files import data_folder, lock_file, read_bounded
from paddock.trust.keys import PublicKey, SigningKey
from paddock.trust.log import Event, write_logged
from paddock.trust.names import RESERVED, find_lookalike
from paddock.trust.settings import Settings

REVOCATIONS = "urn:paddock:revocations:v1"
_LIMITS = JsonLimits(text=1 << 26, nesting=8)
_MAX_ENTRIES = 100_000


@dataclass(frozen=True)
class TrustedKey:
    """A key, the namespaces that it may sign for, and from when until when. ``how``: "pinned" or "first use"."""

    key: PublicKey
    namespaces: tuple[str, ...]
    how: str = "pinned"
    not_before: str | None = None
    not_after: str | None = None

    def check_time(self, today: str) -> None:
        """Raise Expired outside of the key's time."""
        if self.not_before is not None and today < self.not_before:
            raise Expired(f"The key {self.key.fingerprint} is valid from {self.not_before}; today is {today}.")
        if self.not_after is not None and today > self.not_after:
            raise Expired(
                f"The key {self.key.fingerprint} was valid until {self.not_after}; today is {today}. Ask its owner for "
                f"the new one, and add it with: paddock trust add"
            )


@dataclass(frozen=True)
class Verdict:
    """Why a package may be installed: "pinned", "first use", "endorsed", or "new" for a key that must be confirmed."""

    how: str
    key: PublicKey


@dataclass
class Keyring:
    """The contents of ``trust.json``. ``revoked`` only ever grows."""

    keys: dict[str, TrustedKey] = field(default_factory=dict)  # by fingerprint
    revoked: dict[str, dict[str, Any]] = field(default_factory=dict)  # by the fingerprint of the key that says so
    indexes: dict[str, int] = field(default_factory=dict)  # the highest serial of each namespace's index
    latest_s: int = 0  # the latest time that this machine had: a clock that is set back makes nothing valid again

    def today(self) -> str:
        """The date in UTC; never earlier than one that was met before."""
        now_s = max(int(time.time()), self.latest_s)
        return datetime.fromtimestamp(now_s, timezone.utc).date().isoformat()

    def bound_to(self, namespace: str) -> list[TrustedKey]:
        """Return the keys that may sign for this namespace, whether their time has come or not."""
        return [one for one in self.keys.values() if namespace in one.namespaces]

    def judge(
        self, name: str, digest: str, signers: Sequence[PublicKey], settings: Settings, *, installed: bool = False
    ) -> Verdict:
        """Say why what these keys signed is trusted, or raise Untrusted, Revoked or Expired.

        ``installed``: it was trusted when it was installed, so its keys may have ended or have been removed since; then
        ``how`` is empty.
        """
        namespace = name.partition("/")[0]
        standing = self._refuse_revoked(name, digest, signers)
        added_only = settings.mode == "pinned"
        bound = {one.key: one for one in self.bound_to(namespace) if not added_only or one.how == "pinned"}
        known = next((bound[key] for key in standing if key in bound), None)
        if installed:
            if known is None:  # a thief signs with other keys beside the stolen one: they make nothing good
                for key in signers:
                    self._refuse_revoked(name, digest, [key])
            return Verdict("" if known is None else known.how, standing[0])
        endorsers = [key for key in standing if key in settings.endorsers]
        if settings.mode == "endorsed" and len(endorsers) < settings.threshold:
            raise Untrusted(
                f"{name} has {len(endorsers)} endorsements, and {settings.threshold} of the {len(settings.endorsers)} "
                f"keys in trust.toml must have signed it.",
                fingerprints=_fingerprints(signers),
            )
        if known is not None:
            known.check_time(self.today())
            return Verdict(known.how, known.key)
        if bound:
            raise Untrusted(self._describe_stranger(name, namespace, signers), fingerprints=_fingerprints(signers))
        if settings.mode == "endorsed":
            return Verdict("endorsed", endorsers[0])
        return self._meet(name, namespace, standing, settings)

    def judge_index(self, namespace: str, signer: PublicKey) -> bool:
        """Whether the key of an index is one of the namespace's; False if that has none yet, Untrusted for another."""
        self._refuse_revoked(f"{namespace}/index", "", [signer])
        known = next((one for one in self.bound_to(namespace) if one.key == signer), None)
        if known is not None:
            known.check_time(self.today())
        elif self.bound_to(namespace):
            raise Untrusted(self._describe_stranger(f"{namespace}'s index", namespace, [signer]))
        return known is not None

    def _meet(self, name: str, namespace: str, signers: Sequence[PublicKey], settings: Settings) -> Verdict:
        """Judge the first package of a namespace that has no key here."""
        prints = _fingerprints(signers)
        how_to = f"Add the owner's key, from its owner: paddock trust add KEYFILE --namespace {namespace}"
        if settings.mode != "first-use":
            raise Untrusted(
                f"{name} is signed by {', '.join(prints)}, and no key was added for {namespace!r}. {how_to}",
                fingerprints=prints,
            )
        known = {one for trusted in self.keys.values() for one in trusted.namespaces}
        near = namespace if namespace in RESERVED else find_lookalike(namespace, sorted({*known, *RESERVED}))
        if near is not None:
            raise Untrusted(f"{namespace!r} can be taken for {near!r}: its key is not trusted on first use. {how_to}")
        if len(signers) != 1:
            raise Untrusted(f"{name} has several signers, and any could be the owner. {how_to}", fingerprints=prints)
        if (elsewhere := self.keys.get(prints[0])) is not None:
            elsewhere.check_time(self.today())
        return Verdict("new", signers[0])

    def _refuse_revoked(self, name: str, digest: str, signers: Sequence[PublicKey]) -> list[PublicKey]:
        """Return the signers that were not revoked."""
        namespace = name.partition("/")[0]
        lists = [one for one in self.revoked.values() if namespace in one["namespaces"]]
        if (why := _find(lists, "digests", digest)) is not None:
            raise Revoked(f"{name}, digest {digest}, was revoked{why}. It is refused for good.")
        reasons = {key: _find(lists, "keys", key.fingerprint) for key in signers}
        standing = [key for key, why in reasons.items() if why is None]
        if not standing:
            key, why = next(iter(reasons.items()))
            raise Revoked(
                f"{name} is signed by {key.fingerprint}, which was revoked{why}. Ask the owner for a package that the "
                f"new key signed.",
                fingerprints=_fingerprints(signers),
            )
        return standing

    def _describe_stranger(self, name: str, namespace: str, signers: Sequence[PublicKey]) -> str:
        owners = " or ".join(one.key.fingerprint for one in self.bound_to(namespace))
        others = [
            f" That key is trusted for {', '.join(self.keys[one.fingerprint].namespaces)} only."
            for one in signers
            if one.fingerprint in self.keys
        ]
        return (
            f"{name} is signed by {', '.join(_fingerprints(signers))}, but {namespace!r} belongs to {owners}."
            f"{''.join(others[:1])} If its owner changed the key, ask them, and then: paddock trust add KEYFILE "
            f"--namespace {namespace}"
        )

    def add(self, trusted: TrustedKey) -> None:
        """Trust a key for more namespaces. One that was met on first use becomes pinned, and never the other way."""
        for bound in (trusted.not_before, trusted.not_after):
            _check_date(bound)
        before = self.keys.get(trusted.key.fingerprint, trusted)
        namespaces = tuple(dict.fromkeys([*before.namespaces, *trusted.namespaces]))
        kept = before if trusted.how == "first use" else trusted
        self.keys[trusted.key.fingerprint] = replace(kept, namespaces=namespaces)

    def learn(self, data: bytes) -> int:
        """Take over a signed revocation list, and return its serial. Only keys that are trusted here can revoke."""
        claimed = read_claimed_keys(data)
        opened = open_envelope(data, claimed, predicate_type=REVOCATIONS)
        issuer = opened.signers[0]
        entries = _read_entries(opened.predicate)
        trusted = self.keys.get(issuer.fingerprint)
        if trusted is None:
            raise Untrusted(
                f"The revocations are signed by {issuer.fingerprint}, which is not trusted here. Add that key first.",
                fingerprints=(issuer.fingerprint,),
            )
        nothing: dict[str, Any] = {"serial": 0, "namespaces": [], "keys": {}, "digests": {}}
        before = self.revoked.get(issuer.fingerprint, nothing)
        lists = [one for one in self.revoked.values() if {*one["namespaces"]} & {*trusted.namespaces}]
        more = any(entries[kind].keys() - before[kind].keys() for kind in ("keys", "digests"))
        if more and (why := _find(lists, "keys", issuer.fingerprint)) is not None:
            raise Revoked(
                f"The list is signed by {issuer.fingerprint}, which was revoked{why}: it can revoke nothing more.",
                fingerprints=(issuer.fingerprint,),
            )
        if entries["serial"] < before["serial"]:
            raise Downgrade(
                f"The revocation list has the serial {entries['serial']}, and this machine knows {before['serial']}."
            )
        if entries["keys"].keys() - before["keys"].keys():  # a thief may have run the serial of the index up
            for namespace in trusted.namespaces:
                self.indexes.pop(namespace, None)
        self.revoked[issuer.fingerprint] = before
        before["serial"] = entries["serial"]
        before["namespaces"] = sorted({*before["namespaces"], *trusted.namespaces})
        for kind in ("keys", "digests"):
            before[kind] = {**entries[kind], **before[kind]}
        return int(entries["serial"])

    def check_index(self, namespace: str, serial: int) -> None:
        """Raise Downgrade for an index older than one that was read before."""
        if serial < self.indexes.get(namespace, 0):
            raise Downgrade(
                f"The index of {namespace!r} has the serial {serial}, and {self.indexes[namespace]} was read before. "
                f"It is an old copy; ask whoever serves it for the new one."
            )

    def to_dict(self) -> dict[str, Any]:
        """Return the contents as plain data."""
        keys = {
            name: {
                "key": str(one.key),
                "namespaces": list(one.namespaces),
                "how": one.how,
                "not_before": one.not_before,
                "not_after": one.not_after,
            }
            for name, one in self.keys.items()
        }
        return {"keys": keys, "revoked": self.revoked, "indexes": self.indexes, "latest_s": self.latest_s}


def load_keyring() -> Keyring:
    """Read ``trust.json`` of the user's data folder; without one nobody is trusted."""
    try:
        plain = read_json(read_bounded(_file(), 1 << 26), _LIMITS)
        keys = {
            name: TrustedKey(
                PublicKey.parse(one["key"]), tuple(one["namespaces"]), one["how"], one["not_before"], one["not_after"]
            )
            for name, one in plain["keys"].items()
        }
        revoked = {
            name: {
                **_read_entries({key: one[key] for key in one if key != "namespaces"}),
                "namespaces": [*one["namespaces"]],
            }
            for name, one in plain["revoked"].items()
        }
        indexes = {name: int(serial) for name, serial in plain["indexes"].items()}
        return Keyring(keys, revoked, indexes, int(plain["latest_s"]))
    except FileNotFoundError:
        return Keyring()
    except (NotJson, KeyError, TypeError, AttributeError, ValueError) as error:
        # Without it every revoked key would be trusted again.
        raise InvalidSignature(f"{_file()} is damaged: {error}. Put back a copy; without it all is refused.") from None


@contextmanager
def change_keyring() -> Iterator[Keyring]:
    """Change the keyring in the block: written at its end, and not at all if it raises."""
    with lock_file(_file().with_suffix(".lock")):
        keyring = load_keyring()
        keyring.latest_s = max(keyring.latest_s, int(time.time()))
        before = _decisions(keyring)
        yield keyring
        after = _decisions(keyring)
        changed = {name: one for name, one in after.items() if one != before.get(name)}
        lines: list[tuple[Event, dict[str, Any]]] = [("trust", changed)] if changed else []
        write_logged(*lines, path=_file(), data=json.dumps(keyring.to_dict(), indent=1, sort_keys=True).encode())


def _decisions(keyring: Keyring) -> dict[str, Any]:
    """Return what people decide: keys with their namespaces, and the serials of revocation lists."""
    keys = {name: {"namespaces": list(one.namespaces), "how": one.how} for name, one in keyring.keys.items()}
    return {"keys": keys, "revocations": {name: one["serial"] for name, one in keyring.revoked.items()}}


def revoke(
    key: SigningKey,
    before: bytes | None,
    *,
    keys: Mapping[str, str] | None = None,
    digests: Mapping[str, str] | None = None,
) -> bytes:
    """Return a list that revokes keys, by fingerprint, and digests, each with its reason. ``before``: the old list."""
    entries: dict[str, Any] = {"serial": 0, "keys": {}, "digests": {}}
    if before is not None:
        entries = _read_entries(open_envelope(before, [key.public], predicate_type=REVOCATIONS).predicate)
    day = datetime.now(timezone.utc).date().isoformat()
    for kind, more in (("keys", keys or {}), ("digests", digests or {})):
        entries[kind] |= {name: {"reason": reason, "date": day} for name, reason in more.items()}
    entries["serial"] += 1
    subjects = {f"{kind}:{name}": name for kind in ("keys", "digests") for name in entries[kind]}
    return seal(statement(subjects, REVOCATIONS, entries), [key])


def _file() -> Path:
    return data_folder() / "trust.json"


def _read_entries(predicate: Mapping[str, Any]) -> dict[str, Any]:
    match predicate:
        case {"serial": int() as serial, "keys": dict() as keys, "digests": dict() as digests} if (
            len(predicate) == 3
            and serial >= 1
            and len(keys) + len(digests) <= _MAX_ENTRIES
            and all(map(_is_entry, [*keys.items(), *digests.items()]))
        ):
            return {"serial": serial, "keys": keys, "digests": digests}
    raise InvalidSignature("The signed statement is not a list of revocations.")


def _is_entry(item: tuple[str, Any]) -> bool:
    match item[1]:
        case {"reason": str(), "date": str()}:
            return len(item[0]) == 64 and len(item[1]) == 2
    return False


def _find(lists: list[dict[str, Any]], kind: str, name: str) -> str | None:
    entry = next((one[kind][name] for one in lists if name in one[kind]), None)
    if entry is None:
        return None
    reason, day = (text if text.isprintable() else ascii(text) for text in (entry["reason"][:200], entry["date"][:10]))
    return f" on {day} ({reason or 'no reason given'})"


def _fingerprints(signers: Sequence[PublicKey]) -> tuple[str, ...]:
    return tuple(one.fingerprint for one in signers)


def _check_date(text: str | None) -> None:
    try:
        if text is None or date.fromisoformat(text).isoformat() == text:
            return
    except ValueError:
        pass
    raise ValueError(f"{text!r} is not a date, as 2027-01-31")

"""A ledger: entries in a list that only grows, with proofs for anyone who doubts it, and signed checkpoints.

The list is a Merkle tree of RFC 6962. A checkpoint is a signed note of C2SP's form: name, number of entries, root. Who
keeps one can show later that an entry was removed or changed: no later checkpoint is consistent with it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.errors import InvalidBundle
from paddock.record.merkle import MerkleTree, leaf_hash, verify_consistency, verify_inclusion
from paddock.spaces.json_data import NotJson
from paddock.trust.envelope import canonical_json, read_canonical
from paddock.trust.keys import PublicKey, SigningKey

ORIGIN = "paddock/leaderboard"
_ED25519 = b"\x01"  # the kind of signature in a note's key hash
_NOTE_BYTES = 4096
_TABLES = """
CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, entry BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS checkpoints (size INTEGER PRIMARY KEY, note TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER IF NOT EXISTS entries_keep BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'append only'); END;
"""


@dataclass(frozen=True)
class Checkpoint:
    """How long a ledger was, and its root."""

    size: int
    root: bytes


def sign_checkpoint(checkpoint: Checkpoint, key: SigningKey) -> str:
    """Return the checkpoint as a signed note."""
    text = f"{ORIGIN}\n{checkpoint.size}\n{base64.b64encode(checkpoint.root).decode()}\n"
    signature = base64.b64encode(_key_hash(key.public) + key.sign(text.encode())).decode()
    return f"{text}\n— {ORIGIN} {signature}\n"


def open_checkpoint(note: str, key: PublicKey) -> Checkpoint:
    """Return what a note says, if ``key`` signed it; else an InvalidBundle."""
    text, blank, signatures = note[:_NOTE_BYTES].partition("\n\n")
    text += "\n"
    for line in signatures.splitlines():
        try:
            signed = base64.b64decode(line.removeprefix(f"— {ORIGIN} "), validate=True)
        except (binascii.Error, ValueError):
            continue
        if blank and signed[:4] == _key_hash(key) and key.verify(signed[4:], text.encode()):
            return _parse_checkpoint(text)
    raise InvalidBundle("The checkpoint is not signed by the ledger's key.", reason="untrusted")


def _parse_checkpoint(text: str) -> Checkpoint:
    try:
        origin, size, root, _ = text.split("\n")
        found = Checkpoint(int(size), base64.b64decode(root, validate=True))
        if origin == ORIGIN and str(found.size) == size and found.size >= 0 and len(found.root) == 32:
            return found
    except (binascii.Error, ValueError):
        pass
    raise InvalidBundle("The checkpoint is not in the form of a ledger's.", reason="malformed")


def _key_hash(key: PublicKey) -> bytes:
    return hashlib.sha256(ORIGIN.encode() + b"\n" + _ED25519 + key.raw).digest()[:4]


class Ledger:
    """The ledger in the SQLite database at ``path``, signed by ``key``. Entries are JSON objects without floats."""

    def __init__(self, path: Path, key: SigningKey) -> None:
        self._key = key
        self._database = sqlite3.connect(path, isolation_level=None, timeout=30.0)
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.executescript(_TABLES)

    def close(self) -> None:
        self._database.close()

    @property
    def key(self) -> PublicKey:
        """The key that signs checkpoints."""
        return self._key.public

    def append(self, entry: Mapping[str, Any]) -> int:
        """Add an entry and a checkpoint, both or neither, and return the number of the entry."""
        with self._transaction():
            tree = self.check()
            self._database.execute("INSERT INTO entries VALUES (?, ?)", (len(tree), canonical_json(dict(entry))))
            self._write_checkpoint()
            return len(tree)

    def entries(self) -> list[dict[str, Any]]:
        """All entries, in their order."""
        return [_read_entry(number, raw) for number, raw in enumerate(self._raw())]

    def checkpoint(self) -> str:
        """The newest checkpoint, as a signed note."""
        row = self._database.execute("SELECT note FROM checkpoints ORDER BY size DESC LIMIT 1").fetchone()
        if row is None:
            return sign_checkpoint(Checkpoint(0, MerkleTree([]).root), self._key)
        return str(row[0])

    def checkpoint_at(self, size: int) -> str:
        """The checkpoint after the first ``size`` entries."""
        row = self._database.execute("SELECT note FROM checkpoints WHERE size = ?", (size,)).fetchone()
        if row is None:
            raise _changed(f"its checkpoint of {size} entries is missing")
        return str(row[0])

    def check(self, *, since: str | None = None) -> MerkleTree:
        """Return the tree of all entries if the newest checkpoint is theirs; ``since``: if this older one is, too.

        An InvalidBundle says what was removed or changed, as far as that can be seen.
        """
        tree = MerkleTree([leaf_hash(raw) for raw in self._raw()])
        newest = open_checkpoint(self.checkpoint(), self.key)
        if (newest.size, newest.root) != (len(tree), tree.root):
            raise _changed(f"its entries are {len(tree)}, and the last checkpoint has {newest.size} others")
        if since is not None:
            old = open_checkpoint(since, self.key)
            if old.size > len(tree):
                raise _changed(f"it had {old.size} entries, and has {len(tree)}")
            if not verify_consistency(old.size, old.root, len(tree), tree.root, tree.consistency_proof(old.size)):
                raise _changed(f"one of the first {old.size} entries is not what it was")
        return tree

    def prove(self, number: int) -> dict[str, Any]:
        """Return a proof, as JSON data, that an entry is in the ledger of the newest checkpoint."""
        tree = self.check()
        proof = [one.hex() for one in tree.inclusion_proof(number)]
        entry = self.entries()[number]
        return {"entry": entry, "number": number, "proof": proof, "checkpoint": self.checkpoint()}

    def _raw(self) -> Sequence[bytes]:
        rows = self._database.execute("SELECT number, CAST(entry AS BLOB) FROM entries ORDER BY number").fetchall()
        if [row[0] for row in rows] != list(range(len(rows))):
            raise _changed("the numbers of its entries have a gap")
        return [bytes(row[1]) for row in rows]

    def _write_checkpoint(self) -> None:
        tree = MerkleTree([leaf_hash(raw) for raw in self._raw()])
        note = sign_checkpoint(Checkpoint(len(tree), tree.root), self._key)
        self._database.execute("INSERT INTO checkpoints VALUES (?, ?)", (len(tree), note))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def verify_proof(document: Mapping[str, Any], key: PublicKey) -> dict[str, Any]:
    """Return the entry that a proof shows to be in the ledger of this key; an InvalidBundle if it shows nothing."""
    match document:
        case {
            "entry": dict() as entry,
            "number": int() as number,
            "proof": list() as proof,
            "checkpoint": str() as note,
        }:
            pass
        case _:
            raise InvalidBundle("A proof has entry, number, proof and checkpoint.", reason="malformed")
    found = open_checkpoint(note, key)
    try:
        leaf, hashes = leaf_hash(canonical_json(entry)), [bytes.fromhex(one) for one in proof]
    except (ValueError, TypeError):
        raise InvalidBundle("The proof is not in the form of a ledger's.", reason="malformed") from None
    if not verify_inclusion(leaf, number, found.size, hashes, found.root):
        raise InvalidBundle(f"The entry is not number {number} of the ledger in the checkpoint.", reason="tampered")
    return dict(entry)


def _read_entry(number: int, raw: bytes) -> dict[str, Any]:
    try:
        entry = read_canonical(raw)
    except NotJson as error:
        raise _changed(f"entry {number} can't be read: {error}") from None
    if not isinstance(entry, dict):
        raise _changed(f"entry {number} is not an object")
    return entry


def _changed(what: str) -> InvalidBundle:
    return InvalidBundle(f"The ledger was changed: {what}.", reason="tampered")

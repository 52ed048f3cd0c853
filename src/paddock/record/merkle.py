"""Merkle trees of RFC 6962 over SHA-256: one hash for many entries, and short proofs about them.

A tree takes hashes of entries (``leaf_hash``), not entries. The verifiers take proofs from anyone: one of a wrong
length is False, never an exception.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from hmac import compare_digest

HASH_BYTES = 32


def leaf_hash(entry: bytes) -> bytes:
    """Return the hash of an entry. The prefix keeps an inner node from posing as an entry."""
    return hashlib.sha256(b"\x00" + entry).digest()


def inner_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of two neighbours."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class MerkleTree:
    """The tree over ``leaves``, which are hashes of entries in their order.

    >>> tree = MerkleTree([leaf_hash(entry) for entry in (b"a", b"b", b"c")])
    >>> verify_inclusion(leaf_hash(b"c"), 2, 3, tree.inclusion_proof(2), tree.root)
    True
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        # Row by row up to the root. A last node without a neighbour moves up as it is, which is RFC 6962's split.
        self._rows = [list(leaves)]
        while len(row := self._rows[-1]) > 1:
            above = [inner_hash(row[at], row[at + 1]) for at in range(0, len(row) - 1, 2)]
            self._rows.append([*above, row[-1]] if len(row) % 2 else above)

    def __len__(self) -> int:
        return len(self._rows[0])

    @property
    def root(self) -> bytes:
        """The hash of all; of no entries, SHA-256 of nothing."""
        return self._rows[-1][0] if self._rows[0] else hashlib.sha256().digest()

    def inclusion_proof(self, index: int) -> list[bytes]:
        """Return the proof that the entry at ``index`` is in this tree."""
        if not 0 <= index < len(self):
            raise IndexError(f"entry {index} of {len(self)}: expected 0 to {len(self) - 1}.")
        return self._path(0, index)

    def consistency_proof(self, size: int) -> list[bytes]:
        """Return the proof that the first ``size`` entries are those of the tree of that size, in their order."""
        if not 0 <= size <= len(self):
            raise IndexError(f"a tree of {size} entries: expected 0 to {len(self)}.")
        if size in (0, len(self)):
            return []
        level, node = 0, size - 1
        while node & 1:  # up to the largest subtree that both trees have at this end
            level, node = level + 1, node >> 1
        first = [self._rows[level][node]] if node else []  # else it is the whole old tree, whose root is known
        return first + self._path(level, node)

    def _path(self, level: int, node: int) -> list[bytes]:
        beside = ((row, (node >> up) ^ 1) for up, row in enumerate(self._rows[level:-1]))
        return [row[at] for row, at in beside if at < len(row)]


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether ``proof`` shows that ``leaf`` is at ``index`` in the tree of ``size`` entries with this root."""
    if not 0 <= index < size or any(len(one) != HASH_BYTES for one in proof):
        return False
    climb = _Climb(index, size - 1)
    for beside in proof:
        if climb.arrived:
            return False
        leaf = inner_hash(beside, leaf) if climb.step_is_left() else inner_hash(leaf, beside)
    return climb.arrived and compare_digest(leaf, root)


def verify_consistency(size: int, root: bytes, later_size: int, later_root: bytes, proof: Sequence[bytes]) -> bool:
    """Return whether ``proof`` shows that the later tree begins with all entries of the earlier one, in their order."""
    if not 0 <= size <= later_size or any(len(one) != HASH_BYTES for one in proof):
        return False
    if size == later_size:
        return not proof and compare_digest(root, later_root)
    if size == 0:
        return not proof and compare_digest(root, hashlib.sha256().digest())
    path = [root, *proof] if size & (size - 1) == 0 else list(proof)
    if not path:
        return False
    climb = _Climb(size - 1, later_size - 1)
    climb.skip_right_nodes()
    earlier = later = path[0]
    for beside in path[1:]:
        if climb.arrived:
            return False
        if climb.step_is_left():
            earlier, later = inner_hash(beside, earlier), inner_hash(beside, later)
        else:
            later = inner_hash(later, beside)
    return climb.arrived and compare_digest(earlier, root) and compare_digest(later, later_root)


class _Climb:
    """The way from a node to the root, by the numbers of the node and of the last one in its row (RFC 9162, 2.1)."""

    def __init__(self, node: int, last: int) -> None:
        self._node, self._last = node, last

    @property
    def arrived(self) -> bool:
        return self._last == 0

    def skip_right_nodes(self) -> None:
        while self._node & 1:
            self._up()

    def step_is_left(self) -> bool:
        """Go up one step of the proof, and return whether its hash belongs to the left."""
        left = bool(self._node & 1) or self._node == self._last
        if left:
            while not self._node & 1 and self._node:  # rows in which this node had no neighbour
                self._up()
        self._up()
        return left

    def _up(self) -> None:
        self._node, self._last = self._node >> 1, self._last >> 1
